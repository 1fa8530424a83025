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
	"authguard/guard"
	"authguard/internal/background"
	"authguard/internal/nodes"
	"authguard/internal/redisstore"
	"authguard/trusted"
)

// A node is an authguard without integrations: the guard and the store of authguard serve.
type node struct {
	guard *guard.Guard
	trips trips
	store *nodes.Store
	stop  []func()
}

// how configures a node.
type how struct {
	// prefix begins the names of its keys. Nodes with the same prefix count together.
	prefix string
	policy guard.Policy
	// devices remembers devices by their cookies.
	devices bool
}

// budget is longer than that of authguard serve, so that a node on a busy machine does not leave Redis.
const budget = 30 * time.Second

// secret is the secret of every node.
var secret = []byte("a secret of the benchmark, of 32 bytes or more")

func newNode(addr string, h how) (n *node, err error) {
	client := redisstore.Connect(redisstore.Server{Addresses: []string{addr}}, budget)
	n = &node{stop: []func(){func() { _ = client.Close() }}}
	defer func() {
		if err != nil {
			n.Close()
		}
	}()
	client.AddHook(&n.trips)
	if n.store, err = h.store(client); err != nil {
		return n, err
	}
	config := captchamode.DefaultConfig()
	config.ThresholdMin, config.ThresholdMax = 1e9, 1e9 // never on
	mode, err := captchamode.NewMode(config, nil, nil)
	if err != nil {
		return n, err
	}
	n.stop = append(n.stop, background.Go(n.store.Run))
	c := guard.Config{Policy: h.policy, Secret: secret, Store: n.store, Mode: mode}
	if h.devices {
		if c.Cookies, err = trusted.NewCookies(secret); err != nil {
			return n, err
		}
	}
	n.guard, err = guard.New(c)
	return n, err
}

// store is the store in Redis, with empty local stores for an outage.
func (h how) store(client redis.UniversalClient) (*nodes.Store, error) {
	timeout := h.policy.CheckTimeout
	counters, err := failures.NewMemory(failures.Config{
		Retain: h.policy.Retain(), PendingFor: timeout, MaxBytes: 1 << 30,
	})
	if err != nil {
		return nil, err
	}
	clients, err := trusted.NewMemory(trusted.MemoryConfig{Limits: h.policy.KnownClients})
	if err != nil {
		return nil, err
	}
	return nodes.New(nodes.Config{
		Client: client, Counters: counters, KnownClients: clients, Nodes: func() int { return 1 }, Budget: budget,
		Redis: redisstore.Options{Prefix: h.prefix, PendingFor: timeout, KnownClients: h.policy.KnownClients},
		Log:   slog.New(slog.DiscardHandler),
	})
}

// Close ends the node.
func (n *node) Close() {
	for i := len(n.stop) - 1; i >= 0; i-- {
		n.stop[i]()
	}
}

// errLost means that a node left Redis for a while, as it does if a round trip takes too long.
var errLost = errors.New("a node lost Redis")

// whole repeats do until the node has not lost Redis meanwhile.
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

// addressOf is an IP address in a separate network.
func addressOf(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{byte(i >> 16), byte(i >> 8), byte(i), 1})
}

// An attempt is one attempt at a node.
type attempt struct {
	account, address int
	password         string // empty: the guard gets no password tag
	cookie           string // empty: there is no device cookie
}

// attempt makes an attempt that ends with the outcome. It returns the device cookie that a login
// issues.
func (n *node) attempt(ctx context.Context, a attempt, o guard.Outcome) (cookie string, err error) {
	d, err := n.begin(ctx, a)
	if err != nil {
		return "", err
	}
	if d.Action != guard.Proceed {
		return "", fmt.Errorf("an attempt was stopped: %v, %v", d.Action, d.Reasons)
	}
	if err := n.guard.Settle(ctx, d.Ticket, o); err != nil {
		return "", err
	}
	cookie, _, _ = n.guard.Device(d.Ticket)
	return cookie, nil
}

func (n *node) begin(ctx context.Context, a attempt) (guard.Decision, error) {
	one := guard.Attempt{Account: accountOf(a.account), Address: addressOf(a.address), Integration: "bench"}
	if a.password != "" {
		one.PasswordTag = n.guard.Fingerprint(a.password)
	}
	if a.cookie != "" {
		one.Devices = []string{a.cookie}
	}
	return n.guard.Begin(ctx, one)
}

// monitored is the default policy with all limits in monitoring mode.
func monitored() guard.Policy {
	p := guard.DefaultPolicy()
	for _, limits := range [][]guard.Limit{p.Address, p.Network, p.Account, p.KnownClient} {
		for i := range limits {
			limits[i].Monitor = true
		}
	}
	p.PairDelay.Monitor = true
	return p
}
