// Package nodes lets a node go on alone while Redis is gone (R22).
//
// Store is the guard's store: Redis while that can be used, and else this
// node's own counters and places, with its part of the limits. A Breaker stops
// asking Redis after one failed trip; Run probes it. What happens meanwhile to
// pairs and places is told to Redis when it is back, and so are the attempts that were
// counted alone and have failed or are undecided.
//
// What a loss costs: alone, the nodes together allow N/2 of a limit N, or one
// each, on top of what Redis has counted. A single node keeps to half as well: nodes
// that have stopped since may have used up the limit. So at most 1.5 N passwords are
// checked in an outage, or one more on each other node where N is smaller than twice
// the nodes, and N more for each time that Redis has forgotten everything. Usually it is less:
// what a node charges in Redis it mirrors in its memory, where it counts against its
// part. orders_test.go walks through every order of events for this.
//
// A Redis that has lost its memory looks healthy. The loss is noticed account by
// account: Redis knows nothing of an account, this node does, and Redis is told
// before the attempt is decided. So nobody is a stranger at home, and no place
// comes back that a new password had ended.
package nodes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
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
	// Places are the known clients in SQL.
	Places trusted.Store
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
	node   uint64 // marks what this process charged alone
	owed   *owed
	// apart are attempts charged alone that may yet be settled, by ChargeID.There.
	apart     *lru.Cache[int64, *apart]
	lastApart atomic.Int64
}

var _ guard.Store = (*Store)(nil)

// New makes the store and the client's breaker. Nothing is sent to Redis yet.
func New(c Config) (*Store, error) {
	if c.Client == nil || c.Counters == nil || c.Places == nil || c.Nodes == nil {
		return nil, errors.New("nodes: Client, Counters, Places and Nodes must be set")
	}
	c.Log = cmp.Or(c.Log, slog.Default())
	s := &Store{config: c, local: guard.NewLocal(c.Counters, c.Places), node: rand.Uint64() | 1, owed: new(owed)}
	s.apart, _ = lru.New[int64, *apart](2 * mostOwed) // fails for a size below 1 only
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
	other := &Store{Breaker: s.Breaker, config: s.config, redis: s.redis, node: s.node, owed: s.owed}
	other.config.Counters, other.local = counters, guard.NewLocal(counters, s.config.Places)
	other.local.Sprays = s.local.Sprays
	other.apart, _ = lru.New[int64, *apart](2 * mostOwed)
	return other
}

// Redis is the store in Redis.
func (s *Store) Redis() *redisstore.Store { return s.redis }

// Unheard is how much Redis has yet to be told.
func (s *Store) Unheard() int { return s.owed.len() }

// sprayed is told of what this node has found by itself. With Redis all nodes find
// it together.
func (s *Store) sprayed(one failures.Spray) {
	if tell := s.config.Redis.OnSpray; tell != nil && !s.Up() {
		tell(one)
	}
}

// Run probes Redis until ctx ends, does without a Redis that nodes of another version or with
// other keys use, tells it what it is owed, and shares which
// passwords are sprayed.
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

// look probes once and, if Redis can be used, tells it all that it is owed.
func (s *Store) look(ctx context.Context) {
	if err := s.redis.Probe(context.WithValue(ctx, probing{}, true)); err == nil || errors.Is(err, redisstore.ErrApart) {
		s.Meet(err) // else the breaker has noted it
	}
	for s.Up() && s.owed.pay(ctx, s.Up) {
	}
	if s.Up() {
		_ = s.redis.Answer(ctx) // else they wait until the failures are old
	}
}

// together reports whether the nodes count together: Redis can be used, and
// knows all that it is owed.
func (s *Store) together() bool { return s.Up() && s.owed.len() == 0 }

// Begin implements guard.Store. If Redis did not say in time what it has
// charged, the attempt may be counted twice; never not at all.
func (s *Store) Begin(ctx context.Context, c guard.Charge) (guard.Charge, error) {
	if s.together() {
		charged, err := s.redis.Begin(ctx, c)
		if err == nil && charged.ID.Charged() {
			s.mirror(ctx, &charged)
		}
		if err == nil || ctx.Err() != nil {
			return charged, err
		}
	}
	return s.alone(ctx, c)
}

