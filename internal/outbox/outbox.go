// Package outbox sends messages at least once: alerts to administrators, and emails to account owners, with its
// [Mailer] or with verification codes.
//
// A message waits in one table until it is sent or expires. Of several nodes, one sends it: the node claims the message
// with a lease, and another node takes over when the lease ends. A failed attempt is repeated after growing waits.
// [Add] never blocks: messages reach the database from bounded memory. While the database is unavailable they stay
// there, and a channel with Merge sends from there, because its message may be about the database.
package outbox

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"log/slog"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"time"
)

const (
	// SendTimeout limits one attempt. Lease is how long a node holds a message for it.
	SendTimeout = 15 * time.Second
	Lease       = 3 * SendTimeout
	// LastAttempt limits attempts at the end of the process.
	LastAttempt = 5 * time.Second

	lookEvery  = 10 * time.Second // checks for messages that other nodes left, and for the database
	saveEvery  = time.Second      // writes of messages that may wait
	reportGap  = time.Hour        // between two calls of Failed
	recent     = 2 * time.Hour    // Hold gets the messages sent in this time
	maxUnsaved = 256              // messages without Merge that are not in the database yet
)

// A Message waits to be sent. The zero time is never, except for Due.
type Message struct {
	ID      string // the same for every attempt
	Subject string // what Limits count by, such as an account
	Body    string // valid UTF-8 without zero bytes
	At      time.Time
	Due     time.Time // when to send; zero: at once
	Expires time.Time // when to delete it, sent or not

	Attempts   int // including a running one
	LeaseUntil time.Time
	FailedAt   time.Time // the first failed attempt
	Error      string    // of the last one, without secrets
	ReportedAt time.Time // when Failed was called for it
	SentAt     time.Time
}

func (m Message) waits() bool { return m.SentAt.IsZero() }

// fresh reports whether other messages may be merged into this one: no receiver knows it yet.
func (m Message) fresh() bool { return m.Attempts == 0 && m.waits() }

// A Store is where messages wait.
type Store struct {
	DB    *sql.DB // migrated; nil: messages wait in memory only
	Alone bool    // no other process uses the database
	Now   func() time.Time
	Log   *slog.Logger
}

// Limits bound a channel without Merge.
type Limits struct {
	Waiting    int // messages in the table
	PerSubject int // unsent messages of one Subject, and those added within Window
	Window     time.Duration
}

// Config describes a channel. Only Store, Name, Send and the waits are required.
type Config struct {
	Store
	// Name identifies the channel in the table; the same on all nodes.
	Name string
	// Send makes one attempt, and may replace m.Body, which is saved with a success. Its errors contain no secrets.
	Send func(ctx context.Context, m *Message) error
	// Wanted reports whether a message has a recipient. Other messages never reach the database. After an error the
	// message is saved, and Send fails or finds no recipient.
	Wanted func(ctx context.Context, m Message) (bool, error)
	// Merge adds a message to one that waits for its first attempt. Such a channel sends one message at a time, the
	// oldest first.
	Merge func(waiting, more Message) Message
	// Hold returns when the channel's rate limit allows a message, and its body, perhaps with a note about the limit.
	// sent are the times of the messages of the last two hours, oldest first.
	Hold   func(m Message, sent []time.Time) (until time.Time, body string)
	Limits Limits
	// FirstRetry doubles with each failed attempt, up to LongestRetry.
	FirstRetry, LongestRetry time.Duration
	Workers                  int // concurrent attempts; default 1
	// Failed is called once for a failing channel, at most hourly, when a message has failed FailedAfter times (default
	// 1). Recovered follows when that message is sent.
	FailedAfter int
	Failed      func(error)
	Recovered   func()
}

// A Channel sends the messages of one name. It is safe for concurrent use.
type Channel struct {
	Config
	wake   chan struct{}
	saving sync.Mutex // one save at a time

	mu       sync.Mutex
	unsaved  []Message // not in the database
	saved    []Message // the database, as last read: what is unsent or counts for Hold
	away     error     // why the database is unavailable
	triedAt  time.Time // last access to the database
	retry    bool      // failed messages are due now
	closing  bool
	done     string // ID of a message that was sent, which the database may not know
	failing  bool
	reported time.Time
}

