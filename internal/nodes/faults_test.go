package nodes_test

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"authguard/failures"
	"authguard/guard"
	"authguard/internal/background"
	"authguard/internal/database/databasetest"
	"authguard/internal/redisstore"
	"authguard/internal/testing/redistest"
	"authguard/internal/testing/world"
	"authguard/trusted"
)

const home = "192.0.2.10" // where alice logs in from

// A fault is something that can happen to a Redis with a password, and how it
// is mended.
type fault struct {
	name   string
	strike func(t *testing.T, s *site, r *redistest.Server)
	mend   func(t *testing.T, s *site, r *redistest.Server)
	// forgets: afterwards Redis knows nothing.
	forgets bool
}

func faults() []fault {
	return []fault{
		{
			name:    "killed and back, empty",
			strike:  func(_ *testing.T, _ *site, r *redistest.Server) { r.Kill() },
			mend:    func(t *testing.T, _ *site, r *redistest.Server) { r.Start(t) },
			forgets: true,
		},
		{
			name: "loading a file",
			strike: func(t *testing.T, _ *site, r *redistest.Server) {
				r.Do(t, "SAVE")
				r.Kill()
			},
			mend: func(t *testing.T, _ *site, r *redistest.Server) {
				r.Start(t, "--key-load-delay", "20000", "--loading-process-events-interval-bytes", "1024")
			},
		},
		{
			name:   "stopped: connections are taken and nothing is answered",
			strike: func(t *testing.T, s *site, r *redistest.Server) { s.stop(t, r) },
			mend:   func(t *testing.T, s *site, r *redistest.Server) { s.resume(t, r) },
		},
		{
			name: "full: OOM",
			strike: func(t *testing.T, _ *site, r *redistest.Server) {
				r.Do(t, "CONFIG", "SET", "maxmemory-policy", "noeviction")
				r.Do(t, "CONFIG", "SET", "maxmemory", "1")
			},
			mend: func(t *testing.T, _ *site, r *redistest.Server) { r.Do(t, "CONFIG", "SET", "maxmemory", "0") },
		},
		{
			name:   "a replica: READONLY",
			strike: func(t *testing.T, _ *site, r *redistest.Server) { r.Do(t, "REPLICAOF", "127.0.0.1", "1") },
			mend:   func(t *testing.T, _ *site, r *redistest.Server) { r.Do(t, "REPLICAOF", "NO", "ONE") },
		},
		{
			name: "another password: WRONGPASS",
			strike: func(t *testing.T, _ *site, r *redistest.Server) {
				r.Do(t, "CONFIG", "SET", "requirepass", "other")
				r.DoAs(t, "other", "CLIENT", "KILL", "TYPE", "normal")
			},
			mend: func(t *testing.T, _ *site, r *redistest.Server) {
				r.DoAs(t, "other", "CONFIG", "SET", "requirepass", password)
			},
		},
	}
}

const password = "secret"

func TestR22LosingRedisIsADegradation(t *testing.T) {
	t.Parallel()
	for _, f := range faults() {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Standalone(t, "--requirepass", password)
			s := newSite(t, 3, redisstore.Server{Addresses: []string{server.Addr}, Password: password}, policy())
			s.outage(t, func() { f.strike(t, s, server) }, func() { f.mend(t, s, server) }, f.forgets)
		})
	}
}

// The limit of the tests: five failures a day on an account. Alone, each of three
// nodes allows one.
const (
	limit = 5
	each  = 1
)

// outage is a story around a loss of Redis: nothing is checked more often than half a
// limit (or once at each node) beyond the limit, and known clients never notice.
func (s *site) outage(t *testing.T, strike, mend func(), forgets bool) {
	t.Helper()
	for i := range s.nodes {
		if !s.login(t, i, "alice", home) {
			t.Fatal("alice cannot log in")
		}
	}
	for i := range limit {
		s.guess(t, i, "bob", address(i))
	}
	for i := range 2 {
		s.guess(t, i, "carol", address(i))
	}
	for i := range s.nodes {
		if d := s.guess(t, i, "bob", address(9)); d.Action != guard.Challenge {
			t.Fatalf("before: a sixth guess is told to %v", d.Action)
		}
	}
	strike()
	for i := range 30 {
		s.guess(t, i, "bob", address(100+i))
		s.guess(t, i, "carol", address(200+i))
		s.guess(t, i, "dave", address(300+i))
	}
	s.up(t, false)
	s.atHome(t, "during")
	// Where only one of a Cluster's masters is lost, or a node hears of it
	// later, some are still checked by Redis's count.
	alone := len(s.nodes) * each
	for _, account := range []string{"bob", "carol", "dave"} {
		if got := s.checks(account); got > limit+alone {
			t.Errorf("during: %d of %s's checked, want at most %d", got, account, limit+alone)
		}
	}
	mend()
	s.up(t, true)
	s.atHome(t, "after")
	for i := range 30 {
		for n, account := range []string{"bob", "carol", "dave"} {
			s.guess(t, i, account, address(400+100*n+i))
		}
	}
	most := limit + alone
	if forgets {
		most += limit
	}
	// Less than the limit where Redis did not say in time what it had charged:
	// each node's first guess at each account.
	for _, account := range []string{"bob", "carol", "dave"} {
		if got := s.checks(account); got > most || got < limit-len(s.nodes) {
			t.Errorf("after: %d of %s's checked, want %d to %d in all", got, account, limit, most)
		}
	}
	s.atHome(t, "in the end")
}

