// Package alerts notifies people of the few moments that matter (rule R24):
// CAPTCHA mode went on or off, an attack began or ended, an account is under
// attack, a login succeeded after many wrong passwords.
//
// [Alerter] watches the event bus for these edges, logs each at once, and sends
// it to every channel (any shoutrrr URL). Channels are independent: each
// bundles alerts that come close together, keeps to a ceiling per hour, and
// retries until it gets through. The backlog is bounded; beyond the bound
// alerts are only counted. So a dead mail server delays no login and loses no
// alert while the process lives. What is undelivered when the process ends is
// in the log only.
//
// Titles are constant text. A stranger's input appears only in bodies, escaped
// by [Name].
package alerts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"authguard/failures"
	"authguard/guard"
	"authguard/internal/events"
)

// A Kind is a stable code for what an alert is about. Callers of
// [Alerter.Raise] add their own, such as "redis-lost".
type Kind string

// The kinds that the Alerter finds in the events.
const (
	ModeOn            Kind = "captcha-mode-on"
	ModeOff           Kind = "captcha-mode-off"
	AttackBegan       Kind = "attack-began"
	AttackEnded       Kind = "attack-ended"
	AccountAttacked   Kind = "account-attacked"
	SuspiciousSuccess Kind = "suspicious-success"
	SprayedRight      Kind = "sprayed-password-right"
	Sprayed           Kind = "password-sprayed"
	ChannelDead       Kind = "alert-channel-dead"
	ChannelBack       Kind = "alert-channel-back"
	SteadyPressure    Kind = "steady-pressure"
	EventLimit        Kind = "event-limit"
	EventQuiet        Kind = "event-quiet"
)

var titles = map[Kind]string{
	ModeOn:            "CAPTCHA mode is on",
	ModeOff:           "CAPTCHA mode is off",
	AttackBegan:       "An attack on the login began",
	AttackEnded:       "The attack on the login ended",
	AccountAttacked:   "Accounts are under attack",
	ChannelDead:       "An alert channel is dead",
	ChannelBack:       "An alert channel works again",
	SprayedRight:      "A stranger has an account's right password, which is tried on many accounts",
	Sprayed:           "One password is being tried on many accounts",
	SuspiciousSuccess: "A suspicious login succeeded from a new place",
	EventLimit:        "A limit on events was reached",
	EventQuiet:        "A limit on events is quiet again",
	SteadyPressure:    "Guessing goes on just below the threshold of CAPTCHA mode",
}

// atOnce reports whether the kind does not wait for a bundle.
func (k Kind) atOnce() bool { return k == ModeOn }

// important reports whether the kind may use the part of the ceiling that is
// reserved. Such alerts are also the last to be counted instead of kept.
func (k Kind) important() bool {
	return k == ModeOn || k == ModeOff || k == AttackBegan || k == AttackEnded
}

// An alert is one notification. IDs ascend.
type alert struct {
	id    uint64
	at    time.Time
	kind  Kind
	title string
	body  string
}

// Config says whom to notify and how often.
type Config struct {
	// To are shoutrrr addresses, one for each channel. They hold secrets and
	// are never printed. None: alerts go to the log only.
	To []string
	// Bundle is how long the first alert of a message waits for others; 0: not
	// at all. CAPTCHA mode going on never waits.
	Bundle time.Duration
	// PerHour is the most messages to one channel in any hour; at least 1.
	PerHour int
}

// An Alerter watches the event bus and notifies people. Make one with [New].
// Its methods are safe for concurrent use, and only Run waits for the network.
type Alerter struct {
	logger  *slog.Logger
	dial    func(url string) (sender, error)
	changed chan struct{} // some channels may not be running yet

	mu       sync.Mutex
	watchers map[string]*watcher // by realm
	channels []*channel
	lastID   uint64
}

var _ events.Sink = (*Alerter)(nil)

// New returns an Alerter that logs to logger, which must not be nil.
func New(cfg Config, logger *slog.Logger) (*Alerter, error) {
	return newAlerter(cfg, logger, dial)
}

func newAlerter(cfg Config, logger *slog.Logger, dial func(string) (sender, error)) (*Alerter, error) {
	a := &Alerter{logger: logger, dial: dial, changed: make(chan struct{}, 1), watchers: map[string]*watcher{}}
	if err := a.Reconfigure(cfg); err != nil {
		return nil, err
	}
	return a, nil
}

// Reconfigure adopts a configuration as a whole or, with an error, not at all.
// Channels that stay keep their backlog and their ceiling. The backlog of a
// removed channel passes to the new ones, since a changed address is often a
// corrected one.
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

