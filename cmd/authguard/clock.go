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
	// askEvery is how often the other clock is looked at; the two drift apart by
	// milliseconds in that time.
	askEvery  = 10 * time.Second
	askWithin = 2 * time.Second
	// goodEnough is how far the two may be apart before this one is set: what is less
	// may be the way there and back.
	goodEnough = 100 * time.Millisecond
	// wrongBy is how wrong this machine's clock may be before somebody is told.
	wrongBy = 5 * time.Second
)

// A clock is the time that all nodes of a site go by: Redis's, or without it that of
// PostgreSQL. Challenges, tickets, sessions, blocks and overrides of the mode say
// until when they are good, and each node looks at its own clock: one that is five
// minutes off would refuse what the others issue, and let in whom they block.
//
// Between two looks it follows this machine's monotonic clock, so that setting the
// wall clock changes nothing. With one node it is that machine's clock.
type clock struct {
	local   func() time.Time
	log     *slog.Logger
	sources []timeSource // the first that answers counts
	set     atomic.Pointer[moment]
	wrong   atomic.Int64 // how far this machine's clock is ahead, in nanoseconds
	changed func(wrong bool)
}

// A moment is what two clocks showed at the same time.
type moment struct{ theirs, ours time.Time }

type timeSource struct {
	name string
	ask  func(context.Context) (time.Time, error)
}

// Now is the time.
func (c *clock) Now() time.Time {
	now := c.local()
	if at := c.set.Load(); at != nil {
		return at.theirs.Add(now.Sub(at.ours))
	}
	return now
}

// ahead is how far the time is ahead of this machine's.
func (c *clock) ahead() time.Duration { return c.Now().Sub(c.local()) }

// counting is the clock for counters in memory; nil with one node: they read their
// own more cheaply.
func (c *clock) counting() func() time.Time {
	if c.set.Load() == nil {
		return nil
	}
	return c.Now
}

// look asks for the time. Nobody who answers, or nobody to ask, changes nothing.
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
	// Without the monotonic part: what the wall clock shows now.
	ahead := at.ours.Round(0).Sub(at.theirs)
	was := time.Duration(c.wrong.Swap(int64(ahead))).Abs() > wrongBy
	if is := ahead.Abs() > wrongBy; is != was {
		c.changed(is)
	}
}

// Run looks again and again until ctx ends.
func (c *clock) Run(ctx context.Context) { background.Every(ctx, askEvery, c.look) }

const clockOff alerts.Kind = "clock-skew"

// off is how far this machine's clock is off, in words; empty if it is not.
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

// warn is for the overview, and for doctor.
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

// tell has the alerts say what changes.
func (c *clock) tell(told *alerts.Alerter, node string) {
	raise := func(wrong bool) {
		if wrong {
			told.Raise(clockOff, "A machine's clock is wrong", "node "+node+": "+c.off()+"; the node uses the servers' time")
		}
	}
	c.changed = raise
	raise(c.off() != "")
}
