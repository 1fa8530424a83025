package redisscript

import "time"

// SetClock sets the clock by which round trips are slow.
func (b *Bundler) SetClock(now func() time.Time) { b.now = now }
