// Package redisspent remembers in Redis which challenges were used up, for any
// number of nodes: a key for each, prefix and ID, until the challenge would
// have expired anyway.
package redisspent

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"authguard/captchamode/challenge"
)

// A Store is a challenge.Spent in Redis.
type Store struct {
	client redis.UniversalClient
	prefix string
}

var _ challenge.Spent = (*Store)(nil)

// DefaultPrefix begins every key.
const DefaultPrefix = "ag:c:"

// New makes a store; an empty prefix is DefaultPrefix. It does not connect.
func New(client redis.UniversalClient, prefix string) *Store {
	return &Store{client, cmp.Or(prefix, DefaultPrefix)}
}

func (s *Store) key(id [16]byte) string {
	return s.prefix + base64.RawURLEncoding.EncodeToString(id[:])
}

// spend sets the key unless it is there or the ID has expired by Redis's own
// clock. The key lives a second longer: what TIME says and the time from which
// PX counts are two readings.
var spend = redis.NewScript(`
local time = redis.call('TIME')
local left = tonumber(ARGV[1]) - (time[1] * 1000 + math.floor(time[2] / 1000))
if left <= 0 then return 0 end
return redis.call('SET', KEYS[1], '', 'NX', 'PX', left + 1000) and 1 or 0
`)

// Spend implements challenge.Spent. until is compared with Redis's clock.
func (s *Store) Spend(ctx context.Context, id [16]byte, until time.Time) (bool, error) {
	first, err := spend.Run(ctx, s.client, []string{s.key(id)}, until.UnixMilli()).Int()
	if err != nil {
		return false, fmt.Errorf("redisspent: %w", err)
	}
	return first == 1, nil
}

// Epoch implements challenge.Spent: Redis outlives this process.
func (s *Store) Epoch() [16]byte { return [16]byte{} }

// Seen implements challenge.Spent.
func (s *Store) Seen(ctx context.Context, id [16]byte, _ time.Time) (bool, error) {
	n, err := s.client.Exists(ctx, s.key(id)).Result()
	if err != nil {
		return false, fmt.Errorf("redisspent: %w", err)
	}
	return n == 1, nil
}
