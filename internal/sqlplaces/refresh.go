package sqlplaces

import (
	"context"
	"fmt"
	"time"

	"authguard/internal/sqltx"
	"authguard/trusted"
)

// overlap is how far back Refresh looks again: a row is stamped when its change
// begins, by the clock of its node, but becomes visible only when it is
// committed. Nodes' clocks may differ by as much.
const overlap = time.Minute

// Refresh reads what other nodes have changed since it last looked. Rows that
// memory agrees with, this node's own among them, cost nothing beyond the one
// query. Call it whenever changes.Places has a new number; an account that
// cannot be read keeps what memory says.
func (s *Store) Refresh(ctx context.Context) error {
	now := s.config.Now().UnixMilli()
	since := min(s.seen.Load(), now) - overlap.Milliseconds()
	changed := make(map[trusted.Key]bool)
	err := s.each(ctx, selectChanged, []any{since}, func(account trusted.Key, e trusted.Entry) {
		if !s.knows(account, e) {
			changed[account] = true
		}
	})
	if err != nil {
		return err
	}
	for account := range changed {
		if err := s.reload(ctx, account); err != nil {
			return err
		}
	}
	s.seen.Store(now)
	return nil
}

// knows reports whether memory agrees with a row. For the row of a reset it
// says no: that is also written when single places go, and is rare.
func (s *Store) knows(account trusted.Key, row trusted.Entry) bool {
	record := s.shard(account).get(account)
	if record == nil || row.Place == (trusted.Key{}) {
		return record == nil && !s.whole.Load()
	}
	e := find(record, row.Place)
	return e != nil && e.Status == row.Status && e.Last >= row.Last
}

// reload replaces a record by what the tables say, except for what has not been
// written yet: uses less than an hour after the last one, and places spent
// while the database was away.
func (s *Store) reload(ctx context.Context, account trusted.Key) error {
	sh := s.shard(account)
	sh.change.Lock()
	defer sh.change.Unlock()
	known := sh.get(account)
	if known == nil && !s.whole.Load() {
		return nil
	}
	record, err := s.read(ctx, account)
	if err != nil {
		return err
	}
	for i := 0; known != nil && i < len(record.Entries); i++ {
		e := &record.Entries[i]
		switch was := find(known, e.Place); {
		case was != nil && was.Saved == 0:
			*e = *was
		case was != nil && was.Status == e.Status:
			e.Last = max(e.Last, was.Last)
		}
	}
	s.publish(sh, account, &record)
	return nil
}

// Purge deletes places that were not used for their time to live, and resets so
// old that no device cookie can be older. It returns how many rows it deleted.
// Call it now and then.
func (s *Store) Purge(ctx context.Context) (rows int64, err error) {
	now := s.config.Now()
	expired := now.Add(-s.config.Limits.TTL).UnixMilli()
	for _, one := range []statement{
		{`DELETE FROM places WHERE last_used <= $1`, []any{expired}},
		{`DELETE FROM place_resets WHERE reset_at <= $1 AND changed_at < $2`, []any{expired, now.Add(-saveEvery).UnixMilli()}},
	} {
		n, err := sqltx.Exec(ctx, s.config.DB, one.query, one.args...)
		if err != nil {
			return rows, fmt.Errorf("sqlplaces: purge: %w", err)
		}
		rows += n
	}
	for i := range s.shards {
		s.expire(&s.shards[i], now, expired)
	}
	return rows, nil
}

// expire frees the memory of expired places; they were strangers already.
func (s *Store) expire(sh *shard, now time.Time, expired int64) {
	sh.change.Lock()
	defer sh.change.Unlock()
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for account, record := range sh.records {
		left := record.Clone()
		left.Expire(now, s.config.Limits)
		if left.Reset <= expired {
			left.Reset = 0
		}
		if weight(&left) < weight(record) {
			s.put(sh, account, &left)
		}
	}
}
