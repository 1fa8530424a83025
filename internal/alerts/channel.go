package alerts

import (
	"context"
	"crypto/rand"
	"log/slog"
	"slices"
	"sync"
	"time"
)

const (
	sendTimeout = 15 * time.Second
	// lastWords limits sending at the end of the process.
	lastWords = 5 * time.Second
	// keepEvery is the interval between writes to the outbox, one transaction a second. Urgent alerts do not wait.
	keepEvery = time.Second
	// lookEvery is the interval of checks for messages that another node left. touchEvery refreshes a channel's row;
	// without that for leftAfter, the channel counts as removed.
	lookEvery  = 10 * time.Second
	touchEvery = 30 * time.Second
	leftAfter  = 2 * time.Minute
)

// A sender sends one message. It returns at the latest when the context is done. Its errors must not contain secrets.
type sender interface {
	send(ctx context.Context, m message) error
}

// A channel sends the alerts of its shelf (its row in the outbox) to one address. Only one node sends at a time. While
// the outbox is unavailable, this node sends its alerts from bounded memory: one of them is about the database.
type channel struct {
	id     string // in the outbox
	node   string
	box    outbox
	now    func() time.Time
	logger *slog.Logger
	wake   chan struct{}
	life   context.Context // ends when the channel is closed
	cancel context.CancelFunc
	edge   func(c *channel, dead string)
	gone   func() // called after run, with everything in the outbox

	running bool      // guarded by the Alerter's lock
	made    time.Time // when this process created it

	delivery
}

// A delivery is what a channel has to deliver and where.
type delivery struct {
	mu      sync.Mutex
	label   string // replaces the address in logs
	kinds   []Kind // to deliver; empty: all
	sender  sender
	rules   rules
	local   shelf     // not in the outbox yet
	seen    shelf     // the outbox as last read
	keptAt  time.Time // last write of local
	touched time.Time
	done    string // ID of the last delivered message
	closed  bool   // removed from the configuration
	away    error  // why the outbox is unavailable
}

func (c *channel) configure(r rules, t target, s sender) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rules, c.kinds, c.label, c.sender = r, t.kinds, t.label, s
	poke(c.wake)
}

func (c *channel) inherit(from shelf) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.local.absorb(from)
	poke(c.wake)
}

func (c *channel) add(a Alert) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.kinds) == 0 || slices.Contains(c.kinds, a.Kind) {
		c.local.Waiting.add(a)
		poke(c.wake)
	}
}

func (c *channel) name() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.label
}

// poke wakes the goroutine that waits for wake, now or at its next wait.
func poke(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// run sends until the channel is closed or ctx ends, then once more what is due. The rest stays in the outbox.
func (c *channel) run(ctx context.Context) {
	defer c.gone()
	defer c.cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(lastWords, c.cancel) })()
	for ctx.Err() == nil && c.life.Err() == nil {
		select {
		case <-c.wake:
		case <-time.After(c.pause()):
			c.step()
		case <-c.life.Done():
		case <-ctx.Done():
		}
	}
	c.end()
}

func (c *channel) pause() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	at := now.Add(lookEvery)
	earlier := func(t time.Time) {
		if !t.IsZero() && t.Before(at) {
			at = t
		}
	}
	if c.away == nil {
		earlier(c.seen.next(c.rules, now))
	} else {
		earlier(c.local.next(c.rules, now))
		earlier(c.keptAt.Add(lookEvery / 2)) // is it back?
	}
	if c.away == nil && c.local.len() > 0 {
		if earlier(c.keptAt.Add(keepEvery)); c.local.Waiting.has(Kind.atOnce) {
			at = now
		}
	}
	return max(0, at.Sub(now))
}

// step writes this node's alerts to the outbox and tries the message that is due.
func (c *channel) step() {
	c.mu.Lock()
	fresh, r := c.local, c.rules
	c.local = shelf{}
	c.keptAt = c.now()
	idle := fresh.empty() && c.away == nil && c.now().Sub(c.touched) < touchEvery
	c.mu.Unlock()
	if idle && !c.due() {
		return
	}
	var open *sealed
	err := c.change(func(s *shelf) {
		s.absorb(fresh)
		open = s.take(r, c.now(), c.node, newID())
	})
	if err != nil {
		c.mu.Lock()
		fresh.absorb(c.local)
		c.local = fresh
		c.local.absorb(shelf{Sent: c.seen.Sent}) // the hourly maximum covers both
		open = c.local.take(r, c.now(), c.node, newID())
		c.mu.Unlock()
	}
	if open != nil {
		c.try(open)
	}
}

