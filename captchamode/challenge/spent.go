package challenge

import (
	"context"
	"time"
)

// Spent stores which challenges are spent, until they expire. Methods are safe for concurrent use. Every
// implementation passes the tests in challenge/challengetest.
type Spent interface {
	// Spend spends an ID and reports whether this call was the first. Of concurrent calls on all nodes, at most one
	// returns true. The ID expires at until; from then on, no call returns true. After an error, the ID may or may not
	// be spent, and the caller must treat it as not first.
	Spend(ctx context.Context, id [16]byte, until time.Time) (first bool, err error)
	// Seen reports whether an ID is spent, without spending it. After until, the result is undefined.
	Seen(ctx context.Context, id [16]byte, until time.Time) (bool, error)
	// Take removes an ID and reports whether it was there. Of concurrent calls on all nodes, at most one returns true. It
	// may find an ID up to a minute after until.
	Take(ctx context.Context, id [16]byte) (bool, error)
	// Epoch is zero for a persistent store that all nodes share. Other stores draw a random one. Challenges are sealed
	// with it: after a restart, or on another node, they are unknown and cannot be solved again.
	Epoch() [16]byte
	// Full is the used part of the store, from 0 to 1. At 1, Spend fails and no challenge can be solved. It is 0 for a
	// store whose size only its server limits.
	Full() float64
}
