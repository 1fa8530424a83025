// Package modestore keeps CAPTCHA mode in the SQL database: what was learned,
// a person's word, and the history of switches. Over a database that several
// nodes share, a word said on one of them comes into force on all.
//
// Saving is off the hot path: switches are queued and written by one
// goroutine, what was learned is written now and then. Taking over the words of
// other nodes is Sync's, to be called whenever changes.Mode has a new number.
package modestore

import (
	"context"
	"crypto/rand"
	"database/sql"
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
	config Config
	wake   chan struct{}
	stop   chan struct{}
	done   chan struct{}
	once   sync.Once

	writing sync.Mutex // switches are written in their order

	mu    sync.Mutex
	queue []entry
	// known is the word that is in force here, by its id; taking is the one
	// that Sync is handing to the Mode.
	known, taking string
}

// An entry is a switch that waits to be written.
type entry struct {
	captchamode.Switch
	id    string // of the row in the history, and of the word if it is one
	since time.Time
	tried bool
}

const (
	// queued is how many switches may wait for the database: far more than a
	// mode with a cool-down makes. A person's word always finds room.
	queued = 256
	// keepFor is how long a switch waits for a database that fails.
	keepFor = time.Hour
)

// New returns a store that does nothing yet.
func New(c Config) *Store {
	if c.Every == 0 {
		c.Every = 5 * time.Second
	}
	return &Store{config: c, wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
}

// Switched queues a switch to be saved. It never blocks: a switch that finds
// the queue full is logged and left out of the history. One that was adopted is
// saved by the node that made it.
func (s *Store) Switched(one captchamode.Switch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one.Adopted {
		if one.Cause == captchamode.ByPerson { // out of Sync
			s.known = s.taking
		}
		return
	}
	e := entry{Switch: one, id: rand.Text(), since: time.Now()}
	switch {
	case one.Cause == captchamode.ByPerson:
		s.known = e.id
	case len(s.queue) >= queued:
		s.config.Log.Error("switch of CAPTCHA mode not saved", "on", one.On, "cause", string(one.Cause))
		return
	}
	s.queue = append(s.queue, e)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Start saves switches as they come and the mode's state every so often, until
// Stop.
func (s *Store) Start(mode *captchamode.Mode) {
	go func() {
		defer close(s.done)
		tick := time.NewTicker(s.config.Every)
		defer tick.Stop()
		for running := true; running; {
			select {
			case <-s.wake:
			case <-tick.C:
			case <-s.stop:
				running = false
			}
			s.report(s.writeAll(context.Background()))
			s.report(s.save(mode))
		}
	}()
}

// Stop saves what is left. It may be called twice, after Start.
func (s *Store) Stop() {
	s.once.Do(func() { close(s.stop) })
	<-s.done
}

func (s *Store) report(err error) {
	if err != nil {
		s.config.Log.Error("CAPTCHA mode could not be saved", "error", err)
	}
}
