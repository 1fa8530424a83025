// Package modestore keeps CAPTCHA mode in the SQL database: what was learned,
// the last override, and the history of switches. Over a database that several
// nodes share, an override on one of them comes into force on all: the others
// learn of it through internal/changes.
//
// Saving is off the hot path: switches are queued and written in the background,
// what was learned is saved every few seconds.
package modestore

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"authguard/captchamode"
	"authguard/internal/changes"
	"authguard/internal/sqltx"
)

const (
	// queued is how many switches may wait for a database that fails: far more
	// than a mode with a cool-down makes.
	queued = 256
	// saveEvery is how often what was learned is saved.
	saveEvery = 5 * time.Second
	// saveWithin bounds one write.
	saveWithin = 10 * time.Second
)

// Config is what a Store needs.
type Config struct {
	DB    *sql.DB
	Realm string
	Log   *slog.Logger
}

// A Store saves one Mode. Make the Mode with Switched, Load, and Run. Its methods
// are safe for concurrent use; Load must have returned before Run or Sync.
type Store struct {
	config Config
	mode   *captchamode.Mode
	wake   chan struct{}

	writing sync.Mutex // switches are written in their order

	mu    sync.Mutex
	queue []entry
}

// An entry is a switch that waits to be written.
type entry struct {
	captchamode.Switch
	id    string // of its row
	tried bool
}

// New returns a store that does nothing yet.
func New(c Config) *Store { return &Store{config: c, wake: make(chan struct{}, 1)} }

// Switched queues a switch to be saved and never blocks. One that was adopted is
// saved by the node that made it. When the queue is full only an override
// still finds room.
func (s *Store) Switched(one captchamode.Switch) {
	if one.Adopted {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) >= queued && one.Cause != captchamode.ByPerson {
		s.config.Log.Error("switch of CAPTCHA mode not saved", "on", one.On, "cause", string(one.Cause))
		return
	}
	s.queue = append(s.queue, entry{Switch: one, id: rand.Text()})
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Load gives the mode what was saved, and keeps that mode from now on. In a
// fresh database there is nothing.
func (s *Store) Load(ctx context.Context, mode *captchamode.Mode) error {
	s.mode = mode
	var learned string
	err := s.config.DB.QueryRowContext(ctx, `SELECT value FROM mode_state
		WHERE name = $1`, s.config.Realm+"/mode").Scan(&learned)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("modestore: load: %w", err)
	}
	var saved captchamode.Snapshot
	if learned != "" {
		if err := json.Unmarshal([]byte(learned), &saved); err != nil {
			s.config.Log.Error("the learned baseline cannot be read and is ignored", "error", err)
			saved = captchamode.Snapshot{}
		}
	}
	if saved.Override, err = s.override(ctx); err != nil {
		return fmt.Errorf("modestore: load: %w", err)
	}
	mode.Restore(saved)
	return nil
}

// Run saves switches as they come and what was learned every so often, until ctx
// ends, and once more after that.
func (s *Store) Run(ctx context.Context) {
	tick := time.NewTicker(saveEvery)
	defer tick.Stop()
	for running := true; running; {
		select {
		case <-s.wake:
		case <-tick.C:
		case <-ctx.Done():
			running = false
		}
		ctx := context.WithoutCancel(ctx)
		if err := errors.Join(s.writeAll(ctx), s.save(ctx)); err != nil {
			s.config.Log.Error("CAPTCHA mode could not be saved", "error", err)
		}
	}
}

// Sync writes the switches that wait, and then puts the last override of any node
// in force. Call it whenever changes.Mode has changed.
func (s *Store) Sync(ctx context.Context) error {
	if err := s.writeAll(ctx); err != nil {
		return err
	}
	override, err := s.override(ctx)
	if err != nil {
		return fmt.Errorf("modestore: sync: %w", err)
	}
	s.mu.Lock()
	waiting := len(s.queue) > 0 // an override made here meanwhile is newer; Sync is called again when it is written
	s.mu.Unlock()
	if !waiting {
		s.mode.AdoptOverride(override)
	}
	return nil
}