// atHome logs alice in at every node.
func (s *site) atHome(t *testing.T, when string) {
	t.Helper()
	for i, n := range s.nodes {
		d, ok, err := n.try("alice", home, world.Right)
		if err != nil || !ok || !d.Known {
			t.Errorf("%s: alice at home at node %d: in %v, privileged %v, %v", when, i, ok, d.Known, err)
		}
	}
}

func TestR22ADeadRedisAtTheStartIsAnOutageToo(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	server.Kill()
	s := newSite(t, 3, redisstore.Server{Addresses: []string{server.Addr}}, policy())
	for i := range 30 {
		s.guess(t, i, "bob", address(i))
	}
	if got := s.checks("bob"); got != 3 {
		t.Errorf("%d checked, want 3: one by each node", got)
	}
	if _, why := s.nodes[0].store.State(); why == nil || !strings.Contains(fmt.Sprint(why), "refused") {
		t.Errorf("Redis is down because of %v", why)
	}
	server.Start(t)
	s.up(t, true)
	for i := range 9 {
		s.guess(t, i, "bob", address(100+i))
	}
	if got := s.checks("bob"); got != limit+3 {
		t.Errorf("after: %d checked, want %d in all", got, limit+3)
	}
}

// One and a half times a limit, over two nodes and an outage, exactly.
func TestR22AnOutageLetsHalfALimitMoreBeChecked(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	p := policy()
	p.Account = []guard.Limit{{Failures: 20, Window: 24 * time.Hour, Action: guard.Challenge}}
	s := newSite(t, 2, redisstore.Server{Addresses: []string{server.Addr}}, p)
	for i := range 40 {
		s.guess(t, i, "bob", address(i))
	}
	server.Do(t, "REPLICAOF", "127.0.0.1", "1") // answers, so that no charge is made unheard
	for i := range 80 {
		s.guess(t, i, "bob", address(100+i))
		s.guess(t, i, "dave", address(200+i))
	}
	if got := s.checks("bob"); got != 30 {
		t.Errorf("%d of bob's checked, want 20 and a quarter of 20 by each node", got)
	}
	if got := s.checks("dave"); got != 10 {
		t.Errorf("%d of dave's checked, want a quarter of 20 by each node", got)
	}
	server.Do(t, "REPLICAOF", "NO", "ONE")
	s.up(t, true)
	for i := range 80 {
		s.guess(t, i, "dave", address(300+i))
	}
	if got := s.checks("dave"); got != 30 {
		t.Errorf("%d of dave's checked in all, want 30", got)
	}
}

// R22's 250 ms, on the bubble's clock: a node asks a Redis that hangs once, for
// exactly as long, however many attempts there are.
func TestR22ADecisionWaitsForRedisNoLongerThanTheBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mute := new(mute)
		s := &site{db: databasetest.SQLite(t), at: redisstore.Server{Addresses: []string{"127.0.0.1:1"}}, policy: policy(),
			hook: mute}
		s.nodes = []*node{s.join(t, 1)}
		synctest.Wait()
		mute.hangs.Store(true)
		for _, want := range []time.Duration{250 * time.Millisecond, 0} {
			var all sync.WaitGroup
			for i := range 200 {
				all.Go(func() {
					began := time.Now()
					d, err := s.nodes[0].Begin(t.Context(), guard.Attempt{Account: fmt.Sprint("bob", i),
						Address: netip.MustParseAddr(address(i))})
					if err != nil || d.Action != guard.Proceed {
						t.Errorf("attempt %d: %v, %v", i, d.Action, err)
					}
					if took := time.Since(began); took != want {
						t.Errorf("attempt %d waited for %v, want %v", i, took, want)
					}
				})
			}
			all.Wait()
		}
	})
}

