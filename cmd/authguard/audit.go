package main

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"text/tabwriter"

	"authguard/internal/control"
	"authguard/internal/times"
)

type auditCmd struct {
	Realm       string `placeholder:"NAME" help:"Realm (default: all)"`
	Account     string `help:"Account"`
	Address     string `placeholder:"CIDR" help:"IP address or network"`
	Who         string `help:"Part of the actor's name, such as ann or admin:"`
	Kind        string `enum:",admin,mode,event,attempt,succeeded,failed,challenged,blocked,delayed,fake-failure,abandoned" default:"" help:"Kind of row"`
	What        string `placeholder:"CODE" help:"Code of an operation or reason, such as unlock"`
	Since       string `placeholder:"TIME" help:"Start: a UTC time, a day, or an age such as 24h"`
	Until       string `placeholder:"TIME" help:"End: a UTC time, a day (included), or an age"`
	Limit       int    `default:"50" help:"Number of rows, at most 1000"`
	OldestFirst bool   `help:"Show the oldest first, as replay and suggest need"`
	Format      string `enum:",csv,jsonl" default:"" placeholder:"csv|jsonl" help:"Write all matching rows to standard output"`
}

// Run prints matching rows.
func (c auditCmd) Run(g *globals) error {
	query := realmFlag{c.Realm}.query()
	for name, value := range map[string]string{
		"account": c.Account, "address": c.Address, "who": c.Who, "kind": c.Kind, "what": c.What, "since": c.Since,
		"until": c.Until, "format": c.Format,
	} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if c.OldestFirst {
		query.Set("order", "oldest")
	}
	if c.Format != "" {
		return g.download("/api/audit", query)
	}
	query.Set("limit", strconv.Itoa(c.Limit))
	var page control.AuditPage
	return g.show(http.MethodGet, "/api/audit", query, nil, &page, func() error { return c.told(g.out, page) })
}

func (c auditCmd) told(out io.Writer, page control.AuditPage) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	if len(page.Rows) > 0 {
		fmt.Fprintln(w, "TIME (UTC)\tEVENT\tCOUNT\tACCOUNT\tSOURCE\tACTOR\tREASON")
	}
	for _, e := range page.Rows {
		what := e.What
		if e.Summed {
			what += " (sum)"
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\t%s\n", times.Text(e.At.UTC()), plain(what), e.Count,
			plain(e.Account), plain(e.Address), plain(e.Who), plain(e.Reason))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	switch {
	case c.OldestFirst && page.Next > 0:
		fmt.Fprintln(out, "There are newer rows. Show them with --limit or --since, or export all with --format csv.")
	case len(page.Rows) == 0:
		fmt.Fprintln(out, "No matching rows.")
	case page.Next > 0:
		fmt.Fprintln(out, "There are older rows. Show them with --limit or --until, or export all with --format csv.")
	}
	return nil
}
