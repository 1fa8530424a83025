package alerts

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"authguard/internal/outbox"
)

const (
	firstRetry   = time.Second
	longestRetry = 5 * time.Minute
	// deadAfter is how many failures in a row notify the other channels; the third comes seconds after the first.
	deadAfter = 3
	// boxPrefix begins the names of alert channels in the outbox.
	boxPrefix = "alerts/"
)

// A sender sends one message. It returns at the latest when the context is done. Its errors must not contain secrets.
type sender interface {
	send(ctx context.Context, m message) error
}

// A channel sends alerts to one address. The outbox knows it by its place in alerts.to: so the database holds no
// address, and a corrected address gets the alerts that wait.
type channel struct {
	alerter *Alerter
	box     *outbox.Channel
	life    context.Context // ends when the channel is removed
	cancel  context.CancelFunc
	running bool // guarded by the Alerter's lock

	mu        sync.Mutex
	target    target
	sender    sender
	window    time.Duration
	perHour   int
	delivered int
}

func newChannel(a *Alerter, place int) *channel {
	c := &channel{alerter: a}
	c.life, c.cancel = context.WithCancel(context.Background())
	c.box = outbox.New(outbox.Config{
		Store: a.store, Name: fmt.Sprint(boxPrefix, place), Send: c.send, Merge: mergeMessages, Hold: c.hold,
		FirstRetry: firstRetry, LongestRetry: longestRetry, FailedAfter: deadAfter,
		Failed:    func(err error) { a.channelChanged(c, err.Error()) },
		Recovered: func() { a.channelChanged(c, "") },
	})
	return c
}

func (c *channel) configure(t target, s sender, cfg Config) {
	c.mu.Lock()
	corrected := c.target.raw != t.raw
	c.target, c.sender, c.window, c.perHour = t, s, cfg.Bundle, cfg.PerHour
	c.mu.Unlock()
	if corrected {
		c.box.Retry()
	}
}

func (c *channel) name() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.target.label
}

func (c *channel) add(a Alert) {
	c.mu.Lock()
	kinds, due := c.target.kinds, a.At.Add(c.window)
	c.mu.Unlock()
	if len(kinds) > 0 && !slices.Contains(kinds, a.Kind) {
		return
	}
	if a.Kind.atOnce() {
		due = time.Time{}
	}
	c.box.Add(outbox.Message{Body: digest{Kept: []Alert{a}}.encode(), Due: due, Expires: a.At.Add(keptFor)})
}

// mergeMessages adds the alerts of one message to another.
func mergeMessages(waiting, more outbox.Message) outbox.Message {
	d := decode(waiting.Body)
	d.merge(decode(more.Body))
	waiting.Body = d.encode()
	if more.Due.Before(waiting.Due) {
		waiting.Due = more.Due
	}
	return waiting
}

func (d digest) encode() string {
	text, err := json.Marshal(d)
	if err != nil {
		panic(err) // a digest has only texts, numbers and times
	}
	return string(text)
}

func decode(body string) (d digest) {
	_ = json.Unmarshal([]byte(body), &d) // this package wrote it
	return d
}

// hold applies the hourly maximum, and notes in a message how many of its alerts had to wait.
func (c *channel) hold(m outbox.Message, sent []time.Time) (until time.Time, body string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := decode(m.Body)
	if until = free(c.perHour, sent, d.has(Kind.important)); until.IsZero() {
		return until, m.Body
	}
	late := 0
	for _, a := range d.Kept {
		if a.At.Add(c.window).Before(until) {
			late++
		}
	}
	d.Note = ""
	if late > 0 {
		d.Note = fmt.Sprintf("%d of these were held back: at most %d messages are sent per hour.", late, c.perHour)
	}
	return until, d.encode()
}

// free returns when the hourly maximum allows a message; zero for now. A quarter is reserved for important alerts, so
// that ordinary ones cannot use it up before the attack ends.
func free(perHour int, sent []time.Time, important bool) time.Time {
	room := perHour
	if !important {
		room -= min(perHour-1, max(1, perHour/4))
	}
	if len(sent) < room {
		return time.Time{}
	}
	// One millisecond more: both ends of an hour belong to it.
	return sent[len(sent)-room].Add(time.Hour + time.Millisecond)
}

// send makes one attempt. The outbox keeps the title of what was sent.
func (c *channel) send(ctx context.Context, m *outbox.Message) error {
	c.mu.Lock()
	to, label := c.sender, c.target.label
	c.mu.Unlock()
	d := decode(m.Body)
	text := d.message()
	text.id, text.at = m.ID, m.At
	if err := to.send(ctx, text); err != nil {
		c.alerter.logger.Error("alert not sent", "channel", label, "error", err, "attempts", m.Attempts)
		return err
	}
	c.alerter.logger.Info("alert sent", "channel", label, "alerts", d.len())
	m.Body = text.title
	c.mu.Lock()
	defer c.mu.Unlock()
	c.delivered += d.len()
	return nil
}

// run sends until the channel is removed or ctx ends.
func (c *channel) run(ctx context.Context) {
	defer poke(c.alerter.changed)
	defer context.AfterFunc(ctx, c.cancel)()
	c.box.Run(c.life)
	for _, m := range c.box.Unsaved() {
		d := decode(m.Body)
		for _, one := range d.Kept {
			c.alerter.logger.Error("alert lost", "channel", c.name(), "kind", one.Kind, "title", one.Title, "raised", one.At)
		}
		for kind, n := range d.Counted {
			c.alerter.logger.Error("alert lost", "channel", c.name(), "kind", kind, "count", n)
		}
	}
}

// poke wakes the goroutine that waits for wake, now or at its next wait.
func poke(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// A Channel is the public state of a channel.
type Channel struct {
	Name  string `json:"name"`  // from #name=, or its kind and host, such as "smtp mail.example.org"
	State string `json:"state"` // unused, working, failing or dead
	Kinds []Kind `json:"kinds,omitempty"`
	// Waiting counts undelivered alerts, Delivered those that this process has delivered.
	Waiting   int       `json:"waiting"`
	Delivered int       `json:"delivered"`
	Hour      int       `json:"hour"`     // messages in the last hour
	PerHour   int       `json:"per_hour"` // the maximum
	Last      time.Time `json:"last,omitzero"`
	LastTitle string    `json:"last_title,omitempty"`
	Next      time.Time `json:"next,omitzero"`  // the next delivery or retry
	Since     time.Time `json:"since,omitzero"` // the first failure
	Tries     int       `json:"tries,omitempty"`
	Why       string    `json:"why,omitempty"` // without secrets
}

// state returns the channel as this node last saw it.
func (c *channel) state() Channel {
	messages, next, now := c.box.Messages(), c.box.Next(), c.alerter.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	s := Channel{Name: c.target.label, Kinds: c.target.kinds, State: "unused", Delivered: c.delivered, PerHour: c.perHour,
		Next: next}
	for _, m := range messages {
		if m.SentAt.IsZero() {
			d := decode(m.Body)
			s.Waiting += d.len()
			if !m.FailedAt.IsZero() {
				s.Since, s.Tries, s.Why = m.FailedAt, m.Attempts, m.Error
			}
			continue
		}
		if now.Sub(m.SentAt) <= time.Hour {
			s.Hour++
		}
		if m.SentAt.After(s.Last) {
			s.State, s.Last, s.LastTitle = "working", m.SentAt, m.Body
		}
	}
	switch {
	case s.Tries >= deadAfter:
		s.State = "dead"
	case s.Tries > 0:
		s.State = "failing"
	}
	return s
}
