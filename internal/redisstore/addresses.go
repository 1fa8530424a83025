package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"authguard/trusted"
)

// Addresses is a trusted.AddressStore in Redis, for processes without an SQL database.
type Addresses struct{ *Store }

var _ trusted.AddressStore = Addresses{}

// Record implements trusted.AddressStore.
func (a Addresses) Record(ctx context.Context, address trusted.Key, now time.Time) (trusted.Record, error) {
	return a.record(ctx, a.sharersKey(address), now)
}

// Remember implements trusted.AddressStore.
func (a Addresses) Remember(ctx context.Context, address, account trusted.Key, now time.Time) error {
	login := change{what: remember, client: account, at: now.UnixMilli()}
	c := a.changing(a.sharersKey(address), a.limits.OfAddress().MaxClients, now, login)
	if err := run(ctx, a.batcher.enqueue, c); err != nil {
		return fmt.Errorf("redisstore: counting the accounts of an IP address: %w", err)
	}
	return nil
}

// record reads what places.lua has written.
func (s *Store) record(ctx context.Context, key string, now time.Time) (trusted.Record, error) {
	all, err := s.client.ZRangeWithScores(ctx, key, 0, -1).Result()
	if err != nil {
		return trusted.Record{}, fmt.Errorf("redisstore: reading %s: %w", key, err)
	}
	var told []any
	for _, z := range all {
		told = append(told, z.Member, strconv.FormatInt(int64(z.Score), 10))
	}
	record := recordOf(told)
	return record.Live(now, s.limits), nil
}
