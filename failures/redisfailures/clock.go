package redisfailures

import (
	"sync/atomic"
	"time"
)

// A clock is what a node knows of Redis's time.
type clock struct {
	started time.Time
	offset  atomic.Int64 // Redis's Unix milliseconds less the node's; 0: not known
	fixed   func() int64 // a test's time in ms
}

func (c *clock) local() int64 { return time.Since(c.started).Milliseconds() }

// propose is the moment for all scripts of one call.
func (c *clock) propose() int64 {
	if c.fixed != nil {
		return -c.fixed()
	}
	if offset := c.offset.Load(); offset != 0 {
		return c.local() + offset
	}
	return 0
}

// now is Redis's time as far as it is known; before the first answer the
// node's own.
func (c *clock) now() int64 {
	if c.fixed != nil {
		return c.fixed()
	}
	if offset := c.offset.Load(); offset != 0 {
		return c.local() + offset
	}
	return time.Now().UnixMilli()
}

// heard learns from an answer that was asked for and came at these times of
// the node's. One that took long says little.
func (c *clock) heard(asked, came, redis int64) {
	if came-asked <= 20 || c.offset.Load() == 0 {
		c.offset.Store(redis - (asked+came)/2)
	}
}