// mute stands for a Redis to which everything may be said, and that answers
// nothing while it hangs.
type mute struct{ hangs atomic.Bool }

func (m *mute) ask(ctx context.Context) error {
	if m.hangs.Load() {
		<-ctx.Done()
	}
	return ctx.Err()
}

func (m *mute) DialHook(next redis.DialHook) redis.DialHook { return next }

func (m *mute) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		cmd.SetErr(m.ask(ctx))
		return cmd.Err()
	}
}

func (m *mute) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := m.ask(ctx)
		for _, cmd := range cmds {
			cmd.SetErr(err)
		}
		return err
	}
}

// flush empties every master.
func (s *site) flush(t *testing.T) {
	t.Helper()
	client := redisstore.Connect(s.at, patient)
	defer client.Close()
	var err error
	if cluster, ok := client.(*redis.ClusterClient); ok {
		err = cluster.ForEachMaster(t.Context(), func(ctx context.Context, master *redis.Client) error {
			return master.FlushAll(ctx).Err()
		})
	} else {
		err = client.FlushAll(t.Context()).Err()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestR22AFlushedRedisCountsALimitTwiceAndStillKnowsEverybody(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, at redisstore.Server) {
		s := newSite(t, 3, at, policy())
		s.login(t, 0, "alice", home)
		s.atHome(t, "before")
		for i := range 9 {
			s.guess(t, i, "bob", address(i))
		}
		s.flush(t)
		s.atHome(t, "after")
		n := 100
		redistest.Until(t, "nodes to forget that bob was closed", func() bool {
			n++
			s.guess(t, n, "bob", address(n))
			return s.checks("bob") >= 2*limit
		})
		for i := range 30 {
			s.guess(t, i, "bob", address(5000+i))
			s.guess(t, i, "alice", address(6000+i))
		}
		s.atHome(t, "in the end")
		if got := s.checks("bob"); got != 2*limit {
			t.Errorf("%d checked, want twice %d", got, limit)
		}
	})
}

// A new password is the end of what the old one opened, known clients and cookies,
// also if Redis has lost its memory since.
func TestR14AResetOutlivesRedissMemory(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, at redisstore.Server) {
		s := newSite(t, 2, at, policy())
		s.login(t, 0, "alice", home)
		d, err := s.nodes[0].Begin(t.Context(), guard.Attempt{Account: "alice", Address: netip.MustParseAddr(home)})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.nodes[0].Settle(t.Context(), d.Ticket, guard.Succeeded); err != nil {
			t.Fatal(err)
		}
		cookie, _, _ := s.nodes[0].Device(d.Ticket)
		if err := s.nodes[0].RemoveKnownClients(t.Context(), "alice", netip.Addr{}); err != nil {
			t.Fatal(err)
		}
		s.flush(t)
		restarted := s.join(t, 2)
		for i, n := range []*node{s.nodes[0], restarted} {
			d, err := n.Begin(t.Context(), guard.Attempt{Account: "alice", Address: netip.MustParseAddr(home),
				Devices: []string{cookie}})
			if err != nil || d.Known {
				t.Errorf("node %d: privileged %v, %v", i, d.Known, err)
			}
		}
	})
}

func TestR22ARestartedNodeHasTheKnownClientsWhenRedisGoes(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	s := newSite(t, 1, redisstore.Server{Addresses: []string{server.Addr}}, policy())
	s.login(t, 0, "alice", home)
	s.nodes[0].leave()
	server.Kill()
	s.nodes = []*node{s.join(t, 1)}
	s.atHome(t, "after a restart without Redis")
}

// What users do while Redis is unavailable holds when it is back.
func TestLoginsAndRemovalsOfAnOutageReachRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	s := newSite(t, 2, redisstore.Server{Addresses: []string{server.Addr}}, policy())
	s.login(t, 0, "alice", home)
	s.login(t, 0, "bob", home)
	s.stop(t, server)
	s.guess(t, 0, "nobody", address(1))
	const holiday = "198.51.100.7"
	if !s.login(t, 0, "alice", holiday) {
		t.Fatal("alice cannot log in without Redis")
	}
	if err := s.nodes[0].RemoveKnownClients(t.Context(), "bob", netip.Addr{}); err != nil {
		t.Fatal(err)
	}
	s.resume(t, server)
	s.up(t, true)
	for account, want := range map[string]trusted.Status{"alice": trusted.Known, "bob": trusted.Unknown} {
		where := map[string]string{"alice": holiday, "bob": home}[account]
		e, err := s.nodes[1].Explain(t.Context(), account, netip.MustParseAddr(where))
		if err != nil || e.Status != want {
			t.Errorf("%s at the other node: %v, %v, want %v", account, e.Status, err, want)
		}
	}
}

