package database_test

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
	"authguard/internal/database"
	"authguard/internal/database/databasetest"
)

func announce(t *testing.T, db *sql.DB, name string, result error) {
	t.Helper()
	err := database.InTx(context.Background(), db, func(tx *sql.Tx) error {
		return errors.Join(database.Announce(context.Background(), tx, name), result)
	})
	if !errors.Is(err, result) {
		t.Error(err)
	}
}

// A node counts how often it has read a thing again.
type node struct {
	*database.Watcher
	reads map[string]int
	fail  error
	now   time.Time
}

func newNode(t *testing.T, db *sql.DB, names ...string) *node {
	t.Helper()
	n := &node{reads: map[string]int{}, now: time.Now()}
	n.Watcher = database.NewWatcher(db, func() time.Time { return n.now }, slog.New(slog.DiscardHandler))
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
	if a, b := n.reads[database.ListsChanged], n.reads[database.AccountsChanged]; a != wantLists || b != wantAccounts {
		t.Errorf("read %d and %d times, want %d and %d", a, b, wantLists, wantAccounts)
	}
}

func TestOnlyWhatHasChangedIsReadAgain(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		a, b := newNode(t, db, database.ListsChanged, database.AccountsChanged), newNode(t, db, database.ListsChanged, database.AccountsChanged)
		for _, n := range []*node{a, b} {
			n.poll(t, 1, 1)
			n.poll(t, 1, 1)
		}
		announce(t, db, database.ListsChanged, nil)
		for _, n := range []*node{a, b} {
			n.poll(t, 2, 1)
			n.poll(t, 2, 1)
		}
		announce(t, db, database.AccountsChanged, nil)
		announce(t, db, database.AccountsChanged, nil)
		announce(t, db, "something else", nil)
		a.poll(t, 2, 2)
	})
}

func TestAChangeThatWasUndoneIsNone(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		n := newNode(t, db, database.ListsChanged)
		n.poll(t, 1, 0)
		announce(t, db, database.ListsChanged, errors.New("no"))
		n.poll(t, 1, 0)
	})
}

func TestWhatCouldNotBeReadIsReadAgain(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		n := newNode(t, db, database.ListsChanged)
		n.poll(t, 1, 0)
		announce(t, db, database.ListsChanged, nil)
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
		n := newNode(t, db, database.ListsChanged)
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
			all.Go(func() { announce(t, db, database.ListsChanged, nil) })
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
		w := database.NewWatcher(db, time.Now, slog.New(slog.DiscardHandler))
		seen := make(chan struct{}, 100)
		w.On(database.ListsChanged, func(context.Context) error { seen <- struct{}{}; return nil })
		t.Cleanup(background.Go(w.Run))
		<-seen
		announce(t, db, database.ListsChanged, nil)
		<-seen
	})
}

// On the bubble's clock, and whenever between two rounds the change is made.
func TestAChangeIsEverywhereWithinASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := databasetest.SQLite(t)
		w := database.NewWatcher(db, time.Now, slog.New(slog.DiscardHandler))
		var seen atomic.Int64
		w.On(database.ListsChanged, func(context.Context) error { seen.Add(1); return nil })
		t.Cleanup(background.Go(w.Run))
		time.Sleep(time.Second)
		for n := range 10 {
			before := seen.Load()
			announce(t, db, database.ListsChanged, nil)
			time.Sleep(time.Second)
			if seen.Load() != before+1 {
				t.Errorf("change %d was read %d times within a second", n, seen.Load()-before)
			}
			time.Sleep(time.Duration(n) * 37 * time.Millisecond)
		}
	})
}
