package changes_test

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"authguard/internal/background"
	"authguard/internal/changes"
	"authguard/internal/database"
	"authguard/internal/database/databasetest"
)

func TestMain(m *testing.M) { databasetest.Main(m) }

func bump(t *testing.T, db *sql.DB, name string, result error) {
	t.Helper()
	err := database.InTx(context.Background(), db, func(tx *sql.Tx) error {
		return errors.Join(changes.Bump(context.Background(), tx, name), result)
	})
	if !errors.Is(err, result) {
		t.Error(err)
	}
}

// A node counts how often it has read a thing again.
type node struct {
	*changes.Watcher
	reads map[string]int
	fail  error
	now   time.Time
}

func newNode(t *testing.T, db *sql.DB, names ...string) *node {
	t.Helper()
	n := &node{reads: map[string]int{}, now: time.Now()}
	var err error
	n.Watcher, err = changes.New(changes.Config{DB: db, Now: func() time.Time { return n.now }, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		n.On(name, func(context.Context) error {
			n.reads[name]++
			return n.fail
		})
	}
	return n
}

func (n *node) poll(t *testing.T, wantLists, wantAccounts int) {
	t.Helper()
	if err := n.Poll(t.Context()); !errors.Is(err, n.fail) {
		t.Errorf("got %v", err)
	}
	if a, b := n.reads[changes.Lists], n.reads[changes.Accounts]; a != wantLists || b != wantAccounts {
		t.Errorf("read %d and %d times, want %d and %d", a, b, wantLists, wantAccounts)
	}
}

func TestOnlyWhatHasChangedIsReadAgain(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		a, b := newNode(t, db, changes.Lists, changes.Accounts), newNode(t, db, changes.Lists, changes.Accounts)
		for _, n := range []*node{a, b} {
			n.poll(t, 1, 1)
			n.poll(t, 1, 1)
		}
		bump(t, db, changes.Lists, nil)
		for _, n := range []*node{a, b} {
			n.poll(t, 2, 1)
			n.poll(t, 2, 1)
		}
		bump(t, db, changes.Accounts, nil)
		bump(t, db, changes.Accounts, nil)
		bump(t, db, "something else", nil)
		a.poll(t, 2, 2)
	})
}

func TestAChangeThatWasUndoneIsNone(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		n := newNode(t, db, changes.Lists)
		n.poll(t, 1, 0)
		bump(t, db, changes.Lists, errors.New("no"))
		n.poll(t, 1, 0)
	})
}

func TestWhatCouldNotBeReadIsReadAgain(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		n := newNode(t, db, changes.Lists)
		n.poll(t, 1, 0)
		bump(t, db, changes.Lists, nil)
		n.fail = errors.New("no")
		n.poll(t, 2, 0)
		n.poll(t, 3, 0)
		n.fail = nil
		n.poll(t, 4, 0)
		n.poll(t, 4, 0)
	})
}

func TestEverythingIsReadAgainEveryHalfMinute(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		n := newNode(t, db, changes.Lists)
		n.poll(t, 1, 0)
		n.now = n.now.Add(30*time.Second - 1)
		n.poll(t, 1, 0)
		n.now = n.now.Add(1)
		n.poll(t, 2, 0)
		n.poll(t, 2, 0)
	})
}

func TestChangesAtOnceAreAllCounted(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() { bump(t, db, changes.Lists, nil) })
		}
		all.Wait()
		var version int
		if err := db.QueryRow(`SELECT version FROM changes WHERE name = 'lists'`).Scan(&version); err != nil || version != 10 {
			t.Errorf("%d (%v), want 10", version, err)
		}
	})
}

func TestARunningWatcherSeesAChange(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		w, err := changes.New(changes.Config{DB: db, Every: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		seen := make(chan struct{}, 100)
		w.On(changes.Lists, func(context.Context) error { seen <- struct{}{}; return nil })
		t.Cleanup(background.Go(w.Run))
		<-seen
		bump(t, db, changes.Lists, nil)
		<-seen
	})
}

// On the bubble's clock, and whenever between two rounds the change is made.
func TestAChangeIsEverywhereWithinASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := databasetest.SQLite(t)
		w, err := changes.New(changes.Config{DB: db})
		if err != nil {
			t.Fatal(err)
		}
		var seen atomic.Int64
		w.On(changes.Lists, func(context.Context) error { seen.Add(1); return nil })
		t.Cleanup(background.Go(w.Run))
		time.Sleep(time.Second)
		for n := range 10 {
			before := seen.Load()
			bump(t, db, changes.Lists, nil)
			time.Sleep(time.Second)
			if seen.Load() != before+1 {
				t.Errorf("change %d was read %d times within a second", n, seen.Load()-before)
			}
			time.Sleep(time.Duration(n) * 37 * time.Millisecond)
		}
	})
}
