// Package audit stores events and administrators' operations in the table "audit".
//
// [Log] is a sink of the event bus. It merges equal events, writes them in batches off the hot path, and sums up a
// flood beyond a few rows a minute (R31). A failed database costs bounded memory; the log reports how many events were
// lost. [Log.Record] writes operations at once, because the administrator must know if it failed.
//
// User input is stored as [events.Escape] returns it: otherwise a NUL or invalid UTF-8 would make PostgreSQL reject the
// whole batch.
package audit

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"authguard/guard"
	"authguard/internal/attacks"
	"authguard/internal/events"
	"authguard/internal/operation"
)

const (
	// fullBatch rows are written without waiting for the next tick of the bus.
	fullBatch = 500
	// mostRows limits the rows of one batch.
	mostRows = 2000
	// mostWaiting limits the rows that wait for a failed database. Further events merge into one more batch.
	mostWaiting = 20_000
	// drainFor limits how long Run writes the queue after its context has ended.
	drainFor = 10 * time.Second
)

// Config configures a Log.
type Config struct {
	Logger *slog.Logger // default slog.Default()
}

// A Log writes and reads the audit table. Create it with [New]; all methods are safe for concurrent use.
type Log struct {
	cfg    Config
	db     *sql.DB
	write  func(context.Context, []Row) error // insert, except in tests
	drain  time.Duration                      // drainFor, except in tests
	search time.Duration                      // searchFor, except in tests
	seq    atomic.Uint32

	mu      sync.Mutex
	open    *batch
	sums    sums
	minute  time.Time     // start of the current minute; zero before the first tick
	caused  map[cause]int // rows in the current minute
	queue   [][]Row       // sealed batches, oldest first
	waiting int           // rows in queue

	wake chan struct{} // a batch is in the queue
}

var _ events.Sink = (*Log)(nil)

// New returns a log over a database with the table. The caller closes the database after Run has returned.
func New(db *sql.DB, cfg Config) *Log {
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	l := &Log{cfg: cfg, db: db, drain: drainFor, search: searchFor, open: newBatch(), sums: newSums(),
		caused: make(map[cause]int), wake: make(chan struct{}, 1)}
	l.write = l.insert
	l.seq.Store(rand.Uint32())
	return l
}

// A cause has its own quota of rows, so that an attack on one realm does not affect the others.
type cause struct {
	realm  string
	ending events.Ending
}

func realmOf(realm string) string { return cmp.Or(realm, guard.DefaultRealm) }

// Handle merges the events into the open batch.
func (l *Log) Handle(list []guard.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range list {
		if list[i].Edge == guard.Met {
			continue // only the edges are recorded
		}
		if list[i].Limited != "" {
			l.limit(&list[i])
		} else if ending := events.EndingOf(&list[i]); ending != events.Undecided {
			l.add(&list[i], ending)
		}
	}
}

func (l *Log) add(e *guard.Event, ending events.Ending) {
	like := likenessOf(e, ending)
	by := cause{like.realm, ending}
	switch {
	case l.open.merge(like, e.At):
	case l.caused[by] < perMinute(ending) && len(l.open.rows) < mostRows:
		l.caused[by]++
		l.open.add(like, e.At)
	default:
		l.sums.add(like, e.At)
	}
	if len(l.open.rows) >= fullBatch {
		l.seal()
	}
}

// limit adds the row of an event limit, within the minute's quota; the log has the rest.
func (l *Log) limit(e *guard.Event) {
	like := limitOf(e)
	by := cause{like.realm, events.Undecided} // not an attempt's ending
	if l.caused[by] < perMinute(events.Refused) && len(l.open.rows) < mostRows {
		l.caused[by]++
		l.open.rows = append(l.open.rows, limitRow(e, like))
	}
}

// HandleSwitch adds the row of a mode switch, even to a full batch.
func (l *Log) HandleSwitch(s events.ModeSwitch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open.rows = append(l.open.rows, switchRow(s))
}

// Attack adds the row of an attack that has started or ended, even to a full batch.
func (l *Log) Attack(a attacks.Attack) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open.rows = append(l.open.rows, attackRow(a))
}

// Tick queues the open batch. Each minute it adds the last minute's sums.
func (l *Log) Tick(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.minute.IsZero():
		l.minute = now
	case now.Sub(l.minute) >= time.Minute:
		l.minute = now
		clear(l.caused)
		l.addSums()
	}
	l.seal()
}

// addSums moves the sums to the open batch, unless that is full and unqueued. The caller holds the lock.
func (l *Log) addSums() {
	if len(l.open.rows) <= mostRows {
		l.open.rows = append(l.open.rows, l.sums.rows...)
		l.sums = newSums()
	}
}

// seal queues the open batch if there is room; otherwise it stays open and keeps merging. The caller holds the lock.
func (l *Log) seal() {
	if len(l.open.rows) == 0 || l.waiting > 0 && l.waiting+len(l.open.rows) > mostWaiting {
		return
	}
	l.queue = append(l.queue, l.open.rows)
	l.waiting += len(l.open.rows)
	l.open = newBatch()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Record writes an administrator's operation at once. After an error it is not recorded.
func (l *Log) Record(ctx context.Context, a operation.Action) error {
	if a.Who == "" || a.What == "" {
		return errors.New("audit: an action needs who and what")
	}
	row := Row{
		At: time.Now(), Realm: realmOf(a.Realm), Kind: KindAdmin, Decision: events.Escape(a.What), Count: 1,
		Who: events.Escape(a.Who), Detail: events.EscapeLines(told(a), 20, 500),
	}
	if address, ok := addressOrNetwork(a.Subject); ok {
		row.Address = address
	} else {
		row.Account = events.Escape(a.Subject)
	}
	return l.write(ctx, []Row{row})
}

// told is the detail of an operation with its reason.
func told(a operation.Action) string {
	if a.Detail == "" || a.Why == "" {
		return a.Detail + a.Why
	}
	return a.Detail + ": " + a.Why
}

func addressOrNetwork(s string) (string, bool) {
	if a, err := netip.ParseAddr(s); err == nil {
		return events.AddressText(a), true
	}
	if p, err := netip.ParsePrefix(s); err == nil {
		return p.Masked().String(), true
	}
	return "", false
}
