package control_test

import (
	"database/sql"
	"net/netip"
	"testing"
	"time"

	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/changes"
	"authguard/internal/database/databasetest"
	"authguard/internal/lists"
)

// newNode is a desk that is told of what others change, and polls when it is
// told to: Reload is one round.
func newNode(t *testing.T, db *sql.DB) *desk {
	t.Helper()
	return newDeskWith(t, db, func(now func() time.Time) *changes.Watcher {
		w, err := changes.New(changes.Config{DB: db, Now: now, Log: quiet})
		if err != nil {
			t.Fatal(err)
		}
		return w
	})
}

func (d *desk) poll(t *testing.T) {
	t.Helper()
	if err := d.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsListedOnOneNodeIsInForceOnTheOther(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		a, b := newNode(t, db), newNode(t, db)
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
		if _, err := a.Block(t.Context(), "admin:eve", lists.Request{Prefix: host}); err != nil {
			t.Fatal(err)
		}
		b.poll(t)
		looks(guard.Blocked)
		if _, err := b.Allow(t.Context(), "admin:eve", lists.Request{Prefix: host}); err != nil {
			t.Fatal(err)
		}
		a.poll(t)
		looks(guard.Allowed)
		if err := b.Unlist(t.Context(), "admin:eve", host); err != nil {
			t.Fatal(err)
		}
		a.poll(t)
		looks(guard.NotListed)
	})
}

func TestWhatIsDoneToAnAccountOnOneNodeHoldsOnTheOther(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		a, b := newNode(t, db), newNode(t, db)
		a.user(t, "ann", "ann@example.org")
		a.openSession(t, "ann", "token")
		b.poll(t)
		if got, err := b.Canonical("Ann@Example.org"); got != "ann" || err != nil {
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
		if _, err := b.AddUser(t.Context(), "admin:eve", accounts.Addition{Username: "Ann@example.org", Password: "long enough"}); err == nil {
			t.Error("a name was taken twice")
		}
	})
}

func TestListsThatHaveNotChangedAreNotStale(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		d := newNode(t, db)
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

func TestANodeKeepsUpWhileItRuns(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		a, b := newNode(t, db), newNode(t, db)
		for range 2 {
			if err := b.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		if _, err := a.Block(t.Context(), "admin:eve", lists.Request{Prefix: netip.PrefixFrom(home, 32)}); err != nil {
			t.Fatal(err)
		}
		for b.w.Lists.Look(home, b.w.Clock.Now()) != guard.Blocked {
			if time.Since(began) > 20*time.Second {
				t.Fatal("waited in vain")
			}
			<-time.After(10 * time.Millisecond)
		}
		t.Logf("in force after %v", time.Since(began).Round(10*time.Millisecond))
		b.Stop()
		b.Stop()
	})
}
