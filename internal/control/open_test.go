package control_test

import (
	"fmt"
	"testing"
	"time"

	"authguard/internal/attacks"
	"authguard/internal/control"
	"authguard/internal/database/databasetest"
)

// ended has an attack that ended some time ago, with accounts that may be compromised.
func (d *desk) ended(t *testing.T, id string, ago time.Duration, lost ...string) {
	t.Helper()
	at := d.w.Clock.Now().Add(-ago).UnixMilli()
	exec := func(query string, args ...any) {
		if _, err := d.db.ExecContext(t.Context(), query, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec(`INSERT INTO attacks (id, realm, kind, began_at, last_at, ended_at) VALUES ($1, 'default', 'site', $2, $2, $2)`, id, at)
	for _, name := range lost {
		exec(`INSERT INTO attack_logins (attack, account, address, why, failures, first_at, last_at)
			VALUES ($1, $2, '192.0.2.1', 'failures', 5, $3, $3)`, id, name, at)
	}
}

// secure notes that these operations were carried out on an account.
func (d *desk) secure(t *testing.T, account string, what ...string) {
	t.Helper()
	for _, w := range what {
		if err := d.attacks.Done(t.Context(), "default", account, attacks.Reset{What: w, At: d.w.Clock.Now(), Who: "admin:eve"}); err != nil {
			t.Fatal(err)
		}
	}
}

func (d *desk) open(t *testing.T, want int, ids ...string) {
	t.Helper()
	n, err := d.OpenAccounts(t.Context())
	if err != nil || n != want {
		t.Errorf("%d open accounts, want %d (%v)", n, want, err)
	}
	got := []string{}
	for _, a := range d.Overview(t.Context()).Unsecured {
		got = append(got, fmt.Sprint(a.ID, " ", a.Open))
	}
	if fmt.Sprint(got) != fmt.Sprint(ids) {
		t.Errorf("unsecured: %v, want %v", got, ids)
	}
}

// The newest 20 attacks are not all of the week: brute force against single accounts begins often.
func TestOpenAccountsAreThoseOfTheWholeWeek(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		d := newDesk(t, open(t))
		d.open(t, 0)
		d.ended(t, "expired", 8*24*time.Hour, "ann")
		d.ended(t, "early", 6*24*time.Hour, "bob", "carl")
		for i := range 25 {
			d.ended(t, fmt.Sprint("small", i), 5*24*time.Hour)
		}
		d.ended(t, "late", time.Hour, "carl", "dora")
		d.open(t, 3, "late 2", "early 2")
		d.secure(t, "carl", attacks.Resets()...)
		d.secure(t, "bob", attacks.Sessions, attacks.KnownClients)
		d.open(t, 2, "late 1", "early 1")
		d.secure(t, "bob", attacks.Password)
		d.open(t, 1, "late 1")
		d.w.Clock.Advance(time.Minute)
		d.ended(t, "again", 0, "carl") // what was done before the last login does not count
		d.open(t, 2, "again 1", "late 1")
	})
}

func TestAccountsElsewhereAreSecuredWithoutAPasswordChange(t *testing.T) {
	t.Parallel()
	databasetest.EachKind(t, func(t *testing.T, open databasetest.Open) {
		db := open(t)
		d := newDeskWith(t, db, func(c *control.Config) { c.Elsewhere, c.Source = "query", directory{} })
		d.ended(t, "one", time.Hour, "ann", "bob")
		d.secure(t, "bob", attacks.Sessions, attacks.KnownClients)
		d.secure(t, "ann", attacks.Sessions)
		d.open(t, 1, "one 1")
		d.ended(t, "two", time.Hour, "carl")
		d.secure(t, "carl", attacks.Sessions, attacks.Password) // a password change here secures nothing there
		d.open(t, 2, "two 1", "one 1")
		report, err := d.Attack(t.Context(), "one")
		if err != nil || report.Open != 1 || report.Lost != 2 {
			t.Errorf("%+v %v", report.Compromised, err)
		}
	})
}
