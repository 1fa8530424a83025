// Package events moves events off the hot path of a login, and counts the names in them.
//
// [Bus] is the guard's observer. It copies every event into a bounded queue, never blocks or allocates, and counts
// dropped events. Its own goroutine hands batches to the sinks: the log ([Log]), the audit log (package audit), the
// alerts (package alerts) and the statistics of the admin console (package control).
//
// [Escape] is the only way in which text from clients reaches logs and pages. [Ending] is the closed set of results of
// an attempt. [Top], [Distinct] and [Seen] have bounded memory, whatever names attackers invent.
package events

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"authguard/guard"
)

// DefaultBuffer is the default of [Config.Buffer]. TickEvery is the interval of ticks to the sinks.
const (
	DefaultBuffer = 8192
	TickEvery     = time.Second

	maxBatch     = 256
	switchBuffer = 64
)

// RealmName returns the realm's name, or "" for the default realm: a service without realms shows none.
func RealmName(realm string) string {
	if realm == guard.DefaultRealm {
		return ""
	}
	return realm
}

// Sink receives what a Bus delivers. One goroutine calls its methods, one after the other. A sink needs its own
// goroutine for slow work: while one sink is busy, the others wait and the queue fills.
type Sink interface {
	// Handle receives events in the order in which they were observed. The bus reuses the slice.
	Handle(batch []guard.Event)
	// HandleSwitch receives a change of CAPTCHA mode. Switches have their own queue, so a flood of events cannot displace
	// one. Order them against events by time, not by delivery.
	HandleSwitch(s ModeSwitch)
	// Tick runs every TickEvery, and once more when the bus stops.
	Tick(now time.Time)
}

// The states of a ModeSwitch.
const (
	ModeOff  = "off"
	ModeSlow = "throttling" // unknown clients are throttled: the failure rate exceeds a third of the threshold
	ModeOn   = "on"
)

// Causes of a ModeSwitch. CauseSteady changes no state: the failure rate has been just below the threshold for many
// hours.
const (
	CauseFailureRate = "failure-rate"
	CauseForced      = "forced"
	CauseCleared     = "cleared"
	CauseSteady      = "steady"
	// CauseDaily: more unknown clients have failed in a day than usual (R32), or no longer.
	CauseDaily = "daily-failures"
)

// ModeSwitch is one change of CAPTCHA mode, of the detector's state, or of an administrator's override.
type ModeSwitch struct {
	At       time.Time
	Realm    string // the realm whose mode it is
	From, To string // the site's mode: ModeOff, ModeSlow or ModeOn
	Would    string // the mode without monitoring; empty if enforced
	// Attacked is the detector's state after the switch, regardless of overrides: more logins fail than usual. An attack
	// that raised the failure rate of a minute, too, is over when that is.
	Attacked bool
	// Resumed: a level like this one ended less than a day ago, so the same attack continues.
	Resumed bool
	// Cause is a stable code: one of those above, or the detector's, such as "failure-rate".
	Cause string
	// Who and Why are those of the administrator who set or ended the override.
	Who, Why string
	// FailureRate is the failure rate. Both are in failures per minute, at that time; for CauseDaily, per day.
	FailureRate, Threshold float64
	// Until is when an override ends; zero if it does not.
	Until time.Time
}

// Config configures a Bus.
type Config struct {
	Buffer int          // queue size, in events; default DefaultBuffer
	Logger *slog.Logger // logs dropped events; nil: no log
}

// Bus carries events from the hot path to its sinks. Create one with [NewBus].
type Bus struct {
	logger   *slog.Logger
	sinks    []Sink
	queue    chan guard.Event
	switches chan ModeSwitch
	stopped  atomic.Bool
	dropped  atomic.Uint64
	reported uint64        // dropped events that are logged; only Run uses it
	batch    []guard.Event // only Run uses it
}

var _ guard.Observer = (*Bus)(nil)

// NewBus returns a bus that delivers to the sinks, in their order, while Run runs.
func NewBus(cfg Config, sinks ...Sink) *Bus {
	if cfg.Buffer <= 0 {
		cfg.Buffer = DefaultBuffer
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Bus{
		logger: cfg.Logger, sinks: sinks,
		queue:    make(chan guard.Event, cfg.Buffer),
		switches: make(chan ModeSwitch, switchBuffer),
		batch:    make([]guard.Event, 0, maxBatch),
	}
}

// Observe queues a copy of the event, or counts it as dropped if the queue is full or the bus has stopped. It is safe
// for concurrent use, even before Run.
func (b *Bus) Observe(e guard.Event) { offer(b, b.queue, e) }

// In returns the observer for the guards of one realm.
func (b *Bus) In(realm string) guard.Observer { return inRealm{b, realm} }

type inRealm struct {
	bus   *Bus
	realm string
}

// Observe implements guard.Observer.
func (r inRealm) Observe(e guard.Event) {
	e.Realm = r.realm
	r.bus.Observe(e)
}

// Switched queues a change of CAPTCHA mode. Like Observe, it does not block.
func (b *Bus) Switched(s ModeSwitch) { offer(b, b.switches, s) }

func offer[T any](b *Bus, queue chan<- T, one T) {
	if !b.stopped.Load() {
		select {
		case queue <- one:
			return
		default:
		}
	}
	b.dropped.Add(1)
}

// Dropped returns the number of events and mode switches that no sink received.
func (b *Bus) Dropped() uint64 { return b.dropped.Load() }

// Run delivers until ctx ends, then delivers what is queued, ticks the sinks a last time and returns. Close the
// listeners first: later events are dropped and counted.
func (b *Bus) Run(ctx context.Context) {
	tick := time.NewTicker(TickEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case e := <-b.queue:
			b.deliver(e)
		case s := <-b.switches:
			b.deliverSwitch(s)
		case now := <-tick.C:
			b.tick(now)
		case <-ctx.Done():
		}
	}
	b.stopped.Store(true)
	for len(b.queue) > 0 {
		b.deliver(<-b.queue)
	}
	for len(b.switches) > 0 {
		b.deliverSwitch(<-b.switches)
	}
	b.tick(time.Now())
}

// deliver hands over the event and the queued ones, up to a batch. Only Run receives, so len does not overcount.
func (b *Bus) deliver(first guard.Event) {
	b.batch = append(b.batch[:0], first)
	for len(b.batch) < maxBatch && len(b.queue) > 0 {
		b.batch = append(b.batch, <-b.queue)
	}
	for _, s := range b.sinks {
		s.Handle(b.batch)
	}
	clear(b.batch) // release the strings
}

func (b *Bus) deliverSwitch(s ModeSwitch) {
	for _, sink := range b.sinks {
		sink.HandleSwitch(s)
	}
}

func (b *Bus) tick(now time.Time) {
	if n := b.dropped.Load(); n != b.reported {
		b.logger.Warn("events dropped", "count", n-b.reported, "total", n)
		b.reported = n
	}
	for _, s := range b.sinks {
		s.Tick(now)
	}
}
