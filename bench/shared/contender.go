package shared

import (
	"context"
	"fmt"

	"authguard/guard"
)

// A contender is something that counts failed attempts in Redis, in one of two
// ways: at keys that it has never seen, or ten times at each.
type contender struct {
	name  string
	times int // attempts at every key
	// open makes it ready.
	open func(ctx context.Context, s *server, times int) (counter, error)
}

// A counter is an open contender. Attempt is safe for concurrent use.
type counter struct {
	// attempt counts an attempt at the keys of this number.
	attempt func(ctx context.Context, key int) error
	trips   *trips
	close   func()
	// whole repeats a round that does not count; nil: every round does.
	whole func(round func() error) error
}

const (
	ping      = "PING"
	threeINCR = "one script of three INCRs, expiry set once"
	redisRate = "redis_rate v10, three calls"
	closedKey = "authguard: a limit known to be full"
)

// contenders are all of them.
func contenders() (all []contender) {
	for _, times := range []int{1, 10} {
		all = append(all,
			contender{ping, times, openPing},
			contender{threeINCR, times, openINCRs(true)},
			contender{"the same, no expiry", times, openINCRs(false)},
			contender{"authguard: a failed attempt", times, openFailing},
			contender{redisRate, times, openRedisRate},
			contender{"ulule/limiter v3, three calls", times, openUlule},
			contender{"throttled v2, three calls", times, openThrottled},
			contender{"sorted sets, three in one MULTI", times, openSortedSets},
		)
	}
	return append(all,
		contender{closedKey, 0, openClosed},
		contender{"authguard: a login of a known client", 0, openLogin},
	)
}

// row is how many keys are attempted in turn before the first is again.
const row = 1000

// key is which keys the i-th attempt is at.
func (c *contender) key(i int) int {
	if c.times == 0 {
		return i
	}
	return i/(row*c.times)*row + i%row
}

// openFailing is the whole guard over Redis, from a name and an address to the
// settled failure: lists, the privileged place, and four counters with all
// their limits. With more than one attempt at a key nothing is enforced: the
// account's would be the first to refuse.
func openFailing(_ context.Context, s *server, times int) (counter, error) {
	h := how{prefix: fmt.Sprintf("%d:", times), policy: guard.DefaultPolicy()}
	if times > 1 {
		h.policy = monitored()
	}
	n, err := newNode(s.addr, h)
	if err != nil {
		return counter{}, err
	}
	return n.counter(func(ctx context.Context, key int) error { return n.attempt(ctx, key, key, guard.Failed) }), nil
}

func (n *node) counter(attempt func(ctx context.Context, key int) error) counter {
	return counter{attempt, &n.trips, n.Close, n.whole}
}

// people is how many accounts are closed, or at home.
const people = 100

// openClosed is an attempt from a new address at an account that had as many
// failures as a day may have.
func openClosed(ctx context.Context, s *server, _ int) (counter, error) {
	n, err := newNode(s.addr, how{prefix: "c:", policy: guard.DefaultPolicy()})
	if err != nil {
		return counter{}, err
	}
	stopped := func(ctx context.Context, i int) error {
		d, err := n.begin(ctx, i%people, 1<<20+i)
		if err == nil && d.Action != guard.Challenge {
			err = fmt.Errorf("an attempt at a full limit got %v", d.Action)
		}
		return err
	}
	for i := range people {
		for j := range 5 {
			if err := n.attempt(ctx, i, 5*i+j, guard.Failed); err != nil {
				return counter{}, err
			}
		}
		if err := stopped(ctx, i); err != nil { // from now on the node knows
			return counter{}, err
		}
	}
	return n.counter(stopped), nil
}

// openLogin is people who log in from where they always do.
func openLogin(ctx context.Context, s *server, _ int) (counter, error) {
	n, err := newNode(s.addr, how{prefix: "l:", policy: guard.DefaultPolicy()})
	if err != nil {
		return counter{}, err
	}
	login := func(ctx context.Context, i int) error {
		return n.attempt(ctx, i%row, i%row, guard.Succeeded)
	}
	for i := range row {
		if err := login(ctx, i); err != nil {
			return counter{}, err
		}
	}
	return n.counter(login), nil
}
