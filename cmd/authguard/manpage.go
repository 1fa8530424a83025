package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"
)

type manpageCmd struct{}

// Run prints authguard(1).
func (manpageCmd) Run(g *globals, app *kong.Kong) error {
	p := page{w: g.out}
	p.printf(".TH AUTHGUARD 1 %q %q\n", date, "authguard "+version)
	p.printf(".SH NAME\nauthguard \\- %s\n.SH SYNOPSIS\n.B authguard\n.I COMMAND\n", strings.ToLower(app.Model.Help))
	p.printf(".SH OPTIONS\n")
	p.flags(app.Model.Flags)
	group := ""
	for _, leaf := range app.Model.Leaves(true) {
		if title := leaf.ClosestGroup().Title; title != group {
			group = title
			p.printf(".SH %s\n", strings.ToUpper(roff(group)))
		}
		p.printf(".SS authguard %s\n%s.\n", roff(leaf.Summary()), roff(leaf.Help))
		for _, one := range leaf.Positional {
			p.printf(".TP\n.I %s\n%s\n", roff(one.Summary()), roff(withValues(one)))
		}
		p.flags(leaf.Flags)
		p.printf(".P\nExample:\n.P\n.RS\n.B %s\n.RE\n", roff(example(leaf)))
	}
	p.printf(".SH EXIT STATUS\n0 on success, 1 if the command failed, 2 if the command line is invalid.\n")
	return p.err
}

type page struct {
	w   io.Writer
	err error
}

func (p *page) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

func (p *page) flags(all []*kong.Flag) {
	for _, f := range all {
		p.printf(".TP\n.B %s\n%s\n", roff(f.String()), roff(withValues(f.Value)))
	}
}

// roff escapes text for roff.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "…", "...").Replace(text)
	if strings.HasPrefix(text, ".") {
		text = `\&` + text
	}
	return text
}