// mirror counts here what Redis has charged, for when this node is alone. What
// fails is missing only then.
func (s *Store) mirror(ctx context.Context, c *guard.Charge) {
	own := *c
	own.Account = trusted.Key{} // the client is known already
	for i := range own.Subjects() {
		one := &own.Subjects()[i]
		one.Binds = [3]failures.Mask{}
		if own.Counts(one) {
			one.For = guard.EveryClient
		} else {
			one.For = 0
		}
	}
	own.Tag = 0
	charged, err := s.local.Begin(ctx, own)
	if err != nil {
		return
	}
	c.ID.Node, c.ID.Here = s.node, charged.ID.At
	if noted := *c; noted.Tag != 0 {
		noted.ID = charged.ID
		s.local.Note(noted)
	}
}

// alone decides by this node's own count, against its part of the limits. The
// budget of a known place stays whole: people at home must not pay for what
// Redis does, and guessing there gets nobody further at other places.
func (s *Store) alone(ctx context.Context, c guard.Charge) (guard.Charge, error) {
	whole := c
	for i := range c.Subjects() {
		if one := &c.Subjects()[i]; one.Kind != guard.OnPair {
			one.Ladder = divide(one.Ladder, s.config.Nodes())
		}
	}
	ctx, cancel := context.WithTimeout(ctx, s.budget) // for the places
	defer cancel()
	c, err := s.local.Begin(ctx, c)
	for i := range c.Subjects() {
		c.Subjects()[i].Ladder = whole.Subjects()[i].Ladder
	}
	if c.ID.Charged() {
		c.ID.Node = s.node
		s.owe(&c)
	}
	return c, err
}

// owe has Redis told of an attempt that was charged here alone. Beyond mostOwed it is
// not: strangers' attempts push out no reset.
func (s *Store) owe(c *guard.Charge) {
	if s.owed.len() >= mostOwed {
		return
	}
	one := s.newApart(c)
	c.ID.There = s.lastApart.Add(1)
	s.apart.Add(c.ID.There, one)
	s.owed.add(func(ctx context.Context) error { return one.tell(ctx, s.redis, s.now()) })
}

func (s *Store) newApart(c *guard.Charge) *apart {
	one := &apart{told: *c, until: s.now().Add(cmp.Or(s.config.Redis.PendingFor, redisstore.DefaultPendingFor))}
	one.told.ID = failures.ChargeID{}
	for i := range one.told.Subjects() {
		one.told.Subjects()[i].Binds = [3]failures.Mask{}
	}
	return one
}

func (s *Store) now() time.Time {
	if s.config.Redis.Clock != nil {
		return s.config.Redis.Clock()
	}
	return time.Now()
}

// divide is the part of a ladder that one of several nodes has while each is
// alone: together half of every rung, or one each. Delays stay whole.
func divide(l *failures.Ladder, nodes int) *failures.Ladder {
	if len(l.Rungs()) == 0 {
		return l
	}
	var rungs []failures.Rung
	for _, r := range l.Rungs() {
		r.Failures = max(1, r.Failures/(2*nodes))
		rungs = append(rungs, r)
	}
	return failures.MustLadder(l.Backoff(), rungs...) // valid, as the whole one is
}

// Settle implements guard.Store. What another node has counted in its own memory
// it alone can take back.
func (s *Store) Settle(ctx context.Context, c guard.Charge, o guard.Outcome) error {
	if !c.ID.Charged() {
		return nil
	}
	alone, mine := c.ID.Node != 0 && c.ID.Here == 0, c.ID.Node == s.node
	own, told := c, c
	if !mine {
		own.ID = elsewhere()
	} else if !alone {
		own.ID = failures.ChargeID{At: c.ID.Here}
	}
	var full error
	if mine || o == guard.Succeeded {
		if err := s.local.Settle(ctx, own, o); errors.Is(err, trusted.ErrFull) {
			full = err
		} else if err != nil && alone {
			return err
		}
	}
	switch {
	case alone:
		return cmp.Or(s.settleApart(ctx, told, o, mine), full)
	case o == guard.Failed: // nothing is written
		return s.redis.Settle(ctx, told, o)
	}
	return s.tell(ctx, func(ctx context.Context) error { return s.redis.Settle(ctx, told, o) })
}

// settleApart tells Redis how an attempt has ended that one node has charged alone, this
// one or another.
func (s *Store) settleApart(ctx context.Context, c guard.Charge, o guard.Outcome, mine bool) error {
	number := c.ID.There
	c.ID = elsewhere()
	one, ok := s.apart.Get(number)
	switch {
	case mine && ok:
		s.apart.Remove(number)
		if c = one.settled(o, c); one.isDue() {
			return s.tell(ctx, func(ctx context.Context) error { return one.tell(ctx, s.redis, s.now()) })
		}
	case !mine && o == guard.Failed && s.owed.len() < mostOwed:
		one = s.newApart(&c)
		one.settled(o, c)
		return s.tell(ctx, func(ctx context.Context) error { return one.tell(ctx, s.redis, s.now()) })
	}
	if o == guard.Failed || c.ID == elsewhere() && o != guard.Succeeded {
		return nil
	}
	return s.tell(ctx, func(ctx context.Context) error { return s.redis.Settle(ctx, c, o) })
}

