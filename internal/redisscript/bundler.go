package redisscript

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// flights is how many round trips a Bundler makes at once: enough that a
	// server has work while the answers to other work are being read.
	flights = 4
	// slowTrip is how long a round trip takes at most that is worth waiting for:
	// while they take longer everybody has one of his own.
	slowTrip = 20 * time.Millisecond
	// mostFlights are as many as there may be connections.
	mostFlights = 64
)

// A Bundler runs the scripts of many callers in the same round trips. Who comes
// while few round trips are under way does not wait; who comes later goes with
// the next one, together with all others who came meanwhile. So the busier a
// node is the less a script costs it, and Redis. Safe for concurrent use.
type Bundler struct {
	client redis.UniversalClient
	now    func() time.Time

	mu      sync.Mutex
	waiting []*errand
	flying  int
	slow    bool // the last round trip that has ended was
}

// NewBundler returns a bundler of a client.
func NewBundler(client redis.UniversalClient) *Bundler {
	return &Bundler{client: client, now: time.Now}
}

// An errand is the commands of one caller.
type errand struct {
	cmds []*redis.Cmd
	done chan struct{} // has room for one
}

// errands are used again unless their caller did not wait for them.
var errands = sync.Pool{New: func() any { return &errand{done: make(chan struct{}, 1)} }}

// Run is the function of that name. It returns when ctx's time is over; whether
// a call that was under way then was run is not known. If ctx is cancelled it
// waits for calls that are under way, for as long as the client does, and
// returns with what came of them.
func (b *Bundler) Run(ctx context.Context, calls []Call) error { return run(ctx, b.send, calls) }

func (b *Bundler) send(ctx context.Context, cmds []*redis.Cmd) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	e := errands.Get().(*errand)
	e.cmds = cmds
	b.join(e)
	select {
	case <-e.done:
	case <-ctx.Done():
		if b.leave(e) || !e.last(ctx) {
			return ctx.Err()
		}
	}
	e.cmds = nil
	errands.Put(e)
	return nil
}

// last waits for an errand that is under way although ctx has ended: whoever
// hung up may have charged half of what he was about to, and somebody has to
// take it back. It reports false if it is out of time.
func (e *errand) last(ctx context.Context) (done bool) {
	if errors.Is(ctx.Err(), context.Canceled) {
		<-e.done
		return true
	}
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}

// join queues an errand, and sees to it that somebody runs it.
func (b *Bundler) join(e *errand) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = append(b.waiting, e)
	if b.flying < flights || b.slow && b.flying < mostFlights {
		b.flying++
		go b.fly()
	}
}

// leave takes an errand out of the queue. It reports false if it is under way.
func (b *Bundler) leave(e *errand) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := len(b.waiting)
	b.waiting = slices.DeleteFunc(b.waiting, func(one *errand) bool { return one == e })
	return len(b.waiting) < before
}

// fly makes round trips until nobody is waiting. They are nobody's own, so no
// caller's context ends them: that is for the client's time-outs.
func (b *Bundler) fly() {
	var boarded []*errand
	var cmds []*redis.Cmd
	for b.board(&boarded) {
		cmds = cmds[:0]
		for _, e := range boarded {
			cmds = append(cmds, e.cmds...)
		}
		b.trip(cmds)
		for _, e := range boarded {
			e.done <- struct{}{}
		}
	}
}

// trip is one round trip. No request would catch its panic.
func (b *Bundler) trip(cmds []*redis.Cmd) {
	began := b.now()
	defer func() {
		if why := recover(); why != nil {
			for _, cmd := range cmds {
				cmd.SetErr(fmt.Errorf("redisscript: the client panicked: %v", why))
			}
		}
		slow := b.now().Sub(began) > slowTrip
		b.mu.Lock()
		b.slow = slow
		b.mu.Unlock()
	}()
	_ = direct(b.client)(context.Background(), cmds)
}

// board takes everybody who waits. It reports false if nobody does; the caller
// no longer counts as flying then.
func (b *Bundler) board(into *[]*errand) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) == 0 {
		b.flying--
		return false
	}
	*into, b.waiting = b.waiting, (*into)[:0]
	return true
}
