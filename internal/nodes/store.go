// Package nodes lets a node continue while Redis is unavailable (R22).
//
// Store is the guard's store: Redis while it is available, otherwise the node's local store with
// its share of the limits. A Breaker stops sending commands to Redis after one failure; Run probes
// it. The local store counts only what was charged during outages, and is kept between them, so a
// Redis that fails repeatedly gives one share for each window, not for each failure. Redis does not
// learn what was charged locally. It does learn of unlocks, removals of known clients, and attempts
// that succeeded, before it is used again.
//
// With n nodes, the local stores together allow N/2 of a limit N, or one attempt each, in addition
// to the N in Redis, and N more for each time that Redis loses its data. orders_test.go visits
// every order of events.
//
// A Redis that lost its data looks healthy. The loss is detected by account: if Redis does not know
// an account and the database does, its known clients are written to Redis before the attempt is
// decided. So known clients stay known, and removed ones stay removed.
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

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"

	"authguard/failures"
	"authguard/guard"
	"authguard/internal/redisstore"
	"authguard/trusted"
)

// Config configures a Store. Redis, Budget, Log and OnChange are optional.
type Config struct {
	Client redis.UniversalClient
	// Redis configures the store in Redis; New sets Elsewhere and Spent.
	Redis redisstore.Options
	// Counters are the local store's, for this Store alone.
	Counters *failures.Memory
	// KnownClients are the known clients in SQL.
	KnownClients trusted.Store
	// Nodes returns the number of nodes last seen, including this one.
	Nodes func() int
	// Budget bounds one round trip to Redis; default DefaultBudget.
	Budget time.Duration
	// Log is where the loss and the return of Redis are logged; default slog.Default().
	Log *slog.Logger
	// OnChange, if not nil, is called then, too. It must not block.
	OnChange func(up bool, why error)
}

// Store is a guard.Store that survives the loss of Redis. It is safe for concurrent use.
type Store struct {
	*Breaker
	config Config
	redis  *redisstore.Store
	local  *guard.Local
	node   uint64 // marks the charges of this process's local store
	unsent *unsent
}

var _ guard.Store = (*Store)(nil)

// New returns a store and adds a breaker to the client. It sends nothing to Redis.
func New(c Config) (*Store, error) {
	if c.Client == nil || c.Counters == nil || c.KnownClients == nil || c.Nodes == nil {
		return nil, errors.New("nodes: Client, Counters, KnownClients and Nodes must be set")
	}
	c.Log = cmp.Or(c.Log, slog.Default())
	s := &Store{config: c, local: guard.NewLocal(c.Counters, c.KnownClients), node: rand.Uint64() | 1, unsent: new(unsent)}
	s.local.Sprays = failures.NewSprays(s.sprayed)
	c.Redis.Sprays = s.local.Sprays
	c.Redis.Elsewhere, c.Redis.Spent = s.fromDatabase, s.spent
	var err error
	if s.redis, err = redisstore.New(c.Client, c.Redis); err != nil {
		return nil, fmt.Errorf("nodes: %w", err)
	}
	s.Breaker = NewBreaker(c.Client, c.Budget, c.Log, c.OnChange)
	return s, nil
}

// Beside returns the store of another guard: the same Redis and known clients, with local counters
// of its own. Run serves both.
func (s *Store) Beside(counters *failures.Memory) *Store {
	other := &Store{Breaker: s.Breaker, config: s.config, redis: s.redis, node: s.node, unsent: s.unsent}
	other.config.Counters, other.local = counters, guard.NewLocal(counters, s.config.KnownClients)
	other.local.Sprays = s.local.Sprays
	return other
}

// Redis is the store in Redis.
func (s *Store) Redis() *redisstore.Store { return s.redis }

// Unsent is the number of changes not yet written to Redis.
func (s *Store) Unsent() int { return s.unsent.len() }

// sprayed reports what this node found alone. With Redis all nodes find it together.
func (s *Store) sprayed(one failures.Spray) {
	if notify := s.config.Redis.OnSpray; notify != nil && !s.Up() {
		notify(one)
	}
}

// shared reports whether the nodes count together: Redis is available and has all changes.
func (s *Store) shared() bool { return s.Up() && s.unsent.len() == 0 }

// Begin implements guard.Store. If Redis did not confirm a charge in time, the attempt may be
// charged twice.
func (s *Store) Begin(ctx context.Context, c *guard.Charge) error {
	if s.shared() {
		if err := s.redis.Begin(ctx, c); err == nil || ctx.Err() != nil {
			return err
		}
	}
	return s.beginLocally(ctx, c)
}

