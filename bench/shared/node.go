package shared

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strconv"
	"time"

	"authguard/captchamode"
	"authguard/failures"
	"authguard/guard"
	"authguard/internal/background"
	"authguard/internal/nodes"
	"authguard/internal/redisstore"
	"authguard/trusted"
)

// A node is an authguard without its doors: the guard and the store that
// authguard serve gives it.
type node struct {
	guard *guard.Guard
	trips trips
	store *nodes.Store
	stop  []func()
}

// how a node counts.
type how struct {
	// prefix begins the names of its keys; nodes with the same one count
	// together.
	prefix string
	policy guard.Policy
}

// budget is longer than a node's own, so that a busy machine cannot make it
// count alone.
const budget = 30 * time.Second

func newNode(addr string, h how) (n *node, err error) {
	client := redisstore.Connect(redisstore.Server{Addresses: []string{addr}}, budget)
	n = &node{stop: []func(){func() { _ = client.Close() }}}
	defer func() {
		if err != nil {
			n.Close()
		}
	}()
	client.AddHook(&n.trips)
	retain, pendingFor := h.policy.Retain(), h.policy.PendingFor
	own, err := failures.NewMemory(failures.Config{Retain: retain, PendingFor: pendingFor, MaxBytes: 1 << 30})
	if err != nil {
		return n, err
	}
	places, err := trusted.NewMemory(trusted.MemoryConfig{Limits: h.policy.Places})
	if err != nil {
		return n, err
	}
	n.store, err = nodes.New(nodes.Config{
		Client: client, Redis: redisstore.Options{Prefix: h.prefix, PendingFor: pendingFor, Places: h.policy.Places},
		Counters: own, Places: places, Peek: nothing, Nodes: func() int { return 1 }, Budget: budget, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return n, err
	}
	config := captchamode.DefaultConfig()
	config.Floor, config.Ceiling = 1e9, 1e9 // never on
	mode, err := captchamode.NewMode(config, nil, nil)
	if err != nil {
		return n, err
	}
	group := new(background.Group)
	group.Start(n.store.Run)
	n.stop = append(n.stop, group.Stop)
	n.guard, err = guard.New(guard.Config{
		Policy: h.policy, Secret: []byte("a secret of the benchmark"), Store: n.store, Mode: mode,
	})
	return n, err
}

// nothing is what a Peek without SQL finds.
func nothing(trusted.Key) (trusted.Record, bool) { return trusted.Record{}, false }

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
		for !n.store.Up() {
			time.Sleep(10 * time.Millisecond)
		}
		before := n.store.Failures()
		if err := do(); err != nil || n.store.Failures() == before {
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
	return n.guard.Settle(ctx, d.Ticket, o)
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
