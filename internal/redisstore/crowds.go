package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"authguard/trusted"
)

const (
	// crowdsEvery is how often a node tells Redis who logged in from where, and
	// asks which addresses other nodes found shared.
	crowdsEvery = 500 * time.Millisecond
	// crowdsOverlap is how far back it looks again: nodes' clocks differ.
	crowdsOverlap = time.Minute
	// untold bounds what Redis has yet to be told; beyond it the oldest goes,
	// and is told when the account comes again on another day.
	untold = 10_000
)

// Crowds makes a node's trusted.Crowds one with those of the other nodes. It works
// beside the logins, which wait for none of its trips: an address that has
// become shared is so on every node within a second or so.
type Crowds struct {
	client redis.UniversalClient
	store  *Store
	local  *trusted.Crowds
	seen   int64 // when the newest shared address was found, by its node's clock

	mu      sync.Mutex
	waiting []arrival
}

type arrival struct {
	account, address trusted.Key
	at               int64
}

// NewCrowds begins to listen to a node's crowds. Nothing is sent before Run.
func NewCrowds(store *Store, local *trusted.Crowds) *Crowds {
	c := &Crowds{client: store.client, store: store, local: local}
	local.OnNew(func(account, address trusted.Key, now time.Time) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.waiting = append(c.waiting[max(0, len(c.waiting)+1-untold):], arrival{account, address, now.UnixMilli()})
	})
	return c
}

// Run keeps them together until ctx ends. While Redis is gone each node goes by
// what it knows.
func (c *Crowds) Run(ctx context.Context, now func() time.Time) {
	ticker := time.NewTicker(crowdsEvery)
	defer ticker.Stop()
	for {
		_ = c.Sync(ctx, now()) // again in a moment; the breaker says what is wrong
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// Sync tells Redis what this node has seen, and takes in what others have.
func (c *Crowds) Sync(ctx context.Context, now time.Time) error {
	if err := c.tell(ctx, now); err != nil {
		return fmt.Errorf("redisstore: writing shared addresses: %w", err)
	}
	if err := c.hear(ctx, now); err != nil {
		return fmt.Errorf("redisstore: reading shared addresses: %w", err)
	}
	return nil
}

// tell sends what waits. What could not be sent waits on.
func (c *Crowds) tell(ctx context.Context, now time.Time) error {
	for {
		c.mu.Lock()
		batch := c.waiting[:min(len(c.waiting), together)]
		c.waiting = c.waiting[len(batch):]
		c.mu.Unlock()
		if len(batch) == 0 {
			return nil
		}
		if err := c.send(ctx, batch, now); err != nil {
			return err
		}
	}
}

func (c *Crowds) send(ctx context.Context, batch []arrival, now time.Time) error {
	limits, calls := c.store.limits, make([]*call, len(batch))
	for i, a := range batch {
		calls[i] = &call{script: crowdScript, keys: []any{c.store.sharersKey(a.address)},
			args: []any{a.account[:8], a.at, c.store.since(now), limits.Sharers + 1, limits.TTL.Milliseconds()}}
	}
	err := run(ctx, c.store.batcher.enqueue, calls...)
	for i, a := range batch {
		if calls[i].err == nil {
			err = errors.Join(err, c.learn(ctx, a.address, calls[i].reply, now))
			continue
		}
		c.mu.Lock()
		c.waiting = append(c.waiting, a)
		c.mu.Unlock()
	}
	return err
}

// learn takes in what Redis knows of an address, and tells the other nodes if it
// is shared.
func (c *Crowds) learn(ctx context.Context, address trusted.Key, told any, now time.Time) error {
	c.local.Merge(crowdOf(address, told), now)
	if !c.local.Shared(address, now) {
		return nil
	}
	return run(ctx, c.store.batcher.enqueue,
		&call{args: []any{"zadd", c.store.crowdsKey(), now.UnixMilli(), address[:]}},
		&call{args: []any{"pexpire", c.store.crowdsKey(), c.store.limits.TTL.Milliseconds()}})
}

// crowdOf reads what crowd.lua answers.
func crowdOf(address trusted.Key, told any) trusted.Crowd {
	crowd := trusted.Crowd{Address: address}
	list, _ := told.([]any)
	for i := 0; i+1 < len(list); i += 2 {
		score, _ := list[i+1].(string)
		if last, err := strconv.ParseInt(score, 10, 64); err == nil {
			join(&crowd, list[i], last)
		}
	}
	return crowd
}

// join adds one member of a sorted set.
func join(to *trusted.Crowd, member any, last int64) {
	if text, _ := member.(string); len(text) == len(trusted.Sharer{}.Account) {
		to.Sharers = append(to.Sharers, trusted.Sharer{Account: [8]byte([]byte(text)), Last: last})
	}
}

// hear asks for the addresses that were found shared since the last time, and for
// the sharers of those that this node did not know to be.
func (c *Crowds) hear(ctx context.Context, now time.Time) error {
	crowds := c.store.crowdsKey()
	// A shared address is announced anew with each new account there, so an old
	// entry is one that has expired.
	if err := c.client.ZRemRangeByScore(ctx, crowds, "-inf", strconv.FormatInt(c.store.since(now), 10)).Err(); err != nil {
		return err
	}
	from := strconv.FormatInt(c.seen-crowdsOverlap.Milliseconds(), 10)
	found, err := c.client.ZRangeArgsWithScores(ctx, redis.ZRangeArgs{Key: crowds, ByScore: true, Start: from, Stop: "+inf"}).Result()
	if err != nil {
		return err
	}
	newest := c.seen
	for _, one := range found {
		newest = max(newest, int64(one.Score))
		text, _ := one.Member.(string)
		if len(text) != len(trusted.Key{}) || c.local.Shared(trusted.Key([]byte(text)), now) {
			continue
		}
		address := trusted.Key([]byte(text))
		sharers, err := c.client.ZRangeWithScores(ctx, c.store.sharersKey(address), 0, -1).Result()
		if err != nil {
			return err
		}
		crowd := trusted.Crowd{Address: address}
		for _, s := range sharers {
			join(&crowd, s.Member, int64(s.Score))
		}
		c.local.Merge(crowd, now)
	}
	c.seen = newest
	return nil
}
