package main

import (
	"fmt"
	"net/http"
	"os"
	"text/tabwriter"
	"time"

	"authguard/internal/control"
	"authguard/internal/tokens"
)

// tokenCmd is `authguard token`.
type tokenCmd struct {
	Add    tokenAddCmd    `cmd:"" help:"Make a token and print it, this once."`
	List   tokenListCmd   `cmd:"" help:"List the tokens that were made so, of all realms."`
	Revoke tokenRevokeCmd `cmd:"" help:"End a token."`
}

type tokenAddCmd struct {
	realmFlag
	Name string `arg:"" help:"What it is called: who asks with it."`
}

// Run makes a token. It alone goes to standard output, so that a script can take it
// from there.
func (c tokenAddCmd) Run(g *globals) error {
	var made control.NewToken
	return g.show(http.MethodPost, "/api/tokens", c.query(), map[string]string{"name": c.Name}, &made, func() error {
		fmt.Fprintf(os.Stderr, "The token %q, shown this once. Back ends send it as: Authorization: Bearer TOKEN. `authguard token revoke %s` ends it.\n", made.Name, made.Name)
		_, err := fmt.Fprintln(g.out, made.Text)
		return err
	})
}

type tokenListCmd struct{}

// Run lists the tokens.
func (tokenListCmd) Run(g *globals) error {
	var answer struct{ Tokens []tokens.Token }
	return g.show(http.MethodGet, "/api/tokens", nil, nil, &answer, func() error {
		w := tabwriter.NewWriter(g.out, 0, 8, 2, ' ', 0)
		fmt.Fprintln(w, "NAME\tREALM\tMADE\tBY")
		for _, t := range answer.Tokens {
			fmt.Fprintf(w, "%s\t%s\t%s\t%q\n", t.Name, t.Realm, t.CreatedAt.UTC().Format(time.RFC3339), t.CreatedBy)
		}
		return w.Flush()
	})
}

type tokenRevokeCmd struct {
	realmFlag
	Name string `arg:"" help:"What it is called."`
}

// Run ends a token.
func (c tokenRevokeCmd) Run(g *globals) error {
	return g.do(http.MethodDelete, "/api/tokens", c.query("name", c.Name), nil, "The token %q opens nothing any more; on other nodes within a second.", c.Name)
}
