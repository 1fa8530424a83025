package main

import (
	"net/http"
	"net/url"

	"github.com/alecthomas/kong"
)

// listCmd is `authguard allow` and `authguard block`.
type listCmd struct {
	CIDR  string `arg:"" help:"An address or a range, such as 192.0.2.0/24."`
	For   string `default:"168h" help:"How long: a duration, or forever."`
	Note  string `help:"Why, for whoever looks at it later."`
	Force bool   `help:"Also where the range is everybody."`
}

// unlistCmd is `authguard unlist`.
type unlistCmd struct {
	CIDR string `arg:"" help:"The address or range as it was listed."`
}

// Run allows or blocks a range, as the command is called.
func (c listCmd) Run(g *globals, command *kong.Context) error {
	words := "%s is allowed: the limits of address and network and CAPTCHA mode do not apply there."
	verdict := command.Selected().Name
	if verdict == "block" {
		words = "%s is blocked: every attempt from there is refused."
	}
	return g.do(http.MethodPost, "/api/lists", nil,
		map[string]any{"cidr": c.CIDR, "verdict": verdict, "for": c.For, "note": c.Note, "force": c.Force},
		words+" `authguard unlist %[1]s` takes it back.", c.CIDR)
}

// Run takes a range off the lists.
func (c unlistCmd) Run(g *globals) error {
	return g.do(http.MethodDelete, "/api/lists", url.Values{"cidr": {c.CIDR}}, nil, "%s is on no list any more.", c.CIDR)
}
