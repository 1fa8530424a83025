package policy_test

import (
	"database/sql"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"authguard/captchamode"
	"authguard/internal/database"
	"authguard/internal/database/databasetest"
	"authguard/internal/policy"
)

// A node is a process with its own mode over a database that others share. Its
// clock is its own, and it polls when it is told to.
type node struct {
	store *policy.ModeStore
	mode  *captchamode.Mode
	watch *database.Watcher
	now   time.Time
	told  []captchamode.Switch // that are this node's to tell
}

func newNode(t *testing.T, db *sql.DB) *node {
	t.Helper()
	n := &node{now: time.Now().Truncate(time.Millisecond)}
	n.store = policy.NewModeStore(policy.ModeConfig{DB: db, Realm: "default", Log: slog.New(slog.DiscardHandler)})
	var err error
	n.mode, err = captchamode.NewMode(captchamode.DefaultConfig(), func() time.Time { return n.now }, func(one captchamode.Switch) {
		n.store.Switched(one)
		if !one.Adopted {
			n.told = append(n.told, one)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.store.Load(t.Context(), n.mode); err != nil {
		t.Fatal(err)
	}
	n.watch = database.NewWatcher(db, func() time.Time { return n.now }, slog.New(slog.DiscardHandler))
	n.watch.On(database.ModeChanged("default"), n.store.Sync)
	n.poll(t)
	return n
}

func (n *node) poll(t *testing.T) {
	t.Helper()
	if err := n.watch.Poll(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// flush writes what the node's own goroutine would write at once.
func (n *node) flush(t *testing.T) {
	t.Helper()
	if err := n.store.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (n *node) force(t *testing.T, to captchamode.Forced, who string, hold time.Duration) captchamode.Override {
	t.Helper()
	f := captchamode.Override{State: to, Who: who, Why: "why of " + who, Since: n.now, Until: n.now.Add(hold)}
	if err := n.mode.Force(f); err != nil {
		t.Fatal(err)
	}
	return f
}

func (n *node) wants(t *testing.T, on bool, f captchamode.Override) {
	t.Helper()
	got := n.mode.State().Override
	if n.mode.On() != on || got.State != f.State || got.Who != f.Who || got.Why != f.Why || !got.Since.Equal(f.Since) || !got.Until.Equal(f.Until) {
		t.Errorf("on: %v, %+v; want %v, %+v", n.mode.On(), got, on, f)
	}
}

// history is the causes and names on record, in the order of writing.
func history(t *testing.T, db *sql.DB) string {
	t.Helper()
	rows, err := db.Query(`SELECT cause, who, to_state FROM mode_history ORDER BY at, cause, who`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var cause, who, to string
		if err := rows.Scan(&cause, &who, &to); err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprintf("%s %s %s", cause, who, to))
	}
	return strings.Join(all, ", ")
}

func TestAWordOnOneNodeIsInForceOnAllAndReleasedOnAll(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		a, b := newNode(t, db), newNode(t, db)
		override := a.force(t, captchamode.ForcedOn, "ann", time.Hour)
		a.flush(t)
		for range 3 {
			a.poll(t)
			b.poll(t)
		}
		a.wants(t, true, override)
		b.wants(t, true, override)
		newNode(t, db).wants(t, true, override)

		b.now = b.now.Add(time.Second)
		b.mode.Release("bob", "over")
		b.flush(t)
		for range 3 {
			a.poll(t)
			b.poll(t)
		}
		a.wants(t, false, captchamode.Override{})
		b.wants(t, false, captchamode.Override{})
		newNode(t, db).wants(t, false, captchamode.Override{})
		if got := history(t, db); got != "forced ann on, forced bob off" {
			t.Errorf("on record: %s", got)
		}
		if len(a.told) != 1 || len(b.told) != 1 {
			t.Errorf("told %d and %d times, want once each", len(a.told), len(b.told))
		}
		if s := a.mode.Switches(); len(s) != 2 || s[0].Adopted || !s[1].Adopted || s[1].Override.Who != "bob" || s[1].Override.Why != "over" {
			t.Errorf("%+v", s)
		}
	})
}

func TestTheWordThatWasWrittenLastHoldsOnAll(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		a, b := newNode(t, db), newNode(t, db)
		a.now = a.now.Add(3 * time.Second) // its clock is fast
		a.force(t, captchamode.ForcedOn, "ann", time.Hour)
		last := b.force(t, captchamode.ForcedOff, "bob", time.Hour)
		a.flush(t)
		b.flush(t)
		for range 2 {
			a.poll(t)
			b.poll(t)
		}
		a.wants(t, false, last)
		b.wants(t, false, last)
		again := a.force(t, captchamode.ForcedOn, "ann", time.Hour)
		a.flush(t)
		b.poll(t)
		a.wants(t, true, again)
		b.wants(t, true, again)
	})
}

func TestTheEndOfAWordIsOnRecordOnce(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		a, b := newNode(t, db), newNode(t, db)
		a.force(t, captchamode.ForcedOn, "ann", time.Hour)
		a.flush(t)
		b.poll(t)
		for _, n := range []*node{a, b} {
			n.now = n.now.Add(time.Hour)
			n.mode.Tick()
			n.flush(t)
		}
		a.poll(t)
		b.poll(t)
		a.wants(t, false, captchamode.Override{})
		b.wants(t, false, captchamode.Override{})
		if got := history(t, db); got != "forced ann on, expired  off" {
			t.Errorf("on record: %s", got)
		}
		newNode(t, db).wants(t, false, captchamode.Override{})
	})
}

