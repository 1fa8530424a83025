package control_test

import (
	"database/sql"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"authguard/guard"
	"authguard/internal/control"
	"authguard/internal/database/databasetest"
	"authguard/internal/testing/world"
	"authguard/trusted"
)

// withAdministration is a desk of a realm where administrators sign in.
func withAdministration(t *testing.T, db *sql.DB) (*desk, *world.World) {
	t.Helper()
	var inside *world.World
	d := newDesk(t, db)
	inside = d.w.Second(t, nil)
	d.config.Administration = inside.Guard
	var err error
	if d.Control, err = control.New(d.config); err != nil {
		t.Fatal(err)
	}
	return d, inside
}

func fail(t *testing.T, w *world.World, account string, times int) {
	t.Helper()
	for i := range times {
		w.Wrong(t, account, fmt.Sprintf("198.51.%d.1", i))
	}
}

func decided(t *testing.T, w *world.World, account string) guard.Action {
	t.Helper()
	e, err := w.Guard.Explain(t.Context(), account, netip.Addr{})
	if err != nil {
		t.Fatal(err)
	}
	return e.Decision.Action
}

func TestUnlockingActsOnBothGuards(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		d, inside := withAdministration(t, db)
		fail(t, d.w, "root", 5)
		fail(t, inside, "root", 5)
		if a, b := decided(t, d.w, "root"), decided(t, inside, "root"); a != guard.Challenge || b != guard.Challenge {
			t.Fatalf("%v and %v", a, b)
		}
		if err := d.Unlock(t.Context(), "admin:eve", "root", netip.Addr{}); err != nil {
			t.Fatal(err)
		}
		if a, b := decided(t, d.w, "root"), decided(t, inside, "root"); a != guard.Proceed || b != guard.Proceed {
			t.Errorf("public %v, administration %v", a, b)
		}
		network := netip.MustParseAddr("198.51.100.1")
		for _, w := range []*world.World{d.w, inside} {
			for i := range 10 {
				w.Wrong(t, fmt.Sprint("user", i), network.String())
			}
		}
		if err := d.Unlock(t.Context(), "admin:eve", "", network); err != nil {
			t.Fatal(err)
		}
		if err := d.UnlockNetwork(t.Context(), "admin:eve", netip.MustParsePrefix("198.51.100.0/24"), ""); err != nil {
			t.Fatal(err)
		}
		for name, w := range map[string]*world.World{"public": d.w, "administration": inside} {
			e, err := w.Guard.Explain(t.Context(), "", network)
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range e.Lines {
				if l.Used != 0 {
					t.Errorf("%s: %s", name, l)
				}
			}
		}
	})
}

func TestRemovingKnownClientsActsOnBothGuards(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		d, inside := withAdministration(t, db)
		d.user(t, "root", "")
		for name, remove := range map[string]func() error{
			"removed":        func() error { return d.RemoveKnownClients(t.Context(), "admin:eve", "root", netip.Addr{}) },
			"a new password": func() error { return d.SetPassword(t.Context(), "admin:eve", "root", "another long one", false, "") },
		} {
			if !d.w.Right(t, "root", "192.0.2.7") || !inside.Right(t, "root", "192.0.2.7") {
				t.Fatal("not let in")
			}
			if err := remove(); err != nil {
				t.Fatal(err)
			}
			if a, b := d.w.Status(t, "root", "192.0.2.7"), inside.Status(t, "root", "192.0.2.7"); a != trusted.Unknown || b != trusted.Unknown {
				t.Errorf("%s: public %v, administration %v", name, a, b)
			}
		}
	})
}

func TestExplainShowsBothGuards(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		d, inside := withAdministration(t, db)
		explained := func(account, address string) (guard.Action, string) {
			t.Helper()
			from, _ := netip.ParseAddr(address)
			e, err := d.Explain(t.Context(), account, from)
			if err != nil {
				t.Fatal(err)
			}
			return e.Decision.Action, strings.Join(e.Text(), "\n")
		}
		fail(t, inside, "root", 5)
		if got, text := explained("root", ""); got != guard.Challenge || strings.Contains(text, "public sign-in") {
			t.Errorf("known at the administration alone: %v\n%s", got, text)
		}
		fail(t, d.w, "root", 2)
		got, text := explained("root", "")
		if got != guard.Challenge || !strings.Contains(text, "account: 5 of 5 failures") ||
			!strings.Contains(text, "at the public sign-in: the next attempt would proceed") ||
			!strings.Contains(text, "at the public sign-in: account: 2 of 5 failures") {
			t.Errorf("both: %v\n%s", got, text)
		}
		got, text = explained("", "198.51.0.1")
		if got != guard.Proceed || !strings.Contains(text, "at the administration's sign-in: address: 1 of 10 failures") {
			t.Errorf("the address: %v\n%s", got, text)
		}
		found, err := d.LookUp(t.Context(), "root", netip.Addr{})
		if err != nil || found.Explanation.Decision.Action != guard.Challenge || len(found.Explanation.Notes) < 2 {
			t.Errorf("looked up: %+v %v", found, err)
		}
	})
}
