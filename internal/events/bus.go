// Package events is where what happened leaves the hot path.
//
// [Bus] is the guard's observer: it copies every event into a bounded queue,
// never blocks, never allocates, counts what it had to drop, and hands batches
// to its sinks from a goroutine of its own. The sinks are the log ([Log]), the
// audit log (package audit), the alerts (package alerts) and the
// administrators' numbers (package control).
//
// The package also has the one way in which something typed by a stranger
// becomes text ([Escape]) and the closed set of what can become of an attempt
// ([Ending]).
package events

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"authguard/guard"
)

// DefaultBuffer is the buffer of a [Config] that names none, and TickEvery how
// often sinks are ticked.
const (
	DefaultBuffer = 8192
	TickEvery     = time.Second

	maxBatch     = 256
	switchBuffer = 64
)

// RealmName names a realm where one is told from others; empty for the default one,
// and so in a service that has no other.
func RealmName(realm string) string {
	if realm == guard.DefaultRealm {
		return ""
	}
	return realm
}

// A Sink takes what a Bus delivers. Its methods are called from one goroutine,
// one after the other. Slow work belongs on a goroutine of the sink's own:
// while one sink is busy the others wait and the queue fills.
type Sink interface {
	// Handle takes events in the order in which they were observed. The slice
	// belongs to the bus and is used again.
	Handle(batch []guard.Event)
	// HandleSwitch takes a change of CAPTCHA mode. Switches have a queue of
	// their own, so that no flood of events drowns one; order them against
	// events by time, not by delivery.
	HandleSwitch(s ModeSwitch)
	// Tick comes every TickEvery, and once more when the bus stops.
	Tick(now time.Time)
}

// The states of a ModeSwitch.
const (
	ModeOff  = "off"
	ModeSlow = "throttling" // strangers are slowed: a third of the threshold was crossed
	ModeOn   = "on"
)

// Causes of a ModeSwitch that somebody looks for. After the last one nothing is
// switched: the pressure has been just below the threshold for many hours.
const (
	CausePressure = "failure-rate"
	CauseForced   = "forced"
	CauseCleared  = "cleared"
	CauseSteady   = "steady"
)

// A ModeSwitch is one change of CAPTCHA mode, of the detector's opinion, or of
// who decides.
type ModeSwitch struct {
	At       time.Time
	Realm    string // whose mode it is
	From, To string // what the site does: ModeOff, ModeSlow or ModeOn
	Would    string // what it would do, where the mode only watches; else empty
	// Attacked is what the detector thinks after the switch, whatever a person
	// says: more logins fail than usual.
	Attacked bool
	// Resumed: a level like this one ended less than a day before, so the same attack goes on.
	Resumed bool
	// Cause is a stable code: one of those above, or the detector's, such as
	// "failure-rate".
	Cause string
	// Who and Why belong to the administrator whose override holds, or who ended one.
	Who, Why string
	// Pressure and Threshold are in failures per minute, at the time.
	Pressure, Threshold float64
	// Until is when an override ends; zero if it does not.
	Until time.Time
}

// Config configures a Bus.
type Config struct {
	Buffer int          // events that may wait for the sinks; default DefaultBuffer
	Logger *slog.Logger // told of dropped events; nil: nobody is told
}

// A Bus carries events from the hot path to its sinks. Make one with [NewBus].
type Bus struct {
	logger   *slog.Logger
	sinks    []Sink
	queue    chan guard.Event
	switches chan ModeSwitch
	stopped  atomic.Bool
	dropped  atomic.Uint64
	reported uint64        // of those dropped; only Run touches it
	batch    []guard.Event // only Run touches it
}

var _ guard.Observer = (*Bus)(nil)

// NewBus returns a bus that delivers to the sinks, in their order, while it
// runs.
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

// Observe queues a copy of the event, or counts it as dropped if the queue is
// full or the bus has stopped. It is safe for concurrent use, also before Run.
func (b *Bus) Observe(e guard.Event) { offer(b, b.queue, e) }

// In is the observer of the guards of one realm.
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

// Switched queues a change of CAPTCHA mode. Like Observe it does not block.
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

// Dropped is how many events and mode switches no sink has seen.
func (b *Bus) Dropped() uint64 { return b.dropped.Load() }

// Run delivers until ctx ends, then delivers what is still queued, ticks the
// sinks a last time and returns. Close the doors first: whatever is observed
// after that is dropped and counted.
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

// deliver hands over the event and whatever else is queued, up to a batch. Only
// Run receives, so what len counts is still there.
func (b *Bus) deliver(first guard.Event) {
	b.batch = append(b.batch[:0], first)
	for len(b.batch) < maxBatch && len(b.queue) > 0 {
		b.batch = append(b.batch, <-b.queue)
	}
	for _, s := range b.sinks {
		s.Handle(b.batch)
	}
	clear(b.batch) // let go of the strings
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