// build returns the channels of a configuration and reuses present ones. It
// changes nothing.
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
			channels = append(channels, newChannel(url, label(i, url), s, a.logger, a.channelChanged))
		}
	}
	return channels, nil
}

// Run sends until ctx ends, starting with what was raised before. Then each
// channel tries once more, for a few seconds at most, and logs what it could
// not deliver. Stop the bus first.
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

// watcher is the one that watches a realm; the caller holds the lock.
func (a *Alerter) watcher(realm string) *watcher {
	w := a.watchers[realm]
	if w == nil {
		w = &watcher{attacked: make(map[string]time.Time), raise: func(at time.Time, kind Kind, body string) { a.raise(at, kind, InRealm(realm, body)) }}
		a.watchers[realm] = w
	}
	return w
}

// InRealm is the body of an alert about a realm: it names the realm, if that is not
// the default one.
func InRealm(realm, body string) string {
	if name := events.RealmName(realm); name != "" {
		return "realm " + name + ": " + body
	}
	return body
}

// Forget ends the watch over a realm that is no more.
func (a *Alerter) Forget(realm string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.watchers, realm)
}

// Handle watches the events for edges.
func (a *Alerter) Handle(batch []guard.Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range batch {
		a.watcher(batch[i].Realm).event(&batch[i])
	}
}

// HandleSwitch raises alerts for CAPTCHA mode going on or off and for attacks
// that begin or end with it.
func (a *Alerter) HandleSwitch(s events.ModeSwitch) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.watcher(s.Realm).modeSwitch(s)
}

// Tick does nothing: channels have timers of their own.
func (a *Alerter) Tick(time.Time) {}

// Raise sends an alert of the caller's. The kind is a stable code and groups
// alerts in a message; the title is constant text; the body may have several
// lines and must pass a stranger's input through [Name].
func (a *Alerter) Raise(kind Kind, title, body string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tell(alert{at: time.Now(), kind: kind, title: titleText(title), body: bodyText(body)})
}

// Spray raises the alert of a password that strangers try on many accounts.
func (a *Alerter) Spray(s failures.Spray) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.raise(time.Now(), Sprayed, fmt.Sprintf("it was wrong at %d accounts, from at least %d addresses, since %s. From strangers' places it is not enough any more, even where it is right",
		s.Accounts, s.Addresses, clock(s.Since)))
}

// raise is the watcher's way to raise an alert; the caller holds the lock.
func (a *Alerter) raise(at time.Time, kind Kind, body string) {
	a.tell(alert{at: at, kind: kind, title: titles[kind], body: body})
}

// A DeadChannel is one whose last message could not be sent.
type DeadChannel struct {
	Channel string // its position and kind, such as "to[0] (smtp)"
	Since   time.Time
	Tries   int
	Waiting int   // alerts
	Why     error // without secrets
}

// Dead are the channels that nobody hears from at the moment.
func (a *Alerter) Dead() (all []DeadChannel) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.channels {
		if state, dead := c.state(); dead {
			all = append(all, state)
		}
	}
	return all
}

// channelChanged tells the other channels that one is dead, or works again: who
// reads only that one hears nothing, and takes it for peace.
func (a *Alerter) channelChanged(of *channel, dead error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	one := alert{at: time.Now(), kind: ChannelBack, title: titles[ChannelBack], body: "channel " + of.label + " delivers again, what waited included"}
	if dead != nil {
		one.kind, one.title = ChannelDead, titles[ChannelDead]
		one.body = fmt.Sprintf("channel %s has failed %d times in a row, and is tried on: %s", of.label, deadAfter, bodyText(dead.Error()))
	}
	a.lastID++
	one.id = a.lastID
	a.logger.Warn("alert raised", "kind", one.kind, "title", one.title, "body", one.body)
	for _, c := range a.channels {
		if c != of {
			c.add(one)
		}
	}
}

// Try sends a test message to one address of a Config, and returns when it is
// delivered or is not. The error reveals no secret.
func Try(ctx context.Context, address string) (err error) {
	for _, url := range expand(address) {
		to, e := dial(url)
		if e == nil {
			e = to.send(ctx, message{title: "authguard: a test", body: "This is a test by authguard doctor --alerts. Nothing has happened.\n"})
		}
		err = errors.Join(err, e)
	}
	return err
}

func (a *Alerter) tell(one alert) {
	a.lastID++
	one.id = a.lastID
	a.logger.Warn("alert raised", "kind", one.kind, "title", one.title, "body", one.body)
	for _, c := range a.channels {
		c.add(one)
	}
}
