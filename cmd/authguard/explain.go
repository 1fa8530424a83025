package main

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

type explainCmd struct {
	realmFlag
	Account string `help:"User name or email address"`
	Address string `help:"IP address of the client"`
	Event   string `help:"Event whose limits are shown instead of the login's"`
	Subject string `help:"With --event: the subject that it counts by"`
	All     bool   `help:"Show known clients and recent attempts as well"`
}

// Run explains which limits apply to an account, an IP address or both.
func (c explainCmd) Run(g *globals) error {
	if c.Account == "" && c.Address == "" && c.Event == "" {
		return errors.New("missing subject: give --account NAME, --address IP or both")
	}
	if c.All {
		return c.all(g)
	}
	var answer struct {
		Words []string `json:"words"`
	}
	return g.show(http.MethodGet, "/api/explain", c.query("account", c.Account, "address", c.Address, "event", c.Event,
		"subject", c.Subject), nil, &answer, func() error {
		_, err := fmt.Fprintln(g.out, strings.Join(answer.Words, "\n"))
		return err
	})
}

type found struct {
	Said        string `json:"said"`
	Next        string `json:"next"`
	Explanation struct {
		Words []string `json:"words"`
	} `json:"explanation"`
	Places []struct {
		Address string    `json:"address"`
		Last    time.Time `json:"last"`
		Spent   bool      `json:"spent"`
		Shared  bool      `json:"shared"`
	} `json:"known_clients"`
	Unnamed int `json:"unnamed_known_clients"`
	Devices []struct {
		Address string    `json:"address"`
		Last    time.Time `json:"last"`
	} `json:"devices"`
	Sessions int `json:"sessions"`
	Recent   []struct {
		At      time.Time `json:"at"`
		What    string    `json:"what"`
		Account string    `json:"account"`
		Address string    `json:"address"`
		Who     string    `json:"who"`
		Count   int       `json:"count"`
		Why     []string  `json:"why"`
	} `json:"recent"`
}

func (c explainCmd) all(g *globals) error {
	if c.Event != "" {
		return errors.New("--all does not apply to events: omit --event")
	}
	var f found
	return g.show(http.MethodGet, "/api/lookup", c.query("account", c.Account, "address", c.Address), nil, &f,
		func() error {
			fmt.Fprintf(g.out, "Answer to the user: %s\nNext step: %s\n\n%s\n", f.Said, f.Next, strings.Join(f.Explanation.Words,
				"\n"))
			if c.Account != "" {
				f.printPlaces(g)
			}
			w := tabwriter.NewWriter(g.out, 0, 8, 2, ' ', 0)
			if len(f.Recent) > 0 {
				fmt.Fprintln(w, "\nWHEN\tWHAT\tACCOUNT\tADDRESS\tTIMES\tWHY")
			}
			for _, e := range f.Recent {
				why := strings.Join(e.Why, "; ")
				if e.Who != "" {
					why = "by " + strconv.Quote(e.Who)
				}
				fmt.Fprintf(w, "%s\t%s\t%q\t%s\t%d\t%s\n", stamp(e.At), e.What, e.Account, e.Address, e.Count, why)
			}
			return w.Flush()
		})
}

func (f *found) printPlaces(g *globals) {
	fmt.Fprintln(g.out, "\nKnown clients:")
	for _, p := range f.Places {
		note := map[bool]string{true: ", treated as unknown after too many wrong passwords"}[p.Spent] +
			map[bool]string{true: ", shared address"}[p.Shared]
		fmt.Fprintf(g.out, "  %s, last %s%s\n", p.Address, stamp(p.Last), note)
	}
	if f.Unnamed > 0 {
		fmt.Fprintf(g.out, "  %d whose IP address is no longer in the audit log\n", f.Unnamed)
	}
	for _, d := range f.Devices {
		fmt.Fprintf(g.out, "  device cookie, last %s from %s\n", stamp(d.Last), d.Address)
	}
	if len(f.Places)+f.Unnamed+len(f.Devices) == 0 {
		fmt.Fprintln(g.out, "  none: the user is an unknown client everywhere")
	}
	fmt.Fprintf(g.out, "Sessions: %d\n", f.Sessions)
}

func stamp(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") }
