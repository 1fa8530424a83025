// Package alerts tells people about the few moments that matter (rule R24):
// CAPTCHA mode went on or off, an attack began or ended, an account is under
// attack, somebody got in after many wrong passwords.
//
// [Alerter] watches the event bus for these edges, logs each at once, and sends
// it to every channel (any shoutrrr URL). Each channel works by itself: it
// bundles alerts that come close together, keeps to a ceiling per hour, and
// tries again until it gets through. What waits meanwhile is bounded, and
// counted beyond the bound. So a dead mail server delays no login and loses no
// alert while the process lives; when the process ends, whatever was not
// delivered is only in the log.
//
// Titles are constant text. What a stranger typed stands only in bodies, as
// [Name] makes it.
package alerts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"authguard/guard"
	"authguard/internal/events"
)

// A Kind is what an alert is about: a stable code. The wiring may raise kinds
// of its own, such as "redis-lost".
type Kind string

// The kinds that the Alerter raises by itself.
const (
	ModeOn            Kind = "captcha-mode-on"
	ModeOff           Kind = "captcha-mode-off"
	AttackBegan       Kind = "attack-began"
	AttackEnded       Kind = "attack-ended"
	AccountAttacked   Kind = "account-attacked"
	SuspiciousSuccess Kind = "suspicious-success"
)

var titles = map[Kind]string{
	ModeOn:            "CAPTCHA mode is on",
	ModeOff:           "CAPTCHA mode is off",
	AttackBegan:       "An attack on the login began",
	AttackEnded:       "The attack on the login ended",
	AccountAttacked:   "Accounts are under attack",
	SuspiciousSuccess: "A login succeeded from a new place after many wrong passwords",
}

// atOnce kinds do not wait for a bundle.
func (k Kind) atOnce() bool { return k == ModeOn }

// important kinds may use the whole ceiling, part of which is theirs alone, and
// are the last to be counted instead of kept.
func (k Kind) important() bool {
	return k == ModeOn || k == ModeOff || k == AttackBegan || k == AttackEnded
}

// An alert is one thing to tell. IDs ascend.
type alert struct {
	id    uint64
	at    time.Time
	kind  Kind
	title string
	body  string
}

// Config says whom to tell and how often.
type Config struct {
	// To are shoutrrr addresses, one for each channel. They hold secrets and
	// are never printed. None: alerts go to the log only.
	To []string
	// Bundle is how long the first alert of a message waits for others; 0: not at
	// all. CAPTCHA mode going on never waits.
	Bundle time.Duration
	// PerHour is the most messages to one channel in any hour; at least 1.
	PerHour int
}

// An Alerter watches the event bus and tells people. Make one with [New]. Its
// methods are safe for concurrent use, and none but Run waits for the network.
type Alerter struct {
	logger  *slog.Logger
	dial    func(url string) (sender, error)
	changed chan struct{} // there are channels that do not run yet

	mu       sync.Mutex
	watcher  watcher
	channels []*channel
	lastID   uint64
}

var _ events.Sink = (*Alerter)(nil)

// New returns an Alerter that logs to logger, which must not be nil.
func New(cfg Config, logger *slog.Logger) (*Alerter, error) {
	return newAlerter(cfg, logger, dial)
}

func newAlerter(cfg Config, logger *slog.Logger, dial func(string) (sender, error)) (*Alerter, error) {
	a := &Alerter{logger: logger, dial: dial, changed: make(chan struct{}, 1)}
	a.watcher = watcher{attacked: make(map[string]time.Time), raise: a.raise}
	if err := a.Reconfigure(cfg); err != nil {
		return nil, err
	}
	return a, nil
}

// Reconfigure adopts a new configuration as a whole or, with an error, not at
// all. Channels that stay keep what waits in them and what they sent; what
// waits in a channel that goes passes to the new ones, since a changed address
// is often a corrected one.
func (a *Alerter) Reconfigure(cfg Config) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	channels, err := a.build(cfg)
	if err != nil {
		return err
	}
	var rest digest
	for _, c := range a.channels {
		if !slices.Contains(channels, c) {
			rest.merge(c.close())
		}
	}
	heirs := 0
	for _, c := range channels {
		c.configure(cfg)
		if !slices.Contains(a.channels, c) {
			c.digest = rest.snapshot()
			heirs++
		}
	}
	if n := rest.len(); n > 0 && heirs == 0 {
		a.logger.Warn("alerts dropped with their channel", "count", n)
	}
	a.channels = channels
	poke(a.changed)
	return nil
}

// build returns the channels of a configuration, the present ones where they
// stay. It changes nothing.
func (a *Alerter) build(cfg Config) (channels []*channel, err error) {
	if cfg.Bundle < 0 || cfg.PerHour < 1 {
		return nil, errors.New("alerts: bundle must not be negative, and per_hour must be at least 1")
	}
	for i, address := range cfg.To {
		for _, url := range expand(address) {
			same := func(c *channel) bool { return c.url == url }
			if slices.ContainsFunc(channels, same) {
				continue
			}
			if at := slices.IndexFunc(a.channels, same); at >= 0 {
				channels = append(channels, a.channels[at])
				continue
			}
			s, err := a.dial(url)
			if err != nil {
				return nil, fmt.Errorf("alerts.to[%d]: %w", i, err)
			}
			channels = append(channels, newChannel(url, label(i, url), s, a.logger))
		}
	}
	return channels, nil
}

// Run sends, first what was raised before, until ctx ends. Then each channel
// tries once more, for a few seconds at most, and logs what it could not
// deliver. Stop the bus first.
func (a *Alerter) Run(ctx context.Context) {
	var sending sync.WaitGroup
	defer sending.Wait()
	for {
		a.mu.Lock()
		for _, c := range a.channels {
			if !c.running {
				c.running = true
				sending.Go(func() { c.run(ctx) })
			}
		}
		a.mu.Unlock()
		select {
		case <-a.changed:
		case <-ctx.Done():
			return
		}
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

// Raise tells of something that the wiring found out. The kind is a stable code
// and decides what is bundled; the title is constant text; the body may have
// several lines and must hold what a stranger typed only as [Name] makes it.
func (a *Alerter) Raise(kind Kind, title, body string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tell(alert{at: time.Now(), kind: kind, title: titleText(title), body: bodyText(body)})
}

// raise serves the watcher; the caller holds the lock.
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
