package nodes

import "context"

// Look is one round of Run.
func (s *Store) Look(ctx context.Context) { s.look(ctx) }
