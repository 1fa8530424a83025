package main

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// explainCmd is `authguard explain`.
type explainCmd struct {
	realmFlag
	Account string `help:"A user name or e-mail address."`
	Address string `help:"A client's IP address."`
	Event   string `help:"Limits on this event in the place of those on logins."`
	Subject string `help:"With --event: the text that it counts by."`
}

// Run says what stands against an account, an address or both, in words.
func (c explainCmd) Run(g *globals) error {
	if c.Account == "" && c.Address == "" && c.Event == "" {
		return errors.New("name what to explain: --account NAME, --address IP or both")
	}
	var answer struct {
		Words []string `json:"words"`
	}
	return g.show(http.MethodGet, "/api/explain", c.query("account", c.Account, "address", c.Address, "event", c.Event, "subject", c.Subject), nil, &answer, func() error {
		_, err := fmt.Fprintln(g.out, strings.Join(answer.Words, "\n"))
		return err
	})
}

// unlockCmd is `authguard unlock`.
type unlockCmd struct {
	realmFlag
	Account string `help:"Forget this account's failures."`
	Address string `help:"Forget this address's failures; with --account also those of the two together."`
	Event   string `help:"Forget what was counted of this event in the place of failures."`
	Subject string `help:"With --event: the text that it counts by."`
	Place   bool   `help:"Also forget where the account was logged in from: at --address, or everywhere."`
}

// Run forgets failures.
func (c unlockCmd) Run(g *globals) error {
	switch {
	case c.Event != "":
		question := map[string]any{"account": c.Account, "address": c.Address, "event": c.Event, "subject": c.Subject}
		return g.do(http.MethodPost, "/api/unlock", c.query(), question, "What was counted of %s is forgotten.", c.Event)
	case c.Account == "" && c.Address == "":
		return errors.New("name what to unlock: --account NAME, --address IP or both")
	case c.Place && c.Account == "":
		return errors.New("--place needs --account: places belong to an account")
	}
	what := cmp.Or(c.Account, c.Address)
	if c.Account != "" && c.Address != "" {
		what += " from " + c.Address
	}
	var answer struct {
		Note string `json:"note"`
	}
	question := map[string]any{"account": c.Account, "address": c.Address, "place": c.Place}
	return g.show(http.MethodPost, "/api/unlock", c.query(), question, &answer, func() error {
		words := "%q is unlocked: its failures are forgotten.\n"
		if answer.Note != "" {
			words = "The failures of %q are forgotten, if there were any: " + answer.Note + ".\n"
		}
		_, err := fmt.Fprintf(g.out, words, what)
		return err
	})
}
