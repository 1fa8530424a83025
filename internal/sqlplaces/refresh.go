package sqlplaces

import (
	"context"
	"fmt"

	"authguard/trusted"
)

// overlapMS is how far back Refresh looks again: a row carries the time at which
// its change began and becomes visible when it is committed. It is the clock of
// the process that made it. What was forgotten is rare and must not be missed,
// so nodes whose clocks differ by up to a minute still see it.
const (
	overlapMS      = 5_000
	forgottenForMS = 60_000
)

// Refresh takes over what other processes changed since it last looked. An
// account that it cannot read keeps what memory says. Start calls it every
// second; to know sooner what was forgotten, call it when changes.Places has a
// new number, too.
func (s *Store) Refresh(ctx context.Context) error {
	now := s.config.Now().UnixMilli()
	accounts, err := s.changedSince(ctx, min(s.seen.Load(), now))
	if err != nil {
		return err
	}
	for _, account := range accounts {
		if err := s.reload(ctx, account); err != nil {
			return err
		}
	}
	s.seen.Store(now)
	return nil
}

func (s *Store) changedSince(ctx context.Context, seen int64) (accounts []trusted.Key, err error) {
	rows, err := s.config.DB.QueryContext(ctx, `SELECT account FROM places WHERE last_used >= $1
		UNION SELECT account FROM place_resets WHERE changed_at >= $2`, seen-overlapMS, seen-forgottenForMS)
	if err != nil {
		return nil, fmt.Errorf("sqlplaces: look for changes: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, fmt.Errorf("sqlplaces: look for changes: %w", err)
		}
		account, err := parseKey(name)
		if err != nil {
			return nil, err
		}
		accounts = append(accounts, account)
	}
	return accounts, rows.Err()
}

// reload replaces a record by what the tables say, except for uses that were
// not written because the last one is less than an hour ago.
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
	keepUses(&record, known)
	s.publish(sh, account, &record)
	return nil
}

func keepUses(record, known *trusted.Record) {
	if known == nil {
		return
	}
	for i := range record.Entries {
		for _, e := range known.Entries {
			if now := &record.Entries[i]; e.Place == now.Place && e.Status == now.Status {
				now.Last = max(now.Last, e.Last)
			}
		}
	}
}
