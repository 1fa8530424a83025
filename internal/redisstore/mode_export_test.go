package redisstore

import "time"

// Tell has a node's scripts take the time from now, as if it were Redis's.
func (m *Mode) Tell(now func() time.Time) { m.now = now }
