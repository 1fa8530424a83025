package nodes

import (
	"context"
	"errors"
	"time"

	"github.com/sony/gobreaker/v2"

	"authguard/internal/redisstore"
)

// Run probes Redis until ctx ends, does not use a Redis of nodes with another version or other
// keys, writes the changes of an outage, and shares which passwords are used for spraying.
func (s *Store) Run(ctx context.Context) {
	ticker := time.NewTicker(probeEvery)
	defer ticker.Stop()
	for ctx.Err() == nil {
		s.probe(ctx)
		if s.Up() {
			_ = s.redis.Share(ctx) // the breaker notes it; the next one learns it all
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

// probe probes once and, if Redis is available, writes the changes of an outage.
func (s *Store) probe(ctx context.Context) {
	if err := s.redis.Probe(context.WithValue(ctx, probing{}, true)); err == nil || errors.Is(err, redisstore.ErrApart) {
		s.Probed(err) // else the breaker has noted it
	}
	for s.Up() && s.unsent.send(ctx, s.Up) {
	}
	if s.Up() {
		_ = s.redis.Answer(ctx) // else they wait until the failures are old
	}
}

// changed is called by the circuit breaker; half-open is still down. Only Probed makes Redis
// available.
func (b *Breaker) changed(_ string, _, to gobreaker.State) {
	b.mu.Lock()
	b.open = to != gobreaker.StateClosed
	if b.why == nil { // the client panicked
		b.why = errors.New("nodes: a request to Redis timed out")
	}
	b.mu.Unlock()
	if to == gobreaker.StateOpen && b.ready.Swap(false) {
		b.reportDown()
	}
}

// Probed takes the result of a probe: nil, or why Redis cannot be used.
func (b *Breaker) Probed(why error) {
	b.mu.Lock()
	was, open, news := b.since, b.open, why != nil && (b.why == nil || b.why.Error() != why.Error())
	if why != nil {
		b.why = why
	}
	b.mu.Unlock()
	switch {
	case why != nil:
		if b.ready.Swap(false) || news {
			b.reportDown()
		}
	case !open && b.ready.CompareAndSwap(false, true):
		b.mu.Lock()
		b.since = time.Now()
		b.mu.Unlock()
		b.log.Info("Redis is back; the nodes share counters again", "after", time.Since(was).Round(time.Millisecond))
		b.onChange(true, nil)
	}
}

func (b *Breaker) reportDown() {
	b.mu.Lock()
	b.since = time.Now()
	why := b.why
	b.mu.Unlock()
	b.log.Error("Redis cannot be used; this node counts locally with its share of the limits", "error", why)
	b.onChange(false, why)
}
