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

	"github.com/redis/go-redis/v9"

	"authguard/captchamode"
	"authguard/captchamode/challenge"
	"authguard/failures"
	"authguard/guard"
	"authguard/internal/background"
	"authguard/internal/database/databasetest"
	"authguard/internal/known"
	"authguard/internal/nodes"
	"authguard/internal/redisstore"
	"authguard/internal/testing/redistest"
	"authguard/internal/testing/world"
	"authguard/trusted"
)

// A node is one authguard without its doors.
type node struct {
	*guard.Guard
	store   *nodes.Store
	clients *known.Store
	leave   func()
	checked *sync.Map // account to *atomic.Int64, of all nodes
	takes   time.Duration
}

// A site is several nodes on one Redis and one database.
type site struct {
	nodes   []*node
	db      *sql.DB
	at      redisstore.Server
	policy  guard.Policy
	budget  time.Duration
	hook    redis.Hook // of every node's client, behind the breaker
	hangs   atomic.Bool
	checked sync.Map
	told    sprays
	emptied atomic.Int64 // how often a node found Redis without its data
	reasons sync.Map     // for which nodes left Redis
}

// policy is the default one, but for how long an undecided attempt is waited
// for and for delays.
func policy() guard.Policy {
	p := guard.DefaultPolicy()
	p.CheckTimeout, p.PairDelay = 300*time.Millisecond, guard.PairDelay{}
	return p
}

func newSite(t *testing.T, n int, at redisstore.Server, p guard.Policy) *site {
	t.Helper()
	s := &site{db: databasetest.SQLite(t), at: at, policy: p, budget: patient}
	s.hook = hurry{&s.hangs}
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
	own, err := failures.NewMemory(failures.Config{Retain: s.policy.Retain(), PendingFor: s.policy.CheckTimeout})
	must(err)
	made.clients, err = known.New(t.Context(), known.Config{DB: s.db, Limits: s.policy.KnownClients})
	must(err)
	made.store, err = nodes.New(nodes.Config{
		Client: client, Redis: redisstore.Options{PendingFor: s.policy.CheckTimeout, KnownClients: s.policy.KnownClients,
			OnSpray: s.told.add, OnEmptied: func() { s.emptied.Add(1) }},
		Counters: own, KnownClients: made.clients, Nodes: func() int { return n }, Budget: s.budget,
		OnChange: func(_ bool, why error) { s.reasons.Store(fmt.Sprint(why), true) },
		Log:      slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	must(err)
	client.AddHook(s.hook)
	mode, err := captchamode.NewMode(quietMode(), nil, nil)
	must(err)
	challenges, err := challenge.New(challenge.Config{
		Secret: []byte("a secret of thirty-two bytes, at least"), BuiltIn: world.Riddle{},
		Spent: challenge.NewMemorySpent(0, nil),
	})
	must(err)
	cookies, err := trusted.NewCookies([]byte("a key of thirty-two bytes, at least"))
	must(err)
	made.Guard, err = guard.New(guard.Config{
		Policy: s.policy, Secret: []byte("a secret of sixteen bytes, at least"), Store: made.store,
		KnownClientConfig: guard.KnownClientConfig{Cookies: cookies}, Mode: mode, Challenges: challenges, Lists: new(guard.Lists),
		Callbacks: guard.Callbacks{Failed: func(err error) { t.Logf("failed: %v", err) }},
	})
	must(err)
	made.leave = background.Go(made.store.Run)
	t.Cleanup(made.leave)
	return made
}

// patient is a budget for tests that are not about it, longer than any suite
// runs: how busy the machine is does not look like a Redis that hangs.
const patient = time.Hour

// stop makes Redis hang, until resume.
func (s *site) stop(t *testing.T, r *redistest.Server) {
	t.Helper()
	s.hangs.Store(true)
	r.Stop(t)
}

func (s *site) resume(t *testing.T, r *redistest.Server) {
	t.Helper()
	s.hangs.Store(false)
	r.Continue(t)
}

// hurry is a hook that gives trips up soon while Redis hangs, when there is no
// answer to be had however long a node waits.
type hurry struct{ hangs *atomic.Bool }

func (h hurry) soon(ctx context.Context) (context.Context, context.CancelFunc) {
	if h.hangs.Load() {
		return context.WithTimeout(ctx, 100*time.Millisecond)
	}
	return ctx, func() {}
}

func (h hurry) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h hurry) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		ctx, cancel := h.soon(ctx)
		defer cancel()
		return next(ctx, cmd)
	}
}

func (h hurry) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		ctx, cancel := h.soon(ctx)
		defer cancel()
		return next(ctx, cmds)
	}
}

// quietMode is one that these attacks do not switch.
func quietMode() captchamode.Config {
	c := captchamode.DefaultConfig()
	c.ThresholdMin, c.ThresholdMax = 1_000_000, 1_000_000
	return c
}

// try is one attempt from beginning to end.
func (n *node) try(account, address, password string) (d guard.Decision, ok bool, err error) {
	return n.Login(context.Background(), guard.Attempt{Account: account, Address: netip.MustParseAddr(address),
		Integration: "test"},
		func(context.Context, *guard.Decision) (bool, error) {
			counter, _ := n.checked.LoadOrStore(account, new(atomic.Int64))
			counter.(*atomic.Int64).Add(1)
			time.Sleep(n.takes) // what a password check takes
			return password == world.Right, nil
		})
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
			if n.store.Up() != up || up && n.store.Unsent() > 0 {
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
