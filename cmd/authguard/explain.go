package main

import (
	"errors"
	"net/http"
	"strings"
)

type explainCmd struct {
	realmFlag
	Account string `help:"User name or email address"`
	Address string `help:"IP address of the client"`
	Event   string `help:"Event whose limits are shown instead of the login's"`
	Subject string `help:"With --event: the subject that it counts by"`
	All     bool   `help:"Show known clients and recent attempts as well"`
}

// Run explains which limits apply to an account, an IP address or both. The server has the words.
func (c explainCmd) Run(g *globals) error {
	path := "/api/explain"
	switch {
	case c.Account == "" && c.Address == "" && c.Event == "":
		return errors.New("missing subject: give --account NAME, --address IP or both")
	case c.All && c.Event != "":
		return errors.New("--all does not apply to events: omit --event")
	case c.All:
		path = "/api/lookup"
	}
	var answer struct {
		Words []string `json:"words"`
	}
	return g.show(http.MethodGet, path, c.query("account", c.Account, "address", c.Address, "event", c.Event,
		"subject", c.Subject), nil, &answer, func() error {
		return tells(g.out, "%s", strings.Join(answer.Words, "\n"))
	})
}
