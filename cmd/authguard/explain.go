package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
)

// explainCmd is `authguard explain`.
type explainCmd struct {
	Account string `help:"A user name or e-mail address."`
	Address string `help:"A client's IP address."`
}

// Run says what stands against an account, an address or both, in words.
func (c explainCmd) Run(g *globals) error {
	if c.Account == "" && c.Address == "" {
		return errors.New("name what to explain: --account NAME, --address IP or both")
	}
	client, err := g.client()
	if err != nil {
		return err
	}
	query := url.Values{}
	if c.Account != "" {
		query.Set("account", c.Account)
	}
	if c.Address != "" {
		query.Set("address", c.Address)
	}
	if g.JSON {
		var raw any
		if err := client.ask(http.MethodGet, "/api/explain", query, nil, &raw); err != nil {
			return err
		}
		return printJSON(g, raw)
	}
	var answer struct {
		Words []string `json:"words"`
	}
	if err := client.ask(http.MethodGet, "/api/explain", query, nil, &answer); err != nil {
		return err
	}
	for _, line := range answer.Words {
		fmt.Fprintln(g.out, line)
	}
	return nil
}

// unlockCmd is `authguard unlock`.
type unlockCmd struct {
	Account string `help:"Forget this account's failures."`
	Address string `help:"Forget this address's failures; with --account also those of the two together."`
	Place   bool   `help:"Also forget where the account was logged in from: at --address, or everywhere."`
}

// Run forgets failures.
func (c unlockCmd) Run(g *globals) error {
	switch {
	case c.Account == "" && c.Address == "":
		return errors.New("name what to unlock: --account NAME, --address IP or both")
	case c.Place && c.Account == "":
		return errors.New("--place needs --account: places belong to an account")
	}
	what := c.Account
	if what == "" {
		what = c.Address
	} else if c.Address != "" {
		what += " from " + c.Address
	}
	return g.do(http.MethodPost, "/api/unlock", nil,
		map[string]any{"account": c.Account, "address": c.Address, "place": c.Place}, "%q is unlocked: its failures are forgotten.", what)
}
