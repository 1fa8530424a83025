package redisstore

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"authguard/captchamode/challenge"
)

// Spent stores for all nodes which challenges were used, or tickets settled, until they expire. It
// is safe for concurrent use.
type Spent struct {
	client redis.UniversalClient
	prefix string
}

var _ challenge.Spent = (*Spent)(nil)

// NewSpent returns the store of IDs with this prefix. It sends nothing to Redis.
func NewSpent(client redis.UniversalClient, prefix string) *Spent { return &Spent{client, prefix} }

// Spend implements challenge.Spent. until is compared with Redis's clock.
func (s *Spent) Spend(ctx context.Context, id [16]byte, until time.Time) (bool, error) {
	first := &call{script: spendScript, keys: []any{idKey(s.prefix, id)}, args: []any{until.UnixMilli()}}
	if err := run(ctx, direct(s.client), first); err != nil {
		return false, fmt.Errorf("redisstore: using up an ID: %w", err)
	}
	return first.reply == int64(1), nil
}

// Seen implements challenge.Spent.
func (s *Spent) Seen(ctx context.Context, id [16]byte, _ time.Time) (bool, error) {
	n, err := s.client.Exists(ctx, idKey(s.prefix, id)).Result()
	if err != nil {
		return false, fmt.Errorf("redisstore: looking for an ID: %w", err)
	}
	return n == 1, nil
}

// Take implements challenge.Spent.
func (s *Spent) Take(ctx context.Context, id [16]byte) (bool, error) {
	n, err := s.client.Del(ctx, idKey(s.prefix, id)).Result()
	if err != nil {
		return false, fmt.Errorf("redisstore: removing an ID: %w", err)
	}
	return n == 1, nil
}

// Full implements challenge.Spent: Redis's memory is the bound, which doctor checks.
func (s *Spent) Full() float64 { return 0 }

// Epoch implements challenge.Spent: spent IDs outlive this process.
func (s *Spent) Epoch() [16]byte { return [16]byte{} }
