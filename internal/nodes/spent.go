package nodes

import (
	"context"
	"time"

	"authguard/captchamode/challenge"
)

// Spent stores used challenges, or settled tickets, for all nodes, and while Redis is unavailable
// for this node. A challenge can then be used once at each node.
type Spent struct {
	// Strict makes Seen fail if Redis does not answer. Otherwise this node's own IDs decide.
	Strict bool
	shared challenge.Spent
	own    *challenge.MemorySpent
}

var _ challenge.Spent = (*Spent)(nil)

// NewSpent returns a store with this clock; nil is time.Now.
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

// Take implements challenge.Spent.
func (s *Spent) Take(ctx context.Context, id [16]byte) (bool, error) {
	here, err := s.own.Take(ctx, id)
	taken, failed := s.shared.Take(ctx, id)
	if failed != nil && ctx.Err() == nil {
		return here, err
	}
	return taken, failed
}

// Full implements challenge.Spent: this node's own IDs are bounded.
func (s *Spent) Full() float64 { return max(s.own.Full(), s.shared.Full()) }

// Epoch implements challenge.Spent: Redis has what this node forgets.
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
