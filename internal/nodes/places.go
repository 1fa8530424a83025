package nodes

import (
	"context"
	"sync"
	"time"

	"authguard/trusted"
	"authguard/trusted/redisplaces"
)

// Places are the privileged places of all nodes. While Redis is gone they are
// what this node knows; what it learns meanwhile holds here at once, and Redis
// is told when it is back. Safe for concurrent use.
type Places struct {
	line  *Line
	redis *redisplaces.Store

	mu      sync.Mutex
	journal []placed
}

var _ trusted.Store = (*Places)(nil)

// placed is what happened to a place while Redis was gone.
type placed struct {
	do             func(*redisplaces.Store, context.Context, trusted.Key, trusted.Key, time.Time) error
	account, place trusted.Key
	at             time.Time
}

// mostPlaced takes about 8 MB; beyond it the oldest tenth goes.
const mostPlaced = 100_000

// NewPlaces makes the store.
func NewPlaces(line *Line, redis *redisplaces.Store) *Places {
	return &Places{line: line, redis: redis}
}

// Status implements trusted.Store.
func (p *Places) Status(ctx context.Context, account, place trusted.Key, now time.Time) (trusted.Status, error) {
	known := p.redis.Known(account, place, now)
	status, err := p.redis.Status(ctx, account, place, now)
	if err != nil && ctx.Err() == nil {
		return known, nil
	}
	return status, err
}

// ResetAt implements trusted.Store.
func (p *Places) ResetAt(ctx context.Context, account trusted.Key) (time.Time, error) {
	at, err := p.redis.ResetAt(ctx, account)
	if err != nil && ctx.Err() == nil {
		return p.redis.KnownReset(account), nil
	}
	return at, err
}

// Remember implements trusted.Store.
func (p *Places) Remember(ctx context.Context, account, place trusted.Key, now time.Time) error {
	return p.do(ctx, placed{(*redisplaces.Store).Remember, account, place, now})
}

// Spend implements trusted.Store.
func (p *Places) Spend(ctx context.Context, account, place trusted.Key, now time.Time) error {
	return p.do(ctx, placed{(*redisplaces.Store).Spend, account, place, now})
}

// Forget implements trusted.Store.
func (p *Places) Forget(ctx context.Context, account, place trusted.Key, now time.Time) error {
	return p.do(ctx, placed{(*redisplaces.Store).Forget, account, place, now})
}

// do does it, and if Redis is gone notes it. A change holds on this node in any
// case, but for one that makes no sense.
func (p *Places) do(ctx context.Context, one placed) error {
	err := one.do(p.redis, ctx, one.account, one.place, one.at)
	if err == nil || p.line.Up() && ctx.Err() == nil {
		return err
	}
	p.mu.Lock()
	p.journal = append(bounded(p.journal, mostPlaced), one)
	p.mu.Unlock()
	if p.line.Up() {
		p.line.Wake()
	}
	return nil
}

// catchUp tells Redis what happened while it was gone, in order.
func (p *Places) catchUp(ctx context.Context) error {
	p.mu.Lock()
	owed := p.journal
	p.journal = nil
	p.mu.Unlock()
	for i, one := range owed {
		if err := one.do(p.redis, ctx, one.account, one.place, one.at); err != nil {
			p.mu.Lock()
			p.journal = append(owed[i:len(owed):len(owed)], p.journal...)
			p.mu.Unlock()
			return err
		}
	}
	return nil
}

func (p *Places) unheard() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.journal)
}
