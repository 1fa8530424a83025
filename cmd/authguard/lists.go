package main

import (
	"net/http"
	"net/url"
)

// allowCmd is `authguard allow`.
type allowCmd struct {
	CIDR string `arg:"" help:"An address or a range, such as 192.0.2.0/24."`
	listFlags
}

// blockCmd is `authguard block`.
type blockCmd struct {
	CIDR string `arg:"" help:"An address or a range, such as 192.0.2.0/24."`
	listFlags
}

type listFlags struct {
	For   string `default:"168h" help:"How long: a duration, or forever."`
	Note  string `help:"Why, for whoever looks at it later."`
	Force bool   `help:"Also where the range is everybody."`
}

// unlistCmd is `authguard unlist`.
type unlistCmd struct {
	CIDR string `arg:"" help:"The address or range as it was listed."`
}

// Run allows a range.
func (c allowCmd) Run(g *globals) error {
	return c.list(g, c.CIDR, "allow", "%s is allowed: the limits of address and network and CAPTCHA mode do not apply there. `authguard unlist %[1]s` takes it back.")
}

// Run blocks a range.
func (c blockCmd) Run(g *globals) error {
	return c.list(g, c.CIDR, "block", "%s is blocked: every attempt from there is refused. `authguard unlist %[1]s` takes it back.")
}

func (f listFlags) list(g *globals, cidr, verdict, words string) error {
	return g.do(http.MethodPost, "/api/lists", nil,
		map[string]any{"cidr": cidr, "verdict": verdict, "for": f.For, "note": f.Note, "force": f.Force}, words, cidr)
}

// Run takes a range off the lists.
func (c unlistCmd) Run(g *globals) error {
	return g.do(http.MethodDelete, "/api/lists", url.Values{"cidr": {c.CIDR}}, nil, "%s is on no list any more.", c.CIDR)
}
