package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"

	"authguard/internal/accounts"
	"authguard/internal/attacks"
	"authguard/internal/control"
	"authguard/internal/events"
	"authguard/internal/times"
)

type attackCmd struct {
	List      attacksListCmd   `cmd:"" help:"List attacks, running ones first" example:""`
	Show      attacksShowCmd   `cmd:"" help:"Show an attack and the possibly compromised accounts" example:"3f2a"`
	Export    attacksExportCmd `cmd:"" help:"Export attacks, or the accounts of one, as CSV" example:"3f2a"`
	Remediate attacksResetCmd  `cmd:"" help:"Sign out possibly compromised accounts, reset passwords" example:"3f2a --reason stolen"`
}

type attacksListCmd struct {
	realmFlag
	Page  int `default:"1" help:"Page of the list"`
	Limit int `default:"20" help:"Attacks per page"`
}

// Run lists attacks.
func (c attacksListCmd) Run(g *globals) error {
	var all control.Attacks
	return g.show(http.MethodGet, "/api/attacks", c.query("page", fmt.Sprint(c.Page), "limit", fmt.Sprint(c.Limit)), nil,
		&all, func() error {
			w := tabwriter.NewWriter(g.out, 0, 8, 2, ' ', 0)
			fmt.Fprintln(w, "ID\tTARGET\tSTARTED\tENDED\tSHAPE\tATTEMPTS\tADDRESSES\tACCOUNTS\tCOMPROMISED\tNOT RESET")
			for _, a := range all.Attacks {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\n", a.ID, on(a), times.Text(a.Began.UTC()), ended(a),
					cmp.Or(strings.Join(a.Shapes, ", "), "-"), a.Attempts, a.Addresses, a.Accounts, a.Lost, a.Open)
			}
			if err := w.Flush(); err != nil || len(all.Attacks) == 0 {
				return cmp.Or(err, tells(g.out, "No recorded attacks."))
			}
			return tells(g.out, "%d of %d attacks. Show one with: authguard attack show ID", len(all.Attacks), all.Total)
		})
}

func tells(out io.Writer, words string, args ...any) error {
	_, err := fmt.Fprintf(out, words+"\n", args...)
	return err
}

func on(a attacks.Attack) string {
	if a.Subject != "" {
		return fmt.Sprintf("%s %q", a.Kind, a.Subject)
	}
	return a.Kind
}

func ended(a attacks.Attack) string {
	if a.Running() {
		return "running"
	}
	return times.Text(a.Ended.UTC())
}

type attacksShowCmd struct {
	realmFlag
	ID string `arg:"" help:"ID of the attack, from attack list"`
}

// Run shows one attack.
func (c attacksShowCmd) Run(g *globals) error {
	var a control.AttackReport
	return g.show(http.MethodGet, attackPath(c.ID), c.query(), nil, &a, func() error { return printAttack(g.out, a) })
}

// mostActive lists the first names with at least 1 % of the attempts.
func mostActive(all []attacks.Named, attempts int64) string {
	var parts []string
	for _, one := range all[:min(len(all), 5)] {
		if one.Attempts*100 >= attempts {
			parts = append(parts, fmt.Sprintf("%q (%d)", one.Name, one.Attempts))
		}
	}
	return strings.Join(parts, ", ")
}

func attackPath(id string) string { return "/api/attacks/" + url.PathEscape(id) }