// New returns a Channel that sends nothing before Run.
func New(c Config) *Channel {
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Channel{Config: c, wake: make(chan struct{}, 1), retry: true}
}

// Add accepts a message. It never blocks, and returns false if too many messages wait in memory. A message beyond
// Limits.PerSubject is dropped.
func (c *Channel) Add(m Message) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	m.ID = cmp.Or(m.ID, "msg_"+rand.Text())
	if m.At.IsZero() {
		m.At = c.Now()
	}
	if c.Merge == nil {
		if len(c.unsaved) >= maxUnsaved {
			return false
		}
		same := 0
		for _, one := range c.unsaved {
			if one.Subject == m.Subject {
				same++
			}
		}
		if same >= c.Limits.PerSubject {
			return true
		}
	}
	c.unsaved = c.with(c.unsaved, m)
	c.poke()
	return true
}

// with adds a message to rows.
func (c *Channel) with(rows []Message, m Message) []Message {
	if c.Merge != nil && m.fresh() {
		if i := slices.IndexFunc(rows, Message.fresh); i >= 0 {
			rows[i] = c.Merge(rows[i], m)
			return rows
		}
	}
	return append(rows, m)
}

func (c *Channel) poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Retry makes waiting messages due now, as at a start and after a change of the address.
func (c *Channel) Retry() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retry = true
	for i := range c.unsaved {
		if c.unsaved[i].waits() {
			c.unsaved[i].Due = time.Time{}
		}
	}
	c.poke()
}

// Messages returns the messages of a channel with Merge as this node knows them, in the order of sending: unsent ones,
// those sent in the last two hours, and the last sent one.
func (c *Channel) Messages() []Message {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Concat(c.saved, c.unsaved)
}

// Next returns when the next attempt is due; zero for never.
func (c *Channel) Next() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, _, at, ok := c.pick(); ok {
		return latest(at, c.Now())
	}
	return time.Time{}
}

// Unsaved returns the unsent messages that exist only in memory. After Run, they are lost.
func (c *Channel) Unsaved() []Message {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.unsaved), func(m Message) bool { return !m.waits() })
}

// Run sends until ctx ends. Then it saves what is in memory, and a channel with Merge tries once more.
func (c *Channel) Run(ctx context.Context) {
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(LastAttempt, cancel) })()
	var workers sync.WaitGroup
	for range max(1, c.Workers) {
		workers.Go(func() { c.work(ctx, sending) })
	}
	workers.Wait()
	c.mu.Lock()
	c.closing, c.triedAt = true, time.Time{}
	c.mu.Unlock()
	c.save(sending)
	if c.Merge != nil {
		c.sendDue(sending)
	}
}

func (c *Channel) work(ended, sending context.Context) {
	for {
		select {
		case <-ended.Done():
			return
		case <-c.wake: // look again at what is due
			continue
		case <-time.After(c.pause()):
		}
		c.Step(sending)
	}
}

// pause returns how long a worker sleeps unless it is woken.
func (c *Channel) pause() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.Now()
	next := now.Add(lookEvery)
	if _, _, at, ok := c.pick(); ok && at.Before(next) {
		next = at
	}
	if c.DB != nil && len(c.unsaved) > 0 {
		save := c.triedAt.Add(saveEvery)
		switch urgent := func(m Message) bool { return m.waits() && m.Due.IsZero() }; {
		case c.away != nil:
			save = c.triedAt.Add(lookEvery / 2)
		case slices.ContainsFunc(c.unsaved, urgent):
			save = now
		}
		if save.Before(next) {
			next = save
		}
	}
	return next.Sub(now)
}

// Step saves the messages in memory, and sends what is due.
func (c *Channel) Step(ctx context.Context) {
	c.save(ctx)
	c.sendDue(ctx)
}

func (c *Channel) sendDue(ctx context.Context) {
	for ctx.Err() == nil {
		m, ok := c.claim(ctx)
		if !ok {
			return
		}
		c.poke() // another worker may find another message
		c.attempt(ctx, m)
	}
}

