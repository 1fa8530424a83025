// Package alerts notifies administrators of the few events that matter (rule R24), such as CAPTCHA mode, attacks on the
// site or an account, and a login after many wrong passwords.
//
// [Alerter] finds these events on the event bus, and gets attacks from package attacks. It logs each alert at once and
// puts it into the outbox. Every channel delivers it from there at least once: email, chat, ntfy or a signed webhook.
// Channels are independent. Each groups alerts, honors an hourly maximum, and retries until it succeeds. The backlog is
// bounded; beyond the bound alerts are only counted. So a failed mail server delays no login and loses no alert.
//
// Titles are constant text. User input appears only in bodies, escaped by [Name].
package alerts

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"authguard/guard"
	"authguard/internal/attacks"
	"authguard/internal/events"
	"authguard/internal/outbox"
)

// adoptEvery is the interval of checks for alerts that another node left to a removed channel.
const adoptEvery = 2 * time.Minute

// Config is the channels and how often they notify.
type Config struct {
	// To are the channels' addresses (docs/how-to/alerts.md), secret and never printed. Empty: alerts go to the log only.
	To []string
	// Bundle is how long a message waits for further alerts; 0 does not wait, nor does CAPTCHA mode turning on.
	Bundle time.Duration
	// PerHour is the maximum number of messages per channel and hour; at least 1.
	PerHour int
	// Private are the private networks that webhooks may reach.
	Private []netip.Prefix
	// FailureRatio is the least number of failed logins per success for an alert; 0 disables the alert.
	FailureRatio float64
	// Attack is attacks.Recorder.OnSite; nil if attacks are not recorded.
	Attack func(realm string) (running, silent bool)
	// Record is attacks.Recorder.SoFar; nil if attacks are not recorded.
	Record func(realm string) (attacks.Attack, bool)
	// URL is the base URL of the admin console without a trailing slash; empty if unknown.
	URL string
	// Node names this node in alerts. Only New uses it.
	Node string
}

// An Alerter turns events into alerts. It is safe for concurrent use; only Run, Test and Recent block.
type Alerter struct {
	node    string
	logger  *slog.Logger
	store   outbox.Store
	history *history
	dial    func(t target, private []netip.Prefix) sender
	changed chan struct{} // channels were added or removed

	mu       sync.Mutex
	config   Config
	watchers map[string]*watcher // by realm
	channels []*channel
	lastID   int64
}

var _ events.Sink = (*Alerter)(nil)

// New returns an Alerter. Without a database in store, alerts wait in memory only.
func New(cfg Config, store outbox.Store) (*Alerter, error) { return newAlerter(cfg, store, dial) }

func newAlerter(cfg Config, store outbox.Store, dial func(target, []netip.Prefix) sender) (*Alerter, error) {
	if store.Now == nil {
		store.Now = time.Now
	}
	a := &Alerter{
		node: cfg.Node, logger: store.Log, store: store, history: &history{db: store.DB, log: store.Log}, dial: dial, changed: make(chan struct{}, 1),
		watchers: map[string]*watcher{},
	}
	return a, a.Reconfigure(cfg)
}

func (a *Alerter) now() time.Time { return a.store.Now() }

// Reconfigure applies a configuration as a whole or, with an error, not at all. A channel keeps its backlog and hourly
// count by its place in Config.To; the first channel takes over the backlog of places that no longer exist.
func (a *Alerter) Reconfigure(cfg Config) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if cfg.Bundle < 0 || cfg.PerHour < 1 {
		return errors.New("alerts: group_wait must not be negative, and max_per_hour must be at least 1")
	}
	if cfg.Attack == nil {
		cfg.Attack = func(string) (running, silent bool) { return false, false }
	}
	if cfg.Record == nil {
		cfg.Record = func(string) (a attacks.Attack, ok bool) { return a, false }
	}
	targets, err := targets(cfg.To)
	if err != nil {
		return err
	}
	for i, t := range targets {
		if i == len(a.channels) {
			a.channels = append(a.channels, newChannel(a, i))
		}
		a.channels[i].configure(t, a.dial(t, cfg.Private), cfg)
	}
	for _, c := range a.channels[len(targets):] {
		c.cancel()
	}
	a.channels, a.config = slices.Clone(a.channels[:len(targets)]), cfg
	poke(a.changed)
	return nil
}

