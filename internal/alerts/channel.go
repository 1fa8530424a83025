package alerts

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

const (
	sendTimeout  = 15 * time.Second
	firstRetry   = time.Second
	longestRetry = 5 * time.Minute
	// lastWords is how long a channel may still send when the process ends.
	lastWords = 5 * time.Second
	idle      = time.Hour

	// deadAfter is how many tries in a row fail before the other channels are told:
	// the third is seconds after the first.
	deadAfter = 3
	// deadQuiet keeps a channel that comes and goes from filling the others.
	deadQuiet = time.Hour
)

// A sender sends one message. It returns when the context is done at the
// latest. Its errors must not hold secrets.
type sender interface {
	send(ctx context.Context, m message) error
}

// A channel sends to one address. While that fails, alerts wait in its digest
// and go out together later.
type channel struct {
	url    string
	label  string // stands for the URL in logs
	sender sender
	logger *slog.Logger
	wake   chan struct{}
	life   context.Context // ends when the channel is closed
	cancel context.CancelFunc

	running bool // guarded by the Alerter's lock

	mu      sync.Mutex
	window  time.Duration
	digest  digest
	ceiling ceiling
	heldTo  uint64        // the last alert that had to wait for the ceiling
	backoff time.Duration // after the last try; 0 if it worked
	retryAt time.Time
	failing int       // tries in a row
	since   time.Time // the first of them
	why     error
	told    bool      // the others know that it is dead
	toldAt  time.Time // when they were last told so
	edge    func(c *channel, dead error)
}

// newChannel makes a channel. edge is told when it is dead, and with nil when it
// works again, without any lock held.
func newChannel(url, label string, s sender, logger *slog.Logger, edge func(c *channel, dead error)) *channel {
	c := &channel{url: url, label: label, sender: s, logger: logger, wake: make(chan struct{}, 1), edge: edge}
	c.life, c.cancel = context.WithCancel(context.Background())
	return c
}

// configure adopts new numbers, even while the channel runs.
func (c *channel) configure(cfg Config) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.window, c.ceiling.perHour = cfg.Bundle, cfg.PerHour
	c.ceiling.trim()
	poke(c.wake)
}

func (c *channel) add(a alert) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.digest.add(a)
	poke(c.wake)
}

// close ends the channel, even while it is sending, and returns its backlog.
func (c *channel) close() digest {
	c.cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	rest := c.digest
	c.digest = digest{}
	return rest
}

// poke wakes the goroutine that waits for wake, now or at its next wait.
func poke(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// run sends until the channel is closed or ctx ends. Then it tries once more
// and logs what it could not deliver.
func (c *channel) run(ctx context.Context) {
	defer c.cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(lastWords, c.cancel) })()
	for ctx.Err() == nil && c.life.Err() == nil {
		select {
		case <-c.wake:
		case <-time.After(c.pause()):
			c.try()
		case <-c.life.Done():
		case <-ctx.Done():
		}
	}
	c.try()
	c.lose()
}

// pause is how long to wait before the next try.
func (c *channel) pause() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.digest.len() == 0 {
		return idle
	}
	due, free := c.digest.due(c.window), c.ceiling.next(c.digest.important())
	if n := len(c.digest.kept); n > 0 && free.After(due) && free.After(time.Now()) {
		c.heldTo = c.digest.kept[n-1].id
	}
	return time.Until(slices.MaxFunc([]time.Time{due, free, c.retryAt}, time.Time.Compare))
}

// try sends the backlog, if there is any.
func (c *channel) try() {
	c.mu.Lock()
	batch := c.digest.snapshot()
	note := c.ceiling.note(batch.upTo(c.heldTo))
	c.mu.Unlock()
	if batch.len() == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(c.life, sendTimeout)
	defer cancel()
	err := c.sender.send(ctx, batch.message(note))
	if c.sent(batch, err) {
		c.edge(c, err)
	}
}

// sent notes what came of a try. It reports whether the others are to be told.
func (c *channel) sent(batch digest, err error) (tell bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		if c.failing++; c.failing == 1 {
			c.since = time.Now()
		}
		c.why = err
		c.backoff = min(max(2*c.backoff, firstRetry), longestRetry)
		c.retryAt = time.Now().Add(c.backoff)
		c.logger.Error("alert not sent", "channel", c.label, "error", err, "waiting", c.digest.len(), "retry_in", c.backoff)
		if c.told || c.failing < deadAfter || c.life.Err() != nil || !c.toldAt.IsZero() && time.Since(c.toldAt) < deadQuiet {
			return false
		}
		c.told, c.toldAt = true, time.Now()
		return true
	}
	c.digest.delivered(batch)
	c.ceiling.took(time.Now())
	c.backoff, c.retryAt = 0, time.Time{}
	c.logger.Info("alert sent", "channel", c.label, "alerts", batch.len())
	tell, c.told, c.failing, c.why = c.told, false, 0, nil
	return tell
}

// state is what the channel is like; false if its last try worked, or there was none.
func (c *channel) state() (s DeadChannel, dead bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failing == 0 {
		return s, false
	}
	return DeadChannel{Channel: c.label, Since: c.since, Tries: c.failing, Waiting: c.digest.len(), Why: c.why}, true
}

// lose logs the alerts that will never be sent.
func (c *channel) lose() {
	rest := c.close()
	for _, one := range rest.kept {
		c.logger.Error("alert lost", "channel", c.label, "kind", one.kind, "title", one.title, "raised", one.at)
	}
	for kind, n := range rest.counted {
		c.logger.Error("alert lost", "channel", c.label, "kind", kind, "count", n)
	}
}

// A ceiling limits the messages in any hour. A quarter of them is reserved for
// important ones, so that a stream of ordinary alerts cannot use it up before
// the attack ends.
type ceiling struct {
	perHour int
	sent    []time.Time // the last perHour, oldest first
}

// next is when a message may go; zero for at once.
func (c *ceiling) next(important bool) time.Time {
	room := c.perHour
	if !important {
		room -= min(c.perHour-1, max(1, c.perHour/4))
	}
	if len(c.sent) < room {
		return time.Time{}
	}
	// One nanosecond more: both ends of an hour belong to it.
	return c.sent[len(c.sent)-room].Add(time.Hour + 1)
}

func (c *ceiling) took(now time.Time) {
	c.sent = append(c.sent, now)
	c.trim()
}

func (c *ceiling) trim() {
	c.sent = slices.Delete(c.sent, 0, max(0, len(c.sent)-c.perHour))
}

// note explains to the reader why alerts come late.
func (c *ceiling) note(held int) string {
	if held == 0 {
		return ""
	}
	return fmt.Sprintf("%d of these waited: at most %d messages are sent per hour.", held, c.perHour)
}
