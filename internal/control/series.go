package control

import (
	"fmt"
	"slices"
	"time"

	"authguard/captchamode"
	"authguard/guard"
	"authguard/internal/events"
)

// Counts are what came in some time.
type Counts struct {
	Attempts int `json:"attempts"` // that were decided and, where a password was looked at, settled
	Failures int `json:"failures"` // wrong passwords
	Logins   int `json:"logins"`   // that succeeded
	Shown    int `json:"challenges_shown"`
	Solved   int `json:"challenges_solved"`
	Refused  int `json:"blocked"` // also told to wait
	Known    int `json:"known"`   // passed from a known place
}

// countsOf is what one event counts as.
func countsOf(e *guard.Event, ending events.Ending) Counts {
	c := Counts{Attempts: 1}
	switch ending {
	case events.Failed:
		c.Failures = 1
	case events.Succeeded:
		c.Logins = 1
	case events.Challenged:
		c.Shown = 1
	case events.Refused, events.Waited, events.FakeFailure:
		c.Refused = 1
	}
	if e.Reasons.Has(guard.ChallengeSolved) {
		c.Solved = 1
	}
	if e.Settled && e.Privileged {
		c.Known = 1
	}
	return c
}

// Add sums up.
func (c *Counts) Add(one Counts) {
	c.Attempts += one.Attempts
	c.Failures += one.Failures
	c.Logins += one.Logins
	c.Shown += one.Shown
	c.Solved += one.Solved
	c.Refused += one.Refused
	c.Known += one.Known
}

// A Point is one second or minute of a Series.
type Point struct {
	Start time.Time `json:"start"`
	Counts
}

// A Series is what came to this node in each second of the last hour, or each minute of
// the last day, oldest first, and the pressure on the whole site, minute by minute.
type Series struct {
	Each     time.Duration        `json:"-"`
	Points   []Point              `json:"points"`
	Pressure []captchamode.Minute `json:"failure_rate"`
	// Week is the threshold at each hour of the week, from Monday at midnight UTC on; empty
	// before an hour was seen.
	Week []captchamode.Expected `json:"week"`
}

// A Span is how far back a Series goes.
type Span string

// The spans.
const (
	LastHour Span = "hour" // a point a second
	LastDay  Span = "day"  // a point a minute
)

// Series is what came in a span. ErrAsked for a span that is none.
func (c *Control) Series(span Span) (Series, error) {
	now, tops := c.config.Now(), c.config.Tops
	minutes, week := slices.Clone(c.config.Mode.Minutes()), c.config.Mode.Week()
	tops.mu.Lock()
	defer tops.mu.Unlock()
	of := tops.in(c.config.Realm)
	of.note(minutes)
	switch span {
	case LastHour:
		return Series{time.Second, points(&of.seconds, now), minutes, week}, nil
	case LastDay:
		return Series{time.Minute, points(&of.minutes, now), of.day(now), week}, nil
	}
	return Series{}, fmt.Errorf("%w: span: must be hour or day, not %.20q", ErrAsked, string(span))
}

// A ring keeps the newest stretches of a time that is cut into equal ones. The zero
// ring is not ready: see newRing.
type ring[T any] struct {
	each  int64 // seconds
	n     int64
	slots []slot[T] // n, or none before the first stretch
}

type slot[T any] struct {
	number int64 // of the stretch, since 1970
	value  T
}

func newRing[T any](each time.Duration, n int) ring[T] {
	return ring[T]{each: int64(each / time.Second), n: int64(n)}
}

// at is the stretch of a time, begun anew with fresh if it was another's. A straggler
// whose stretch is gone counts in the one that took its place.
func (r *ring[T]) at(t time.Time, fresh func() T) *T {
	if r.slots == nil {
		r.slots = make([]slot[T], r.n)
	}
	number := t.Unix() / r.each
	one := &r.slots[number%r.n]
	if one.number < number {
		one.number, one.value = number, fresh()
	}
	return &one.value
}

// newest are the last n stretches up to now, oldest first; nil for one in which there
// was nothing.
func (r *ring[T]) newest(now time.Time, n int, each func(start time.Time, value *T)) {
	last := now.Unix() / r.each
	for number := last - int64(n) + 1; number <= last; number++ {
		var value *T
		if len(r.slots) > 0 && r.slots[number%r.n].number == number {
			value = &r.slots[number%r.n].value
		}
		each(time.Unix(number*r.each, 0), value)
	}
}

const (
	hourSeconds = 3600
	dayMinutes  = 1440
)

// A series is what a realm's Series are made of.
type series struct {
	seconds, minutes ring[Counts]
	pressure         ring[captchamode.Minute]
}

func newSeries() series {
	return series{newRing[Counts](time.Second, hourSeconds), newRing[Counts](time.Minute, dayMinutes), newRing[captchamode.Minute](time.Minute, dayMinutes)}
}

func (s *series) add(at time.Time, one Counts) {
	s.seconds.at(at, none).Add(one)
	s.minutes.at(at, none).Add(one)
}

func none() Counts { return Counts{} }

// note keeps what the mode made of each minute, for as long as the mode itself does not.
func (s *series) note(minutes []captchamode.Minute) {
	for _, m := range minutes {
		*s.pressure.at(m.Start, func() captchamode.Minute { return m }) = m
	}
}

// day is the pressure of the last day, from the first minute of which something is
// known.
func (s *series) day(now time.Time) (all []captchamode.Minute) {
	s.pressure.newest(now, dayMinutes, func(_ time.Time, m *captchamode.Minute) {
		if m != nil {
			all = append(all, *m)
		}
	})
	return all
}

func points(r *ring[Counts], now time.Time) []Point {
	all := make([]Point, 0, r.n)
	r.newest(now, int(r.n), func(start time.Time, counts *Counts) {
		one := Point{Start: start.UTC()}
		if counts != nil {
			one.Counts = *counts
		}
		all = append(all, one)
	})
	return all
}