// Run sends until ctx ends, starting with the backlog, and then each channel once more. Stop the bus first.
func (a *Alerter) Run(ctx context.Context) {
	var working sync.WaitGroup
	defer working.Wait()
	if a.history.db != nil {
		working.Go(func() { a.history.run(ctx) })
	}
	for {
		a.mu.Lock()
		for _, c := range a.channels {
			if !c.running {
				c.running = true
				working.Go(func() { c.run(ctx) })
			}
		}
		a.mu.Unlock()
		a.adopt(ctx)
		select {
		case <-a.changed:
		case <-time.After(adoptEvery):
		case <-ctx.Done():
			return
		}
	}
}

// adopt moves the alerts of removed channels to the first channel.
func (a *Alerter) adopt(ctx context.Context) {
	var names []string
	channels := a.all()
	for _, c := range channels {
		names = append(names, c.box.Name)
	}
	if len(channels) == 0 {
		return
	}
	if err := channels[0].box.Adopt(ctx, boxPrefix, names); err != nil && ctx.Err() == nil {
		a.logger.Error("alerts of removed channels cannot be read", "error", err)
	}
}

// watcher returns the realm's watcher; the caller holds the lock.
func (a *Alerter) watcher(realm string) *watcher {
	w := a.watchers[realm]
	if w == nil {
		w = newWatcher(func() (running, silent bool) { return a.config.Attack(realm) },
			func(at time.Time, kind Kind, body string) {
				body, of := a.about(realm, kind, body)
				a.raise(at, realm, kind, kind.meaning().title, body, of)
			})
		a.watchers[realm] = w
	}
	return w
}

func inRealm(path, realm string) string {
	name := events.RealmName(cmp.Or(realm, guard.DefaultRealm))
	if name == "" {
		return path
	}
	return path + map[bool]string{true: "&", false: "?"}[strings.Contains(path, "?")] + "realm=" + name
}

// InRealm adds the realm to an alert's body, unless it is the default.
func InRealm(realm, body string) string {
	if name := events.RealmName(realm); name != "" {
		return "realm " + name + ": " + body
	}
	return body
}

// Forget stops monitoring a removed realm.
func (a *Alerter) Forget(realm string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.watchers, realm)
}

// Handle monitors the events.
func (a *Alerter) Handle(batch []guard.Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range batch {
		w := a.watcher(batch[i].Realm)
		w.ratio.floor = a.config.FailureRatio
		w.event(&batch[i])
	}
}

// HandleSwitch raises alerts about CAPTCHA mode.
func (a *Alerter) HandleSwitch(s events.ModeSwitch) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.watcher(s.Realm).modeSwitch(s)
}

// Tick does nothing: channels have their own timers.
func (a *Alerter) Tick(time.Time) {}

// Raise raises the caller's alert. The kind is a stable code by which messages group alerts. The title is constant
// text; empty: the kind's own. The body can have several lines; user input in it must pass through
// [Name].
func (a *Alerter) Raise(kind Kind, title, body string) { a.RaiseIn("", kind, title, body) }

// RaiseIn is Raise for a realm, which it adds to the body.
func (a *Alerter) RaiseIn(realm string, kind Kind, title, body string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.raise(a.now(), realm, kind, cmp.Or(title, kind.meaning().title), body, nil)
}

// raise sends an alert to all channels, with the link to an attack unless it is nil; the caller holds the lock.
func (a *Alerter) raise(at time.Time, realm string, kind Kind, title, body string, of *record) {
	one := Alert{At: at, Realm: events.RealmName(cmp.Or(realm, guard.DefaultRealm)), Kind: kind, Title: titleText(title)}
	page := inRealm(kind.page(), one.Realm)
	if of != nil {
		page = inRealm(of.page, one.Realm)
		body = strings.TrimSuffix(body, "\n") + "\nAttack: "
		if a.config.URL == "" {
			body += page + " in the admin console, or "
		}
		body += of.command
	}
	if a.config.URL != "" {
		one.Page = a.config.URL + page
	}
	one.Body = bodyText(InRealm(cmp.Or(realm, guard.DefaultRealm), body))
	a.send(nil, one)
}

