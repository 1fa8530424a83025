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

// policyCmd is `authguard policy`.
type policyCmd struct {
	Show    policyShowCmd   `cmd:"" default:"1" help:"Say which limits are in force, and what each did in the last day."`
	Watch   policySwitchCmd `cmd:"" help:"Have limits only watch: everything is decided, recorded and told, and nobody is stopped."`
	Enforce policySwitchCmd `cmd:"" help:"Have limits enforced, whatever the configuration says."`
	File    policyFileCmd   `cmd:"" help:"Go back to what the configuration says."`
}

type policySwitchCmd struct {
	realmFlag
	Ladder string            `arg:"" help:"What: account, address, mode, list:NAME and so on, as authguard policy names them, or all."`
	For    duration.Duration `help:"How long, such as 7d; then it is as the configuration says. Without it until it is taken back."`
	Reason string            `help:"Why, for whoever looks at it later."`
}

type policyFileCmd struct {
	realmFlag
	Ladder string `arg:"" help:"What, or all for everything that was switched."`
	Reason string `help:"Why, for whoever looks at it later."`
}

// Run switches, as the command is called.
func (c policySwitchCmd) Run(g *globals, command *kong.Context) error {
	to := command.Selected().Name
	words, hold, end := "%s is enforced", "", "until `authguard policy file %s` ends it."
	if to == control.ToWatch {
		words = "%s only watches: nobody is stopped by it"
	}
	if c.For > 0 {
		hold, end = c.For.String(), "for "+c.For.String()+"; `authguard policy file %s` ends it sooner."
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
		Mode any `json:"mode"` // for `authguard captcha status`
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
