package nodes_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"authguard/captchamode"
	"authguard/captchamode/challenge"
	"authguard/failures"
	"authguard/failures/redisfailures"
	"authguard/guard"
	"authguard/internal/nodes"
	"authguard/internal/redistest"
	"authguard/internal/world"
	"authguard/trusted"
	"authguard/trusted/redisplaces"
)

// A node is one authguard without its doors.
type node struct {
	*guard.Guard
	line     *nodes.Line
	counters *nodes.Counters
	places   *nodes.Places
	checked  *sync.Map // account to *atomic.Int64, of all nodes
	takes    time.Duration
	slowest  atomic.Int64 // decision, in nanoseconds
}

// A site is several nodes on one Redis.
type site struct {
	nodes   []*node
	checked sync.Map
}

// policy is the default one, but for how long an undecided attempt is waited
// for and for delays.
func policy() guard.Policy {
	p := guard.DefaultPolicy()
	p.PendingFor, p.PairDelay = 300*time.Millisecond, guard.Delay{}
	return p
}

func newSite(t *testing.T, n int, at nodes.Server, p guard.Policy, budget time.Duration) *site {
	t.Helper()
	s := new(site)
	for range n {
		s.nodes = append(s.nodes, s.join(t, at, n, p, budget))
	}
	return s
}

func (s *site) join(t *testing.T, at nodes.Server, n int, p guard.Policy, budget time.Duration) *node {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	client := nodes.Connect(at, budget)
	t.Cleanup(func() { _ = client.Close() })
	made := &node{checked: &s.checked}
	made.line = nodes.NewLine(client, budget, slog.New(slog.NewTextHandler(t.Output(), nil)), nil)
	stored, err := redisplaces.New(client, redisplaces.Options{Limits: p.Places})
	must(err)
	made.places = nodes.NewPlaces(made.line, stored, nil)
	redis, err := redisfailures.New(client, redisfailures.Options{Retain: p.Retain(), PendingFor: p.PendingFor, Places: stored})
	must(err)
	own, err := failures.NewMemory(failures.Config{Retain: p.Retain(), PendingFor: p.PendingFor})
	must(err)
	made.counters = nodes.NewCounters(nodes.CountersConfig{
		Line: made.line, Redis: redis, Places: made.places, Own: own,
		Generations: nodes.NewGenerations(client, redisfailures.DefaultPrefix, at.Cluster), Nodes: func() int { return n },
	})
	mode, err := captchamode.NewMode(quietMode(), nil, nil)
	must(err)
	challenges, err := challenge.New(challenge.Config{
		Secret: []byte("a secret of thirty-two bytes, at least"), BuiltIn: world.Riddle{}, Spent: challenge.NewMemorySpent(0, nil),
	})
	must(err)
	cookies, err := trusted.NewCookies([]byte("a key of thirty-two bytes, at least"))
	must(err)
	made.Guard, err = guard.New(guard.Config{
		Policy: p, Secret: []byte("a secret of sixteen bytes, at least"), Failures: made.counters, Places: made.places,
		Cookies: cookies, Mode: mode, Challenges: challenges, Lists: new(guard.Lists),
		Failed: func(err error) { t.Logf("failed: %v", err) },
	})
	must(err)
	made.line.Start()
	made.Foresee(redis.Prepare)
	_ = errors.Join(redis.Load(t.Context()), stored.Load(t.Context())) // Redis may be away
	stored.Start()
	redis.Start()
	t.Cleanup(func() { redis.Stop(); stored.Stop(); made.line.Stop() })
	return made
}

// patient is a budget for tests that are not about it: these machines stand
// still for longer than a node may.
const patient = 30 * time.Second

// quietMode is one that these attacks do not switch.
func quietMode() captchamode.Config {
	c := captchamode.DefaultConfig()
	c.Floor, c.Ceiling = 1_000_000, 1_000_000
	return c
}

// try is one attempt from beginning to end.
func (n *node) try(account, address, password string) (d guard.Decision, ok bool, err error) {
	began := time.Now()
	return n.Login(context.Background(), guard.Attempt{Account: account, Address: netip.MustParseAddr(address), Door: "test"},
		func(context.Context) (bool, error) {
			n.took(time.Since(began))
			counter, _ := n.checked.LoadOrStore(account, new(atomic.Int64))
			counter.(*atomic.Int64).Add(1)
			time.Sleep(n.takes) // what a password check takes
			return password == world.Right, nil
		})
}

func (n *node) took(d time.Duration) {
	for {
		slowest := n.slowest.Load()
		if int64(d) <= slowest || n.slowest.CompareAndSwap(slowest, int64(d)) {
			return
		}
	}
}

func (s *site) checks(account string) int {
	counter, ok := s.checked.Load(account)
	if !ok {
		return 0
	}
	return int(counter.(*atomic.Int64).Load())
}

// guess is a wrong password at one node.
func (s *site) guess(t *testing.T, node int, account, address string) guard.Decision {
	t.Helper()
	d, _, err := s.nodes[node%len(s.nodes)].try(account, address, "wrong")
	if err != nil {
		t.Errorf("guessing: %v", err)
	}
	return d
}

// login is the right one.
func (s *site) login(t *testing.T, node int, account, address string) bool {
	t.Helper()
	_, ok, err := s.nodes[node%len(s.nodes)].try(account, address, world.Right)
	if err != nil {
		t.Errorf("logging in: %v", err)
	}
	return ok
}

// up waits until every node's line is up, or down.
func (s *site) up(t *testing.T, up bool) {
	t.Helper()
	redistest.Until(t, fmt.Sprintf("every line to be up=%v", up), func() bool {
		for _, n := range s.nodes {
			if n.line.Up() != up {
				return false
			}
		}
		return true
	})
}

// address is the nth of many addresses, each in a network of its own.
func address(n int) string {
	return netip.AddrFrom4([4]byte{byte(11 + n>>16), byte(n >> 8), byte(n), 9}).String()
}

// kinds are the ways to have Redis.
func kinds(t *testing.T, test func(t *testing.T, at nodes.Server)) {
	t.Helper()
	t.Run("one server", func(t *testing.T) {
		t.Parallel()
		test(t, nodes.Server{Addresses: []string{redistest.Standalone(t).Addr}})
	})
	t.Run("a Cluster", func(t *testing.T) {
		t.Parallel()
		test(t, nodes.Server{Addresses: redistest.Cluster(t).Addrs(), Cluster: true})
	})
}
