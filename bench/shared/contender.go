package shared

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"

	"authguard/guard"
)

// A contender counts failed attempts in Redis, each with new keys or ten with the same keys.
type contender struct {
	name  string
	times int  // attempts per key
	own   bool // authguard
	// open makes it ready.
	open func(ctx context.Context, s *server, times int) (counter, error)
}

// An attemptFunc counts an attempt at the keys of a number. It is safe for concurrent use.
type attemptFunc func(ctx context.Context, key int) error

// A counter is an open contender.
type counter struct {
	attempt attemptFunc
	trips   *trips
	close   func()
	// whole repeats a round that is not valid; nil: every round is valid.
	whole func(round func() error) error
}

// The names of contenders. The last four are authguard.
const (
	ping          = "PING"
	threeINCR     = "one script of three INCRs, expiry set once"
	redisRate     = "redis_rate v10, three calls"
	FailedAttempt = "authguard: a failed attempt"
	TaggedAttempt = "authguard: a failed attempt with a password tag"
	FullLimit     = "authguard: a limit known to be full"
	AddressLogin  = "authguard: a login of a known client, by IP address"
	DeviceLogin   = "authguard: a login of a known client, by device cookie"
)

// contenders are all contenders.
func contenders() (all []contender) {
	for _, times := range []int{1, 10} {
		all = append(all,
			contender{ping, times, false, openPing},
			contender{threeINCR, times, false, openINCRs(true)},
			contender{"the same, no expiry", times, false, openINCRs(false)},
			contender{FailedAttempt, times, true, openFailing("", false)},
			contender{TaggedAttempt, times, true, openFailing("t", true)},
			contender{redisRate, times, false, openRedisRate},
			contender{"ulule/limiter v3, three calls", times, false, openUlule},
			contender{"throttled v2, three calls", times, false, openThrottled},
			contender{"sorted sets, three in one MULTI", times, false, openSortedSets},
		)
	}
	return append(all,
		contender{FullLimit, 0, true, openFull},
		contender{AddressLogin, 0, true, openLogin("l:", false)},
		contender{DeviceLogin, 0, true, openLogin("d:", true)},
	)
}

// row is the number of keys that get an attempt in turn before the first gets the next.
const row = 1000

// key is the number of the keys of the i-th attempt.
func (c *contender) key(i int) int {
	if c.times == 0 {
		return i
	}
	return i/(row*c.times)*row + i%row
}

// openFailing is the whole guard with Redis, from the name and IP address to the settled failure: IP
// lists, the known client, and four counters with all their limits. With more than one attempt per key,
// no limit is enforced, because the account's would stop the attempts. With tags, each attempt has a
// different password, from which the guard makes a tag.
func openFailing(prefix string, tags bool) func(context.Context, *server, int) (counter, error) {
	return func(_ context.Context, s *server, times int) (counter, error) {
		h := how{prefix: fmt.Sprintf("%s%d:", prefix, times), policy: guard.DefaultPolicy()}
		if times > 1 {
			h.policy = monitored()
		}
		n, err := newNode(s.addr, h)
		if err != nil {
			return counter{}, err
		}
		var passwords atomic.Int64
		return n.counter(func(ctx context.Context, key int) error {
			a := attempt{account: key, address: key}
			if tags {
				a.password = "wrong-" + strconv.FormatInt(passwords.Add(1), 10)
			}
			_, err := n.attempt(ctx, a, guard.Failed)
			return err
		}), nil
	}
}

func (n *node) counter(do attemptFunc) counter { return counter{do, &n.trips, n.Close, n.whole} }

// fullAccounts is the number of accounts with a full limit.
const fullAccounts = 100

// openFull is an attempt from a new IP address at an account whose limit for a day is full.
func openFull(ctx context.Context, s *server, _ int) (counter, error) {
	n, err := newNode(s.addr, how{prefix: "c:", policy: guard.DefaultPolicy()})
	if err != nil {
		return counter{}, err
	}
	stopped := func(ctx context.Context, i int) error {
		d, err := n.begin(ctx, attempt{account: i % fullAccounts, address: 1<<20 + i})
		if err == nil && d.Action != guard.Challenge {
			err = fmt.Errorf("an attempt at a full limit got %v", d.Action)
		}
		return err
	}
	for i := range fullAccounts {
		for j := range 5 {
			if _, err := n.attempt(ctx, attempt{account: i, address: 5*i + j}, guard.Failed); err != nil {
				return counter{}, err
			}
		}
		if err := stopped(ctx, i); err != nil { // the node now knows the full limit
			return counter{}, err
		}
	}
	return n.counter(stopped), nil
}

// openLogin are logins of users from their known clients. With devices, their browsers have device
// cookies, which each login renews.
func openLogin(prefix string, devices bool) func(context.Context, *server, int) (counter, error) {
	return func(ctx context.Context, s *server, _ int) (counter, error) {
		n, err := newNode(s.addr, how{prefix: prefix, policy: guard.DefaultPolicy(), devices: devices})
		if err != nil {
			return counter{}, err
		}
		var cookies [row]string
		login := func(ctx context.Context, i int) (string, error) {
			a := attempt{account: i % row, address: i % row, cookie: cookies[i%row]}
			return n.attempt(ctx, a, guard.Succeeded)
		}
		for i := range cookies {
			if cookies[i], err = login(ctx, i); err != nil {
				return counter{}, err
			}
		}
		return n.counter(func(ctx context.Context, i int) error {
			_, err := login(ctx, i)
			return err
		}), nil
	}
}
