// Package shared measures what a failed attempt costs where nodes count
// together in Redis: the whole guard over the stores that authguard serve uses,
// beside three public rate limiters, the rolling window of sorted sets, and the
// floors, which are what a trip and three counters cost at least.
//
// It starts a redis-server of its own, without persistence, and ends it.
package shared