// Until Redis has the removals of an outage, it still knows the client, and does not decide.
func TestR14ARemovalReachesRedisBeforeItDecides(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	s := newSite(t, 1, redisstore.Server{Addresses: []string{server.Addr}}, policy())
	n := s.nodes[0]
	s.login(t, 0, "alice", home)
	n.leave()
	s.stop(t, server)
	s.guess(t, 0, "nobody", address(1)) // it finds Redis gone
	if err := n.RemoveKnownClients(t.Context(), "alice", netip.Addr{}); err != nil {
		t.Fatal(err)
	}
	s.resume(t, server)
	redistest.Until(t, "Redis to be found", func() bool { n.store.Probe(t.Context()); return n.store.Up() })
	if n.store.Unsent() == 0 {
		t.Fatal("Redis has all changes already")
	}
	d, err := n.Begin(t.Context(), guard.Attempt{Account: "alice", Address: netip.MustParseAddr(home),
		Integration: "test"})
	if err != nil || d.Known {
		t.Errorf("a client that was removed during the outage is a known client: %v", err)
	}
}

// Those that were stopped before may have used up a limit of which the last node
// has seen nothing.
func TestR22TheLastNodeKeepsToItsPart(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	s := newSite(t, 1, redisstore.Server{Addresses: []string{server.Addr}}, policy())
	s.nodes = append(s.nodes, s.join(t, 1))
	for i := range 3 * limit {
		s.guess(t, 0, "bob", address(i))
	}
	s.nodes[0].leave()
	server.Kill()
	s.nodes = s.nodes[1:]
	for i := range 3 * limit {
		s.guess(t, 0, "bob", address(100+i))
	}
	if got := s.checks("bob"); got != limit+limit/2 {
		t.Errorf("%d checked, want %d and half as many", got, limit)
	}
}

// The limits of a known client allow for typos: none of ten nodes has a tenth
// of it.
func TestR22AKnownClientKeepsItsLimits(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	s := newSite(t, 10, redisstore.Server{Addresses: []string{server.Addr}}, policy())
	s.login(t, 0, "alice", home)
	for range 6 {
		s.guess(t, 0, "alice", home)
	}
	server.Kill()
	for range 2 { // the first may still ask Redis
		d, err := s.nodes[0].Begin(t.Context(), guard.Attempt{Account: "alice", Address: netip.MustParseAddr(home)})
		if err != nil || !d.Known || d.Action != guard.Proceed {
			t.Fatalf("%v, privileged %v, %v", d.Action, d.Known, err)
		}
		if err := s.nodes[0].Settle(t.Context(), d.Ticket, guard.Abandoned); err != nil {
			t.Fatal(err)
		}
	}
}

// A node that pays last must not bring back what a new password has ended.
func TestR14ALoginReportedLateIsNotLaterThanAReset(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	s := newSite(t, 2, redisstore.Server{Addresses: []string{server.Addr}}, policy())
	for _, n := range s.nodes {
		n.leave() // each is told to pay, in turn
	}
	server.Kill()
	for i := range s.nodes {
		s.guess(t, i, "nobody", address(i)) // it finds Redis gone
	}
	const there = "198.51.100.9"
	if !s.login(t, 0, "alice", there) {
		t.Fatal("no login")
	}
	for told := time.Now().UnixMilli(); time.Now().UnixMilli() == told; { // the next millisecond
	}
	if err := s.nodes[1].RemoveKnownClients(t.Context(), "alice", netip.Addr{}); err != nil {
		t.Fatal(err)
	}
	server.Start(t)
	for _, i := range []int{1, 0} {
		n := s.nodes[i]
		stop := background.Go(n.store.Run)
		redistest.Until(t, "Redis to be told", func() bool { return n.store.Up() && n.store.Unsent() == 0 })
		stop()
	}
	for i, n := range s.nodes {
		if e, err := n.Explain(t.Context(), "alice", netip.MustParseAddr(there)); err != nil || e.Status != trusted.Unknown {
			t.Errorf("node %d: %v, %v", i, e.Status, err)
		}
	}
}

// A Redis that fails again and again gives each node its share once a window.
func TestR22AFlappingRedisGivesOneShare(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	s := newSite(t, 3, redisstore.Server{Addresses: []string{server.Addr}}, policy())
	n := 0
	guesses := func() {
		for range 30 {
			n++
			s.guess(t, n, "bob", address(n))
		}
	}
	guesses()
	for range 4 {
		server.Do(t, "REPLICAOF", "127.0.0.1", "1") // answers, so that no charge is lost
		guesses()
		s.up(t, false)
		guesses()
		server.Do(t, "REPLICAOF", "NO", "ONE")
		s.up(t, true)
		guesses()
	}
	if got := s.checks("bob"); got != limit+3 {
		t.Errorf("%d checked, want %d and one by each node", got, limit)
	}
}

