// Command bench measures what a failed attempt costs in authguard's guard,
// beside three public rate limiters and beside the floor, what refusing a login early
// costs beside a bare handler, and what the reverse proxy costs beside a bare one and
// nginx. docs/benchmarks.md says how to read
// the numbers.
//
// It is a module of its own, so that the rivals never become dependencies of
// authguard.
package main
