package replay

import (
	"cmp"
	"net/netip"
	"time"

	"authguard/guard"
)

// Defense is what a site does against brute force. It is not safe for concurrent use.
type Defense interface {
	// Advance moves the clock.
	Advance(to time.Time)
	// Try runs one attempt from start to settlement, now.
	Try(Ask) (Answer, error)
	// Mode reports whether CAPTCHA mode is on, and its failure rate and threshold now.
	Mode() (on bool, now Nearest)
}

// Ask is one attempt.
type Ask struct {
	Account string
	Address netip.Addr
	// Device identifies a browser that keeps cookies; empty: it keeps none.
	Device string
	// Client is the client fingerprint; empty: unknown.
	Client string
	// Password is the password's text; empty: unknown.
	Password string
	Right    bool // it is the right password
	Leaked   bool // it is on the site's list of leaked passwords
	Solves   bool // the client solves a challenge
	Code     bool // the client has a valid verification code
	// WithoutEmail: no verification code can be sent to the account's owner.
	WithoutEmail bool
}

// Answer is the result of an attempt.
type Answer struct {
	// Decision is the last decision. Defenses other than a Site have none.
	guard.Decision
	// Challenged: a challenge came first. It was solved if Decision is another one.
	Challenged bool
	// Checked: the password was checked.
	Checked bool
	// In: the login succeeded.
	In bool
	// Code: the owner gets in with a verification code.
	Code bool
}

// Wait returns the delay before the next attempt, at least a second; 0: none.
func (a *Answer) Wait() time.Duration {
	if a.Action != guard.Delay {
		return 0
	}
	return max(a.RetryAfter, time.Second)
}

// Engine runs attempts in the order of their times, those of the same time in the order in which they were added. It
// is not safe for concurrent use.
type Engine[A any] struct {
	Defense
	Series
	Now   time.Time
	queue *Heap[queued[A]]
	added int
}

type queued[A any] struct {
	at      time.Time
	order   int
	attempt A
}

// NewEngine returns an engine with its clock at start, and a series of buckets of this width.
func NewEngine[A any](d Defense, start time.Time, width time.Duration) Engine[A] {
	d.Advance(start)
	return Engine[A]{Defense: d, Series: Series{start: start.Truncate(width), width: width}, Now: start,
		queue: NewHeap(func(a, b *queued[A]) bool {
			return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.order, b.order)) < 0
		})}
}

// Add adds an attempt.
func (e *Engine[A]) Add(at time.Time, a A) {
	e.queue.Push(queued[A]{at, e.added, a})
	e.added++
}

// Until runs all attempts before end, each by try, which must advance the clock and may add others.
func (e *Engine[A]) Until(end time.Time, try func(at time.Time, a A) error) error {
	for e.queue.Len() > 0 && e.queue.First().at.Before(end) {
		next := e.queue.Pop()
		if err := try(next.at, next.attempt); err != nil {
			return err
		}
	}
	return nil
}

// Advance moves the clock, never backwards.
func (e *Engine[A]) Advance(to time.Time) {
	if to.After(e.Now) {
		e.Now = to
		e.Defense.Advance(to)
	}
}

// Sample records whether CAPTCHA mode is on, its failure rate and its threshold.
func (e *Engine[A]) Sample(at time.Time) (on bool) {
	on, now := e.Mode()
	e.Level(at, on)
	e.Pressure(at, now)
	return on
}
