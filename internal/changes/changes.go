// Package changes tells every node that another one has changed what nodes hold
// in memory: lists, account names, tokens, an administrator's override of
// CAPTCHA mode.
//
// Each of those has a number in the SQL database that grows in the transaction
// of the change. A node asks for all the numbers at once, a few rows, two or
// three times a second, and reads again only what has a new one. That works on
// both databases and needs no clocks that agree.
package changes

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"authguard/internal/background"
	"authguard/internal/sqltx"
)

// The names of what changes.
const (
	Lists    = "lists"
	Accounts = "accounts"
	Tokens   = "tokens"
)

// Mode names the override of a realm's CAPTCHA mode.
func Mode(realm string) string { return "mode/" + realm }

// Policy names what was said of the policy of a realm.
func Policy(realm string) string { return "policy/" + realm }

// Bump announces a change. Call it last in the transaction that makes the
// change: other changes of the same thing wait until that ends.
func Bump(ctx context.Context, tx *sql.Tx, name string) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO changes (name, version) VALUES ($1, 1)
		ON CONFLICT (name) DO UPDATE SET version = changes.version + 1`, name)
	if err != nil {
		return fmt.Errorf("changes: %w", err)
	}
	return nil
}

const (
	// DefaultEvery leaves room for a slow answer within the second in which a
	// change must be everywhere.
	DefaultEvery = 400 * time.Millisecond
	// pollWithin bounds one round.
	pollWithin = 10 * time.Second
	// reloadAfter is how long anything stays unread although its number has not
	// changed: somebody may have edited the tables by hand.
	reloadAfter = 30 * time.Second
)

// Config configures a Watcher. DB is required and has been migrated.
type Config struct {
	DB    *sql.DB
	Every time.Duration    // default DefaultEvery
	Now   func() time.Time // default time.Now
	Log   *slog.Logger     // for rounds that fail; default slog.Default()
}

// A Watcher reloads what other nodes have changed. Register with On, then Run
// it. It is safe for concurrent use.
type Watcher struct {
	config  Config
	mu      sync.Mutex // held for a whole round
	watched []*watched
}

type watched struct {
	name    string
	reload  func(context.Context) error
	version int64     // that reload has read; unread: none
	read    time.Time // when reload last succeeded
	sure    time.Time // when it was last known to be up to date
}

const unread = -1

// New makes a Watcher and starts nothing.
func New(c Config) (*Watcher, error) {
	if c.DB == nil {
		return nil, errors.New("changes: DB is missing")
	}
	if c.Every <= 0 {
		c.Every = DefaultEvery
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Log = cmp.Or(c.Log, slog.Default())
	return &Watcher{config: c}, nil
}

// On has reload called in the next round, whenever name has a new number, and
// every half a minute. After an error it is called again in the next round. It
// is never called twice at once, and not after off has returned.
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

// Poll is one round, now. A reload that fails does not keep the others from
// theirs.
func (w *Watcher) Poll(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, pollWithin)
	defer cancel()
	// The numbers come first: what changes while it is being read has a new one
	// in the next round.
	now := w.config.Now()
	versions, err := w.versions(ctx)
	if err != nil {
		return fmt.Errorf("changes: %w", err)
	}
	var failed []error
	for _, one := range w.watched {
		version := versions[one.name]
		if one.version != version || now.Sub(one.read).Abs() >= reloadAfter {
			if err := one.reload(ctx); err != nil {
				one.version = unread
				failed = append(failed, fmt.Errorf("changes: %s: %w", one.name, err))
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
	return all, sqltx.Each(ctx, w.config.DB, func(rows *sql.Rows) error {
		var name string
		var version int64
		err := rows.Scan(&name, &version)
		all[name] = version
		return err
	}, `SELECT name, version FROM changes`)
}

// Sure is when name was last known to be up to date here; zero: never. It waits
// for a round that is under way.
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

// Run polls until ctx ends. Of failures that follow one another it logs only the
// first.
func (w *Watcher) Run(ctx context.Context) {
	failing := false
	background.Every(ctx, w.config.Every, func(ctx context.Context) {
		err := w.Poll(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failing:
			w.config.Log.Error("changes of other nodes cannot be read; the last known state stays in force", "error", err)
		case err == nil && failing:
			w.config.Log.Info("changes of other nodes are read again")
		}
		failing = err != nil
	})
}
