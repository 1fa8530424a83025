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

// policyCmd is `authguard limit list`.
type policyCmd struct {
	Show    policyShowCmd   `cmd:"" default:"1" help:"Show limits and their effect in the last 24 hours" example:""`
	Watch   policySwitchCmd `cmd:"" help:"Monitor limits: log and alert, but do not block" example:"account --for 7d --reason 'test the limit'"`
	Enforce policySwitchCmd `cmd:"" help:"Enforce limits" example:"account --reason 'tested'"`
	File    policyFileCmd   `cmd:"" help:"Return limits to the configuration" example:"all --reason 'configured now'"`
}

type policySwitchCmd struct {
	realmFlag
	Ladder string            `arg:"" help:"Limits as policy show names them, or all"`
	For    duration.Duration `help:"Duration (default: until policy file ends it)"`
	Reason string            `help:"Reason, for the audit log"`
}

type policyFileCmd struct {
	realmFlag
	Ladder string `arg:"" help:"Limits as policy show names them, or all"`
	Reason string `help:"Reason, for the audit log"`
}

// Run switches, as the command is called.
func (c policySwitchCmd) Run(g *globals, command *kong.Context) error {
	to := command.Selected().Name
	words, hold, end := "%s is enforced", "", "until `authguard limit reset %s` ends it."
	if to == control.ToWatch {
		words = "%s only watches: nobody is stopped by it"
	}
	if c.For > 0 {
		hold, end = c.For.String(), "for "+c.For.String()+"; `authguard limit reset %s` ends it sooner."
	}
	return c.send(g, c.Ladder, to, hold, c.Reason, words+", on all nodes within a second, "+end)
}

// Run ends what was switched.
func (c policyFileCmd) Run(g *globals) error {
	return c.send(g, c.Ladder, control.ToFile, "", c.Reason, "%s is as the configuration says, on all nodes within a second.%.0s")
}

func (f realmFlag) send(g *globals, ladder, to, hold, reason, words string) error {
	if strings.TrimSpace(reason) == "" {
		return errors.New(`say why with --reason "…": whoever finds the policy switched later needs to know`)
	}
	name := ladder
	if ladder == policy.Whole {
		name = "the policy"
	}
	return g.do(http.MethodPut, "/api/policy", f.query(), map[string]string{"ladder": ladder, "to": to, "for": hold, "reason": reason}, words, name, ladder)
}

type policyShowCmd struct{ realmFlag }

// Run prints the policy.
func (c policyShowCmd) Run(g *globals) error {
	var p struct {
		control.Policy
		Mode any `json:"mode"` // for `authguard status`
	}
	return g.show(http.MethodGet, "/api/policy", c.query(), nil, &p, func() error { return printPolicy(g.out, p.Policy) })
}

func printPolicy(out io.Writer, p control.Policy) error {
	whole := "The policy is enforced"
	if !p.Enforce {
		whole = "The policy only watches"
	}
	if p.Enforce == p.Written {
		whole += ", as the configuration says"
	}
	fmt.Fprintf(out, "%s.\n", whole)
	for _, w := range p.Words {
		does, until := "only watches", "until it is taken back"
		if w.Enforce {
			does = "is enforced"
		}
		if !w.Until.IsZero() {
			until = "until " + w.Until.Local().Format(time.RFC1123)
		}
		fmt.Fprintf(out, "%s %s: %q said so, %s, because: %q\n", w.Ladder, does, w.Who, until, w.Why)
	}
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "LADDER\tLIMIT\tIS\tSTOPPED IN 24 HOURS\tWOULD HAVE STOPPED")
	for _, l := range p.Ladders {
		for _, r := range l.Rungs {
			is := "enforced"
			switch {
			case r.Gone:
				is = "not in force, or a route's"
			case r.Watched:
				is = "watched"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", l.Name, cmp.Or(r.Limit, r.Then), is, metText(r.Stopped), metText(r.Would))
		}
	}
	return w.Flush()
}

// metText says whom a limit met.
func metText(m policy.Met) string {
	if m.Attempts == 0 {
		return "-"
	}
	least := ""
	if m.More {
		least = "at least "
	}
	text := fmt.Sprintf("%d: %s%d accounts, %d addresses", m.Attempts, least, m.Accounts, m.Addresses)
	if m.Later > 0 {
		text += fmt.Sprintf("; %d logged in later", m.Later)
	}
	return text
}
