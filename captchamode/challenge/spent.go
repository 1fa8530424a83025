package challenge

import (
	"context"
	"time"
)

// Spent remembers which challenges were used up, until they would have
// expired anyway. Methods are safe for concurrent use. The suite in
// captchamode/challenge/challengetest says what is expected of one.
type Spent interface {
	// Spend uses up an ID and tells whether this call was the first to do so:
	// of any number of calls, on any node, at most one hears true. until is
	// when the ID expires, the same in every call for one ID; from then on
	// nobody hears true. An error means that nobody knows, and the ID may be
	// spent; the caller takes it for no.
	Spend(ctx context.Context, id [16]byte, until time.Time) (first bool, err error)
	// Seen tells whether an ID has been spent, and spends nothing. After
	// until it may say either.
	Seen(ctx context.Context, id [16]byte, until time.Time) (bool, error)
}

// A Forgetful store loses what it knows when its process ends, and knows
// nothing of other processes. Challenges are sealed with its epoch, which no
// two such stores share: what was issued over one is unknown over the next,
// and so nothing can be solved again after a restart, or on another node.
type Forgetful interface {
	// Epoch is drawn at random when the store is made.
	Epoch() [16]byte
}

func epochOf(spent Spent) [16]byte {
	if forgetful, ok := spent.(Forgetful); ok {
		return forgetful.Epoch()
	}
	return [16]byte{}
}
