package failures

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Limits of what a ladder may ask for. They bound the memory of one key.
const (
	// MaxLimits is the largest number of rungs on one ladder.
	MaxLimits = 8
	// MaxFailures is the largest number of failures that one rung may count:
	// a key keeps the moments of that many.
	MaxFailures = 4000
	// MaxWindow is the longest window. Moments are kept as 32-bit
	// milliseconds, which turn over after 49 days.
	MaxWindow = 14 * 24 * time.Hour
)

// A Limit allows at most Failures charges in any closed interval of length
// Window.
type Limit struct {
	Failures int           // at least 1, at most MaxFailures
	Window   time.Duration // at least 1 ms, at most MaxWindow; whole milliseconds
	// Strict says that nothing else matters while the rung is full: see
	// Usage.FreeIn.
	Strict bool
}

// A Backoff spreads charges out: once After of them lie in the last Window, the
// next one is due First after the newest, then twice that, up to Max. The zero
// Backoff asks for nothing.
type Backoff struct {
	After  int
	First  time.Duration
	Max    time.Duration
	Window time.Duration
}

// Delay is how long after the newest of n charges the next one is due.
func (p Backoff) Delay(n int) time.Duration {
	if p.First <= 0 || n < p.After {
		return 0
	}
	d := p.First
	for i := p.After; i < n && d < p.Max; i++ {
		d *= 2
	}
	return min(d, p.Max)
}

// A Limits is every rule on one kind of subject: rungs, short and high first,
// then longer and lower in rate, and a backoff. It is immutable and safe for
// concurrent use.
type Limits struct {
	limits  []Limit
	backoff Backoff
	keep    int               // the newest moments that are enough for every rung
	size    uint8             // see sizeOf
	quiet   int               // with fewer charges than that no rung is full, and no backoff asks for time
	longest uint32            // Longest, in milliseconds
	slowest uint32            // the backoff's Max, in milliseconds; 0 if there is none
	windows [MaxLimits]uint32 // of the rungs, in milliseconds
}

// NewLimits checks the rungs and the backoff by themselves. Whether a rung can
// ever be reached depends on what a full rung does, which is not known here.
func NewLimits(backoff Backoff, rungs ...Limit) (*Limits, error) {
	var errs []error
	if len(rungs) > MaxLimits {
		errs = append(errs, fmt.Errorf("failures: at most %d limits, not %d", MaxLimits, len(rungs)))
	}
	l := &Limits{limits: rungs, backoff: backoff, keep: backoff.keep(), quiet: backoff.quiet()}
	for i, r := range rungs {
		if err := r.validate(); err != nil {
			errs = append(errs, fmt.Errorf("failures: limit %d: %w", i, err))
		}
		l.keep = max(l.keep, r.Failures)
		l.quiet = min(l.quiet, r.Failures)
		if i < MaxLimits {
			l.windows[i] = millis(r.Window)
		}
	}
	if err := backoff.validate(); err != nil {
		errs = append(errs, fmt.Errorf("failures: backoff: %w", err))
	}
	l.longest, l.slowest, l.size = millis(l.Longest()), millis(backoff.Max), sizeOf(min(l.keep, MaxFailures))
	return l, errors.Join(errs...)
}

// MustLimits is NewLimits for ladders written in code; it panics where
// NewLimits returns an error.
func MustLimits(backoff Backoff, rungs ...Limit) *Limits {
	l, err := NewLimits(backoff, rungs...)
	if err != nil {
		panic(err)
	}
	return l
}

// List returns the ladder's rungs in order. The caller must not change them.
func (l *Limits) List() []Limit { return l.limits }

// Backoff returns the ladder's backoff; the zero Backoff if it has none.
func (l *Limits) Backoff() Backoff { return l.backoff }

// Longest is the longest window on the ladder, the backoff's included.
func (l *Limits) Longest() time.Duration {
	longest := l.backoff.Window
	for _, r := range l.limits {
		longest = max(longest, r.Window)
	}
	return longest
}

func (r Limit) validate() error {
	var errs []error
	if r.Failures < 1 || r.Failures > MaxFailures {
		errs = append(errs, fmt.Errorf("failures must be from 1 to %d, not %d", MaxFailures, r.Failures))
	}
	return errors.Join(append(errs, validWindow("window", r.Window))...)
}

func (p Backoff) validate() error {
	if p == (Backoff{}) {
		return nil
	}
	var errs []error
	if p.After < 1 || p.After > MaxFailures/2 {
		errs = append(errs, fmt.Errorf("after must be from 1 to %d, not %d", MaxFailures/2, p.After))
	}
	if p.First < time.Millisecond || p.Max < p.First {
		errs = append(errs, fmt.Errorf("first (%v) must be at least 1ms and at most max (%v)", p.First, p.Max))
	}
	if p.Max > p.Window {
		errs = append(errs, fmt.Errorf("max (%v) must not be longer than the window (%v)", p.Max, p.Window))
	}
	return errors.Join(append(errs, validWindow("window", p.Window))...)
}

// keep is how many moments the longest delay is computed from, and some to spare:
// each charge that is taken back uncovers an older one, which must still be there.
func (p Backoff) keep() int {
	if p.First <= 0 {
		return 0
	}
	n := p.After
	for p.Delay(n) < p.Max && n < MaxFailures/2 {
		n++
	}
	return n + p.After + 8
}

// quiet is how many charges a backoff minds at least.
func (p Backoff) quiet() int {
	if p.First <= 0 {
		return math.MaxInt
	}
	return p.After
}

func validWindow(what string, w time.Duration) error {
	if w < time.Millisecond || w > MaxWindow {
		return fmt.Errorf("%s must be from 1ms to %v, not %v", what, MaxWindow, w)
	}
	if w%time.Millisecond != 0 {
		return fmt.Errorf("%s must be in whole milliseconds, not %v", what, w)
	}
	return nil
}
