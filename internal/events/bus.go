package events

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"authguard/guard"
)

// Defaults of a Config, and how often sinks are ticked.
const (
	DefaultBuffer = 8192
	DefaultBatch  = 256
	TickEvery     = time.Second

	switchBuffer = 64
)

// A Sink takes what a Bus delivers. Its methods are called from one goroutine,
// one after the other. Slow work belongs on a goroutine of the sink's own:
// while one sink is busy the others wait and the queue fills.
type Sink interface {
	// Handle takes events in the order in which they were observed. The slice
	// is the bus's and is used again.
	Handle(batch []guard.Event)
	// HandleSwitch takes a change of CAPTCHA mode. It comes through a queue of
	// its own, so that no flood of events drowns it; its order relative to
	// events is that of their times, not of delivery.
	HandleSwitch(s ModeSwitch)
	// Tick comes every TickEvery, and once more when the bus stops.
	Tick(now time.Time)
}

// Config holds the numbers of a Bus.
type Config struct {
	Buffer int          // events that may wait for the sinks; default DefaultBuffer
	Batch  int          // the most that a sink gets at once; default DefaultBatch
	Logger *slog.Logger // told of dropped events; default slog.Default()
}

// A Bus carries events from the hot path to its sinks. Make one with [NewBus].
type Bus struct {
	cfg      Config
	sinks    []Sink
	queue    chan guard.Event
	switches chan ModeSwitch
	dropped  atomic.Uint64
	reported uint64
	stopped  atomic.Bool
	start    sync.Once
	stop     sync.Once
	quit     chan struct{}
	done     chan struct{}
	batch    []guard.Event
}

var _ guard.Observer = (*Bus)(nil)

// NewBus returns a bus that delivers to the sinks, in their order, once it is
// started.
func NewBus(cfg Config, sinks ...Sink) *Bus {
	cfg = cfg.withDefaults()
	return &Bus{
		cfg: cfg, sinks: sinks,
		queue:    make(chan guard.Event, cfg.Buffer),
		switches: make(chan ModeSwitch, switchBuffer),
		quit:     make(chan struct{}),
		done:     make(chan struct{}),
		batch:    make([]guard.Event, 0, cfg.Batch),
	}
}

func (c Config) withDefaults() Config {
	if c.Buffer <= 0 {
		c.Buffer = DefaultBuffer
	}
	if c.Batch <= 0 {
		c.Batch = DefaultBatch
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

// Observe queues a copy of the event, or counts it as dropped if the queue is
// full or the bus has stopped. It is safe for concurrent use, also before
// Start.
func (b *Bus) Observe(e guard.Event) {
	if b.stopped.Load() {
		b.dropped.Add(1)
		return
	}
	select {
	case b.queue <- e:
	default:
		b.dropped.Add(1)
	}
}

// Switched queues a change of CAPTCHA mode. Like Observe it does not block.
func (b *Bus) Switched(s ModeSwitch) {
	if b.stopped.Load() {
		b.dropped.Add(1)
		return
	}
	select {
	case b.switches <- s:
	default:
		b.dropped.Add(1)
	}
}

// Dropped is how many events and mode switches no sink has seen.
func (b *Bus) Dropped() uint64 { return b.dropped.Load() }

// Waiting is how many events are queued.
func (b *Bus) Waiting() int { return len(b.queue) }

// Start begins to deliver. Starting twice is fine.
func (b *Bus) Start() { b.start.Do(func() { go b.run() }) }

// Stop delivers what is queued, ticks the sinks a last time and returns when
// that is done. Close the doors first: what is observed from now on is dropped
// and counted. Stopping twice, or before Start, is fine.
func (b *Bus) Stop() {
	b.stop.Do(func() {
		b.stopped.Store(true)
		close(b.quit)
	})
	b.Start()
	<-b.done
}

func (b *Bus) run() {
	defer close(b.done)
	tick := time.NewTicker(TickEvery)
	defer tick.Stop()
	for {
		select {
		case e := <-b.queue:
			b.deliver(e)
		case s := <-b.switches:
			b.deliverSwitch(s)
		case now := <-tick.C:
			b.tick(now)
		case <-b.quit:
			b.drain()
			return
		}
	}
}

// deliver hands over the event and whatever else is queued, up to a batch.
func (b *Bus) deliver(first guard.Event) {
	b.batch = append(b.batch[:0], first)
	for len(b.batch) < b.cfg.Batch {
		select {
		case e := <-b.queue:
			b.batch = append(b.batch, e)
			continue
		default:
		}
		break
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
		b.cfg.Logger.Warn("events dropped", "count", n-b.reported, "total", n)
		b.reported = n
	}
	for _, s := range b.sinks {
		s.Tick(now)
	}
}

func (b *Bus) drain() {
	for {
		select {
		case e := <-b.queue:
			b.deliver(e)
		case s := <-b.switches:
			b.deliverSwitch(s)
		default:
			b.tick(time.Now())
			return
		}
	}
}
