// Package redisplaces keeps privileged places in Redis, for any number of
// nodes. An account's trusted.Record is one string, in the bytes of
// Record.AppendBinary, under the key
//
//	prefix{account}p
//
// with the account's digest in base64url: the hash tag under which package
// redisfailures keeps the account's counters, so that one script there can ask
// what a place is and count. A record expires with its last place.
package redisplaces

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"authguard/trusted"
)

// Options say how a Store uses Redis.
type Options struct {
	// Prefix begins every key; default DefaultPrefix, the same as that of the
	// counters.
	Prefix string
	Limits trusted.Limits
}

// DefaultPrefix begins every key unless Options say otherwise.
const DefaultPrefix = "ag:"

// A Store is a trusted.Store in Redis. While Redis does not answer, it knows
// the places that this node has seen to be privileged; everybody else is a
// stranger then.
type Store struct {
	client redis.UniversalClient
	prefix string
	limits trusted.Limits
	recent recent
	known  known
}

var _ trusted.Store = (*Store)(nil)

// New makes a store, or names what is wrong with the limits. It does not
// connect.
func New(client redis.UniversalClient, o Options) (*Store, error) {
	if err := o.Limits.Validate(); err != nil {
		return nil, err
	}
	return &Store{client: client, prefix: cmp.Or(o.Prefix, DefaultPrefix), limits: o.Limits.WithDefaults()}, nil
}

// Key is where an account's record is.
func Key(prefix string, account trusted.Key) string {
	return prefix + "{" + base64.RawURLEncoding.EncodeToString(account[:]) + "}p"
}

// Status implements trusted.Store. An answer may be a second old.
func (s *Store) Status(ctx context.Context, account, place trusted.Key, now time.Time) (trusted.Status, error) {
	if record, ok := s.recent.get(account); ok {
		return record.Status(place, now, s.limits), nil
	}
	record, _, err := s.load(ctx, account)
	if err != nil {
		if s.known.has(account, place, now, s.limits.TTL) {
			return trusted.Privileged, nil
		}
		return trusted.Stranger, err
	}
	status := record.Status(place, now, s.limits)
	s.Saw(account, place, status, now)
	return status, nil
}

// Recent is what a place was to an account less than a second ago, if this
// node asked then.
func (s *Store) Recent(account, place trusted.Key, now time.Time) (status trusted.Status, ok bool) {
	record, ok := s.recent.get(account)
	if !ok {
		return trusted.Stranger, false
	}
	return record.Status(place, now, s.limits), true
}

// Saw notes what somebody else has asked Redis about a place.
func (s *Store) Saw(account, place trusted.Key, status trusted.Status, now time.Time) {
	if status == trusted.Privileged {
		s.known.add(account, place, now)
	} else {
		s.known.drop(account, place)
	}
}

// Limits are the limits in force.
func (s *Store) Limits() trusted.Limits { return s.limits }

// Remember implements trusted.Store.
func (s *Store) Remember(ctx context.Context, account, place trusted.Key, now time.Time) error {
	if place == (trusted.Key{}) {
		return trusted.ErrNoKey
	}
	err := s.change(ctx, account, func(r *trusted.Record) { r.Remember(place, now, s.limits) })
	if err == nil {
		s.known.add(account, place, now)
	}
	return err
}

// Spend implements trusted.Store.
func (s *Store) Spend(ctx context.Context, account, place trusted.Key, now time.Time) error {
	if place == (trusted.Key{}) {
		return trusted.ErrNoKey
	}
	s.known.drop(account, place)
	return s.change(ctx, account, func(r *trusted.Record) { r.Spend(place, now, s.limits) })
}

// Forget implements trusted.Store.
func (s *Store) Forget(ctx context.Context, account, place trusted.Key, now time.Time) error {
	s.known.drop(account, place)
	return s.change(ctx, account, func(r *trusted.Record) { r.Forget(place, now) })
}

// ResetAt implements trusted.Store.
func (s *Store) ResetAt(ctx context.Context, account trusted.Key) (time.Time, error) {
	record, _, err := s.load(ctx, account)
	if err != nil || record.Reset == 0 {
		return time.Time{}, err
	}
	return time.UnixMilli(record.Reset), nil
}

// load reads a record, and the bytes that it was.
func (s *Store) load(ctx context.Context, account trusted.Key) (trusted.Record, string, error) {
	raw, err := s.client.Get(ctx, Key(s.prefix, account)).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return trusted.Record{}, "", fmt.Errorf("redisplaces: %w", err)
	}
	var record trusted.Record
	if err := record.UnmarshalBinary([]byte(raw)); err != nil {
		return trusted.Record{}, "", fmt.Errorf("redisplaces: account %x: %w", account[:4], err)
	}
	s.recent.put(account, record)
	return record, raw, nil
}

// swap writes a record if it still is what was read.
var swap = redis.NewScript(`
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1
`)

// keepLonger is how much longer than its places a record is kept: the clocks
// that say when a place was used may differ.
const keepLonger = 24 * time.Hour

// change reads, changes and writes a record until nobody comes in between.
func (s *Store) change(ctx context.Context, account trusted.Key, apply func(*trusted.Record)) error {
	if account == (trusted.Key{}) {
		return trusted.ErrNoKey
	}
	for {
		record, was, err := s.load(ctx, account)
		if err != nil {
			return err
		}
		apply(&record)
		b, err := record.AppendBinary(nil)
		if err != nil {
			return err
		}
		ttl := (s.limits.TTL + keepLonger).Milliseconds()
		done, err := swap.Run(ctx, s.client, []string{Key(s.prefix, account)}, was, b, ttl).Int()
		if err != nil {
			return fmt.Errorf("redisplaces: %w", err)
		}
		if done == 1 {
			s.recent.put(account, record)
			return nil
		}
	}
}
