package sqlplaces

import (
	"context"
	"fmt"
	"time"

	"authguard/trusted"
)

// Purge deletes places that nobody used for the time to live, and resets that
// are so old that no device cookie can be older. It tells how many rows went.
func (s *Store) Purge(ctx context.Context) (rows int64, err error) {
	now := s.config.Now()
	expired := now.Add(-s.config.Limits.TTL).UnixMilli()
	for _, statement := range []struct {
		query string
		args  []any
	}{
		{`DELETE FROM places WHERE last_used <= $1`, []any{expired}},
		{`DELETE FROM place_resets WHERE reset_at <= $1 AND changed_at < $2`, []any{expired, now.Add(-saveEvery).UnixMilli()}},
	} {
		result, err := s.config.DB.ExecContext(ctx, statement.query, statement.args...)
		if err != nil {
			return rows, fmt.Errorf("sqlplaces: purge: %w", err)
		}
		n, _ := result.RowsAffected()
		rows += n
	}
	s.forgetExpired(now)
	return rows, nil
}

// forgetExpired gives the memory of expired places back; they were strangers
// already.
func (s *Store) forgetExpired(now time.Time) {
	for i := range s.shards {
		sh := &s.shards[i]
		sh.change.Lock()
		for account, record := range sh.expired(now, s.config.Limits) {
			s.publish(sh, account, record)
		}
		sh.change.Unlock()
	}
}

func (sh *shard) expired(now time.Time, limits trusted.Limits) map[trusted.Key]*trusted.Record {
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	smaller := make(map[trusted.Key]*trusted.Record)
	for account, record := range sh.records {
		left := record.Clone()
		left.Expire(now, limits)
		if left.Reset <= now.Add(-limits.TTL).UnixMilli() {
			left.Reset = 0
		}
		if weight(&left) < weight(record) {
			smaller[account] = &left
		}
	}
	return smaller
}
