package main

import (
	"fmt"
	"net/http"
	"strings"

	"authguard/internal/control"
	"authguard/internal/times"
)

type statusCmd struct{ realmFlag }

// Run prints the running server's state on one screen.
func (c statusCmd) Run(g *globals) error {
	var o control.Overview
	return g.show(http.MethodGet, "/api/overview", c.query(), nil, &o, func() error {
		if err := printMode(g.out, o.State); err != nil {
			return err
		}
		fmt.Fprintf(g.out, "\nDelayed attempts: %d\n", o.Held)
		if len(o.Attacks) == 0 {
			fmt.Fprintln(g.out, "Attacks: none")
		}
		for _, a := range o.Attacks {
			fmt.Fprintf(g.out, "Attack %s on %s since %s\n", a.ID, strings.TrimSpace(a.Kind+" "+plain(a.Subject)),
				times.Text(a.Began.UTC()))
		}
		if len(o.Warnings) == 0 {
			fmt.Fprintln(g.out, "Warnings: none")
		}
		for _, w := range o.Warnings {
			fmt.Fprintf(g.out, "Warning: %s\n  %s\n", plain(w.Title), plain(w.Text))
		}
		return nil
	})
}
