package redismode

import "time"

// Tell has a node's scripts take the time from now, as if it were Redis's.
func (s *Shared) Tell(now func() time.Time) { s.told = now }
