package nodes_test

import (
	"context"
	"database/sql"

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
	"authguard/guard"
	"authguard/internal/background"
	"authguard/internal/database/databasetest"
	"authguard/internal/nodes"
	"authguard/internal/redisstore"
	"authguard/internal/redistest"
	"authguard/internal/sqlplaces"
	"authguard/internal/world"
	"authguard/trusted"
)

// A node is one authguard without its doors.
type node struct {
	*guard.Guard
	store   *nodes.Store
	places  *sqlplaces.Store
	leave   func()
	checked *sync.Map // account to *atomic.Int64, of all nodes
	takes   time.Duration
	slowest atomic.Int64 // decision, in nanoseconds
}

// A site is several nodes on one Redis and one database.
type site struct {
	nodes   []*node
	db      *sql.DB
	at      redisstore.Server
	policy  guard.Policy
	budget  time.Duration
	checked sync.Map
}

// policy is the default one, but for how long an undecided attempt is waited
// for and for delays.
func policy() guard.Policy {
	p := guard.DefaultPolicy()
	p.PendingFor, p.PairDelay = 300*time.Millisecond, guard.Delay{}
	return p
}

func newSite(t *testing.T, n int, at redisstore.Server, p guard.Policy, budget time.Duration) *site {
	t.Helper()
	s := &site{db: databasetest.SQLite(t), at: at, policy: p, budget: budget}
	for range n {
		s.nodes = append(s.nodes, s.join(t, n))
	}
	return s
}

// join starts one of n nodes.
func (s *site) join(t *testing.T, n int) *node {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	client := redisstore.Connect(s.at, s.budget)
	t.Cleanup(func() { _ = client.Close() })
	made := &node{checked: &s.checked}
	own, err := failures.NewMemory(failures.Config{Retain: s.policy.Retain(), PendingFor: s.policy.PendingFor})
	must(err)
	made.places, err = sqlplaces.New(t.Context(), sqlplaces.Config{DB: s.db, Limits: s.policy.Places})
	must(err)
	made.store, err = nodes.New(nodes.Config{
		Client: client, Redis: redisstore.Options{PendingFor: s.policy.PendingFor, Places: s.policy.Places},
		Counters: own, Places: made.places, Peek: made.places.Peek, Nodes: func() int { return n }, Budget: s.budget,
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	must(err)
	mode, err := captchamode.NewMode(quietMode(), nil, nil)
	must(err)
	challenges, err := challenge.New(challenge.Config{
		Secret: []byte("a secret of thirty-two bytes, at least"), BuiltIn: world.Riddle{}, Spent: challenge.NewMemorySpent(0, nil),
	})
	must(err)
	cookies, err := trusted.NewCookies([]byte("a key of thirty-two bytes, at least"))
	must(err)
	made.Guard, err = guard.New(guard.Config{
		Policy: s.policy, Secret: []byte("a secret of sixteen bytes, at least"), Store: made.store,
		Cookies: cookies, Mode: mode, Challenges: challenges, Lists: new(guard.Lists),
		Failed: func(err error) { t.Logf("failed: %v", err) },
	})
	must(err)
	_ = made.store.Redis().Load(t.Context()) // Redis may be away
	var group background.Group
	group.Start(made.store.Run)
	made.leave = sync.OnceFunc(group.Stop)
	t.Cleanup(made.leave)
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

// up waits until every node has Redis, or has lost it.
func (s *site) up(t *testing.T, up bool) {
	t.Helper()
	redistest.Until(t, fmt.Sprintf("every node's Redis to be up=%v, and told everything", up), func() bool {
		for _, n := range s.nodes {
			if n.store.Up() != up || up && n.store.Unheard() > 0 {
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
func kinds(t *testing.T, test func(t *testing.T, at redisstore.Server)) {
	t.Helper()
	t.Run("one server", func(t *testing.T) {
		t.Parallel()
		test(t, redisstore.Server{Addresses: []string{redistest.Standalone(t).Addr}})
	})
	t.Run("a Cluster", func(t *testing.T) {
		t.Parallel()
		test(t, redisstore.Server{Addresses: redistest.Cluster(t).Addrs(), Cluster: true})
	})
}
