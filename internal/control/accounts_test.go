package control_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/control"
	"authguard/internal/database/databasetest"
	"authguard/internal/operation"
)

// names are the accounts of all pages of a query, in order.
func (d *desk) names(t *testing.T, q control.AccountsQuery) (names []string) {
	t.Helper()
	for range 100 {
		p, err := d.AccountsOf(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range p.All {
			names = append(names, a.Username)
		}
		if q.After = p.Next; q.After == "" {
			return names
		}
	}
	t.Fatal("the pages have no end")
	return nil
}

// Ensure that accounts are found by name and by e-mail address and come by name, by their
// failures or by the last of those, whatever names strangers invent.
func TestAccountsAreFoundAndSortedByTheirFailures(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		d := newDesk(t, db)
		for i := range 12 {
			d.user(t, fmt.Sprintf("user%02d", i), "")
		}
		d.user(t, "zoe_1", "zoe@example.org")
		fail := func(name string, times int) {
			for i := range times {
				d.w.Wrong(t, name, fmt.Sprintf("198.51.100.%d", i+1))
			}
			d.w.Clock.Advance(time.Minute)
		}
		fail("user03", 4)
		d.w.Clock.Advance(25 * time.Hour) // long ago
		fail("user07", 3)
		fail("user05", 5)
		fail("invented", 5)
		fail("user01", 1)
		d.told(t)
		by := func(want string, q control.AccountsQuery) {
			t.Helper()
			for _, q.Limit = range []int{1, 2, 50} {
				if got := strings.Join(d.names(t, q), " "); got != want {
					t.Errorf("%+v: %s, not %s", q, got, want)
				}
			}
		}
		by("user05 user07 user01", control.AccountsQuery{Sort: control.ByFailures})
		by("user01 user05 user07 user03", control.AccountsQuery{Sort: control.ByLast})
		by("user01", control.AccountsQuery{Sort: control.ByLast, Find: "R01"})
		by("zoe_1", control.AccountsQuery{Find: " ZOE@example "})
		by("zoe_1", control.AccountsQuery{Find: "_1"})
		by("", control.AccountsQuery{Find: "%"})
		by("user10 user11", control.AccountsQuery{Find: "er1"})
		if all := d.names(t, control.AccountsQuery{Limit: 5}); len(all) != 13 || !slices.IsSorted(all) {
			t.Error(all)
		}
		for _, bad := range []control.AccountsQuery{{Sort: "size"}, {Sort: control.ByLast, After: "x"}, {Sort: control.ByLast, After: "-1"}} {
			if _, err := d.AccountsOf(t.Context(), bad); !errors.Is(err, operation.ErrAsked) {
				t.Errorf("%+v: %v", bad, err)
			}
		}
	})
}

// Ensure that a line says all that is known of an account.
func TestAListedAccountSaysWhatIsKnownOfIt(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		d := newDesk(t, db)
		d.user(t, "ann", "")
		one := func() control.ListedAccount {
			t.Helper()
			p, err := d.AccountsOf(t.Context(), control.AccountsQuery{Find: "ann"})
			if err != nil || len(p.All) != 1 || p.Kept != "authguard" || p.Partial {
				t.Fatalf("%+v %v", p, err)
			}
			return p.All[0]
		}
		d.w.Right(t, "ann", "192.0.2.1")
		d.w.Right(t, "ann", "192.0.2.2")
		d.w.Wrong(t, "ann", "198.51.100.7")
		d.told(t)
		if a := one(); a.Failures != 1 || a.LastFailure.IsZero() || a.LastLogin.IsZero() || a.Places != 2 || a.State != accounts.Active || a.Code {
			t.Errorf("%+v", a)
		}
		if _, err := d.IssueCode(t.Context(), "admin:eve", "ann"); err != nil || !one().Code {
			t.Errorf("%+v %v", one(), err)
		}
		password, err := d.do(t.Context(), "admin:eve", accounts.SetPassword{OfAccount: of("ann"), Password: "", Generate: true, Because: because("forgotten")})
		if a := one(); err != nil || len(password.Secret.Text) < 16 || a.State != accounts.MustChange || a.NeedsCode || a.Code || a.Places != 0 {
			t.Errorf("%+v %v", a, err)
		}
		if row := d.recorded(t); row.Decision != "user-set-password" || row.Detail != "forgotten" || row.Who != "admin:eve" {
			t.Errorf("%+v", row)
		}
		if _, err := d.do(t.Context(), "admin:eve", accounts.SetPassword{OfAccount: of("ann"), Password: "short", Generate: true, Because: because("")}); !errors.Is(err, accounts.ErrTooShort) {
			t.Error(err)
		}
		if err := d.AskNewPassword(t.Context(), "admin:eve", "ann", "leaked"); err != nil || !one().NeedsCode {
			t.Errorf("%+v %v", one(), err)
		}
		made, err := d.do(t.Context(), "admin:eve", accounts.AddUser{Username: "bob", Generate: true, Because: because("asked for it")})
		if bob, _ := made.Answer.(accounts.NewAdministrator); err != nil || bob.Role != accounts.User || !bob.MustChange || len(made.Secret.Text) < 16 {
			t.Errorf("%+v %v", made, err)
		}
		if _, err := d.AddAdministrator(t.Context(), "admin:eve", "root", "", "on call"); err != nil {
			t.Fatal(err)
		}
		if err := d.Accounts.MayChange(t.Context(), operation.By{Users: true}, "root"); !errors.Is(err, operation.ErrAsked) {
			t.Errorf("an administrator is changed here: %v", err)
		}
	})
}

