package control_test

import (
	"database/sql"
	"net/netip"
	"testing"
	"time"

	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/database/databasetest"
	"authguard/internal/lists"
)

// poll is one round of hearing what others have changed.
func (d *desk) poll(t *testing.T) {
	t.Helper()
	if err := d.changes.Poll(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsListedOnOneNodeIsInForceOnTheOther(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		a, b := newDesk(t, db), newDesk(t, db)
		a.poll(t)
		b.poll(t)
		host := netip.PrefixFrom(home, 32)
		looks := func(want guard.Verdict) {
			t.Helper()
			for name, d := range map[string]*desk{"a": a, "b": b} {
				if got := d.w.Lists.Look(home, d.w.Clock.Now()); got != want {
					t.Errorf("%s: %v, want %v", name, got, want)
				}
			}
		}
		if _, err := a.List(t.Context(), "admin:eve", lists.Request{Verdict: lists.Block, Prefix: host}); err != nil {
			t.Fatal(err)
		}
		b.poll(t)
		looks(guard.Blocked)
		if _, err := b.List(t.Context(), "admin:eve", lists.Request{Verdict: lists.Allow, Prefix: host}); err != nil {
			t.Fatal(err)
		}
		a.poll(t)
		looks(guard.Allowed)
		if err := second(b.do(t.Context(), "admin:eve", lists.Unlist{CIDR: host.String()})); err != nil {
			t.Fatal(err)
		}
		a.poll(t)
		looks(guard.NotListed)
	})
}

func TestWhatIsDoneToAnAccountOnOneNodeHoldsOnTheOther(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		a, b := newDesk(t, db), newDesk(t, db)
		a.user(t, "ann", "ann@example.org")
		a.openSession(t, "ann", "token")
		b.poll(t)
		if got, err := b.Accounts.Canonical("Ann@Example.org"); got != "ann" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		before, found, err := b.accounts.FindForLogin(t.Context(), "ann")
		_, open, _ := b.sessions.FindCtx(t.Context(), "token")
		if !found || !before.Password.Usable || !open || err != nil {
			t.Fatalf("%+v, session %v, %v", before, open, err)
		}
		if err := a.Disable(t.Context(), "admin:eve", "ann"); err != nil {
			t.Fatal(err)
		}
		after, _, err := b.accounts.FindForLogin(t.Context(), "ann")
		_, open, _ = b.sessions.FindCtx(t.Context(), "token")
		if after.Password.Usable || after.Version == before.Version || open || err != nil {
			t.Errorf("%+v, session %v, %v", after, open, err)
		}
		if _, err := b.AddUser(t.Context(), "admin:eve", accounts.Addition{Username: "Ann@example.org", Password: "long enough"}, ""); err == nil {
			t.Error("a name was taken twice")
		}
	})
}

func TestListsThatHaveNotChangedAreNotStale(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		d := newDesk(t, db)
		d.poll(t)
		d.w.Clock.Advance(11 * time.Second)
		d.poll(t)
		if got := d.Overview(t.Context()).Warnings; len(got) != 0 {
			t.Errorf("%+v", got)
		}
		d.w.Clock.Advance(11 * time.Second)
		if got := d.Overview(t.Context()).Warnings; len(got) != 1 || got[0].Code != "lists-stale" {
			t.Errorf("%+v", got)
		}
	})
}
