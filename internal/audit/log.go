// Package audit keeps what happened, and what administrators did, in the
// table "audit".
//
// [Log] is a sink of the event bus: it merges like events, writes them in
// batches off the hot path, sums up what a flood causes beyond a few rows a minute
// (R31), and bounds the memory that a dead database can cost. It counts what it
// could not write, and reports it in the log. Administrators' actions
// ([Log.Record]) are written at once, because they wait for it and must know if
// it failed.
//
// Strangers' texts are stored as [events.Escape] returns them: a NUL or a
// broken character would otherwise make PostgreSQL refuse the whole batch.
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
	"authguard/internal/events"
)

const (
	// fullBatch rows are written without waiting for the next tick of the bus.
	fullBatch = 500
	// mostRows is how many rows of events one batch may have.
	mostRows = 2000
	// mostWaiting rows may wait while the database fails. Beyond that, events
	// are merged and summed up in one more batch, which is written once there is
	// room.
	mostWaiting = 20_000
	// drainFor is how long Run goes on trying to write what waits after its
	// context has ended.
	drainFor = 10 * time.Second
)

// Config configures a Log.
type Config struct {
	Logger *slog.Logger // default slog.Default()
}

// A Log writes the audit table and reads it. Make one with [New]; all its
// methods are safe for concurrent use.
type Log struct {
	cfg    Config
	db     *sql.DB
	write  func(context.Context, []Row) error // insert, except in tests
	drain  time.Duration                      // drainFor, except in tests
	window int                                // window, except in tests
	seq    atomic.Uint32

	mu      sync.Mutex
	open    *batch
	sums    sums
	minute  time.Time     // when the running one began; zero before the first tick
	caused  map[cause]int // rows, in the running minute
	queue   [][]Row       // sealed batches, oldest first
	waiting int           // rows in queue

	wake chan struct{} // a batch is in the queue
}

var _ events.Sink = (*Log)(nil)

// New returns a log over a database that has the table already. The caller
// closes the database, after Run has returned.
func New(db *sql.DB, cfg Config) *Log {
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	l := &Log{cfg: cfg, db: db, drain: drainFor, window: window, open: newBatch(), sums: newSums(), caused: make(map[cause]int), wake: make(chan struct{}, 1)}
	l.write = l.insert
	l.seq.Store(rand.Uint32())
	return l
}

// A cause is who fills the table: an attack on one realm leaves the rows of the
// others alone.
type cause struct {
	realm  string
	ending events.Ending
}

// realmOf is a realm as the table has it.
func realmOf(realm string) string { return cmp.Or(realm, guard.DefaultRealm) }

// Handle merges the events into the open batch.
func (l *Log) Handle(list []guard.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range list {
		if list[i].Edge == guard.Met {
			continue // the edges are on record
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

// limit adds the row of a limit on events, if there were not too many in the minute:
// the log has the others.
func (l *Log) limit(e *guard.Event) {
	like := limitOf(e)
	by := cause{like.realm, events.Undecided} // no attempt's
	if l.caused[by] < perMinute(events.Refused) && len(l.open.rows) < mostRows {
		l.caused[by]++
		l.open.rows = append(l.open.rows, limitRow(e, like))
	}
}

// HandleSwitch adds the row of a mode switch, however full the batch is.
func (l *Log) HandleSwitch(s events.ModeSwitch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open.rows = append(l.open.rows, switchRow(s))
}

// Tick hands the open batch to the writer. Each minute it adds what was summed up
// in the one before.
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

// addSums moves the sums to the open batch, if the one before could be queued: the
// batch is bounded. Otherwise they go on summing up. The caller holds the lock.
func (l *Log) addSums() {
	if len(l.open.rows) <= mostRows {
		l.open.rows = append(l.open.rows, l.sums.rows...)
		l.sums = newSums()
	}
}

// seal queues the open batch if there is room; otherwise it stays open and
// keeps merging. The caller holds the lock.
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

// An Action is something that an administrator did.
type Action struct {
	Who string // required
	// Realm is where it was done; default guard.DefaultRealm.
	Realm string
	What  string // a stable code such as "unlock", "block" or "captcha-on"; required
	// Subject is what it was done to. Filter finds an address or network by
	// Address, anything else by Account. Empty means the whole site.
	Subject string
	Detail  string
	// Why is the reason of whoever did it, in their words; it stands behind Detail.
	Why string
}

// Record writes an administrator's action at once. An error means that it is
// not on record.
func (l *Log) Record(ctx context.Context, a Action) error {
	if a.Who == "" || a.What == "" {
		return errors.New("audit: an action needs who and what")
	}
	row := Row{
		At: time.Now(), Realm: realmOf(a.Realm), Kind: KindAdmin, Decision: events.Escape(a.What), Count: 1,
		Who: events.Escape(a.Who), Detail: events.EscapeLines(a.told(), 20, 500),
	}
	if address, ok := addressOrNetwork(a.Subject); ok {
		row.Address = address
	} else {
		row.Account = events.Escape(a.Subject)
	}
	return l.write(ctx, []Row{row})
}

// told is the detail and the reason.
func (a Action) told() string {
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
