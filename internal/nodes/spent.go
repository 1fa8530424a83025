package nodes

import (
	"context"
	"time"

	"authguard/captchamode/challenge"
)

// Spent remembers used challenges, or settled tickets, for all nodes; while Redis
// is gone for this one only. A challenge can then be used once at each node, and
// never twice at one.
type Spent struct {
	// Strict makes Seen fail if Redis does not answer. Otherwise it goes by what
	// this node knows.
	Strict bool
	shared challenge.Spent
	own    *challenge.MemorySpent
}

var _ challenge.Spent = (*Spent)(nil)

// NewSpent makes the store. now is the clock; nil is time.Now.
func NewSpent(shared challenge.Spent, now func() time.Time) *Spent {
	return &Spent{shared: shared, own: challenge.NewMemorySpent(0, now)}
}

// Spend implements challenge.Spent.
func (s *Spent) Spend(ctx context.Context, id [16]byte, until time.Time) (bool, error) {
	first, err := s.own.Spend(ctx, id, until)
	if err != nil || !first {
		return false, err
	}
	first, err = s.shared.Spend(ctx, id, until)
	if err != nil && ctx.Err() == nil {
		return true, nil // Redis is gone, and here it is the first
	}
	return first, err
}

// Full implements challenge.Spent: what this node remembers by itself is bounded.
func (s *Spent) Full() float64 { return max(s.own.Full(), s.shared.Full()) }

// Epoch implements challenge.Spent: what this node forgets is spent in Redis.
func (s *Spent) Epoch() [16]byte { return [16]byte{} }

// Seen implements challenge.Spent.
func (s *Spent) Seen(ctx context.Context, id [16]byte, until time.Time) (bool, error) {
	if seen, err := s.own.Seen(ctx, id, until); seen || err != nil {
		return seen, err
	}
	seen, err := s.shared.Seen(ctx, id, until)
	if err != nil && ctx.Err() == nil && !s.Strict {
		return false, nil
	}
	return seen, err
}
