// Package modestore keeps CAPTCHA mode in the SQL database: what was learned,
// a person's word, and the history of switches.
//
// Saving is off the hot path: switches are queued and written by one
// goroutine, what was learned is written now and then.
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
)

// Config is what a Store needs.
type Config struct {
	DB    *sql.DB
	Realm string
	// Every is how often what was learned is saved; default 5 s.
	Every time.Duration
	Log   *slog.Logger
}

// Store saves one Mode. Make it, Load, Start, and give Switched to the Mode.
type Store struct {
	config   Config
	switches chan captchamode.Switch
	stop     chan struct{}
	done     chan struct{}
	once     sync.Once
}

// queued is how many switches may wait for the database: far more than a mode
// with a cool-down makes.
const queued = 256

// New returns a store that does nothing yet.
func New(c Config) *Store {
	if c.Every == 0 {
		c.Every = 5 * time.Second
	}
	return &Store{config: c, switches: make(chan captchamode.Switch, queued), stop: make(chan struct{}), done: make(chan struct{})}
}

// Switched queues a switch to be saved. It never blocks: a switch that finds
// the queue full is logged and left out of the history.
func (s *Store) Switched(one captchamode.Switch) {
	select {
	case s.switches <- one:
	default:
		s.config.Log.Error("switch of CAPTCHA mode not saved", "on", one.On, "cause", string(one.Cause))
	}
}

// Load reads what was saved; a fresh database gives the zero Memento.
func (s *Store) Load(ctx context.Context) (m captchamode.Memento, err error) {
	var learned string
	err = s.config.DB.QueryRowContext(ctx, `SELECT value FROM mode_state WHERE name = $1`, s.name()).Scan(&learned)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return m, fmt.Errorf("modestore: load: %w", err)
	}
	if learned != "" {
		if err := json.Unmarshal([]byte(learned), &m); err != nil {
			s.config.Log.Error("what was learned of this site cannot be read and is left out", "error", err)
			m = captchamode.Memento{}
		}
	}
	if m.Force, err = s.force(ctx); err != nil {
		return m, fmt.Errorf("modestore: load: %w", err)
	}
	return m, nil
}

func (s *Store) name() string { return s.config.Realm + "/mode" }

func (s *Store) force(ctx context.Context) (f captchamode.Force, err error) {
	var since, until int64
	err = s.config.DB.QueryRowContext(ctx, `SELECT state, who, why, since, until FROM mode_override WHERE realm = $1`, s.config.Realm).
		Scan(&f.Word, &f.Who, &f.Why, &since, &until)
	if errors.Is(err, sql.ErrNoRows) {
		return captchamode.Force{}, nil
	}
	f.Since, f.Until = time.UnixMilli(since), time.UnixMilli(until)
	return f, err
}

// Start saves switches as they come and the mode's state every so often, until
// Stop.
func (s *Store) Start(mode *captchamode.Mode) {
	go func() {
		defer close(s.done)
		tick := time.NewTicker(s.config.Every)
		defer tick.Stop()
		for {
			select {
			case one := <-s.switches:
				s.report(s.saveSwitch(one))
				s.report(s.save(mode))
			case <-tick.C:
				s.report(s.save(mode))
			case <-s.stop:
				s.drain(mode)
				return
			}
		}
	}()
}

// Stop saves what is left. It may be called twice, after Start.
func (s *Store) Stop() {
	s.once.Do(func() { close(s.stop) })
	<-s.done
}

func (s *Store) drain(mode *captchamode.Mode) {
	for {
		select {
		case one := <-s.switches:
			s.report(s.saveSwitch(one))
		default:
			s.report(s.save(mode))
			return
		}
	}
}

func (s *Store) report(err error) {
	if err != nil {
		s.config.Log.Error("CAPTCHA mode could not be saved", "error", err)
	}
}

// saveWithin bounds one write.
const saveWithin = 10 * time.Second

func (s *Store) save(mode *captchamode.Mode) error {
	m := mode.Save()
	m.Force = captchamode.Force{} // has a table of its own
	learned, err := json.Marshal(m)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), saveWithin)
	defer cancel()
	_, err = s.config.DB.ExecContext(ctx, `INSERT INTO mode_state (name, value, changed_at) VALUES ($1, $2, $3)
		ON CONFLICT (name) DO UPDATE SET value = excluded.value, changed_at = excluded.changed_at`,
		s.name(), string(learned), time.Now().UnixMilli())
	return err
}

// saveSwitch writes the history's row and the person's word in force after it.
func (s *Store) saveSwitch(one captchamode.Switch) error {
	ctx, cancel := context.WithTimeout(context.Background(), saveWithin)
	defer cancel()
	tx, err := s.config.DB.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	_, err = tx.ExecContext(ctx, `INSERT INTO mode_history (id, realm, at, from_state, to_state, cause, who, why, pressure, threshold)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
		rand.Text(), s.config.Realm, one.At.UnixMilli(), one.Was(), one.Now(), string(one.Cause),
		one.Force.Who, one.Force.Why, float64(one.Pressure), one.Threshold)
	if err == nil {
		_, err = tx.ExecContext(ctx, `DELETE FROM mode_override WHERE realm = $1`, s.config.Realm)
	}
	if f := one.Force; err == nil && f.Word != captchamode.Automatic {
		_, err = tx.ExecContext(ctx, `INSERT INTO mode_override (realm, state, who, why, since, until) VALUES ($1, $2, $3, $4, $5, $6)`,
			s.config.Realm, string(f.Word), f.Who, f.Why, f.Since.UnixMilli(), f.Until.UnixMilli())
	}
	if err != nil {
		return err
	}
	return tx.Commit()
}
