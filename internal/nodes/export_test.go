package nodes

import (
	"context"

	"authguard/failures"
)

// Share is a node's part of the limits without Redis.
func Share(l *failures.Limits, nodes int) *failures.Limits { return divide(l, nodes) }

// Look is one round of Run.
func (s *Store) Look(ctx context.Context) { s.probe(ctx) }

// Probe is the first half of Look: it finds Redis, and writes nothing.
func (s *Store) Probe(ctx context.Context) {
	s.Probed(s.redis.Probe(context.WithValue(ctx, probing{}, true)))
}
