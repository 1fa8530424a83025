package alerts

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"authguard/guard"
	"authguard/internal/events"
)

// An Alerter watches the event bus and tells people. Make one with [New]; its
// methods are safe for concurrent use and wait for no network, except Stop.
type Alerter struct {
	logger *slog.Logger
	dial   func(url string) (sender, error)

	mu       sync.Mutex
	watcher  watcher
	channels []*channel
	urls     []string // of the channels, in their order
	lastID   uint64
	running  bool
	stopped  bool
}

var _ events.Sink = (*Alerter)(nil)

// Stats counts since the start. It is kept by channel and forgotten with it.
type Stats struct {
	Raised  uint64 // alerts
	Sent    uint64 // messages
	Failed  uint64 // tries
	Waiting int    // alerts not yet delivered, over all channels
}

// New returns an Alerter; a logger of nil is slog.Default().
func New(cfg Config, logger *slog.Logger) (*Alerter, error) {
	return newAlerter(cfg, logger, dial)
}

func newAlerter(cfg Config, logger *slog.Logger, dial func(string) (sender, error)) (*Alerter, error) {
	if logger == nil {
		logger = slog.Default()
	}
	a := &Alerter{logger: logger, dial: dial}
	a.watcher = watcher{accounts: newAttacked(), raise: a.raise}
	if err := a.Reconfigure(cfg); err != nil {
		return nil, err
	}
	return a, nil
}

// Start begins to send. What was raised before is not lost.
func (a *Alerter) Start() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.running && !a.stopped {
		a.running = true
		startAll(a.channels)
	}
}

func startAll(channels []*channel) {
	for _, c := range channels {
		go c.run()
	}
}

// Stop sends what waits, one try each and no longer than the context allows,
// and writes into the log what could not be delivered. Stop the bus first.
// Stopping twice is fine.
func (a *Alerter) Stop(ctx context.Context) {
	a.mu.Lock()
	channels, running := a.channels, a.running
	first := !a.stopped
	a.stopped, a.running = true, false
	a.mu.Unlock()
	if !first {
		return
	}
	var wg sync.WaitGroup
	for _, c := range channels {
		wg.Go(func() { a.end(ctx, c, running) })
	}
	wg.Wait()
}

func (a *Alerter) end(ctx context.Context, c *channel, running bool) {
	if !running {
		go c.run()
	}
	rest := c.last(ctx, c.stop(ctx))
	for _, one := range rest.kept {
		a.logger.Error("alert lost", "channel", c.label, "kind", one.kind, "title", one.title, "raised", one.at)
	}
	for kind, n := range rest.counted {
		a.logger.Error("alert lost", "channel", c.label, "kind", kind, "count", n)
	}
}

// Handle watches the events for edges.
func (a *Alerter) Handle(batch []guard.Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range batch {
		a.watcher.event(&batch[i])
	}
}

// HandleSwitch tells of CAPTCHA mode going on or off and of attacks that begin
// or end with it.
func (a *Alerter) HandleSwitch(s events.ModeSwitch) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.watcher.modeSwitch(s)
}

// Tick does nothing: channels have timers of their own.
func (a *Alerter) Tick(time.Time) {}

// Raise tells of something that the wiring found out. The kind is a stable
// code and bundles like alerts; the title is constant text; the body may have
// several lines and must hold what a stranger typed only as [Name] makes it.
func (a *Alerter) Raise(kind Kind, title, body string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tell(alert{at: time.Now(), kind: kind, title: titleText(title), body: bodyText(body)})
}

// WarnForgottenProxy tells that a proxy seems not to be configured (rule R9).
// The text says which setting to add.
func (a *Alerter) WarnForgottenProxy(text string) {
	a.Raise(ForgottenProxy, titles[ForgottenProxy], text)
}

// raise is the watcher's; the caller holds the lock.
func (a *Alerter) raise(at time.Time, kind Kind, body string) {
	a.tell(alert{at: at, kind: kind, title: titles[kind], body: body})
}

func (a *Alerter) tell(one alert) {
	a.lastID++
	one.id = a.lastID
	a.logger.Warn("alert raised", "kind", one.kind, "title", one.title, "body", one.body)
	for _, c := range a.channels {
		c.add(one)
	}
}

// Stats tells how the alerts are doing.
func (a *Alerter) Stats() Stats {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := Stats{Raised: a.lastID}
	for _, c := range a.channels {
		c.mu.Lock()
		s.Sent += c.stats.sent
		s.Failed += c.stats.failed
		s.Waiting += c.digest.len()
		c.mu.Unlock()
	}
	return s
}
