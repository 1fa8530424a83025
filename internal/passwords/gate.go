package passwords

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"
)

// Defaults of a GateConfig.
const (
	DefaultQueue   = 1000
	DefaultMaxWait = 5 * time.Second
)

// A GateConfig configures a Gate. The zero GateConfig is the default.
type GateConfig struct {
	AtOnce  int              // checks that run at the same time; default one per CPU
	Queue   int              // how many may wait; default DefaultQueue
	MaxWait time.Duration    // how long; default DefaultMaxWait
	Now     func() time.Time // measures how long a check takes; default time.Now
}

// A Gate lets in so many at once and queues the rest: privileged places before
// strangers, and first come first served among equals. A privileged place that
// finds the queue full takes the place of the stranger who came last. It is safe
// for concurrent use and has no goroutine of its own.
type Gate struct {
	config GateConfig

	mu      sync.Mutex
	running int
	classes [2]list.List // of *waiter: privileged, strangers
	typical time.Duration
}

const (
	privileged = iota
	strangers
)

// A waiter stands in a queue. ready gets nil when it may go in, or why not; it
// is out of the queue then.
type waiter struct {
	ready chan error
	class int
	place *list.Element
}

// ErrOverloaded says that there was no room for a check. An *Overload wraps it.
var ErrOverloaded = errors.New("passwords: too many password checks at once")

// An Overload is the error of an attempt that was shed. Nothing was checked.
type Overload struct {
	// RetryAfter is about how long the queue takes to drain, 1 s to 1 min.
	RetryAfter time.Duration
}

// Error implements error.
func (o *Overload) Error() string {
	return fmt.Sprintf("%v; try again in %v", ErrOverloaded, o.RetryAfter)
}

// Unwrap is ErrOverloaded.
func (o *Overload) Unwrap() error { return ErrOverloaded }

// NewGate makes an open Gate.
func NewGate(config GateConfig) (*Gate, error) {
	var problems []error
	if config.AtOnce < 0 {
		problems = append(problems, errors.New("at_once: must be at least 1"))
	}
	if config.Queue < 0 {
		problems = append(problems, errors.New("queue: must be at least 1"))
	}
	if config.MaxWait < 0 {
		problems = append(problems, errors.New("max_wait: must be more than 0"))
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return &Gate{config: config.withDefaults(), typical: 250 * time.Millisecond}, nil
}

func (c GateConfig) withDefaults() GateConfig {
	if c.AtOnce == 0 {
		c.AtOnce = runtime.GOMAXPROCS(0)
	}
	if c.Queue == 0 {
		c.Queue = DefaultQueue
	}
	if c.MaxWait == 0 {
		c.MaxWait = DefaultMaxWait
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// Enter waits for its turn. Without an error the caller checks one password and
// then calls leave, once or more. The error is an *Overload if there is no room
// or no turn in time, and ctx's if that ends first.
func (g *Gate) Enter(ctx context.Context, isPrivileged bool) (leave func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w := &waiter{ready: make(chan error, 1), class: strangers}
	if isPrivileged {
		w.class = privileged
	}
	if err := g.queue(w); err != nil {
		return nil, err
	}
	if err := g.wait(ctx, w); err != nil {
		return nil, err
	}
	return g.leave(), nil
}

// Waiting is how many checks run and how many wait, privileged and not.
func (g *Gate) Waiting() (running, privilegedOnes, strangerOnes int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.running, g.classes[privileged].Len(), g.classes[strangers].Len()
}

// queue lets w in at once if there is room, which means that nobody waits.
func (g *Gate) queue(w *waiter) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running < g.config.AtOnce {
		g.running++
		w.ready <- nil
		return nil
	}
	if g.queued() >= g.config.Queue && !g.pushOut(w.class) {
		return g.overload()
	}
	w.place = g.classes[w.class].PushBack(w)
	return nil
}

// pushOut makes room for a privileged place, at the cost of the stranger who
// came last and has waited least.
func (g *Gate) pushOut(class int) bool {
	youngest := g.classes[strangers].Back()
	if class != privileged || youngest == nil {
		return false
	}
	g.answer(youngest.Value.(*waiter), g.overload())
	return true
}

func (g *Gate) wait(ctx context.Context, w *waiter) error {
	timer := time.NewTimer(g.config.MaxWait)
	defer timer.Stop()
	select {
	case err := <-w.ready:
		return err
	case <-ctx.Done():
		return g.giveUp(w, ctx.Err())
	case <-timer.C:
		return g.giveUp(w, nil)
	}
}

// giveUp takes w out of the queue. If its turn has come in the meantime, it goes
// to the next one. Without a reason the reason is the overload.
func (g *Gate) giveUp(w *waiter, reason error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if reason == nil {
		reason = g.overload()
	}
	if w.place != nil {
		g.answer(w, reason)
	}
	if err := <-w.ready; err != nil {
		return err
	}
	g.next()
	return reason
}

// leave gives the caller's turn back, once.
func (g *Gate) leave() func() {
	entered := g.config.Now()
	return sync.OnceFunc(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.typical += (g.config.Now().Sub(entered) - g.typical) / 16
		g.next()
	})
}

// next hands a free turn on, or keeps it for whoever comes.
func (g *Gate) next() {
	for class := range g.classes {
		if first := g.classes[class].Front(); first != nil {
			g.answer(first.Value.(*waiter), nil)
			return
		}
	}
	g.running--
}

func (g *Gate) answer(w *waiter, err error) {
	g.classes[w.class].Remove(w.place)
	w.place = nil
	w.ready <- err
}

func (g *Gate) queued() int { return g.classes[privileged].Len() + g.classes[strangers].Len() }

func (g *Gate) overload() error {
	drained := g.typical * time.Duration(g.queued()+1) / time.Duration(g.config.AtOnce)
	whole := (drained + time.Second - 1).Truncate(time.Second)
	return &Overload{RetryAfter: min(max(whole, time.Second), time.Minute)}
}
