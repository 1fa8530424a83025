// Package shared measures attempts that several nodes count together in Redis: the whole guard with the
// stores of authguard serve, beside three public rate limiters, sliding windows in sorted sets, and
// lower bounds for a round trip and for three counters.
//
// It starts a redis-server without persistence, and stops it afterwards.
package shared
