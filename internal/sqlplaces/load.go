package sqlplaces

import (
	"context"
	"fmt"

	"authguard/trusted"
)

// load fills the cache if everything fits, and leaves it empty otherwise.
func (s *Store) load(ctx context.Context) error {
	s.seen.Store(s.config.Now().UnixMilli())
	var rows int64
	err := s.config.DB.QueryRowContext(ctx,
		`SELECT (SELECT COUNT(*) FROM places) + (SELECT COUNT(*) FROM place_resets)`).Scan(&rows)
	if err != nil {
		return fmt.Errorf("sqlplaces: count places: %w", err)
	}
	if rows > int64(s.config.Cache) {
		return nil
	}
	if err := s.loadResets(ctx); err != nil {
		return err
	}
	if err := s.loadPlaces(ctx); err != nil {
		return err
	}
	s.whole.Store(true)
	return nil
}

func (s *Store) loadResets(ctx context.Context) error {
	rows, err := s.config.DB.QueryContext(ctx, `SELECT account, reset_at FROM place_resets WHERE reset_at > 0`)
	if err != nil {
		return fmt.Errorf("sqlplaces: read resets: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		var reset int64
		if err := rows.Scan(&name, &reset); err != nil {
			return fmt.Errorf("sqlplaces: read resets: %w", err)
		}
		account, err := parseKey(name)
		if err != nil {
			return err
		}
		s.shard(account).records[account] = &trusted.Record{Reset: reset}
		s.places.Add(1)
	}
	return rows.Err()
}

// loadPlaces runs before anybody else knows the store, so it needs no locks.
func (s *Store) loadPlaces(ctx context.Context) error {
	rows, err := s.config.DB.QueryContext(ctx, selectAll)
	if err != nil {
		return fmt.Errorf("sqlplaces: read places: %w", err)
	}
	return eachPlace(rows, func(account trusted.Key, e trusted.Entry) {
		records := s.shard(account).records
		if records[account] == nil {
			records[account] = &trusted.Record{}
		}
		records[account].Entries = append(records[account].Entries, e)
		s.places.Add(1)
	})
}