// send logs an alert and sends it to all channels except one; the caller holds the lock.
func (a *Alerter) send(except *channel, one Alert) {
	var salt [3]byte
	_, _ = rand.Read(salt[:])
	// IDs ascend on this node and rarely collide with another node's, as in the audit log.
	id := a.now().UnixMilli()<<20 | int64(salt[0])<<12 | int64(salt[1])<<4 | int64(salt[2])>>4
	a.lastID = max(id, a.lastID+1)
	one.ID = a.lastID
	a.logger.Warn("alert raised", "kind", one.Kind, "title", one.Title, "body", one.Body)
	a.history.add(one)
	for _, c := range a.channels {
		if c != except {
			c.add(one)
		}
	}
}

// channelChanged notifies the other channels that one failed or recovered. Readers of a failed channel notice nothing.
func (a *Alerter) channelChanged(of *channel, dead string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	one := Alert{At: a.now(), Kind: ChannelBack, Title: ChannelBack.meaning().title, Body: "channel " + of.name() +
		" delivers again, including the waiting alerts"}
	if dead != "" {
		one.Kind, one.Title = ChannelDead, ChannelDead.meaning().title
		one.Body = fmt.Sprintf("channel %s has failed %d times in a row, and is retried: %s", of.name(), deadAfter,
			bodyText(dead))
	}
	if a.config.URL != "" {
		one.Page = a.config.URL + one.Kind.page()
	}
	a.send(of, one)
}

// Channels returns all channels in configured order, as this node knows them.
func (a *Alerter) Channels() []Channel {
	all := []Channel{}
	for _, c := range a.all() {
		all = append(all, c.state())
	}
	return all
}

func (a *Alerter) all() []*channel {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.channels)
}

// Dead returns the channels whose last message failed.
func (a *Alerter) Dead() []Channel {
	return slices.DeleteFunc(a.Channels(), func(c Channel) bool { return c.Tries == 0 })
}

// A Tested is the outcome of a test message to one channel.
type Tested struct {
	Channel string `json:"channel"`
	Problem string `json:"problem,omitempty"` // the delivery error, without secrets; empty on success
}

// Test sends a test message to all channels concurrently and waits for all outcomes. by names the administrator.
func (a *Alerter) Test(ctx context.Context, by string) []Tested {
	var to []sender
	var names []string
	for _, c := range a.all() {
		c.mu.Lock()
		to, names = append(to, c.sender), append(names, c.target.label)
		c.mu.Unlock()
	}
	return testAll(ctx, to, names, "This is a test, requested by "+Name(by)+". Nothing has happened.\n")
}

func testAll(ctx context.Context, to []sender, names []string, text string) []Tested {
	found := make([]Tested, len(to))
	var sending sync.WaitGroup
	for i := range to {
		sending.Go(func() {
			found[i].Channel = names[i]
			if err := test(ctx, to[i], text); err != nil {
				found[i].Problem = err.Error()
			}
		})
	}
	sending.Wait()
	return found
}

func test(ctx context.Context, to sender, text string) error {
	ctx, cancel := context.WithTimeout(ctx, outbox.SendTimeout)
	defer cancel()
	d := digest{Kept: []Alert{{At: time.Now(), Kind: "test", Title: "A test", Body: text}}}
	return to.send(ctx, message{id: "msg_" + rand.Text(), at: time.Now(), title: "authguard: a test", body: text, what: d})
}

// Try sends a test message to all channels of a Config concurrently, and waits for all outcomes.
func Try(ctx context.Context, addresses []string, private []netip.Prefix) ([]Tested, error) {
	all, err := targets(addresses)
	var to []sender
	var names []string
	for _, t := range all {
		to, names = append(to, dial(t, private)), append(names, t.label)
	}
	return testAll(ctx, to, names, "This is a test by authguard doctor --alerts. Nothing has happened.\n"), err
}
