package nodes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrDown means that Redis was not asked, because it did not answer before.
var ErrDown = errors.New("nodes: Redis does not answer")

const (
	// DefaultBudget is how long one trip may take.
	DefaultBudget = 250 * time.Millisecond
	// lookEvery is how often a line that is down looks whether it is up again.
	lookEvery = 200 * time.Millisecond
)

// A Line is the connection to Redis. It is a redis.Hook of the client that it
// was made for. Safe for concurrent use.
type Line struct {
	client   redis.UniversalClient
	budget   time.Duration
	log      *slog.Logger
	onChange func(up bool, why error)

	down     atomic.Bool
	failures atomic.Int64 // commands that failed
	wake     chan struct{}
	stop     chan struct{}
	stopped  sync.WaitGroup

	mu       sync.Mutex
	since    time.Time
	why      error
	returned []func(context.Context) error
}

// NewLine takes a client over. budget is how long one trip may take, 0 for
// DefaultBudget; onChange is told when the line goes down or comes back, and
// must not block; it may be nil.
func NewLine(client redis.UniversalClient, budget time.Duration, log *slog.Logger, onChange func(up bool, why error)) *Line {
	if budget <= 0 {
		budget = DefaultBudget
	}
	if onChange == nil {
		onChange = func(bool, error) {}
	}
	l := &Line{client: client, budget: budget, log: log, onChange: onChange, wake: make(chan struct{}, 1), stop: make(chan struct{})}
	client.AddHook(l)
	return l
}

// OnReturn adds what is to be told to Redis before it is asked again. An error
// means that it is not back yet. Call it before Start.
func (l *Line) OnReturn(f func(context.Context) error) { l.returned = append(l.returned, f) }

// Start looks after the line until Stop.
func (l *Line) Start() {
	l.stopped.Go(func() {
		for {
			select {
			case <-l.stop:
				return
			case <-l.wake:
			}
			l.lookUntilUp()
			// Whoever asked just before the line was up may have more to tell.
			if err := l.tell(context.Background()); err != nil {
				l.log.Warn("telling Redis what happened while it was gone", "error", err)
			}
		}
	})
}

// Wake has what OnReturn added run soon, if the line is up; if it is down, that
// happens anyway.
func (l *Line) Wake() {
	if l.down.Load() {
		return
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Stop ends Start.
func (l *Line) Stop() {
	close(l.stop)
	l.stopped.Wait()
}

// Up reports whether Redis is asked.
func (l *Line) Up() bool { return !l.down.Load() }

// State is since when and why the line is down; zero and nil if it is up.
func (l *Line) State() (since time.Time, why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.since, l.why
}

// Failures is how many trips have failed since the start.
func (l *Line) Failures() int64 { return l.failures.Load() }

func (l *Line) lookUntilUp() {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for l.down.Load() {
		select {
		case <-l.stop:
			return
		case <-tick.C:
		}
		if err := l.look(); err == nil {
			l.setUp()
		}
	}
}

// own marks the line's own commands, which go through although it is down.
type own struct{}

// look tries a write, since a replica or a full server answers reads, and then
// tells what happened meanwhile.
func (l *Line) look() error {
	ctx := context.WithValue(context.Background(), own{}, true)
	if err := l.client.Set(ctx, "ag:line", 1, time.Minute).Err(); err != nil {
		return err
	}
	return l.tell(ctx)
}

func (l *Line) tell(ctx context.Context) error {
	for _, f := range l.returned {
		if err := f(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (l *Line) setUp() {
	l.mu.Lock()
	since := l.since
	l.since, l.why = time.Time{}, nil
	l.mu.Unlock()
	l.down.Store(false)
	l.log.Info("Redis is back: nodes count together again", "after", time.Since(since).Round(time.Millisecond))
	l.onChange(true, nil)
}

// Fail takes the line down.
func (l *Line) fail(err error) {
	l.failures.Add(1)
	if !l.down.CompareAndSwap(false, true) {
		return
	}
	l.mu.Lock()
	l.since, l.why = time.Now(), err
	l.mu.Unlock()
	l.log.Error("Redis does not answer: this node counts alone, with divided limits", "error", err)
	l.onChange(false, err)
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// DialHook implements redis.Hook.
func (l *Line) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (l *Line) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return l.do(ctx, func(ctx context.Context) error { return next(ctx, cmd) }, func(err error) { cmd.SetErr(err) })
	}
}

// ProcessPipelineHook implements redis.Hook.
func (l *Line) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return l.do(ctx, func(ctx context.Context) error {
			err := next(ctx, cmds)
			for _, cmd := range cmds { // the first error may be a harmless one
				if cause := cmd.Err(); broken(cause) {
					return cause
				}
			}
			return err
		}, func(err error) {
			for _, cmd := range cmds {
				cmd.SetErr(err)
			}
		})
	}
}

func (l *Line) do(ctx context.Context, run func(context.Context) error, refuse func(error)) error {
	if l.down.Load() && ctx.Value(own{}) == nil {
		refuse(ErrDown)
		return ErrDown
	}
	limited, cancel := context.WithTimeout(ctx, l.budget)
	defer cancel()
	err := run(limited)
	if err != nil && broken(err) && ctx.Err() == nil { // a client that hung up says nothing of Redis
		l.fail(err)
	}
	return err
}

// refusals are the first words of answers by which Redis says that it can do
// nothing now.
var refusals = []string{
	"LOADING", "READONLY", "OOM", "MISCONF", "MASTERDOWN", "CLUSTERDOWN", "NOAUTH", "WRONGPASS", "NOPERM", "NOREPLICAS", "BUSY", "ERR max number of clients",
	"ERR AUTH",
}

// broken reports whether an error says that Redis cannot be used, and not that
// one command was wrong.
func broken(err error) bool {
	if err == nil || errors.Is(err, redis.Nil) || errors.Is(err, ErrDown) {
		return false
	}
	var answer redis.Error
	if errors.As(err, &answer) {
		for _, word := range refusals {
			if strings.HasPrefix(answer.Error(), word) {
				return true
			}
		}
		return strings.Contains(answer.Error(), "OOM command not allowed")
	}
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, redis.ErrClosed) ||
		strings.Contains(fmt.Sprint(err), "redis:") || !errors.Is(err, context.Canceled)
}
