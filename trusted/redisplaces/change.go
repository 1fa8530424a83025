package redisplaces

import (
	"context"
	"errors"
	"fmt"
	"time"

	"authguard/internal/redisscript"
	"authguard/trusted"
)

// replace writes a record if it is still what the writer believes, and tells
// what it is if not.
//
//	KEYS[1] record   ARGV believed, new, milliseconds to live
var replace = redisscript.New(`local now=redis.call('GET',KEYS[1]) or ''
if now~=ARGV[1] then return now end
if ARGV[2]=='' then redis.call('DEL',KEYS[1]) else redis.call('SET',KEYS[1],ARGV[2],'PX',ARGV[3]) end
return 1
`)

// contended is how often a change is tried when others keep changing the same
// account's record. Each try that fails is a change of theirs that succeeded.
const contended = 100

var errContended = errors.New("redisplaces: an account's record kept changing")

// Remember implements trusted.Store. Here and below: it holds on this node at
// once, even if Redis does not answer.
func (s *Store) Remember(ctx context.Context, account, place trusted.Key, now time.Time) error {
	if place == (trusted.Key{}) {
		return trusted.ErrNoKey
	}
	return s.believe(ctx, account, func(r *trusted.Record) (notable bool) {
		before := r.Status(place, now, s.limits)
		r.Remember(place, now, s.limits)
		return before != trusted.Privileged
	})
}

// Spend implements trusted.Store.
func (s *Store) Spend(ctx context.Context, account, place trusted.Key, now time.Time) error {
	if place == (trusted.Key{}) {
		return trusted.ErrNoKey
	}
	return s.believe(ctx, account, func(r *trusted.Record) bool {
		r.Spend(place, now, s.limits)
		return true
	})
}

// Forget implements trusted.Store.
func (s *Store) Forget(ctx context.Context, account, place trusted.Key, now time.Time) error {
	return s.believe(ctx, account, func(r *trusted.Record) bool {
		r.Forget(place, now)
		return true
	})
}

// believe makes a change that this node believes whatever Redis says.
func (s *Store) believe(ctx context.Context, account trusted.Key, apply func(*trusted.Record) bool) error {
	err := s.change(ctx, account, apply)
	if err != nil && account != (trusted.Key{}) {
		s.epoch.End(ctx)
		s.amend(account, apply)
	}
	return err
}

// change applies a rule to an account's record. What the rule does matters to
// other nodes at once if it reports so.
func (s *Store) change(ctx context.Context, account trusted.Key, apply func(*trusted.Record) (notable bool)) error {
	if account == (trusted.Key{}) {
		return trusted.ErrNoKey
	}
	last, _ := s.recall(account)
	believed := last.text
	for range contended {
		number, _ := s.epoch.Now()
		record, err := decode(believed)
		if err != nil {
			return err
		}
		notable := apply(&record)
		text := encode(&record)
		actual, done, err := s.replace(ctx, account, believed, text)
		if err != nil {
			return fmt.Errorf("redisplaces: writing a record: %w", err)
		}
		if !done {
			believed = actual
			continue
		}
		s.remember(account, text, &record, number)
		if notable {
			s.epoch.End(ctx)
		}
		return nil
	}
	return errContended
}

// replace writes text over believed, or tells what is there instead.
func (s *Store) replace(ctx context.Context, account trusted.Key, believed, text string) (actual string, done bool, err error) {
	call := []redisscript.Call{{
		Script: replace,
		Keys:   []any{Name(s.prefix, account)},
		Args:   []any{believed, text, s.limits.TTL.Milliseconds()},
	}}
	if err := redisscript.Run(ctx, s.client, call); err != nil {
		return "", false, err
	}
	actual, other := call[0].Reply.(string)
	return actual, !other, nil
}
