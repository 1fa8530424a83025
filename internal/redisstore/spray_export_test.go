package redisstore

import "authguard/failures"

// Missed has the next Share count a miss, or take it back.
func (s *Store) Missed(accounts int, m failures.Miss, back bool) {
	s.misses.add(accounts, report{m, back})
}