// An attempt that waits for its turn begins again with what it got back.
func TestR22AnAttemptThatBeginsAgainFindsTheSamePart(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	server.Kill()
	s := newSite(t, 1, redisstore.Server{Addresses: []string{server.Addr}}, policy())
	c := chargeOf(time.Now(), 1, 20)
	charged := 0
	for range 30 {
		var err error
		if err = s.nodes[0].store.Begin(t.Context(), &c); err != nil {
			t.Fatal(err)
		}
		if c.ID.Charged() {
			charged++
		}
		c.ID = failures.ChargeID{}
	}
	if charged != 10 {
		t.Errorf("%d were charged, want half of 20", charged)
	}
}

// A botnet that guesses on while Redis is away makes Redis forget no reset.
func TestR14FailuresPushNoResetOut(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	s := newSite(t, 1, redisstore.Server{Addresses: []string{server.Addr}}, policy())
	s.login(t, 0, "alice", home)
	s.stop(t, server)
	s.guess(t, 0, "nobody", address(1))
	n := s.nodes[0]
	if err := n.RemoveKnownClients(t.Context(), "alice", netip.Addr{}); err != nil {
		t.Fatal(err)
	}
	for i := range 25_000 { // each from a network of its own
		from := netip.AddrFrom4([4]byte{11, byte(i >> 8), byte(i), 1})
		d, err := n.Begin(t.Context(), guard.Attempt{Account: fmt.Sprint("nobody", i), Address: from})
		if err != nil || d.Action != guard.Proceed {
			t.Fatalf("guess %d: %v, %v", i, d.Action, err)
		}
		if err := n.Settle(t.Context(), d.Ticket, guard.Failed); err != nil {
			t.Fatal(err)
		}
	}
	s.resume(t, server)
	redistest.Until(t, "Redis to be told", func() bool { return n.store.Up() && n.store.Unsent() == 0 })
	if e, err := n.Explain(t.Context(), "alice", netip.MustParseAddr(home)); err != nil || e.Status != trusted.Unknown {
		t.Errorf("%v, %v", e.Status, err)
	}
}

func TestScriptFlushCostsNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	s := newSite(t, 3, redisstore.Server{Addresses: []string{server.Addr}}, policy())
	for i := range 20 {
		server.Do(t, "SCRIPT", "FLUSH")
		s.guess(t, i, "bob", address(i))
	}
	if got := s.checks("bob"); got != limit {
		t.Errorf("%d checked, want %d", got, limit)
	}
	for i, n := range s.nodes {
		if n.store.Failures() != 0 {
			t.Errorf("node %d: %d trips failed", i, n.store.Failures())
		}
	}
}

func TestFailoverBySentinelsLosesNoLogin(t *testing.T) {
	t.Parallel()
	watched := redistest.Sentinel(t)
	s := newSite(t, 3, redisstore.Server{Addresses: watched.Addrs(), Master: redistest.MasterName}, policy())
	s.outage(t, watched.Master.Kill, func() { watched.Hasty(t) }, false)
}

func TestFailoverOfAClustersMasterLosesNoLogin(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t)
	s := newSite(t, 3, redisstore.Server{Addresses: cluster.Addrs(), Cluster: true}, policy())
	s.outage(t, cluster.Nodes[0].Kill, func() { cluster.TakeOver(t, 0) }, false)
}

// A ticket may be settled at another node than it was given out by.
func TestATicketIsSettledAtAnotherNode(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, at redisstore.Server) {
		s := newSite(t, 2, at, policy())
		for range 25 {
			d, err := s.nodes[0].Begin(t.Context(), guard.Attempt{Account: "alice", Address: netip.MustParseAddr(home)})
			if err != nil || d.Action != guard.Proceed {
				t.Fatalf("begin: %v, %v", d.Action, err)
			}
			ticket, err := s.nodes[1].Open(s.nodes[0].Seal(&d.Ticket))
			if err != nil {
				t.Fatal(err)
			}
			if err := s.nodes[1].Settle(t.Context(), ticket, guard.Succeeded); err != nil {
				t.Fatal(err)
			}
		}
		e, err := s.nodes[1].Explain(t.Context(), "alice", netip.MustParseAddr(home))
		if err != nil || e.Status != trusted.Known {
			t.Errorf("%v, %v", e.Status, err)
		}
	})
}
