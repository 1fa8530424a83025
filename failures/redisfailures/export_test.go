package redisfailures

import "time"

// WithClock makes a store's scripts take the time from a clock.
func (o Options) WithClock(clock func() time.Time) Options {
	o.clock = clock
	return o
}
