package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kong"

	"authguard/internal/control"
	"authguard/internal/duration"
	"authguard/internal/policy"
)

type limitCmd struct {
	List     limitListCmd   `cmd:"" help:"List limits and their effect in the last 24 hours" example:""`
	Monitor  limitSwitchCmd `cmd:"" help:"Monitor limits: log and alert, but do not block" example:"account --for 7d --reason 'test the limit'"`
	Enforce  limitSwitchCmd `cmd:"" help:"Enforce limits" example:"account --reason 'tested'"`
	Reset    limitResetCmd  `cmd:"" help:"Return limits to the configuration" example:"all --reason 'configured now'"`
	Replay   replayCmd      `cmd:"" help:"Test limits against logs" example:"access.log --policy new.yaml"`
	Simulate simulateCmd    `cmd:"" help:"Test limits against simulated attacks" example:"spray"`
	Suggest  suggestCmd     `cmd:"" help:"Suggest limits for logs or scenarios" example:"--scenario spray"`
}

type limitSwitchCmd struct {
	realmFlag
	Limits string            `arg:"" help:"Limits as limit list names them, or all"`
	For    duration.Duration `help:"Duration (default: until limit reset ends it)"`
	Reason string            `help:"Reason, for the audit log"`
}

type limitResetCmd struct {
	realmFlag
	Limits string `arg:"" help:"Limits as limit list names them, or all"`
	Reason string `help:"Reason, for the audit log"`
}

// Run monitors or enforces limits, by the command's name.
func (c limitSwitchCmd) Run(g *globals, command *kong.Context) error {
	to := command.Selected().Name
	words, hold, end := "%s is enforced", "", "until `authguard limit reset %s` ends it."
	if to == control.ToWatch {
		words = "%s is only monitored and blocks no one"
	}
	if c.For > 0 {
		hold, end = c.For.String(), "for "+c.For.String()+"; `authguard limit reset %s` ends it sooner."
	}
	return c.send(g, c.Limits, to, hold, c.Reason, words+", on all nodes within a second, "+end)
}

// Run returns limits to the configuration.
func (c limitResetCmd) Run(g *globals) error {
	return c.send(g, c.Limits, control.ToFile, "", c.Reason,
		"%s follows the configuration again, on all nodes within a second.%.0s")
}

func (f realmFlag) send(g *globals, limitSet, to, hold, reason, words string) error {
	if strings.TrimSpace(reason) == "" {
		return errors.New(`missing --reason "…" (recorded in the audit log)`)
	}
	name := limitSet
	if limitSet == policy.Whole {
		name = "every limit"
	}
	return g.do(http.MethodPut, "/api/policy", f.query(), map[string]string{"limit": limitSet, "to": to, "for": hold,
		"reason": reason}, words, name, limitSet)
}

type limitListCmd struct{ realmFlag }

// Run prints the limits.
func (c limitListCmd) Run(g *globals) error {
	var p struct {
		control.Policy
		Mode any `json:"mode"` // for `authguard status`
	}
	return g.show(http.MethodGet, "/api/policy", c.query(), nil, &p, func() error { return printPolicy(g.out, p.Policy) })
}

func printPolicy(out io.Writer, p control.Policy) error {
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
			until = "until " + w.Until.Local().Format(time.RFC1123)
		}
		fmt.Fprintf(out, "%s %s: set by %q, %s. Reason: %q\n", w.LimitSet, does, w.Who, until, w.Why)
	}
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "SUBJECT\tLIMIT\tMODE\tBLOCKED (24 H)\tWOULD HAVE BLOCKED (24 H)")
	for _, l := range p.LimitSets {
		for _, r := range l.Limits {
			is := "enforced"
			switch {
			case r.Gone:
				is = "replaced, or from a route"
			case r.Monitored:
				is = "monitored"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", l.Name, cmp.Or(r.Limit, r.Then), is, metText(r.Stopped), metText(r.Would))
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
