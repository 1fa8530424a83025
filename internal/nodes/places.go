package nodes

import (
	"context"
	"errors"
	"sync"
	"time"

	"authguard/trusted"
	"authguard/trusted/redisplaces"
)

// Places are the privileged places of all nodes. While Redis is gone they are
// what this node knows; what it learns meanwhile holds here at once, and Redis
// is told when it is back. Safe for concurrent use.
type Places struct {
	line   *Line
	redis  *redisplaces.Store
	resets trusted.Store

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

// NewPlaces makes the store. Resets, if not nil, keeps when all places of an
// account were forgotten, where no loss of Redis makes that undone: a new
// password must stay the end of what the old one opened.
func NewPlaces(line *Line, redis *redisplaces.Store, resets trusted.Store) *Places {
	return &Places{line: line, redis: redis, resets: resets}
}

// known is what a place was to an account when this node last heard of it.
func (p *Places) known(ctx context.Context, account, place trusted.Key, now time.Time) trusted.Status {
	status := p.redis.Known(account, place, now)
	if status != trusted.Privileged {
		return status
	}
	if reset := p.resetElsewhere(ctx, account); !reset.IsZero() {
		return p.redis.KnownSince(account, place, now, reset)
	}
	return status
}

// resetElsewhere is zero if there was none, or nobody says: who is at home then
// comes in.
func (p *Places) resetElsewhere(ctx context.Context, account trusted.Key) time.Time {
	if p.resets == nil {
		return time.Time{}
	}
	ctx, cancel := context.WithTimeout(ctx, p.line.budget)
	defer cancel()
	at, err := p.resets.ResetAt(ctx, account)
	if err != nil {
		return time.Time{}
	}
	return at
}

// Status implements trusted.Store.
func (p *Places) Status(ctx context.Context, account, place trusted.Key, now time.Time) (trusted.Status, error) {
	status, err := p.redis.Status(ctx, account, place, now)
	if err != nil && ctx.Err() == nil {
		return p.known(ctx, account, place, now), nil
	}
	return status, err
}

// ResetAt implements trusted.Store.
func (p *Places) ResetAt(ctx context.Context, account trusted.Key) (time.Time, error) {
	at, err := p.redis.ResetAt(ctx, account)
	if err != nil && ctx.Err() != nil {
		return at, err
	}
	if err != nil {
		at = p.redis.KnownReset(account)
	}
	if elsewhere := p.resetElsewhere(ctx, account); elsewhere.After(at) {
		at = elsewhere
	}
	return at, nil
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
	err := p.do(ctx, placed{(*redisplaces.Store).Forget, account, place, now})
	if place == (trusted.Key{}) && p.resets != nil {
		err = errors.Join(err, p.resets.Forget(ctx, account, place, now))
	}
	return err
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
