package sqlplaces

import (
	"context"
	"fmt"
	"time"

	"authguard/trusted"
)

// Remember implements trusted.Store. If it cannot be written, the place is not
// privileged.
func (s *Store) Remember(ctx context.Context, account, place trusted.Key, now time.Time) error {
	if account == (trusted.Key{}) || place == (trusted.Key{}) {
		return trusted.ErrNoKey
	}
	return s.change(ctx, change{account: account, now: now, apply: func(r *trusted.Record) {
		r.Remember(place, now, s.config.Limits)
	}})
}

// Spend implements trusted.Store. If it cannot be written, the place is spent
// here all the same, and the error says that other processes do not know.
func (s *Store) Spend(ctx context.Context, account, place trusted.Key, now time.Time) error {
	if account == (trusted.Key{}) || place == (trusted.Key{}) {
		return trusted.ErrNoKey
	}
	return s.change(ctx, change{account: account, now: now, stricter: true, apply: func(r *trusted.Record) {
		r.Spend(place, now, s.config.Limits)
	}})
}

// Forget implements trusted.Store. If it cannot be written, the place is
// forgotten here all the same, and the error says that the table has it still.
func (s *Store) Forget(ctx context.Context, account, place trusted.Key, now time.Time) error {
	if account == (trusted.Key{}) {
		return trusted.ErrNoKey
	}
	return s.change(ctx, change{
		account: account, now: now, stricter: true, forgets: true, place: place,
		apply: func(r *trusted.Record) { r.Forget(place, now) },
	})
}

type change struct {
	account  trusted.Key
	now      time.Time
	apply    func(*trusted.Record)
	stricter bool // believed even if it cannot be written
	// forgets: the rows of place (all of them, if zero) go whether memory
	// knows them or not; another process may just have written them.
	forgets bool
	place   trusted.Key
}

// change works on a copy, writes the difference, and publishes the copy.
func (s *Store) change(ctx context.Context, c change) error {
	sh := s.shard(c.account)
	sh.change.Lock()
	defer sh.change.Unlock()
	before, err := s.current(ctx, sh, c.account)
	if err != nil {
		return err
	}
	after := before.Clone()
	c.apply(&after)
	err = s.save(ctx, c, before, &after)
	if err == nil || c.stricter {
		s.publish(sh, c.account, &after)
	}
	if err != nil {
		return fmt.Errorf("sqlplaces: %w", err)
	}
	return nil
}

// current is an account's record, from memory if it is there. The caller
// holds sh.change.
func (s *Store) current(ctx context.Context, sh *shard, account trusted.Key) (*trusted.Record, error) {
	if record := sh.get(account); record != nil {
		return record, nil
	}
	if s.whole.Load() {
		return &trusted.Record{}, nil
	}
	record, err := s.read(ctx, account)
	return &record, err
}