// due reads the outbox and reports whether it has something to do.
func (c *channel) due() bool {
	s, err := c.box.look(c.life, c.id)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		return true
	}
	c.seen = s
	at := s.next(c.rules, c.now())
	return !at.IsZero() && !at.After(c.now())
}

// change changes the shelf in the outbox and notes whether the outbox is available.
func (c *channel) change(do func(*shelf)) error {
	var now shelf
	// A closed channel or ending process must still save its alerts.
	err := c.box.change(context.WithoutCancel(c.life), c.id, func(s *shelf) {
		do(s)
		now = s.copy()
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		if c.away != nil {
			c.logger.Info("alerts are saved to the database again", "channel", c.label)
		}
		c.seen, c.touched = now, c.now()
	} else if c.away == nil {
		c.logger.Error("alerts cannot be saved to the database: they wait in memory", "channel", c.label, "error", err)
	}
	c.away = err
	return err
}

func (c *channel) try(open *sealed) {
	c.mu.Lock()
	known, to := open.ID == c.done, c.sender // known: delivered, but not recorded
	c.mu.Unlock()
	var err error
	if !known {
		ctx, cancel := context.WithTimeout(c.life, sendTimeout)
		err = to.send(ctx, open.message())
		cancel()
	}
	tell := false
	settled := func(s *shelf, r rules) {
		if s.Open != nil && s.Open.ID == open.ID {
			tell = s.settle(r, c.now(), err)
		}
	}
	c.mu.Lock()
	r, here := c.rules, c.local.Open != nil && c.local.Open.ID == open.ID
	if err == nil {
		c.done = open.ID
	}
	if here {
		settled(&c.local, r)
	}
	state := c.seen
	c.mu.Unlock()
	if !here {
		_ = c.change(func(s *shelf) { settled(s, r); state = s.copy() })
	}
	c.report(open, err, state, tell)
}

// report logs the outcome and notifies about a failed or recovered channel.
func (c *channel) report(open *sealed, err error, now shelf, tell bool) {
	n := open.What.len()
	if err == nil {
		c.logger.Info("alert sent", "channel", c.name(), "alerts", n)
	} else {
		c.logger.Error("alert not sent", "channel", c.name(), "error", err, "waiting", now.len(), "retry_in", now.Backoff)
	}
	if !tell || c.life.Err() != nil {
		return
	}
	if err == nil {
		c.edge(c, "")
		return
	}
	c.edge(c, err.Error())
}

// close ends the channel, even while it is sending.
func (c *channel) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
}

// end saves this node's alerts to the outbox and tries what is due once more.
func (c *channel) end() {
	c.mu.Lock()
	c.rules.window = 0
	c.keptAt, c.touched = time.Time{}, time.Time{}
	fresh, closed := c.local, c.closed
	c.mu.Unlock()
	if !closed {
		c.step()
		c.lose()
		return
	}
	if c.change(func(s *shelf) { s.absorb(fresh) }) != nil {
		c.lose()
	}
}

// lose logs the alerts that exist only in memory and cannot be sent.
func (c *channel) lose() {
	c.mu.Lock()
	rest := c.local
	c.mu.Unlock()
	if _, ends := c.box.(*memoryBox); ends {
		rest, _ = c.box.look(context.Background(), c.id)
	}
	if rest.Open != nil {
		rest.Waiting.merge(rest.Open.What)
	}
	for _, one := range rest.Waiting.Kept {
		c.logger.Error("alert lost", "channel", c.name(), "kind", one.Kind, "title", one.Title, "raised", one.At)
	}
	for kind, n := range rest.Waiting.Counted {
		c.logger.Error("alert lost", "channel", c.name(), "kind", kind, "count", n)
	}
}

// state returns the channel as this node last saw it.
func (c *channel) state() Channel {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.seen.copy()
	if c.away != nil && c.local.Failing > 0 {
		all.Failing, all.Since, all.Why = c.local.Failing, c.local.Since, c.local.Why
	}
	local := c.local.copy()
	all.absorb(local)
	s := all.state(c.rules, c.now())
	s.Name, s.Kinds = c.label, c.kinds
	return s
}

func newID() string { return "msg_" + rand.Text() }
