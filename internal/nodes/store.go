// Package nodes lets a node continue while Redis is unavailable (R22).
//
// Store is the guard's store: Redis while it is available, otherwise the node's local store
// with its share of the limits. A Breaker stops sending commands to Redis after one failure;
// Run probes it. The local store counts only what was charged during outages, and is kept
// between them, so a Redis that fails repeatedly gives one share for each window, not for each
// failure. Redis does not learn what was charged locally. It does learn of unlocks, removals of
// known clients, and attempts that succeeded, before it is used again.
//
// With n nodes, the local stores together allow N/2 of a limit N, or one attempt each, in
// addition to the N in Redis, and N more for each time that Redis loses its data.
// orders_test.go visits every order of events.
//
// A Redis that lost its data looks healthy. The loss is noticed account by account: Redis
// knows nothing of an account, this node does, and writes it to Redis before the attempt is
// decided. So known clients stay known, and those that a new password removed stay removed.
package nodes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"authguard/failures"
	"authguard/guard"
	"authguard/internal/redisstore"
	"authguard/trusted"
)

// Config is what a Store needs. Redis, Budget, Log and OnChange may be left out.
type Config struct {
	Client redis.UniversalClient
	// Redis configures the store in Redis; Elsewhere and Spent are set here.
	Redis redisstore.Options
	// Counters are this node's own. Nobody else may charge them.
	Counters *failures.Memory
	// KnownClients are the known clients in SQL.
	KnownClients trusted.Store
	// Nodes is how many were last seen, this one included.
	Nodes func() int
	// Budget is how long one trip to Redis may take; default DefaultBudget.
	Budget time.Duration
	// Log is told when Redis is lost and back; default slog.Default().
	Log *slog.Logger
	// OnChange is told, too, and must not block. Nil: nobody is.
	OnChange func(up bool, why error)
}

// Store is a guard.Store that survives the loss of Redis. It is safe for
// concurrent use.
type Store struct {
	*Breaker
	config Config
	redis  *redisstore.Store
	local  *guard.Local
	node   uint64 // marks the charges of this process's local store
	unsent *unsent
}

var _ guard.Store = (*Store)(nil)

// New makes the store and the client's breaker. Nothing is sent to Redis yet.
func New(c Config) (*Store, error) {
	if c.Client == nil || c.Counters == nil || c.KnownClients == nil || c.Nodes == nil {
		return nil, errors.New("nodes: Client, Counters, Places and Nodes must be set")
	}
	c.Log = cmp.Or(c.Log, slog.Default())
	s := &Store{config: c, local: guard.NewLocal(c.Counters, c.KnownClients), node: rand.Uint64() | 1, unsent: new(unsent)}
	s.local.Sprays = failures.NewSprays(s.sprayed)
	c.Redis.Sprays = s.local.Sprays
	c.Redis.Elsewhere, c.Redis.Spent = s.remembered, s.spent
	var err error
	if s.redis, err = redisstore.New(c.Client, c.Redis); err != nil {
		return nil, fmt.Errorf("nodes: %w", err)
	}
	s.Breaker = NewBreaker(c.Client, c.Budget, c.Log, c.OnChange)
	return s, nil
}

// Beside is the store of another guard: the same Redis and known clients, and this node's
// counters of its own. Run serves both.
func (s *Store) Beside(counters *failures.Memory) *Store {
	other := &Store{Breaker: s.Breaker, config: s.config, redis: s.redis, node: s.node, unsent: s.unsent}
	other.config.Counters, other.local = counters, guard.NewLocal(counters, s.config.KnownClients)
	other.local.Sprays = s.local.Sprays
	return other
}

// Redis is the store in Redis.
func (s *Store) Redis() *redisstore.Store { return s.redis }

// Unsent is the number of changes that were not written to Redis yet.
func (s *Store) Unsent() int { return s.unsent.len() }

// sprayed is told of what this node has found by itself. With Redis all nodes find
// it together.
func (s *Store) sprayed(one failures.Spray) {
	if tell := s.config.Redis.OnSpray; tell != nil && !s.Up() {
		tell(one)
	}
}