// Ensure that of accounts elsewhere the names that were tried are shown, and where to look.
func TestAccountsElsewhereAreTheNamesThatWereTried(t *testing.T) {
	t.Parallel()
	db := databasetest.SQLite(t)
	d := newDeskWith(t, db, func(c *control.Config) {
		c.Elsewhere, c.Source = "ldap", directory{}
		c.App = func(context.Context) (bool, error) { return false, nil }
	})
	d.w.Wrong(t, "ann", "198.51.100.7")
	d.told(t)
	p, err := d.AccountsOf(t.Context(), control.AccountsQuery{})
	if err != nil || p.Kept != "ldap" || len(p.All) != 1 || p.All[0].Username != "ann" || p.All[0].Failures != 1 || p.All[0].State != accounts.NotKnown {
		t.Errorf("%+v %v", p, err)
	}
	if _, err := d.do(t.Context(), "admin:eve", accounts.AddUser{Username: "bob", Generate: true}); !errors.Is(err, operation.ErrAsked) {
		t.Error(err)
	}
	if err := d.Accounts.MayChange(t.Context(), operation.By{Users: true}, "ann"); !errors.Is(err, operation.ErrAsked) {
		t.Error(err)
	}
}

// A token that an administrator made is as good as a session: it ends with the password
// that somebody else may have had, and nobody else's does.
func TestAnAdministratorsTokensEndWithADoubtedPassword(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		d := newDesk(t, db)
		table := accounts.NewTokens(db)
		for _, name := range []string{"ann", "bob"} {
			if _, err := d.AddAdministrator(t.Context(), "admin:eve", name, "", "on call"); err != nil {
				t.Fatal(err)
			}
		}
		for what, end := range map[string]func() error{
			"ask": func() error { return d.AskNewPassword(t.Context(), "cli:root", "ANN", "leaked") },
			"replace": func() error {
				_, err := d.do(t.Context(), "admin:bob", accounts.ReplacePassword{OfAdministrator: admin("ann"), Explained: explained("leaked")})
				return err
			},
		} {
			var texts [2]string
			for i, maker := range []string{"ann", "bob"} {
				ask := accounts.TokenRequest{Realm: guard.DefaultRealm, Name: what + maker, Maker: maker, Scopes: []operation.Scope{operation.Admin}, For: time.Hour}
				var err error
				if texts[i], _, err = table.Add(t.Context(), ask, time.Now()); err != nil {
					t.Fatal(err)
				}
			}
			if err := end(); err != nil {
				t.Fatal(err)
			}
			for i, want := range []bool{false, true} {
				if _, ok, err := table.Find(t.Context(), texts[i], time.Now()); ok != want || err != nil {
					t.Errorf("%s: token %d is good: %t, %v", what, i, ok, err)
				}
			}
		}
	})
}
