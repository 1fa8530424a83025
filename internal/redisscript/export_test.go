package redisscript

import "time"

// Flights is how many round trips a Bundler makes at once.
const Flights = flights

// SetClock sets the clock by which round trips are slow.
func (b *Bundler) SetClock(now func() time.Time) { b.now = now }

// Waiting is how many callers' scripts wait for a round trip to end.
func (b *Bundler) Waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiting)
}
