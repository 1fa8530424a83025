package nodes

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrDown means that Redis was not asked, because it did not answer before.
var ErrDown = errors.New("nodes: Redis does not answer")

// errBudget ends a decision that took Redis too long.
var errBudget = errors.New("nodes: Redis took longer than a decision may")

const (
	// DefaultBudget is how long Redis may take over one decision.
	DefaultBudget = 250 * time.Millisecond
	// watchEvery is how often a line that is up looks whether Redis still
	// knows what it was told.
	watchEvery = 250 * time.Millisecond
	// lookEvery is how often a line that is down looks whether it is up again.
	// A line that goes down again within flapWithin waits twice as long each
	// time, up to lookAtLeast.
	lookEvery   = 200 * time.Millisecond
	lookAtLeast = 2 * time.Second
	flapWithin  = 5 * time.Second
)

// A Line is the connection to Redis. It is a redis.Hook of the client that it
// was made for. Safe for concurrent use.
type Line struct {
	budget   time.Duration
	log      *slog.Logger
	onChange func(up bool, why error)
	look     func(context.Context) error
	turns    chan struct{}

	down     atomic.Bool
	failures atomic.Int64 // trips that failed
	wake     chan struct{}
	stop     context.CancelFunc
	stopped  sync.WaitGroup

	mu     sync.Mutex
	since  time.Time // of the state, down or up
	why    error
	pauses time.Duration
}

// NewLine takes a client over, whose MaxRetries must be -1 and whose
// ContextTimeoutEnabled must be set. budget is how long one decision may take,
// 0 for DefaultBudget; onChange is told when the line goes down or comes back,
// and must not block; it may be nil.
func NewLine(client redis.UniversalClient, budget time.Duration, log *slog.Logger, onChange func(up bool, why error)) *Line {
	if budget <= 0 {
		budget = DefaultBudget
	}
	if onChange == nil {
		onChange = func(bool, error) {}
	}
	l := &Line{
		budget: budget, log: log, onChange: onChange, wake: make(chan struct{}, 1),
		look:   func(ctx context.Context) error { return client.Ping(ctx).Err() },
		pauses: lookEvery, turns: make(chan struct{}, connections),
	}
	client.AddHook(l)
	return l
}

// OnLook sets what is done every second while the line is up, and before it
// comes back: an error means that it does not. Call it before Start.
func (l *Line) OnLook(f func(context.Context) error) { l.look = f }

// Start looks after the line until Stop. It looks once before it returns, so
// that a Redis that is away at the start is known to be.
func (l *Line) Start() {
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), own{}, true))
	l.stop = cancel
	l.lookNow(ctx)
	l.stopped.Go(func() { l.run(ctx) })
}

// Stop ends Start.
func (l *Line) Stop() {
	l.stop()
	l.stopped.Wait()
}

// Up reports whether Redis is asked.
func (l *Line) Up() bool { return !l.down.Load() }

// State is since when the line is as it is, and why it is down; nil if it is up.
func (l *Line) State() (since time.Time, why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.since, l.why
}

// Failures is how many trips have failed since the start.
func (l *Line) Failures() int64 { return l.failures.Load() }

// Wake has the line looked at soon.
func (l *Line) Wake() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Lost takes the line down since Redis no longer knows what it was told.
func (l *Line) Lost(why error) {
	l.fail(why)
	l.Wake()
}

func (l *Line) run(ctx context.Context) {
	for {
		timer := time.NewTimer(l.pause())
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-l.wake:
			timer.Stop()
		case <-timer.C:
		}
		l.lookNow(ctx)
	}
}

func (l *Line) pause() time.Duration {
	if l.Up() {
		return watchEvery
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pauses
}

func (l *Line) lookNow(ctx context.Context) {
	err := l.look(ctx)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		l.fail(err)
	case l.down.Load():
		l.setUp()
	}
}

func (l *Line) setUp() {
	l.mu.Lock()
	was := l.since
	l.since, l.why = time.Now(), nil
	l.mu.Unlock()
	l.down.Store(false)
	l.log.Info("Redis is back: the nodes count together again", "after", time.Since(was).Round(time.Millisecond))
	l.onChange(true, nil)
}

func (l *Line) fail(why error) {
	l.failures.Add(1)
	if !l.down.CompareAndSwap(false, true) {
		return
	}
	l.mu.Lock()
	if time.Since(l.since) < flapWithin {
		l.pauses = min(2*l.pauses, lookAtLeast)
	} else {
		l.pauses = lookEvery
	}
	l.since, l.why = time.Now(), why
	l.mu.Unlock()
	l.log.Error("Redis cannot be used: this node counts alone, with divided limits", "error", why)
	l.onChange(false, why)
}

// own marks the line's own commands, which go through although it is down.
type own struct{}

// within bounds a decision, however many trips it takes. There are only so many
// at once: a node with more to do than it can must not take its own queue for
// a slow Redis and loosen its limits. Whoever waits for a turn waits for as
// long as it takes, or until ctx ends.
func (l *Line) within(ctx context.Context) (context.Context, context.CancelFunc) {
	select {
	case l.turns <- struct{}{}:
	case <-ctx.Done():
		return ctx, func() {}
	}
	within, cancel := context.WithTimeoutCause(ctx, l.budget, errBudget)
	return within, func() { cancel(); <-l.turns }
}

// DialHook implements redis.Hook.
func (l *Line) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (l *Line) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return l.do(ctx, func(ctx context.Context) error { return next(ctx, cmd) }, cmd)
	}
}

// ProcessPipelineHook implements redis.Hook.
func (l *Line) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return l.do(ctx, func(ctx context.Context) error {
			err := next(ctx, cmds)
			for _, cmd := range cmds { // the first error may be a harmless one
				if broken(cmd.Err()) {
					return cmd.Err()
				}
			}
			return err
		}, cmds...)
	}
}

func (l *Line) do(ctx context.Context, run func(context.Context) error, cmds ...redis.Cmder) error {
	if l.down.Load() && ctx.Value(own{}) == nil {
		for _, cmd := range cmds {
			cmd.SetErr(ErrDown)
		}
		return ErrDown
	}
	limited := ctx
	if end, ok := ctx.Deadline(); !ok || time.Until(end) > l.budget {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, l.budget)
		defer cancel()
	}
	err := run(limited)
	if broken(err) && !gaveUp(ctx) {
		l.fail(err)
	}
	return err
}

// gaveUp reports whether it was the caller who did not wait any longer, for
// another reason than that Redis took too long over a decision: a client that
// hung up says nothing of Redis.
func gaveUp(ctx context.Context) bool {
	if end, ok := ctx.Deadline(); ok && !time.Now().Before(end) {
		<-ctx.Done() // the connection may have noticed a moment before
	}
	return ctx.Err() != nil && !errors.Is(context.Cause(ctx), errBudget)
}
