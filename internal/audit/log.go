package audit

import (
	"context"
	"database/sql"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"authguard/guard"
	"authguard/internal/events"
)

// Defaults of a Config.
const (
	DefaultBatch  = 500
	DefaultRows   = 2000
	DefaultBuffer = 20000
	DefaultDrain  = 10 * time.Second
)

// Config holds the numbers of a Log.
type Config struct {
	Realm string // written into every row
	// Batch is how many rows are written without waiting for the next tick of
	// the bus; default DefaultBatch.
	Batch int
	// Rows is how many different rows the events between two ticks (one second)
	// may cause, and how many one batch may have; one more row counts the rest.
	// Default DefaultRows.
	Rows int
	// Buffer is how many rows may wait while the database fails; default
	// DefaultBuffer. Beyond that, events are merged and counted in one more
	// batch, which is written once there is room.
	Buffer int
	// Drain is how long Run goes on trying to write what waits after its
	// context has ended; default DefaultDrain.
	Drain  time.Duration
	Logger *slog.Logger // default slog.Default()
}

// A Log writes the audit table and reads it. Make one with [New]; all its
// methods are safe for concurrent use.
type Log struct {
	cfg   Config
	db    *sql.DB
	write func(context.Context, []Row) error // db, except in tests
	seq   atomic.Uint32

	mu      sync.Mutex
	open    *batch
	caused  int     // rows since the last tick
	queue   [][]Row // sealed batches, oldest first
	waiting int     // rows in queue
	stats   Stats

	wake chan struct{} // a batch is in the queue
}

// Stats counts since the start.
type Stats struct {
	Written uint64 // rows
	Skipped uint64 // events that got no row of their own, only a number
	Retries uint64 // failed writes of a batch
	Lost    uint64 // rows given up when Run ended
	Waiting int    // rows that have yet to be written
}

var _ events.Sink = (*Log)(nil)

// New returns a log over a database that has the table already. The caller
// closes the database, after Run has returned.
func New(db *sql.DB, cfg Config) *Log {
	l := newLog(cfg)
	l.db = db
	l.write = l.insert
	return l
}

func newLog(cfg Config) *Log {
	cfg = cfg.withDefaults()
	l := &Log{cfg: cfg, open: newBatch(cfg.Realm), wake: make(chan struct{}, 1)}
	l.seq.Store(rand.Uint32())
	return l
}

func (c Config) withDefaults() Config {
	if c.Batch <= 0 {
		c.Batch = DefaultBatch
	}
	if c.Rows <= 0 {
		c.Rows = DefaultRows
	}
	if c.Buffer <= 0 {
		c.Buffer = DefaultBuffer
	}
	if c.Drain <= 0 {
		c.Drain = DefaultDrain
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

// Handle merges the events into the open batch.
func (l *Log) Handle(list []guard.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range list {
		if ending := events.EndingOf(&list[i]); ending != events.Undecided {
			l.add(&list[i], ending)
		}
	}
}

func (l *Log) add(e *guard.Event, ending events.Ending) {
	room := l.caused < l.cfg.Rows && len(l.open.rows) < l.cfg.Rows
	before := l.open.skipped
	if l.open.add(e, ending, room) {
		l.caused++
	}
	l.stats.Skipped += uint64(l.open.skipped - before)
	if len(l.open.rows) >= l.cfg.Batch {
		l.seal()
	}
}

// HandleSwitch adds the row of a mode switch, however full the batch is.
func (l *Log) HandleSwitch(s events.ModeSwitch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open.rows = append(l.open.rows, switchRow(s, l.cfg.Realm))
}

// Tick hands the open batch to the writer and starts a new second's allowance.
func (l *Log) Tick(time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.caused = 0
	l.seal()
}

// seal queues the open batch if there is room; otherwise it stays open and keeps
// merging. The caller holds the lock.
func (l *Log) seal() {
	if l.open.empty() || l.waiting > 0 && l.waiting+len(l.open.rows) > l.cfg.Buffer {
		return
	}
	rows := l.open.sealed()
	l.open = newBatch(l.cfg.Realm)
	l.queue = append(l.queue, rows)
	l.waiting += len(rows)
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Stats tells how the log is doing.
func (l *Log) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.stats
	s.Waiting = l.waiting + len(l.open.rows)
	return s
}
