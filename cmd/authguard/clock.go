package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"authguard/internal/alerts"
	"authguard/internal/background"
	"authguard/internal/control"
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

// clock is the time that all nodes of a site share: Redis's, or else PostgreSQL's. Challenges, tickets, sessions,
// blocks and mode overrides carry expiry times. A node whose own clock is five minutes off would reject what others
// issue, and let in clients that they block.
//
// Between two requests it follows the monotonic clock, so setting the wall clock has no effect. A single node uses its
// machine's clock.
type clock struct {
	local   func() time.Time
	log     *slog.Logger
	sources []timeSource // the first that answers counts
	set     atomic.Pointer[moment]
	wrong   atomic.Int64 // how far this machine's clock is ahead, in nanoseconds
	changed func(wrong bool)
}

type moment struct{ theirs, ours time.Time }

type timeSource struct {
	name string
	ask  func(context.Context) (time.Time, error)
}

// Now returns the shared time.
func (c *clock) Now() time.Time {
	now := c.local()
	if at := c.set.Load(); at != nil {
		return at.theirs.Add(now.Sub(at.ours))
	}
	return now
}

func (c *clock) ahead() time.Duration { return c.Now().Sub(c.local()) }

// counting returns the clock for counters in memory; nil with one node, because their own clock is cheaper.
func (c *clock) counting() func() time.Time {
	if c.set.Load() == nil {
		return nil
	}
	return c.Now
}

// look asks for the time. It changes nothing if no source answers.
func (c *clock) look(ctx context.Context) {
	for _, source := range c.sources {
		within, cancel := context.WithTimeout(ctx, askWithin)
		before := c.local()
		theirs, err := source.ask(within)
		cancel()
		if err != nil {
			continue
		}
		round := c.local().Sub(before)
		c.adjust(source.name, moment{theirs, before.Add(round / 2)}, round)
		return
	}
}

func (c *clock) adjust(name string, at moment, round time.Duration) {
	off := at.theirs.Sub(c.Now().Add(at.ours.Sub(c.local())))
	if off.Abs() > goodEnough+round || c.set.Load() == nil {
		if c.set.Load() != nil {
			c.log.Warn("the clock was set", "by", off.Round(time.Millisecond), "of", name)
		}
		c.set.Store(&at)
	}
	// Round removes the monotonic reading, to get the wall clock's time.
	ahead := at.ours.Round(0).Sub(at.theirs)
	was := time.Duration(c.wrong.Swap(int64(ahead))).Abs() > wrongBy
	if is := ahead.Abs() > wrongBy; is != was {
		c.changed(is)
	}
}

// Run repeats look until ctx ends.
func (c *clock) Run(ctx context.Context) { background.Every(ctx, askEvery, c.look) }

const clockOff alerts.Kind = "clock-skew"

// off describes how far this machine's clock is off; empty if it is right.
func (c *clock) off() string {
	ahead := time.Duration(c.wrong.Load())
	if ahead.Abs() <= wrongBy {
		return ""
	}
	way := "ahead of"
	if ahead < 0 {
		way = "behind"
	}
	return fmt.Sprintf("this machine's clock is %v %s the clock of the shared servers", ahead.Abs().Round(time.Second),
		way)
}

func (c *clock) warn() []control.Warning {
	off := c.off()
	if off == "" {
		return nil
	}
	return []control.Warning{{
		Code: string(clockOff), Title: "This machine's clock is wrong",
		Text: "Right now " + off + ". The node uses their time for limits, challenges, blocks and sessions, but not for " +
			"its log. Synchronize it by NTP: timedatectl set-ntp true, or chrony.",
	}}
}

func (c *clock) tell(told *alerts.Alerter, node string) {
	raise := func(wrong bool) {
		if wrong {
			told.Raise(clockOff, "", "node "+node+": "+c.off()+"; the node uses the servers' time")
		}
	}
	c.changed = raise
	raise(c.off() != "")
}
