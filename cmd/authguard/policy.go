package main

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"text/tabwriter"

	"github.com/alecthomas/kong"

	"authguard/internal/policy"
	"authguard/internal/times"
)

type limitCmd struct {
	List     limitListCmd `cmd:"" help:"List limits and their effect in the last 24 hours" example:""`
	Replay   replayCmd    `cmd:"" help:"Test limits against logs" example:"access.log --policy new.yaml"`
	Simulate simulateCmd  `cmd:"" help:"Test limits against simulated attacks" example:"spray"`
	Suggest  suggestCmd   `cmd:"" help:"Suggest limits for logs or scenarios" example:"--scenario spray"`
	kong.Plugins
}

type limitListCmd struct{ realmFlag }

// Run prints the limits.
func (c limitListCmd) Run(g *globals) error {
	var p struct {
		policy.View
		Mode any `json:"mode"` // for `authguard status`
	}
	return g.show(http.MethodGet, "/api/policy", c.query(), nil, &p, func() error { return printPolicy(g.out, p.View) })
}

func printPolicy(out io.Writer, p policy.View) error {
	whole := "Limits are enforced"
	if !p.Enforce {
		whole = "Limits are only monitored"
	}
	if p.Enforce == p.Written {
		whole += ", as configured"
	}
	fmt.Fprintf(out, "%s.\n", whole)
	for _, w := range p.Overrides {
		does, until := "is monitored", "until limit reset ends it"
		if w.Enforce {
			does = "is enforced"
		}
		if !w.Until.IsZero() {
			until = "until " + times.Text(w.Until.Local())
		}
		if w.Limits != "" {
			does = "is " + w.Limits
		}
		fmt.Fprintf(out, "%s %s: set by %q, %s. Reason: %q\n", w.LimitSet, does, w.Who, until, w.Why)
	}
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "SUBJECT\tLIMIT\tMODE\tSOURCE\tBLOCKED (24 H)\tWOULD HAVE BLOCKED (24 H)")
	for _, l := range p.LimitSets {
		for _, r := range l.Limits {
			is := "enforced"
			switch {
			case r.Gone:
				is = "replaced, or from a route"
			case r.Monitored:
				is = "monitored"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", l.Name, cmp.Or(r.Limit, r.Then), is, r.Source, metText(r.Stopped), metText(r.Would))
		}
	}
	return w.Flush()
}

func metText(m policy.Effect) string {
	if m.Attempts == 0 {
		return "-"
	}
	text := fmt.Sprintf("%d: %d accounts, %d addresses", m.Attempts, m.Accounts, m.Addresses)
	if m.Later > 0 {
		text += fmt.Sprintf("; %d signed in later", m.Later)
	}
	return text
}
