package challenge

import (
	"context"
	"time"
)

// Spent remembers which challenges were used up, until they would have expired
// anyway. Methods are safe for concurrent use. Every implementation passes the
// suite in challenge/challengetest.
type Spent interface {
	// Spend uses up an ID and reports whether this call was the first to do so:
	// of any number of calls, on any node, at most one returns true until the first
	// one's until. until is when the ID expires; from then on no call returns
	// true. After an error the ID may or may not be spent, and the
	// caller must take it for no.
	Spend(ctx context.Context, id [16]byte, until time.Time) (first bool, err error)
	// Seen reports whether an ID has been spent, and spends nothing. After
	// until it may say either.
	Seen(ctx context.Context, id [16]byte, until time.Time) (bool, error)
	// Epoch is zero for a store that outlives its process and that all nodes
	// share. A store that forgets when its process ends draws one at random.
	// Challenges are sealed with it, so what was issued before a restart, or on
	// another node, is unknown after it and cannot be solved again.
	Epoch() [16]byte
	// Full is how much of its room is taken, from 0 to 1. At 1 Spend fails, and
	// nobody solves a challenge until room is free. A store whose room is its
	// server's says 0.
	Full() float64
}