// beginLocally charges this node's share of the limits. Known clients keep their whole limit: users
// must not be locked out by an outage.
func (s *Store) beginLocally(ctx context.Context, c *guard.Charge) error {
	whole := *c
	for i := range c.Subjects() {
		if one := &c.Subjects()[i]; one.Kind != guard.OnPair {
			one.Limits = divide(one.Limits, s.config.Nodes())
		}
	}
	ctx, cancel := context.WithTimeout(ctx, s.budget) // for the known clients
	defer cancel()
	err := s.local.Begin(ctx, c)
	for i := range c.Subjects() {
		c.Subjects()[i].Limits = whole.Subjects()[i].Limits
	}
	if c.ID.Charged() {
		c.ID.Node = s.node
	}
	return err
}

// divide returns one node's share of the limits: half of each over all nodes, or one attempt each.
// Delays stay whole.
func divide(l *failures.Limits, nodes int) *failures.Limits {
	if len(l.List()) == 0 {
		return l
	}
	var limits []failures.Limit
	for _, one := range l.List() {
		one.Failures = max(1, one.Failures/(2*nodes))
		limits = append(limits, one)
	}
	return failures.MustLimits(l.Backoff(), limits...).Keeping(l) // valid, as the whole one is
}

// Settle implements guard.Store. A charge in the local store of another node stands.
func (s *Store) Settle(ctx context.Context, of *guard.Charge, o guard.Outcome) error {
	own := *of // it may wait for Redis
	c := &own
	var local error
	switch {
	case !c.ID.Charged():
		return nil
	case c.ID.Node == s.node:
		local = s.local.Settle(ctx, c, o)
	case o == guard.Succeeded: // the database knows the client in an outage
		local = s.local.Remember(ctx, c)
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
	err := s.changeRedis(ctx, mostSettled, func(ctx context.Context) error { return s.redis.Settle(ctx, c, o) })
	if err == nil && full {
		return local
	}
	return err
}

// Read implements guard.Store.
func (s *Store) Read(ctx context.Context, c *guard.Charge) (guard.Used, error) {
	if s.shared() {
		if used, err := s.redis.Read(ctx, c); err == nil || ctx.Err() != nil {
			return used, err
		}
	}
	return s.local.Read(ctx, c)
}

// Clear implements guard.Store.
func (s *Store) Clear(ctx context.Context, subjects []guard.Subject) error {
	return errors.Join(s.local.Clear(ctx, subjects),
		s.changeRedis(ctx, mostUnsent, func(ctx context.Context) error { return s.redis.Clear(ctx, subjects) }))
}

// Forget implements guard.Store.
func (s *Store) Forget(ctx context.Context, account, client trusted.Key, now time.Time) error {
	return errors.Join(s.local.Forget(ctx, account, client, now),
		s.changeRedis(ctx, mostUnsent, func(ctx context.Context) error { return s.redis.Forget(ctx, account, client, now) }))
}

// spent writes to the database that a client exceeded its limits.
func (s *Store) spent(ctx context.Context, account, client trusted.Key, now time.Time) {
	_ = s.config.KnownClients.Spend(ctx, account, client, now) // missing only while Redis is gone
}

// fromDatabase returns the known clients of an account that Redis does not know.
func (s *Store) fromDatabase(ctx context.Context, c *guard.Charge) (trusted.Record, bool) {
	record, err := s.config.KnownClients.Record(ctx, c.Account, c.Now)
	return record, err == nil && (len(record.Entries) > 0 || record.Reset > 0)
}

// changeRedis changes Redis now or, while it is unavailable, later, unless most changes wait
// already.
func (s *Store) changeRedis(ctx context.Context, most int, do func(context.Context) error) error {
	if s.shared() {
		if err := do(ctx); err == nil || s.Up() {
			return err
		}
	}
	s.unsent.add(most, do)
	return nil
}

// Bounds of the changes that wait for Redis. Settled attempts leave room for unlocks and removals
// of known clients, of which the newest are kept.
const (
	mostSettled = 10_000
	mostUnsent  = 2 * mostSettled
)

// unsent are the changes not yet written to Redis, in order.
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

// send writes the first change, and drops it unless Redis is unavailable again. It returns false if
// none is left.
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

// ErrDown means that no command was sent, because Redis was unavailable before.
var ErrDown = errors.New("nodes: Redis cannot be used")

const (
	// DefaultBudget bounds one round trip to Redis.
	DefaultBudget = 250 * time.Millisecond
	probeEvery    = 250 * time.Millisecond
	// openFor is less than probeEvery, so that the breaker admits each probe.
	openFor = 200 * time.Millisecond
)

// A Breaker stops sending commands to a Redis that has failed once. As a hook of the client it
// bounds every command. While it is open, it admits only probes, so that no user waits for Redis.
// It is safe for concurrent use.
type Breaker struct {
	budget   time.Duration
	circuit  *gobreaker.CircuitBreaker[struct{}]
	failures atomic.Int64
	log      *slog.Logger
	onChange func(up bool, why error)

	// ready is false from a failure until a successful probe, and while incompatible nodes use Redis.
	ready atomic.Bool

	mu    sync.Mutex
	open  bool      // the circuit
	since time.Time // when Redis was lost or met last
	why   error     // the last failure
}

// NewBreaker guards a client, whose MaxRetries must be -1 and whose ContextTimeoutEnabled must be
// set (redisstore.Connect). budget bounds a round trip, 0 for DefaultBudget. onChange is called
// when Redis becomes unavailable or available; it must not block, and may be nil.
func NewBreaker(client redis.UniversalClient, budget time.Duration, log *slog.Logger, onChange func(up bool,
	why error)) *Breaker {
	if budget <= 0 {
		budget = DefaultBudget
	}
	if onChange == nil {
		onChange = func(bool, error) {}
	}
	b := &Breaker{budget: budget, log: log, onChange: onChange}
	b.ready.Store(true)
	b.circuit = gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Timeout:       openFor,
		ReadyToTrip:   func(gobreaker.Counts) bool { return true },
		IsSuccessful:  func(err error) bool { return !unusable(err) },
		IsExcluded:    func(err error) bool { return errors.Is(err, context.Canceled) },
		OnStateChange: b.changed,
	})
	client.AddHook(b)
	return b
}