// elsewhere is the ID of what a store has not charged itself.
func elsewhere() failures.ChargeID { return failures.ChargeID{At: 1} }

// An apart is an attempt that this node has charged alone. Redis is told of it as soon
// as it is back, whether there is room or not, if it has failed or is undecided: an
// attempt under way uses the limit up as well. One that is older than a password check
// and was not settled here is let go: it was settled at another node, which tells Redis
// if it failed, or its check takes longer than it should, and Redis is told at its end.
type apart struct {
	until time.Time // undecided, at the latest

	mu     sync.Mutex
	told   guard.Charge // with its ID in Redis, once that is told
	ended  bool
	failed bool
	letGo  bool // undecided for too long: Redis was not told
}

// tell charges the attempt in Redis.
func (a *apart) tell(ctx context.Context, in *redisstore.Store, now time.Time) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.letGo = !a.ended && now.After(a.until); a.letGo || a.ended && !a.failed {
		return nil
	}
	told, err := in.Begin(ctx, a.told)
	if err != nil {
		return err
	}
	a.told = told
	if a.failed {
		_ = in.Settle(ctx, told, guard.Failed) // else an attempt waits until it is old
	}
	return nil
}

// settled is what Redis is to be told of the end: the charge that stands there or, if it
// was not told of one, c.
func (a *apart) settled(o guard.Outcome, c guard.Charge) guard.Charge {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended, a.failed = true, o == guard.Failed
	if !a.told.ID.Charged() {
		return c
	}
	a.told.Now = c.Now
	return a.told
}

// isDue reports whether Redis has yet to be told of a failure that was let go while
// undecided.
func (a *apart) isDue() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.letGo && a.failed
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
		s.tell(ctx, func(ctx context.Context) error { return s.redis.Clear(ctx, subjects) }))
}

// Forget implements guard.Store.
func (s *Store) Forget(ctx context.Context, account, place trusted.Key, now time.Time) error {
	return errors.Join(s.local.Forget(ctx, account, place, now),
		s.tell(ctx, func(ctx context.Context) error { return s.redis.Forget(ctx, account, place, now) }))
}

// spent is told of a place that Redis has ended.
func (s *Store) spent(ctx context.Context, account, place trusted.Key, now time.Time) {
	_ = s.config.Places.Spend(ctx, account, place, now) // missing only while Redis is gone
}

// remembered is what the database knows of an account of which Redis knows nothing.
func (s *Store) remembered(ctx context.Context, c *guard.Charge) (trusted.Record, bool) {
	record, err := s.config.Places.Record(ctx, c.Account, c.Now)
	return record, err == nil && (len(record.Entries) > 0 || record.Reset > 0)
}

// tell tells Redis something now or, if it cannot be used, when it is back.
func (s *Store) tell(ctx context.Context, do func(context.Context) error) error {
	if s.together() {
		if err := do(ctx); err == nil || s.Up() {
			return err
		}
	}
	s.owed.add(do)
	return nil
}

// mostOwed bounds what Redis has yet to be told. Beyond it failures are not added,
// and beyond as much again the oldest goes: anybody can make failures, but logins
// and resets take a password.
const mostOwed = 10_000

// owed is what Redis has yet to be told, in order.
type owed struct {
	mu    sync.Mutex
	queue []*debt
}

type debt struct{ tell func(context.Context) error }

func (o *owed) add(tell func(context.Context) error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queue = append(o.queue[max(0, len(o.queue)+1-2*mostOwed):], &debt{tell})
}

func (o *owed) len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.queue)
}

// pay tells Redis the first thing that it is owed, and drops it unless Redis is
// gone again. It reports false if nothing is owed.
func (o *owed) pay(ctx context.Context, up func() bool) bool {
	o.mu.Lock()
	if len(o.queue) == 0 {
		o.mu.Unlock()
		return false
	}
	first := o.queue[0]
	o.mu.Unlock()
	if err := first.tell(ctx); err != nil && (!up() || ctx.Err() != nil) {
		return ctx.Err() == nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) > 0 && o.queue[0] == first { // it may have been pushed out
		o.queue = o.queue[1:]
	}
	return true
}