func TestAMachinesSwitchLeavesAPersonsWordAlone(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		a, b := newNode(t, db), newNode(t, db)
		override := a.force(t, captchamode.ForcedOff, "ann", time.Hour)
		a.flush(t)
		for i := range 200 { // an attack that only this node has seen, before it polls
			b.mode.Observe(captchamode.Failure, [16]byte{byte(i)})
		}
		if !b.mode.On() {
			t.Fatal("no attack")
		}
		b.flush(t)
		a.poll(t)
		b.poll(t)
		a.wants(t, false, override)
		b.wants(t, false, override)
	})
}

func TestAnAdoptedSwitchIsNotOnRecordAndChangesNoWord(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		a, b := newNode(t, db), newNode(t, db)
		override := a.force(t, captchamode.ForcedOn, "ann", time.Hour)
		a.flush(t)
		b.store.Switched(captchamode.Switch{At: b.now, On: true, Cause: captchamode.ByFailureRate, Adopted: true})
		b.poll(t)
		b.wants(t, true, override)
		a.poll(t)
		if got := history(t, db); got != "forced ann on" {
			t.Errorf("on record: %s", got)
		}
	})
}

func TestAWordWaitsForADatabaseThatFails(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		a, b := newNode(t, db), newNode(t, db)
		old := b.force(t, captchamode.ForcedOff, "bob", time.Hour)
		if _, err := db.Exec(`ALTER TABLE mode_history RENAME TO away`); err != nil {
			t.Fatal(err)
		}
		a.now = a.now.Add(time.Second)
		override := a.force(t, captchamode.ForcedOn, "a\x00n\xffn", time.Hour)
		for _, n := range []*node{a, b} {
			if n.watch.Poll(t.Context()) == nil && n.store.Sync(t.Context()) == nil {
				t.Error("no error")
			}
		}
		a.wants(t, true, override)
		b.wants(t, false, old)
		if _, err := db.Exec(`ALTER TABLE away RENAME TO mode_history`); err != nil {
			t.Fatal(err)
		}
		a.flush(t)
		b.flush(t) // an older override, late
		a.poll(t)
		b.poll(t)
		override.Who, override.Why = "a\uFFFDn\uFFFDn", "why of a\uFFFDn\uFFFDn"
		b.wants(t, true, override)
		if !a.mode.On() {
			t.Error("a node has lost its own override")
		}
	})
}
