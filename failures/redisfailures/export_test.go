package redisfailures

// Fix makes the store, its scripts included, take the time from a test.
func (s *Store) Fix(millis func() int64) { s.clock.fixed = millis }