// Up reports whether Redis is available.
func (b *Breaker) Up() bool { return b.ready.Load() && b.circuit.State() == gobreaker.StateClosed }

// State is since when Redis is up or down (zero: it never failed), and why it is down; nil if it is
// up.
func (b *Breaker) State() (since time.Time, why error) {
	up := b.Up()
	b.mu.Lock()
	defer b.mu.Unlock()
	if up {
		return b.since, nil
	}
	return b.since, b.why
}

// Away is for how long Redis has been unavailable; 0 if it is available.
func (b *Breaker) Away() time.Duration {
	if b.Up() {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Since(b.since)
}

// Failures is the number of failed round trips.
func (b *Breaker) Failures() int64 { return b.failures.Load() }

// probing marks the context of a probe, which the open breaker admits; inTrip that of a round trip,
// whose new connections greet Redis through the same hook.
type (
	probing struct{}
	inTrip  struct{}
)

// DialHook implements redis.Hook.
func (b *Breaker) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (b *Breaker) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return b.do(ctx, []redis.Cmder{cmd}, func(ctx context.Context) error { return next(ctx, cmd) })
	}
}

// ProcessPipelineHook implements redis.Hook.
func (b *Breaker) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return b.do(ctx, cmds, func(ctx context.Context) error { return next(ctx, cmds) })
	}
}

func (b *Breaker) do(ctx context.Context, cmds []redis.Cmder, trip func(context.Context) error) error {
	if ctx.Value(inTrip{}) != nil {
		return trip(ctx)
	}
	if !b.Up() && ctx.Value(probing{}) == nil {
		return fail(cmds)
	}
	_, err := b.circuit.Execute(func() (struct{}, error) {
		ctx, cancel := context.WithTimeout(context.WithValue(ctx, inTrip{}, true), b.budget)
		defer cancel()
		err := trip(ctx)
		for _, cmd := range cmds { // the first error may be a harmless one
			if unusable(cmd.Err()) {
				err = cmd.Err()
			}
		}
		if unusable(err) {
			b.failures.Add(1)
			b.mu.Lock()
			b.why = err
			b.mu.Unlock()
		}
		return struct{}{}, err
	})
	if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
		return fail(cmds)
	}
	return err
}

func fail(cmds []redis.Cmder) error {
	for _, cmd := range cmds {
		cmd.SetErr(ErrDown)
	}
	return ErrDown
}

// unavailable are the prefixes, after an optional ERR, of errors by which Redis says that it cannot
// work now.
func unavailable() []string {
	return []string{
		"LOADING", "READONLY", "OOM", "MISCONF", "MASTERDOWN", "CLUSTERDOWN", "NOREPLICAS", "BUSY", "NOAUTH",
		"WRONGPASS", "NOPERM", "max number of clients", "AUTH", "invalid password", "Client sent AUTH",
	}
}

// unusable reports whether an error means that Redis cannot be used. A missing key, a wrong command
// and a caller that canceled do not.
func unusable(err error) bool {
	if err == nil || errors.Is(err, redis.Nil) || errors.Is(err, context.Canceled) {
		return false
	}
	var answer redis.Error
	if !errors.As(err, &answer) {
		return true // the connection, or the time
	}
	for _, word := range unavailable() {
		if redis.HasErrorPrefix(err, word) {
			return true
		}
	}
	return redis.IsOOMError(err)
}
