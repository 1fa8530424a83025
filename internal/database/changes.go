package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"authguard/internal/background"
)

// Names of data that nodes hold in memory. Each has a number in the database, which grows in the transaction of a
// change.
const (
	ListsChanged    = "lists"
	AccountsChanged = "accounts"
	TokensChanged   = "tokens"
)

// ModeChanged names the override of a realm's CAPTCHA mode.
func ModeChanged(realm string) string { return "mode/" + realm }

// PolicyChanged names the overrides of a realm's policy.
func PolicyChanged(realm string) string { return "policy/" + realm }

// Announce announces a change. Call it last in the transaction of the change: other changes of the same name wait for
// its end.
func Announce(ctx context.Context, tx *sql.Tx, name string) error {
	_, err := Exec(ctx, tx, `INSERT INTO changes (name, version) VALUES ($1, 1)
		ON CONFLICT (name) DO UPDATE SET version = changes.version + 1`, name)
	return err
}

const (
	// pollEvery leaves time for a slow query within the second in which a change must reach all nodes.
	pollEvery = 400 * time.Millisecond
	// pollWithin is the timeout of one round.
	pollWithin = 10 * time.Second
	// reloadAfter is the maximum time between reloads, because administrators may edit the tables by hand.
	reloadAfter = 30 * time.Second
)

// Watcher reloads what other nodes have changed. It reads all numbers two or three times a second, and reloads only
// what has a new one: this works on both databases and needs no synchronized clocks. Register with On, then Run it. It
// is safe for concurrent use.
type Watcher struct {
	db      *sql.DB
	now     func() time.Time
	log     *slog.Logger
	mu      sync.Mutex // held for a whole round
	watched []*watched
}

type watched struct {
	name    string
	reload  func(context.Context) error
	version int64     // last reloaded; unread: none
	read    time.Time // when reload last succeeded
	sure    time.Time // when it was last known to be current
}

const unread = -1

// NewWatcher returns a Watcher of a migrated database; call Run to start it.
func NewWatcher(db *sql.DB, now func() time.Time, log *slog.Logger) *Watcher {
	return &Watcher{db: db, now: now, log: log}
}

// On calls reload in the next round, whenever name has a new number, and every half a minute. After an error it calls
// reload again in the next round. Calls never overlap, and none follows the return of off.
func (w *Watcher) On(name string, reload func(context.Context) error) (off func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	one := &watched{name: name, reload: reload, version: unread}
	w.watched = append(w.watched, one)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.watched = slices.DeleteFunc(w.watched, func(w *watched) bool { return w == one })
	}
}

// Poll runs one round now. A failed reload does not stop the others.
func (w *Watcher) Poll(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, pollWithin)
	defer cancel()
	// Read the numbers first: a change during the reload then has a new number in the next round.
	now := w.now()
	versions, err := w.versions(ctx)
	if err != nil {
		return fmt.Errorf("database: %w", err)
	}
	var failed []error
	for _, one := range w.watched {
		version := versions[one.name]
		if one.version != version || now.Sub(one.read).Abs() >= reloadAfter {
			if err := one.reload(ctx); err != nil {
				one.version = unread
				failed = append(failed, fmt.Errorf("database: %s: %w", one.name, err))
				continue
			}
			one.version, one.read = version, now
		}
		one.sure = now
	}
	return errors.Join(failed...)
}

func (w *Watcher) versions(ctx context.Context) (map[string]int64, error) {
	all := make(map[string]int64)
	return all, Each(ctx, w.db, func(rows *sql.Rows) error {
		var name string
		var version int64
		err := rows.Scan(&name, &version)
		all[name] = version
		return err
	}, `SELECT name, version FROM changes`)
}

// Sure returns when name was last known to be current on this node; zero: never. It waits for a round in progress.
func (w *Watcher) Sure(name string) (at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range w.watched {
		if one.name == name && one.sure.After(at) {
			at = one.sure
		}
	}
	return at
}

// Run polls until ctx ends. It logs only the first of consecutive failures.
func (w *Watcher) Run(ctx context.Context) {
	failing := false
	background.Every(ctx, pollEvery, func(ctx context.Context) {
		err := w.Poll(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failing:
			w.log.Error("changes of other nodes cannot be read; the last known state stays in force", "error", err)
		case err == nil && failing:
			w.log.Info("changes of other nodes are read again")
		}
		failing = err != nil
	})
}