// direct reports whether messages are sent from memory. The caller holds the lock.
func (c *Channel) direct() bool { return c.DB == nil || c.away != nil && c.Merge != nil }

// pick returns the message to send next, its body and when; false for none. The caller holds the lock.
func (c *Channel) pick() (m Message, body string, at time.Time, ok bool) {
	rows := c.saved
	switch {
	case c.direct():
		rows = c.unsaved
	case c.away != nil:
		return m, "", at, false
	}
	i := slices.IndexFunc(rows, Message.waits)
	if i < 0 {
		return m, "", at, false
	}
	m = rows[i]
	body = m.Body
	if at = m.Due; c.closing && m.Attempts == 0 {
		at = time.Time{}
	}
	if m.Attempts == 0 && c.Hold != nil {
		var until time.Time
		until, body = c.Hold(m, c.sent())
		at = latest(at, until)
	}
	return m, body, latest(at, m.LeaseUntil), true
}

// sent returns when messages were sent recently, oldest first. The caller holds the lock.
func (c *Channel) sent() (all []time.Time) {
	since := c.Now().Add(-recent)
	for _, m := range slices.Concat(c.saved, c.unsaved) {
		if !m.SentAt.Before(since) {
			all = append(all, m.SentAt)
		}
	}
	slices.SortFunc(all, time.Time.Compare)
	return all
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// claim takes the message that is due. No other node or worker sends it before the lease ends.
func (c *Channel) claim(ctx context.Context) (Message, bool) {
	for ctx.Err() == nil {
		c.mu.Lock()
		waiting, body, at, ok := c.pick()
		now := c.Now()
		c.mu.Unlock()
		if !ok || at.After(now) {
			return Message{}, false
		}
		m := waiting
		m.Body, m.Attempts, m.LeaseUntil = body, m.Attempts+1, now.Add(Lease)
		won, err := c.update(ctx, waiting, m)
		if err != nil || won {
			return m, won
		}
		c.look(ctx) // another node was faster, or another alert was merged
	}
	return Message{}, false
}

// attempt sends a claimed message and records the outcome.
func (c *Channel) attempt(ctx context.Context, m Message) {
	c.mu.Lock()
	known := m.ID == c.done
	c.mu.Unlock()
	claimed, err := m, error(nil)
	if !known {
		limited, cancel := context.WithTimeout(ctx, SendTimeout)
		err = c.Send(limited, &m)
		cancel()
	}
	now := c.Now()
	m.LeaseUntil = time.Time{}
	report := func() {}
	c.mu.Lock()
	if err == nil {
		if c.done, c.failing, m.SentAt, m.Error = m.ID, false, now, ""; !m.ReportedAt.IsZero() && c.Recovered != nil {
			report = c.Recovered
		}
	} else {
		if m.Error, m.Due = err.Error(), now.Add(c.wait(m.Attempts)); m.FailedAt.IsZero() {
			m.FailedAt = now
		}
		if c.reports(m, err, now) {
			m.ReportedAt, c.failing, c.reported = now, true, now
			report = func() { c.Failed(err) }
		}
	}
	c.mu.Unlock()
	if _, err := c.update(ctx, claimed, m); err == nil {
		c.look(ctx)
	}
	report()
}

// reports decides whether to call Failed. A recipient's own address is no failure of the channel: an unknown client may
// have chosen it.
func (c *Channel) reports(m Message, err error, now time.Time) bool {
	return c.Failed != nil && !c.failing && m.ReportedAt.IsZero() && m.Attempts >= c.FailedAfter &&
		(c.reported.IsZero() || now.Sub(c.reported) >= reportGap) && !errors.Is(err, ErrAddress)
}

// wait returns the time until the next attempt, up to a fifth shorter at random, so that channels of one server do not
// return together.
func (c *Channel) wait(attempts int) time.Duration {
	d := min(c.FirstRetry<<min(attempts-1, 20), c.LongestRetry)
	return d - mathrand.N(d/5+1)
}
