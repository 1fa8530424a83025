package nodes

import (
	"context"
)

// Look is one round of Run.
func (s *Store) Look(ctx context.Context) { s.probe(ctx) }

// Probe is the first half of Look: it finds Redis, and writes nothing.
func (s *Store) Probe(ctx context.Context) {
	s.Probed(s.redis.Probe(context.WithValue(ctx, probing{}, true)))
}
