package nodes

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
)

// ErrDown means that Redis was not asked, because it could not be used before.
var ErrDown = errors.New("nodes: Redis cannot be used")

const (
	// DefaultBudget is how long one trip to Redis may take.
	DefaultBudget = 250 * time.Millisecond
	probeEvery    = 250 * time.Millisecond
	// openFor is less than probeEvery: each probe finds the breaker ready for
	// one.
	openFor = 200 * time.Millisecond
)

// A Breaker stops asking a Redis that has failed once. It is a hook of the
// client, so it bounds every command, whoever sends it. Only probes go through
// while it is open: no visitor waits to see whether Redis is back. It is safe
// for concurrent use.
type Breaker struct {
	budget   time.Duration
	circuit  *gobreaker.CircuitBreaker[struct{}]
	failures atomic.Int64
	log      *slog.Logger
	onChange func(up bool, why error)

	// met is false from a loss on until Redis was probed, and while nodes that count apart
	// from this one use it.
	met atomic.Bool

	mu    sync.Mutex
	open  bool      // the circuit
	since time.Time // when Redis was lost or met last
	why   error     // the last failure
}

// NewBreaker guards a client, whose MaxRetries must be -1 and whose
// ContextTimeoutEnabled must be set (redisstore.Connect). A trip may take as
// long as the budget, 0 for DefaultBudget. onChange is told when Redis is lost
// or back; it must not block, and may be nil.
func NewBreaker(client redis.UniversalClient, budget time.Duration, log *slog.Logger, onChange func(up bool,
	why error)) *Breaker {
	if budget <= 0 {
		budget = DefaultBudget
	}
	if onChange == nil {
		onChange = func(bool, error) {}
	}
	b := &Breaker{budget: budget, log: log, onChange: onChange}
	b.met.Store(true)
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

// Up reports whether Redis is asked.
func (b *Breaker) Up() bool { return b.met.Load() && b.circuit.State() == gobreaker.StateClosed }

// State is since when Redis is up or down (zero: it was never lost), and why it
// is down; nil if it is up.
func (b *Breaker) State() (since time.Time, why error) {
	up := b.Up()
	b.mu.Lock()
	defer b.mu.Unlock()
	if up {
		return b.since, nil
	}
	return b.since, b.why
}

// Failures is how many trips have failed.
func (b *Breaker) Failures() int64 { return b.failures.Load() }

// changed hears of the circuit's states; half-open is still down. Redis is back only when it
// is met.
func (b *Breaker) changed(_ string, _, to gobreaker.State) {
	b.mu.Lock()
	b.open = to != gobreaker.StateClosed
	if b.why == nil { // the client panicked
		b.why = errors.New("nodes: a request to Redis timed out")
	}
	b.mu.Unlock()
	if to == gobreaker.StateOpen && b.met.Swap(false) {
		b.lost()
	}
}

// Meet says after a probe whether Redis can be counted in: nil, or why not.
func (b *Breaker) Meet(why error) {
	b.mu.Lock()
	was, open, news := b.since, b.open, why != nil && (b.why == nil || b.why.Error() != why.Error())
	if why != nil {
		b.why = why
	}
	b.mu.Unlock()
	switch {
	case why != nil:
		if b.met.Swap(false) || news {
			b.lost()
		}
	case !open && b.met.CompareAndSwap(false, true):
		b.mu.Lock()
		b.since = time.Now()
		b.mu.Unlock()
		b.log.Info("Redis is back; the nodes share counters again", "after", time.Since(was).Round(time.Millisecond))
		b.onChange(true, nil)
	}
}

// lost reports that Redis is down, with the reason.
func (b *Breaker) lost() {
	b.mu.Lock()
	b.since = time.Now()
	why := b.why
	b.mu.Unlock()
	b.log.Error("Redis cannot be used; this node counts locally with its share of the limits", "error", why)
	b.onChange(false, why)
}

// probing marks the context of a probe, which runs also while the breaker is open;
// underWay that of a trip, whose new
// connections greet Redis through the same hook.
type (
	probing  struct{}
	underWay struct{}
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
	if ctx.Value(underWay{}) != nil {
		return trip(ctx)
	}
	if !b.Up() && ctx.Value(probing{}) == nil {
		return refuse(cmds)
	}
	_, err := b.circuit.Execute(func() (struct{}, error) {
		ctx, cancel := context.WithTimeout(context.WithValue(ctx, underWay{}, true), b.budget)
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
		return refuse(cmds)
	}
	return err
}

func refuse(cmds []redis.Cmder) error {
	for _, cmd := range cmds {
		cmd.SetErr(ErrDown)
	}
	return ErrDown
}

// refusals are the first words, after ERR if that is one, of the answers by which
// Redis says that it can do nothing now.
func refusals() []string {
	return []string{
		"LOADING", "READONLY", "OOM", "MISCONF", "MASTERDOWN", "CLUSTERDOWN", "NOREPLICAS", "BUSY", "NOAUTH",
		"WRONGPASS", "NOPERM", "max number of clients", "AUTH", "invalid password", "Client sent AUTH",
	}
}

// unusable reports whether an error says that Redis cannot be used, and not
// that there is no such key or that one command was wrong. A caller who hung up
// says nothing of Redis.
func unusable(err error) bool {
	if err == nil || errors.Is(err, redis.Nil) || errors.Is(err, context.Canceled) {
		return false
	}
	var answer redis.Error
	if !errors.As(err, &answer) {
		return true // the connection, or the time
	}
	for _, word := range refusals() {
		if redis.HasErrorPrefix(err, word) {
			return true
		}
	}
	return redis.IsOOMError(err)
}