// Run probes Redis until ctx ends, does not use a Redis of nodes with another version or other
// keys, writes the changes of an outage, and shares which passwords are used for spraying.
func (s *Store) Run(ctx context.Context) {
	ticker := time.NewTicker(probeEvery)
	defer ticker.Stop()
	for ctx.Err() == nil {
		s.look(ctx)
		if s.Up() {
			_ = s.redis.Share(ctx) // the breaker notes it; the next one learns it all
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

// look probes once and, if Redis is available, writes the changes of an outage.
func (s *Store) look(ctx context.Context) {
	if err := s.redis.Probe(context.WithValue(ctx, probing{}, true)); err == nil || errors.Is(err, redisstore.ErrApart) {
		s.Meet(err) // else the breaker has noted it
	}
	for s.Up() && s.unsent.send(ctx, s.Up) {
	}
	if s.Up() {
		_ = s.redis.Answer(ctx) // else they wait until the failures are old
	}
}

// together reports whether the nodes count together: Redis is available and has all changes.
func (s *Store) together() bool { return s.Up() && s.unsent.len() == 0 }

// Begin implements guard.Store. If Redis did not confirm a charge in time, the attempt may
// be charged twice.
func (s *Store) Begin(ctx context.Context, c guard.Charge) (guard.Charge, error) {
	if s.together() {
		charged, err := s.redis.Begin(ctx, c)
		if err == nil || ctx.Err() != nil {
			return charged, err
		}
	}
	return s.alone(ctx, c)
}

// alone charges the local store, against this node's share of the limits. Known clients keep
// their whole limit: users must not be locked out by an outage.
func (s *Store) alone(ctx context.Context, c guard.Charge) (guard.Charge, error) {
	whole := c
	for i := range c.Subjects() {
		if one := &c.Subjects()[i]; one.Kind != guard.OnPair {
			one.Limits = divide(one.Limits, s.config.Nodes())
		}
	}
	ctx, cancel := context.WithTimeout(ctx, s.budget) // for the known clients
	defer cancel()
	c, err := s.local.Begin(ctx, c)
	for i := range c.Subjects() {
		c.Subjects()[i].Limits = whole.Subjects()[i].Limits
	}
	if c.ID.Charged() {
		c.ID.Node = s.node
	}
	return c, err
}

// divide is the part of a ladder that one of several nodes has while each is
// alone: together half of every rung, or one each. Delays stay whole.
func divide(l *failures.Limits, nodes int) *failures.Limits {
	if len(l.List()) == 0 {
		return l
	}
	var rungs []failures.Limit
	for _, r := range l.List() {
		r.Failures = max(1, r.Failures/(2*nodes))
		rungs = append(rungs, r)
	}
	return failures.MustLimits(l.Backoff(), rungs...) // valid, as the whole one is
}

// Settle implements guard.Store. A charge in the local store of another node stands.
func (s *Store) Settle(ctx context.Context, c guard.Charge, o guard.Outcome) error {
	var local error
	switch {
	case !c.ID.Charged():
		return nil
	case c.ID.Node == s.node:
		local = s.local.Settle(ctx, c, o)
	case o == guard.Succeeded: // the database knows the client in an outage
		local = s.local.Remember(ctx, &c)
	}
	full := errors.Is(local, trusted.ErrFull)
	switch {
	case c.ID.Node == s.node && local != nil && !full:
		return local
	case c.ID.Node != 0 && o != guard.Succeeded:
		return nil
	case c.ID.Node != 0:
		c.ID = failures.ChargeID{At: 1} // no charge of Redis's
	case o == guard.Failed:
		return s.redis.Settle(ctx, c, o) // usually writes nothing
	}
	err := s.onBoth(ctx, mostSettled, func(ctx context.Context) error { return s.redis.Settle(ctx, c, o) })
	if err == nil && full {
		return local
	}
	return err
}

// Read implements guard.Store.
func (s *Store) Read(ctx context.Context, c guard.Charge) (guard.Charge, guard.Used, error) {
	if s.together() {
		if read, used, err := s.redis.Read(ctx, c); err == nil || ctx.Err() != nil {
			return read, used, err
		}
	}
	return s.local.Read(ctx, c)
}

// Clear implements guard.Store.
func (s *Store) Clear(ctx context.Context, subjects []guard.Subject) error {
	return errors.Join(s.local.Clear(ctx, subjects),
		s.onBoth(ctx, mostUnsent, func(ctx context.Context) error { return s.redis.Clear(ctx, subjects) }))
}

// Forget implements guard.Store.
func (s *Store) Forget(ctx context.Context, account, place trusted.Key, now time.Time) error {
	return errors.Join(s.local.Forget(ctx, account, place, now),
		s.onBoth(ctx, mostUnsent, func(ctx context.Context) error { return s.redis.Forget(ctx, account, place, now) }))
}

// spent is told of a place that Redis has ended.
func (s *Store) spent(ctx context.Context, account, place trusted.Key, now time.Time) {
	_ = s.config.KnownClients.Spend(ctx, account, place, now) // missing only while Redis is gone
}

// remembered is what the database knows of an account of which Redis knows nothing.
func (s *Store) remembered(ctx context.Context, c *guard.Charge) (trusted.Record, bool) {
	record, err := s.config.KnownClients.Record(ctx, c.Account, c.Now)
	return record, err == nil && (len(record.Entries) > 0 || record.Reset > 0)
}

// onBoth changes Redis now or, if it is unavailable, later: unless most changes wait already.
func (s *Store) onBoth(ctx context.Context, most int, do func(context.Context) error) error {
	if s.together() {
		if err := do(ctx); err == nil || s.Up() {
			return err
		}
	}
	s.unsent.add(most, do)
	return nil
}

// Bounds of the changes that wait for Redis. Settled attempts leave room for unlocks and
// removals of known clients, of which the newest are kept.
const (
	mostSettled = 10_000
	mostUnsent  = 2 * mostSettled
)

// unsent are the changes that were not written to Redis yet, in order.
type unsent struct {
	mu    sync.Mutex
	queue []*func(context.Context) error
}

func (u *unsent) add(most int, do func(context.Context) error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if most < mostUnsent && len(u.queue) >= most {
		return
	}
	u.queue = append(u.queue[max(0, len(u.queue)+1-most):], &do)
}

func (u *unsent) len() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.queue)
}

// send writes the first change to Redis, and drops it unless Redis is unavailable again. It
// reports false if none is left.
func (u *unsent) send(ctx context.Context, up func() bool) bool {
	u.mu.Lock()
	if len(u.queue) == 0 {
		u.mu.Unlock()
		return false
	}
	first := u.queue[0]
	u.mu.Unlock()
	if err := (*first)(ctx); err != nil && (!up() || ctx.Err() != nil) {
		return ctx.Err() == nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.queue) > 0 && u.queue[0] == first { // it may have been dropped
		u.queue = u.queue[1:]
	}
	return true
}
