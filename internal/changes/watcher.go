package changes

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

const (
	// DefaultEvery leaves room for a slow answer within the second in which a
	// change is to be everywhere.
	DefaultEvery = 400 * time.Millisecond
	// pollWithin bounds one round.
	pollWithin = 10 * time.Second
	// refreshAfter is after how long everything is read again although no
	// number has changed: somebody may have worked on the tables by hand.
	refreshAfter = 30 * time.Second
)

// Config is what a Watcher needs. DB is required and has been migrated.
type Config struct {
	DB    *sql.DB
	Every time.Duration    // default DefaultEvery
	Now   func() time.Time // default time.Now
	Log   *slog.Logger     // for rounds that fail; default slog.Default()
}

// A Watcher reads again what other nodes have changed. Say what with On, then
// Start it. It is safe for concurrent use.
type Watcher struct {
	config  Config
	polling sync.Mutex // one round at a time; guards what follows
	things  []*thing

	mu     sync.Mutex
	cancel context.CancelFunc
	done   chan struct{}
}

// A thing is held in memory.
type thing struct {
	name   string
	reload func(context.Context) error
	read   bool // at least once
	seen   int64
	at     time.Time // when it was read last
	sure   time.Time // when it was known last to be up to date
}

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
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return &Watcher{config: c}, nil
}

// On has reload called in the next round, whenever the name has a new number,
// and every half a minute. One that fails is called again in the round after.
// Rounds come one after the other, so reload is never called twice at once.
func (w *Watcher) On(name string, reload func(context.Context) error) {
	w.polling.Lock()
	defer w.polling.Unlock()
	w.things = append(w.things, &thing{name: name, reload: reload})
}

// Poll is one round, now. It goes through everything although a part may fail.
func (w *Watcher) Poll(ctx context.Context) error {
	w.polling.Lock()
	defer w.polling.Unlock()
	ctx, cancel := context.WithTimeout(ctx, pollWithin)
	defer cancel()
	// The numbers come first: what changes while it is read has a new one in
	// the next round.
	now := w.config.Now()
	numbers, err := versions(ctx, w.config.DB)
	if err != nil {
		return err
	}
	var failed []error
	for _, t := range w.things {
		number := numbers[t.name]
		if t.read && t.seen == number && now.Sub(t.at).Abs() < refreshAfter {
			t.sure = now
			continue
		}
		if err := t.reload(ctx); err != nil {
			t.read = false
			failed = append(failed, fmt.Errorf("changes: %s: %w", t.name, err))
			continue
		}
		t.read, t.seen, t.at, t.sure = true, number, now, now
	}
	return errors.Join(failed...)
}

// Sure is when a name was known last to be up to date here; zero if it never
// was. It waits for a round that is under way.
func (w *Watcher) Sure(name string) (at time.Time) {
	w.polling.Lock()
	defer w.polling.Unlock()
	for _, t := range w.things {
		if t.name == name && t.sure.After(at) {
			at = t.sure
		}
	}
	return at
}

// Start begins with the rounds. A second Start does nothing.
func (w *Watcher) Start() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cancel != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel, w.done = cancel, make(chan struct{})
	go func() {
		defer close(w.done)
		w.run(ctx)
	}()
}

// Stop ends what Start began and waits for it. It may be called twice, and
// before Start.
func (w *Watcher) Stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cancel == nil {
		return
	}
	w.cancel()
	<-w.done
	w.cancel = nil
}

// run logs only the first of failures that follow one another.
func (w *Watcher) run(ctx context.Context) {
	tick := time.NewTicker(w.config.Every)
	defer tick.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := w.Poll(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil && !failing {
			w.config.Log.Error("changes of other nodes cannot be read: what was read last stays in force", "error", err)
		}
		if err == nil && failing {
			w.config.Log.Info("changes of other nodes are read again")
		}
		failing = err != nil
	}
}
