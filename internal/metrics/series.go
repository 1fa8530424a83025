package metrics

import (
	"fmt"
	"slices"
	"time"

	"authguard/captchamode"
	"authguard/guard"
	"authguard/internal/events"
	"authguard/internal/operation"
	"authguard/internal/times"
)

// Counts are the attempts in a period.
type Counts struct {
	Attempts int `json:"attempts"` // decided and, after a password check, settled
	Failures int `json:"failures"` // wrong passwords
	Logins   int `json:"logins"`   // successful
	Shown    int `json:"challenges_shown"`
	Solved   int `json:"challenges_solved"`
	Refused  int `json:"blocked"` // or delayed
	Known    int `json:"known"`   // admitted as known clients
}

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
	if e.Settled && e.Known {
		c.Known = 1
	}
	return c
}

// Add adds one to c.
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

// A Series is this node's attempts per second of the last hour or per minute of the last day, oldest first. Pressure is
// the failure rate of the whole site by minute.
type Series struct {
	Each        time.Duration        `json:"-"`
	Points      []Point              `json:"points"`
	FailureRate []captchamode.Minute `json:"failure_rate"`
	// Week is the threshold at each hour of the week, from Monday 00:00 UTC; empty before the first learned hour.
	Week []captchamode.Expected `json:"week"`
}

// A Span is the period of a Series.
type Span string

// The spans, from the shortest. The first two have a point per second, the others one per minute.
const (
	LastQuarter Span = "quarter"
	LastHour    Span = "hour"
	LastSix     Span = "six-hours"
	LastDay     Span = "day"
)

// Spans returns all spans.
func Spans() []Span { return []Span{LastQuarter, LastHour, LastSix, LastDay} }

// Long returns the duration of a span; 0 for an invalid one.
func (s Span) Long() time.Duration {
	return map[Span]time.Duration{LastQuarter: 15 * time.Minute, LastHour: time.Hour, LastSix: 6 * time.Hour,
		LastDay: 24 * time.Hour}[s]
}

// Series returns the series of a span of a realm; the mode has its failure rate. The error is operation.ErrAsked for an
// invalid span.
func (t *Tops) Series(realm string, mode *captchamode.Mode, span Span, now time.Time) (Series, error) {
	minutes, week := slices.Clone(mode.Minutes()), mode.Week()
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.in(realm)
	of.note(minutes)
	switch long := span.Long(); {
	case long == 0:
		return Series{}, fmt.Errorf("%w: span: must be quarter, hour, six-hours or day, not %.20q", operation.ErrAsked,
			string(span))
	case long <= time.Hour:
		n := int(long / time.Minute)
		return Series{time.Second, points(&of.seconds, now, 60*n), minutes[max(0, len(minutes)-n-1):], week}, nil
	default:
		n := int(long / time.Minute)
		return Series{time.Minute, points(&of.minutes, now, n), of.rates(now, n), week}, nil
	}
}

const (
	hourSeconds = 3600
	dayMinutes  = 1440
)

type series struct {
	seconds, minutes times.Ring[Counts]
	failureRate      times.Ring[captchamode.Minute]
}

func newSeries() series {
	return series{times.NewRing[Counts](time.Second, hourSeconds), times.NewRing[Counts](time.Minute, dayMinutes),
		times.NewRing[captchamode.Minute](time.Minute, dayMinutes)}
}

func (s *series) add(at time.Time, one Counts) {
	s.seconds.At(at, none).Add(one)
	s.minutes.At(at, none).Add(one)
}

func none() Counts { return Counts{} }

// note stores the mode's minutes, which the mode keeps only for an hour.
func (s *series) note(minutes []captchamode.Minute) {
	for _, m := range minutes {
		*s.failureRate.At(m.Start, func() captchamode.Minute { return m }) = m
	}
}

// rates returns the failure rate of the last n minutes, from the first known minute.
func (s *series) rates(now time.Time, n int) (all []captchamode.Minute) {
	s.failureRate.Newest(now, n, func(_ time.Time, m *captchamode.Minute) {
		if m != nil {
			all = append(all, *m)
		}
	})
	return all
}

func points(r *times.Ring[Counts], now time.Time, n int) []Point {
	all := make([]Point, 0, n)
	r.Newest(now, n, func(start time.Time, counts *Counts) {
		one := Point{Start: start.UTC()}
		if counts != nil {
			one.Counts = *counts
		}
		all = append(all, one)
	})
	return all
}
