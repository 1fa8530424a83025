package alerts

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	sendTimeout  = 15 * time.Second
	firstRetry   = time.Second
	longestRetry = 5 * time.Minute
)

// A sender sends one message. It returns when the context is done at the
// latest. Its errors must not hold secrets.
type sender interface {
	send(ctx context.Context, m Message) error
}

// A channel tells one place. While it cannot, everything waits in its digest
// and is told together later.
type channel struct {
	label  string // fit for logs
	sender sender
	logger *slog.Logger

	mu      sync.Mutex
	name    string
	window  time.Duration
	digest  digest
	ceiling ceiling
	held    map[uint64]bool // alerts that had to wait for the ceiling
	backoff time.Duration   // after the last try; 0 if it worked
	retryAt time.Time
	stats   channelStats

	wake       chan struct{}
	quit, done chan struct{}
	ctx        context.Context
	cancel     context.CancelFunc
}

type channelStats struct{ sent, failed uint64 }

func newChannel(label string, s sender, cfg Config, logger *slog.Logger) *channel {
	c := &channel{
		label: label, sender: s, logger: logger,
		wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{}),
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.configure(cfg)
	return c
}

// configure takes new numbers over while the channel runs.
func (c *channel) configure(cfg Config) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.name, c.window, c.ceiling.perHour = titleText(cfg.Name), cfg.Bundle, cfg.PerHour
	if extra := len(c.ceiling.sent) - cfg.PerHour; extra > 0 {
		c.ceiling.sent = c.ceiling.sent[extra:]
	}
	c.poke()
}

func (c *channel) add(a alert) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.digest.add(a)
	c.poke()
}

func (c *channel) take(other digest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.digest.merge(other)
	c.poke()
}

func (c *channel) poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *channel) run() {
	defer close(c.done)
	defer c.cancel()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if at, any := c.next(time.Now()); any {
			timer.Reset(time.Until(at))
		} else {
			timer.Stop()
		}
		select {
		case <-c.wake:
		case <-timer.C:
			c.try()
		case <-c.quit:
			return
		}
	}
}

// next is when to try to send; false if there is nothing to tell.
func (c *channel) next(now time.Time) (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.digest.len() == 0 {
		return time.Time{}, false
	}
	due := c.digest.due(c.window)
	free := c.ceiling.next(c.digest.important())
	if free.After(due) && free.After(now) {
		c.hold()
	}
	return latest(due, free, c.retryAt), true
}

func latest(times ...time.Time) (last time.Time) {
	for _, t := range times {
		if t.After(last) {
			last = t
		}
	}
	return last
}

// hold notes which alerts the ceiling delays. The caller holds the lock.
func (c *channel) hold() {
	if c.held == nil {
		c.held = make(map[uint64]bool)
	}
	for _, a := range c.digest.kept {
		c.held[a.id] = true
	}
}

func (c *channel) try() {
	c.mu.Lock()
	batch := c.digest.snapshot()
	message := batch.message(c.name, c.ceiling.note(len(c.held)))
	c.mu.Unlock()
	if batch.len() == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(c.ctx, sendTimeout)
	defer cancel()
	if err := c.sender.send(ctx, message); err != nil {
		c.failed(err)
		return
	}
	c.delivered(batch)
}

func (c *channel) failed(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.failed++
	c.backoff = min(max(2*c.backoff, firstRetry), longestRetry)
	c.retryAt = time.Now().Add(c.backoff)
	c.logger.Error("alert not sent", "channel", c.label, "error", err, "waiting", c.digest.len(), "retry_in", c.backoff)
}

func (c *channel) delivered(batch digest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.digest.delivered(batch)
	c.ceiling.took(time.Now())
	c.held = nil
	c.backoff, c.retryAt = 0, time.Time{}
	c.stats.sent++
	c.logger.Info("alert sent", "channel", c.label, "alerts", batch.len())
}

// stop ends the goroutine and returns what the channel had not told.
func (c *channel) stop(ctx context.Context) digest {
	defer context.AfterFunc(ctx, c.cancel)()
	close(c.quit)
	<-c.done
	return c.rest()
}

// rest is what the channel has still to tell.
func (c *channel) rest() digest {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.digest.snapshot()
}

// last tries once more, without window, ceiling or pause.
func (c *channel) last(ctx context.Context, rest digest) digest {
	if rest.len() == 0 {
		return rest
	}
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	if err := c.sender.send(ctx, rest.message(c.name, "")); err != nil {
		c.failed(err)
		return rest
	}
	c.delivered(rest)
	return digest{}
}
