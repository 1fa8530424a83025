package guard

import (
	"sync/atomic"
	"time"
)

// A clock is time.Now for half of its price: it reads the monotonic clock, and
// the wall clock once a second. So it follows a wall clock that was set within
// a second. Safe for concurrent use.
type clock struct{ read atomic.Pointer[time.Time] }

// readAgain is how old a reading of the wall clock may be.
const readAgain = time.Second

func newClock() *clock {
	c := new(clock)
	c.again()
	return c
}

func (c *clock) now() time.Time {
	read := *c.read.Load()
	if passed := time.Since(read); passed < readAgain {
		return read.Add(passed)
	}
	return c.again()
}

func (c *clock) again() time.Time {
	now := time.Now()
	c.read.Store(&now)
	return now
}
