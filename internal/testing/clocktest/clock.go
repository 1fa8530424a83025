// Package clocktest is the clock that tests inject.
package clocktest

import (
	"sync"
	"time"
)

// A Clock stands still until a test moves it. It is safe for concurrent use.
type Clock struct {
	mu  sync.Mutex
	now time.Time
	own func() time.Time
}

// At returns a clock that stands at a time.
func At(now time.Time) *Clock { return &Clock{now: now} }

// Running returns a clock that is time.Now, for testing/synctest.
func Running() *Clock { return &Clock{own: time.Now} }

// Now is the clock's time.
func (c *Clock) Now() time.Time {
	if c.own != nil {
		return c.own()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance lets time pass.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Set sets the time.
func (c *Clock) Set(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = t
}
