package nodes

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"authguard/internal/background"
	"authguard/internal/times"
)

const (
	// askEvery is the interval between time requests; the clocks drift apart by milliseconds meanwhile.
	askEvery  = 10 * time.Second
	askWithin = 2 * time.Second
	// goodEnough is the tolerated difference: smaller ones may be network latency.
	goodEnough = 100 * time.Millisecond
	// wrongBy is the error of this machine's clock that triggers an alert.
	wrongBy = 5 * time.Second
)

// Clock is the time that all nodes of a site share: Redis's, or else PostgreSQL's. Challenges, tickets, sessions,
// blocks and mode overrides carry expiry times. A node whose own clock is five minutes off would reject what others
// issue, and let in clients that they block.
//
// Between two requests it follows the monotonic clock, so setting the wall clock has no effect. A single node uses its
// machine's clock.
type Clock struct {
	Local   func() time.Time // this machine's; nil: time.Now
	Log     *slog.Logger
	Sources []TimeSource     // the first that answers counts; set them before Run
	OnWrong func(wrong bool) // when Off changes between empty and not; optional, set it before Run

	set   atomic.Pointer[moment]
	wrong atomic.Int64 // how far this machine's clock is ahead, in nanoseconds
}

type moment struct{ theirs, ours time.Time }

// TimeSource is a server that the nodes share.
type TimeSource struct {
	Name string
	Ask  func(context.Context) (time.Time, error)
}

func (c *Clock) local() time.Time {
	if c.Local == nil {
		return time.Now()
	}
	return c.Local()
}

// Now returns the shared time.
func (c *Clock) Now() time.Time {
	now := c.local()
	if at := c.set.Load(); at != nil {
		return at.theirs.Add(now.Sub(at.ours))
	}
	return now
}

// Ahead returns how far the shared time is ahead of this machine's.
func (c *Clock) Ahead() time.Duration { return c.Now().Sub(c.local()) }

// Counting returns the clock for counters in memory; nil with one node on time.Now, because their own clock is cheaper.
func (c *Clock) Counting() func() time.Time {
	if c.set.Load() == nil && c.Local == nil {
		return nil
	}
	return c.Now
}

// Look asks for the time. It changes nothing if no source answers.
func (c *Clock) Look(ctx context.Context) {
	for _, source := range c.Sources {
		within, cancel := context.WithTimeout(ctx, askWithin)
		before := c.local()
		theirs, err := source.Ask(within)
		cancel()
		if err != nil {
			continue
		}
		round := c.local().Sub(before)
		c.adjust(source.Name, moment{theirs, before.Add(round / 2)}, round)
		return
	}
}

func (c *Clock) adjust(name string, at moment, round time.Duration) {
	off := at.theirs.Sub(c.Now().Add(at.ours.Sub(c.local())))
	if off.Abs() > goodEnough+round || c.set.Load() == nil {
		if c.set.Load() != nil {
			c.Log.Warn("the clock was set", "by", off.Round(time.Millisecond), "of", name)
		}
		c.set.Store(&at)
	}
	// Round removes the monotonic reading, to get the wall clock's time.
	ahead := at.ours.Round(0).Sub(at.theirs)
	was := time.Duration(c.wrong.Swap(int64(ahead))).Abs() > wrongBy
	if is := ahead.Abs() > wrongBy; is != was && c.OnWrong != nil {
		c.OnWrong(is)
	}
}

// Run repeats Look until ctx ends.
func (c *Clock) Run(ctx context.Context) { background.Every(ctx, askEvery, c.Look) }

// Off describes how far this machine's clock is off; empty if it is right.
func (c *Clock) Off() string {
	ahead := time.Duration(c.wrong.Load())
	if ahead.Abs() <= wrongBy {
		return ""
	}
	way := "ahead of"
	if ahead < 0 {
		way = "behind"
	}
	return fmt.Sprintf("this machine's clock is %s %s the clock of the shared servers",
		times.FormatDuration(ahead.Abs().Round(time.Second)), way)
}
