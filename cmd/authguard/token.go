package main

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/alecthomas/kong"

	"authguard/internal/accounts"
	"authguard/internal/times"
)

type tokenCmd struct {
	Create tokenCreateCmd `cmd:"" help:"Create an API token and print it once" example:"shop-backend"`
	List   tokenListCmd   `cmd:"" help:"List API tokens" example:""`
	kong.Plugins
}

type tokenCreateCmd struct {
	realmFlag
	reasonFlag
	Name   string   `arg:"" help:"Name of the program that uses the token"`
	Scopes []string `enum:"${scopes}" help:"Allow the admin API, with these scopes only" placeholder:"SCOPE"`
	For    string   `help:"Validity with --scopes, at most 366d (default: 90d)"`
}

// Run creates a token. Only the token goes to standard output, for scripts.
func (c tokenCreateCmd) Run(g *globals) error {
	var made accounts.NewToken
	question := map[string]any{"name": c.Name, "scopes": c.Scopes, "for": c.For, "reason": c.Reason}
	return g.show(http.MethodPost, "/api/tokens", c.query(), question, &made, func() error {
		if len(made.Scopes) > 0 {
			fmt.Fprintf(os.Stderr, "Token %q for the admin API, shown once. Send it as: Authorization: Bearer TOKEN. It is "+
				"valid until %s. Revoke it with: authguard token revoke %s\n",
				made.Name, times.Text(made.ExpiresAt.UTC()), made.Name)
			_, err := fmt.Fprintln(g.out, made.Text)
			return err
		}
		fmt.Fprintf(os.Stderr, "Token %q for the decision API, shown once. Send it as: Authorization: Bearer TOKEN. Revoke "+
			"it with: authguard token revoke %s\n", made.Name, made.Name)
		_, err := fmt.Fprintln(g.out, made.Text)
		return err
	})
}

type tokenListCmd struct{}

// Run lists the tokens.
func (tokenListCmd) Run(g *globals) error {
	var answer struct{ Tokens []accounts.Token }
	return g.show(http.MethodGet, "/api/tokens", nil, nil, &answer, func() error {
		w := tabwriter.NewWriter(g.out, 0, 8, 2, ' ', 0)
		fmt.Fprintln(w, "NAME\tREALM\tCREATED\tBY\tSCOPES\tEXPIRES\tLAST USED")
		for _, t := range answer.Tokens {
			fmt.Fprintf(w, "%s\t%s\t%s\t%q\t%s\t%s\t%s\n", t.Name, reach(t), times.Text(t.CreatedAt.UTC()),
				t.CreatedBy, scopes(t), times.Text(t.ExpiresAt.UTC()), times.Text(t.UsedAt.UTC()))
		}
		return w.Flush()
	})
}

// reach returns the realm in which a token is valid, or "all".
func reach(t accounts.Token) string {
	if len(t.Scopes) > 0 && !t.Confined {
		return "all"
	}
	return t.Realm
}

func scopes(t accounts.Token) string {
	if len(t.Scopes) == 0 {
		return "decision API"
	}
	all := make([]string, len(t.Scopes))
	for i, one := range t.Scopes {
		all[i] = string(one)
	}
	return strings.Join(all, ",")
}
