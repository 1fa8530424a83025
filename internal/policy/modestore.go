package policy

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
	"authguard/internal/database"
	"authguard/internal/events"
)

const (
	// queued is the queue size while the database fails: far more than a mode with a cool-down produces.
	queued = 256
	// saveEvery is the save interval of what was learned.
	saveEvery = 5 * time.Second
	// saveWithin is the timeout of one write.
	saveWithin = 10 * time.Second
)

// ModeConfig configures a ModeStore.
type ModeConfig struct {
	DB    *sql.DB
	Realm string
	Bus   *events.Bus // gets the switches; nil: none
	Log   *slog.Logger
}

// ModeStore saves one Mode: what it has learned, the last override, and the history of switches. If nodes share the
// database, an override on one applies to all. It writes off the hot path, from a queue.
//
// Create the Mode with Switched, call Load, then Run. Its methods are safe for concurrent use;
// Load must return before Run or Sync starts.
type ModeStore struct {
	config ModeConfig
	mode   *captchamode.Mode
	wake   chan struct{}

	writing sync.Mutex // keeps the order of switches

	mu    sync.Mutex
	queue []entry
}

type entry struct {
	captchamode.Switch
	id    string // of its row
	tried bool
}

// NewModeStore returns a store without a mode; call Load.
func NewModeStore(c ModeConfig) *ModeStore {
	return &ModeStore{config: c, wake: make(chan struct{}, 1)}
}

// Switched saves and publishes a switch without blocking, unless it is adopted: then the node that made it does.
func (s *ModeStore) Switched(one captchamode.Switch) {
	if one.Adopted {
		return
	}
	s.enqueue(one)
	if s.config.Bus == nil {
		return
	}
	s.config.Bus.Switched(events.ModeSwitch{
		At: one.At, Realm: s.config.Realm, From: one.Was(), To: one.Now(), Would: one.Would(),
		Attacked: one.Attacked, Resumed: one.Resumed,
		Cause: string(one.Cause), Who: one.Override.Who, Why: one.Override.Why,
		FailureRate: float64(one.FailureRate), Threshold: one.Threshold, Until: one.Override.Until,
	})
}

// enqueue queues a switch. A full queue accepts overrides only.
func (s *ModeStore) enqueue(one captchamode.Switch) {
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

// Load restores the saved state into mode; the store saves that mode from now on. A new database has none.
func (s *ModeStore) Load(ctx context.Context, mode *captchamode.Mode) error {
	s.mode = mode
	var learned string
	err := s.config.DB.QueryRowContext(ctx, `SELECT value FROM mode_state
		WHERE name = $1`, s.config.Realm+"/mode").Scan(&learned)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("policy: load: %w", err)
	}
	var saved captchamode.Snapshot
	if learned != "" {
		if err := json.Unmarshal([]byte(learned), &saved); err != nil {
			s.config.Log.Error("the learned baseline cannot be read and is ignored", "error", err)
			saved = captchamode.Snapshot{}
		}
	}
	if saved.Override, err = s.override(ctx); err != nil {
		return fmt.Errorf("policy: load: %w", err)
	}
	mode.Restore(saved)
	return nil
}

// Run saves switches as they come, and what was learned periodically, until ctx ends, and once afterwards.
func (s *ModeStore) Run(ctx context.Context) {
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

// Sync writes the queued switches, then adopts the last override of any node. Call it whenever
// database.ModeChanged has a new number.
func (s *ModeStore) Sync(ctx context.Context) error {
	if err := s.writeAll(ctx); err != nil {
		return err
	}
	override, err := s.override(ctx)
	if err != nil {
		return fmt.Errorf("policy: sync: %w", err)
	}
	s.mu.Lock()
	waiting := len(s.queue) > 0 // a queued override is newer; writing it triggers another Sync
	s.mu.Unlock()
	if !waiting {
		s.mode.AdoptOverride(override)
	}
	return nil
}

func (s *ModeStore) override(ctx context.Context) (f captchamode.Override, err error) {
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

func (s *ModeStore) save(ctx context.Context) error {
	m := s.mode.Save()
	m.Override = captchamode.Override{} // has its own table
	learned, err := json.Marshal(m)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, saveWithin)
	defer cancel()
	_, err = s.config.DB.ExecContext(ctx, `INSERT INTO mode_state (name, value, changed_at) VALUES ($1, $2, $3)
		ON CONFLICT (name) DO UPDATE SET value = excluded.value, changed_at = excluded.changed_at`,
		s.config.Realm+"/mode", database.Clean(string(learned)), time.Now().UnixMilli())
	return err
}

// writeAll writes the queued switches. If one fails, it and all later ones stay queued.
func (s *ModeStore) writeAll(ctx context.Context) error {
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
			return fmt.Errorf("policy: save a switch: %w", err)
		}
		s.mu.Lock()
		s.queue = s.queue[1:]
		s.mu.Unlock()
	}
}

// write writes the history's row and, for an override or its end, the present state.
func (s *ModeStore) write(ctx context.Context, e entry) error {
	ctx, cancel := context.WithTimeout(ctx, saveWithin)
	defer cancel()
	err := database.InTx(ctx, s.config.DB, func(tx *sql.Tx) error {
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
			database.Clean(e.Override.Who), database.Clean(e.Override.Why), float64(e.FailureRate), e.Threshold)
		return err
	})
	if e.tried && database.Taken(err) {
		return nil // committed, but the response was lost
	}
	return err
}

// writeOverride stores the override as the last one. The first try always wins, regardless of clocks; at a later try,
// another node may have stored a newer one.
func (s *ModeStore) writeOverride(ctx context.Context, tx *sql.Tx, e entry) error {
	query := `INSERT INTO mode_words (realm, id, state, who, why, since, until) VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (realm) DO UPDATE SET id = excluded.id, state = excluded.state, who = excluded.who, why = excluded.why,
		since = excluded.since, until = excluded.until`
	if e.tried {
		query += ` WHERE mode_words.since <= excluded.since`
	}
	_, err := tx.ExecContext(ctx, query, s.config.Realm, e.id, string(e.Override.State),
		database.Clean(e.Override.Who), database.Clean(e.Override.Why), e.Override.Since.UnixMilli(),
		max(0, e.Override.Until.UnixMilli()))
	if err != nil {
		return err
	}
	return database.Announce(ctx, tx, database.ModeChanged(s.config.Realm))
}

// writeEnd records the end of the override. Every node calls it; the first one writes the history.
func (s *ModeStore) writeEnd(ctx context.Context, tx *sql.Tx, e entry) (first bool, err error) {
	rows, err := database.Exec(ctx, tx, `UPDATE mode_words SET state = '' WHERE realm = $1 AND state <> '' AND until <= $2`,
		s.config.Realm, e.At.UnixMilli())
	return rows > 0, err
}
