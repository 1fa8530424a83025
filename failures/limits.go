package failures

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// These bounds limit the memory of one key.
const (
	// MaxLimits is the largest number of limits for one kind of subject.
	MaxLimits = 8
	// MaxFailures is the largest Failures of a Limit. A key stores the times of that many charges.
	MaxFailures = 4000
	// MaxWindow is the longest window. Times are stored as 32-bit milliseconds, which wrap around after 49 days.
	MaxWindow = 14 * 24 * time.Hour
)

// A Limit allows at most Failures charges in any closed interval of length Window.
type Limit struct {
	Failures int           // at least 1, at most MaxFailures
	Window   time.Duration // at least 1 ms, at most MaxWindow; whole milliseconds
	// Strict: while this limit is full, only strict limits determine Usage.FreeIn.
	Strict bool
}

// A Backoff delays charges exponentially. If After charges lie in the last Window, the next one is due First after
// the newest; the delay then doubles up to Max. The zero Backoff delays nothing.
type Backoff struct {
	After  int
	First  time.Duration
	Max    time.Duration
	Window time.Duration
}

// Delay returns the time that must pass between the newest of n charges and the next one.
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

// Limits are all limits and the backoff for one kind of subject. They are immutable and safe for concurrent use.
type Limits struct {
	limits  []Limit
	backoff Backoff
	keep    int               // see Keep
	retain  time.Duration     // see Retain
	size    uint8             // see sizeOf
	quiet   int               // with fewer charges, no limit is full and the backoff delays nothing
	longest uint32            // Longest, in milliseconds
	slowest uint32            // the backoff's Max, in milliseconds; 0 if there is none
	windows [MaxLimits]uint32 // of the limits, in milliseconds
}

// NewLimits validates each limit and the backoff individually. Only the caller knows whether a limit can be reached
// (R8), because that depends on the limits' actions.
func NewLimits(backoff Backoff, limits ...Limit) (*Limits, error) {
	var errs []error
	if len(limits) > MaxLimits {
		errs = append(errs, fmt.Errorf("failures: at most %d limits, not %d", MaxLimits, len(limits)))
	}
	l := &Limits{limits: limits, backoff: backoff, keep: backoff.keep(), quiet: backoff.quiet()}
	for i, r := range limits {
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
	l.retain = l.Longest()
	l.longest, l.slowest, l.size = millis(l.retain), millis(backoff.Max), sizeOf(min(l.keep, MaxFailures))
	return l, errors.Join(errs...)
}

// MustLimits is like NewLimits, but panics on an error. It is for limits that are written in code.
func MustLimits(backoff Backoff, limits ...Limit) *Limits {
	l, err := NewLimits(backoff, limits...)
	if err != nil {
		panic(err)
	}
	return l
}

// Keeping returns these limits, under which a store keeps what earlier limits of the same subjects count, too: stricter
// limits for a while forget nothing. nil: there are no earlier limits.
func (l *Limits) Keeping(earlier *Limits) *Limits {
	if earlier == nil {
		return l
	}
	both := *l
	both.keep, both.retain, both.size = max(l.keep, earlier.keep), max(l.retain, earlier.retain), max(l.size, earlier.size)
	return &both
}

// List returns the limits in the order of their Mask bits. The caller must not change the slice.
func (l *Limits) List() []Limit { return l.limits }

// Backoff returns the backoff; the zero Backoff if there is none.
func (l *Limits) Backoff() Backoff { return l.backoff }

// Longest returns the longest window, including the backoff's.
func (l *Limits) Longest() time.Duration {
	longest := l.backoff.Window
	for _, r := range l.limits {
		longest = max(longest, r.Window)
	}
	return longest
}

// Retain returns how long a charge is kept: the longest window of these limits and of earlier ones (Keeping).
func (l *Limits) Retain() time.Duration { return l.retain }

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

// keep returns how many charges the backoff needs. It includes a reserve: a charge that is taken back uncovers an
// older one, which must still be stored.
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

// quiet returns the number of charges below which the backoff delays nothing.
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
