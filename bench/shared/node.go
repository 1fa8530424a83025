package shared

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"authguard/captchamode"
	"authguard/failures"
	"authguard/failures/redisfailures"
	"authguard/guard"
	"authguard/internal/nodes"
	"authguard/trusted/redisplaces"
)

// A node is an authguard without its doors: the guard and the stores that
// authguard serve gives it.
type node struct {
	guard *guard.Guard
	trips trips
	line  *nodes.Line
	stop  []func()
}

// how a node counts.
type how struct {
	// prefix begins the names of its keys; nodes with the same one count
	// together.
	prefix string
	policy guard.Policy
	// split is what a Cluster makes necessary: a script for each place.
	split bool
}

// budget is longer than a Line's own, so that a busy machine cannot make a node
// count alone.
const budget = 30 * time.Second

func newNode(addr string, h how) (n *node, err error) {
	client := nodes.Connect(nodes.Server{Addresses: []string{addr}}, budget)
	n = &node{line: nodes.NewLine(client, budget, slog.New(slog.DiscardHandler), nil), stop: []func(){func() { _ = client.Close() }}}
	defer func() {
		if err != nil {
			n.Close()
		}
	}()
	client.AddHook(&n.trips)
	places, err := redisplaces.New(client, redisplaces.Options{Prefix: h.prefix, Limits: h.policy.Places})
	if err != nil {
		return n, err
	}
	n.guard, err = n.over(client, places, h)
	return n, err
}

// over makes the node's guard and starts what its stores need.
func (n *node) over(client redis.UniversalClient, places *redisplaces.Store, h how) (*guard.Guard, error) {
	retain, pendingFor := h.policy.Retain(), h.policy.PendingFor
	counters, err := redisfailures.New(client, redisfailures.Options{
		Prefix: h.prefix, Retain: retain, PendingFor: pendingFor, Places: places, SplitPlaces: h.split,
	})
	if err != nil {
		return nil, err
	}
	own, err := failures.NewMemory(failures.Config{Retain: retain, PendingFor: pendingFor, MaxBytes: 1 << 30})
	if err != nil {
		return nil, err
	}
	config := captchamode.DefaultConfig()
	config.Floor, config.Ceiling = 1e9, 1e9 // never on
	mode, err := captchamode.NewMode(config, nil, nil)
	if err != nil {
		return nil, err
	}
	known := nodes.NewPlaces(n.line, places, nil)
	together := nodes.NewCounters(nodes.CountersConfig{
		Line: n.line, Redis: counters, Places: known, Own: own,
		Generations: nodes.NewGenerations(client, h.prefix, false), Nodes: func() int { return 1 },
	})
	n.line.Start()
	places.Start()
	counters.Start()
	n.stop = append(n.stop, n.line.Stop, places.Stop, counters.Stop)
	return guard.New(guard.Config{
		Policy: h.policy, Secret: []byte("a secret of the benchmark"), Failures: together, Places: known, Mode: mode,
	})
}

// Close ends the node, the last thing first.
func (n *node) Close() {
	for i := len(n.stop) - 1; i >= 0; i-- {
		n.stop[i]()
	}
}

// errLost means that a node counted alone for a while, as it does when a look
// at Redis takes a busy machine too long.
var errLost = errors.New("a node lost Redis")

// whole has do repeated until the node did not lose Redis meanwhile.
func (n *node) whole(do func() error) error {
	for range 10 {
		for !n.line.Up() {
			time.Sleep(10 * time.Millisecond)
		}
		before := n.line.Failures()
		if err := do(); err != nil || n.line.Failures() == before {
			return err
		}
	}
	return errLost
}

func accountOf(i int) string { return "person-" + strconv.Itoa(i) }

// addressOf is an address in a network of its own.
func addressOf(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{byte(i >> 16), byte(i >> 8), byte(i), 1})
}

// attempt offers a password for an account from an address, and says how that
// ended.
func (n *node) attempt(ctx context.Context, account, address int, o guard.Outcome) error {
	d, err := n.begin(ctx, account, address)
	if err != nil {
		return err
	}
	if d.Action != guard.Proceed {
		return fmt.Errorf("an attempt was stopped: %v, %v", d.Action, d.Reasons)
	}
	return n.guard.Settle(ctx, &d.Ticket, o)
}

func (n *node) begin(ctx context.Context, account, address int) (guard.Decision, error) {
	return n.guard.Begin(ctx, guard.Attempt{Account: accountOf(account), Address: addressOf(address), Door: "bench"})
}

// monitored is the default policy with everything decided and nothing
// enforced.
func monitored() guard.Policy {
	p := guard.DefaultPolicy()
	for _, ladder := range [][]guard.Limit{p.Address, p.Network, p.Account, p.PrivilegedPair} {
		for i := range ladder {
			ladder[i].Monitor = true
		}
	}
	p.PairDelay.Monitor = true
	return p
}