func printAttack(out io.Writer, a control.AttackReport) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintf(w, "target\t%s\nstarted\t%s\nlast attempt\t%s\nended\t%s\nshape\t%s\n", on(a.Attack), times.Text(a.Began.UTC()),
		times.Text(a.Last.UTC()), ended(a.Attack), cmp.Or(strings.Join(a.Shapes, ", "), "-"))
	fmt.Fprintf(w, "failed attempts\t%d: %d wrong passwords, %d challenged, %d delayed, %d blocked\n", a.Attempts,
		a.Failed, a.Challenged, a.Waited, a.Refused)
	fmt.Fprintf(w, "busiest minute\t%d, at %s\n", a.Peak.Attempts, times.Text(a.Peak.At.UTC()))
	fmt.Fprintf(w, "sources\t%s in %s\nattacked\t%s\n", events.About(a.Addresses, "IP address"),
		events.Count(int(a.Networks), "network"), events.About(a.Accounts, "account"))
	for _, top := range []struct {
		of  string
		all []attacks.Named
	}{{"IP addresses", a.TopAddresses}, {"networks", a.TopNetworks}, {"accounts", a.TopAccounts}} {
		fmt.Fprintf(w, "most active %s\t%s\n", top.of, cmp.Or(mostActive(top.all, a.Attempts), "-"))
	}
	fmt.Fprintf(w, "passwords\t%s in %d attempts; %d used for spraying, %d repeated on the same account\n",
		events.About(a.Passwords, "different password"), a.Known, a.Sprayed, a.Repeated)
	if a.PartOf != "" {
		fmt.Fprintf(w, "continued as\t%s\n", a.PartOf)
	}
	fmt.Fprintf(w, "compromised\t%d accounts possibly, %d of them not reset; %d more had a login from an unknown client\n",
		a.Lost, a.Open, a.Strange)
	if err := w.Flush(); err != nil {
		return err
	}
	for _, v := range a.Victims {
		if v.Lost {
			for _, l := range v.Logins {
				fmt.Fprintf(out, "  %q from %s at %s: %s\n", v.Account, l.Address, times.Text(l.Last.UTC()),
					cmp.Or(strings.Join(l.Why, ", "), "an unknown client"))
			}
			for _, done := range v.Done {
				fmt.Fprintf(out, "    %s reset at %s by %q: %q\n", done.What, times.Text(done.At.UTC()), done.Who, done.Why)
			}
		}
	}
	if a.Open > 0 {
		return tells(out, "Sign them out, remove their known clients and require new passwords with: authguard attack "+
			"remediate %s --reason TEXT", a.ID)
	}
	return nil
}

type attacksExportCmd struct {
	realmFlag
	ID string `arg:"" optional:"" help:"ID of the attack (default: all attacks)"`
}

// Run writes CSV, or with --json one line per attack or account.
func (c attacksExportCmd) Run(g *globals) error {
	path, query := "/api/attacks", c.query()
	if c.ID != "" {
		path = attackPath(c.ID)
	}
	query.Set("format", "csv")
	if g.JSON {
		query.Set("format", "jsonl")
	}
	return g.download(path, query)
}

type attacksResetCmd struct {
	realmFlag
	ID      string   `arg:"" help:"ID of the attack, from attack list"`
	Account string   `help:"One account (default: all possibly compromised)"`
	What    []string `enum:"sessions,known-clients,password" help:"Operations (default: all)" placeholder:"WHAT"`
	Reason  string   `help:"Reason, for the audit log"`
}

// Run resets accounts, and repeats the request while the server ran out of time for all.
func (c attacksResetCmd) Run(g *globals) error {
	if strings.TrimSpace(c.Reason) == "" {
		return errors.New(`missing --reason "…" (recorded in the audit log)`)
	}
	server, err := g.client()
	if err != nil {
		return err
	}
	question := map[string]any{"account": c.Account, "what": c.What, "reason": c.Reason}
	var all struct {
		Accounts []accounts.Resetting `json:"accounts"`
		Left     int                  `json:"left"`
	}
	for first := true; first || all.Left > 0; first = false {
		before := len(all.Accounts)
		answer := all
		answer.Accounts = nil
		if err := server.ask(http.MethodPost, attackPath(c.ID)+"/reset", c.query(), question, &answer); err != nil {
			return err
		}
		all.Accounts, all.Left = append(all.Accounts, answer.Accounts...), answer.Left
		if all.Left > 0 && len(all.Accounts) == before {
			return errors.New("no account could be reset in time; see the server's log")
		}
	}
	if g.JSON {
		return printJSON(g, all)
	}
	return printResets(g.out, all.Accounts)
}

func printResets(out io.Writer, all []accounts.Resetting) error {
	problems := 0
	for _, one := range all {
		if one.LeftOut {
			fmt.Fprintf(out, "%q: left out, because it is an administrator's account; secure it with --account\n", one.Account)
			continue
		}
		fmt.Fprintf(out, "%q: %s", one.Account, cmp.Or(strings.Join(one.Done, ", "), "nothing"))
		if len(one.Already) > 0 {
			fmt.Fprintf(out, "; done before: %s", strings.Join(one.Already, ", "))
		}
		for _, p := range one.Problems {
			problems++
			fmt.Fprintf(out, "; failed: %s", p)
		}
		fmt.Fprintln(out)
	}
	if problems > 0 {
		return fmt.Errorf("%d operations failed; run the command again", problems)
	}
	return tells(out, "%d accounts processed.", len(all))
}