// override is the last one of any node; the zero Override if there was none.
func (s *Store) override(ctx context.Context) (f captchamode.Override, err error) {
	var since, until int64
	err = s.config.DB.QueryRowContext(ctx, `SELECT state, who, why, since, until FROM mode_words
		WHERE realm = $1`, s.config.Realm).
		Scan(&f.State, &f.Who, &f.Why, &since, &until)
	if errors.Is(err, sql.ErrNoRows) {
		return captchamode.Override{}, nil
	}
	f.Since, f.Until = time.UnixMilli(since), time.UnixMilli(until)
	return f, err
}

func (s *Store) save(ctx context.Context) error {
	m := s.mode.Save()
	m.Override = captchamode.Override{} // has a table of its own
	learned, err := json.Marshal(m)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, saveWithin)
	defer cancel()
	_, err = s.config.DB.ExecContext(ctx, `INSERT INTO mode_state (name, value, changed_at) VALUES ($1, $2, $3)
		ON CONFLICT (name) DO UPDATE SET value = excluded.value, changed_at = excluded.changed_at`,
		s.config.Realm+"/mode", sqltx.Clean(string(learned)), time.Now().UnixMilli())
	return err
}

// writeAll writes the switches that wait. One that cannot be written stays, and
// those after it.
func (s *Store) writeAll(ctx context.Context) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	for {
		s.mu.Lock()
		if len(s.queue) == 0 {
			s.mu.Unlock()
			return nil
		}
		first := s.queue[0]
		s.queue[0].tried = true
		s.mu.Unlock()
		if err := s.write(ctx, first); err != nil {
			return fmt.Errorf("modestore: save a switch: %w", err)
		}
		s.mu.Lock()
		s.queue = s.queue[1:]
		s.mu.Unlock()
	}
}

// write writes the history's row and, after an override or its end, what is
// in force now.
func (s *Store) write(ctx context.Context, e entry) error {
	ctx, cancel := context.WithTimeout(ctx, saveWithin)
	defer cancel()
	err := sqltx.Run(ctx, s.config.DB, func(tx *sql.Tx) error {
		first, err := true, error(nil)
		switch e.Cause {
		case captchamode.ByPerson:
			err = s.writeOverride(ctx, tx, e)
		case captchamode.ByExpiry:
			first, err = s.writeEnd(ctx, tx, e)
		}
		if err != nil || !first {
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO mode_history (id, realm, at, from_state, to_state, cause, who, why,
			pressure, threshold)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
			e.id, s.config.Realm, e.At.UnixMilli(), e.Was(), e.Now(), string(e.Cause),
			sqltx.Clean(e.Override.Who), sqltx.Clean(e.Override.Why), float64(e.Pressure), e.Threshold)
		return err
	})
	if e.tried && sqltx.Taken(err) {
		return nil // it was committed, and the answer got lost
	}
	return err
}

// writeOverride makes the override the last one. At the first try it is, whatever the
// clocks say; at a later one, another node may have made a newer one.
func (s *Store) writeOverride(ctx context.Context, tx *sql.Tx, e entry) error {
	query := `INSERT INTO mode_words (realm, id, state, who, why, since, until) VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (realm) DO UPDATE SET id = excluded.id, state = excluded.state, who = excluded.who, why = excluded.why,
		since = excluded.since, until = excluded.until`
	if e.tried {
		query += ` WHERE mode_words.since <= excluded.since`
	}
	_, err := tx.ExecContext(ctx, query, s.config.Realm, e.id, string(e.Override.State),
		sqltx.Clean(e.Override.Who), sqltx.Clean(e.Override.Why), e.Override.Since.UnixMilli(),
		max(0, e.Override.Until.UnixMilli()))
	if err != nil {
		return err
	}
	return changes.Bump(ctx, tx, changes.Mode(s.config.Realm))
}

// writeEnd notes that the override has ended. Every node does so by itself; the
// first one writes the history.
func (s *Store) writeEnd(ctx context.Context, tx *sql.Tx, e entry) (first bool, err error) {
	rows, err := sqltx.Exec(ctx, tx, `UPDATE mode_words SET state = '' WHERE realm = $1 AND state <> '' AND until <= $2`,
		s.config.Realm, e.At.UnixMilli())
	return rows > 0, err
}
