package nodes_test

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"authguard/guard"
	"authguard/internal/nodes"
	"authguard/internal/redistest"
	"authguard/internal/world"
	"authguard/trusted"
)

const home = "192.0.2.10" // where alice logs in from

// A fault is something that can happen to a Redis with a password, and how it
// is mended.
type fault struct {
	name   string
	strike func(t *testing.T, r *redistest.Server)
	mend   func(t *testing.T, r *redistest.Server)
}

var faults = []fault{
	{
		name:   "killed and back, empty",
		strike: func(_ *testing.T, r *redistest.Server) { r.Kill() },
		mend:   func(t *testing.T, r *redistest.Server) { r.Start(t) },
	},
	{
		name: "loading a file",
		strike: func(t *testing.T, r *redistest.Server) {
			r.Do(t, "SAVE")
			r.Kill()
		},
		mend: func(t *testing.T, r *redistest.Server) {
			r.Start(t, "--key-load-delay", "20000", "--loading-process-events-interval-bytes", "1024")
		},
	},
	{
		name:   "stopped: connections are taken and nothing is answered",
		strike: func(t *testing.T, r *redistest.Server) { r.Stop(t) },
		mend:   func(t *testing.T, r *redistest.Server) { r.Continue(t) },
	},
	{
		name: "full: OOM",
		strike: func(t *testing.T, r *redistest.Server) {
			r.Do(t, "CONFIG", "SET", "maxmemory-policy", "noeviction")
			r.Do(t, "CONFIG", "SET", "maxmemory", "1")
		},
		mend: func(t *testing.T, r *redistest.Server) { r.Do(t, "CONFIG", "SET", "maxmemory", "0") },
	},
	{
		name:   "a replica: READONLY",
		strike: func(t *testing.T, r *redistest.Server) { r.Do(t, "REPLICAOF", "127.0.0.1", "1") },
		mend:   func(t *testing.T, r *redistest.Server) { r.Do(t, "REPLICAOF", "NO", "ONE") },
	},
	{
		name: "another password: WRONGPASS",
		strike: func(t *testing.T, r *redistest.Server) {
			r.Do(t, "CONFIG", "SET", "requirepass", "other")
			r.DoAs(t, "other", "CLIENT", "KILL", "TYPE", "normal")
		},
		mend: func(t *testing.T, r *redistest.Server) { r.DoAs(t, "other", "CONFIG", "SET", "requirepass", password) },
	},
}

const password = "secret"

// flush empties every master.
func (s *site) flush(t *testing.T, at nodes.Server) {
	t.Helper()
	client := nodes.Connect(at, patient)
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

func TestR22LosingRedisIsADegradation(t *testing.T) {
	t.Parallel()
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Standalone(t, "--requirepass", password)
			s := newSite(t, 3, nodes.Server{Addresses: []string{server.Addr}, Password: password}, policy(), 0)
			s.outage(t, func() { f.strike(t, server) }, func() { f.mend(t, server) }, 3)
		})
	}
}

// outage is a story around a loss of Redis: what was counted before binds
// during it, what was counted during it binds afterwards, and people at home
// never notice. Of an account that nobody guessed at before, most are checked:
// three if Redis is lost to all nodes at once, one by each of them, else five
// by Redis and one by each node that has lost it.
func (s *site) outage(t *testing.T, strike, mend func(), most int) {
	t.Helper()
	if !s.login(t, 0, "alice", home) || !s.login(t, 1, "alice", home) || !s.login(t, 2, "alice", home) {
		t.Fatal("alice cannot log in")
	}
	for i := range 5 { // as many as a day has
		s.guess(t, i, "bob", address(i))
	}
	for i := range 2 {
		s.guess(t, i, "carol", address(i))
	}
	for i := range 3 { // every node has heard of them
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
	for i := range 3 {
		if !s.login(t, i, "alice", home) {
			t.Errorf("without Redis alice is not let in at home by node %d", i)
		}
	}
	if got := s.checks("bob"); got != 5 {
		t.Errorf("bob: %d checked, want 5: all were used up before", got)
	}
	// Two of five were used: what is left is three, one for each node.
	if got := s.checks("carol"); got > max(5, most) || got < 3 {
		t.Errorf("carol: %d checked, want 5: two before, and one by each node", got)
	}
	if got := s.checks("dave"); got > most {
		t.Errorf("dave: %d checked, want at most %d", got, most)
	}
	for i, n := range s.nodes {
		if slowest := time.Duration(n.slowest.Load()); slowest > 5*time.Second {
			t.Errorf("node %d: a decision took %v", i, slowest)
		}
	}
	mend()
	s.up(t, true)
	for i := range 9 {
		for n, account := range []string{"bob", "carol", "dave"} {
			s.guess(t, i, account, address(400+100*n+i))
		}
	}
	for _, account := range []string{"bob", "carol", "dave"} {
		if got := s.checks(account); got > max(5, most) || got < 3 {
			t.Errorf("after: %d of %s's checked, want 5 in all, or less where Redis did not say in time what it had counted", got, account)
		}
	}
	for i, n := range s.nodes {
		if n.counters.Unheard() != 0 {
			t.Errorf("node %d has %d charges untold", i, n.counters.Unheard())
		}
		if !s.login(t, i, "alice", home) {
			t.Errorf("after: alice is not let in at home by node %d", i)
		}
	}
}

func TestR22ADeadRedisAtTheStartIsAnOutageToo(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	server.Kill()
	s := newSite(t, 3, nodes.Server{Addresses: []string{server.Addr}}, policy(), 0)
	for i := range 30 {
		s.guess(t, i, "bob", address(i))
	}
	if got := s.checks("bob"); got != 3 {
		t.Errorf("%d checked, want 3: one by each node", got)
	}
	if _, why := s.nodes[0].line.State(); why == nil || !strings.Contains(fmt.Sprint(why), "refused") {
		t.Errorf("the line is down because of %v", why)
	}
	server.Start(t)
	s.up(t, true)
	for i := range 9 {
		s.guess(t, i, "bob", address(100+i))
	}
	if got := s.checks("bob"); got != 5 {
		t.Errorf("after: %d checked, want 5 in all", got)
	}
}

func TestFlushedRedisIsToldAgain(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, at nodes.Server) {
		s := newSite(t, 3, at, policy(), patient)
		for i := range 3 {
			if !s.login(t, i, "alice", home) {
				t.Fatal("alice cannot log in")
			}
		}
		for i := range 9 {
			s.guess(t, i, "bob", address(i))
		}
		s.flush(t, at)
		for i := range 30 {
			s.guess(t, i, "bob", address(100+i))
		}
		for i := range 3 {
			if !s.login(t, i, "alice", home) {
				t.Errorf("alice is not let in at home by node %d", i)
			}
		}
		if got := s.checks("bob"); got != 5 {
			t.Errorf("%d checked, want 5 as before", got)
		}
		s.up(t, true)
		for i := range 30 {
			s.guess(t, i, "bob", address(200+i))
		}
		if got := s.checks("bob"); got != 5 {
			t.Errorf("after: %d checked, want still 5", got)
		}
	})
}

func TestScriptFlushCostsNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	s := newSite(t, 3, nodes.Server{Addresses: []string{server.Addr}}, policy(), patient)
	for i := range 20 {
		server.Do(t, "SCRIPT", "FLUSH")
		s.guess(t, i, "bob", address(i))
	}
	if got := s.checks("bob"); got != 5 {
		t.Errorf("%d checked, want 5", got)
	}
	for i, n := range s.nodes {
		if n.line.Failures() != 0 {
			t.Errorf("node %d: %d trips failed", i, n.line.Failures())
		}
	}
}

func TestFailoverBySentinelsLosesNoLogin(t *testing.T) {
	t.Parallel()
	watched := redistest.Sentinel(t)
	s := newSite(t, 3, nodes.Server{Addresses: watched.Addrs(), Master: redistest.MasterName}, policy(), 0)
	s.outage(t, watched.Master.Kill, func() {}, 3)
}

func TestFailoverOfAClustersMasterLosesNoLogin(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t)
	s := newSite(t, 3, nodes.Server{Addresses: cluster.Addrs(), Cluster: true}, policy(), 0)
	s.outage(t, cluster.Nodes[0].Kill, func() {}, 7)
}

// Whoever begins at one node and is settled by another is let alone by a Redis
// that has lost its memory: the first node never heard how it ended.
func TestWhatAnotherNodeSettledIsNotToldAgain(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, at nodes.Server) {
		s := newSite(t, 2, at, policy(), patient)
		if !s.login(t, 0, "alice", home) {
			t.Fatal("alice cannot log in")
		}
		for range 25 {
			d, err := s.nodes[0].Begin(t.Context(), guard.Attempt{Account: "alice", Address: netip.MustParseAddr(home)})
			if err != nil || d.Action != guard.Proceed {
				t.Fatalf("begin: %v, %v", d.Action, err)
			}
			ticket, err := s.nodes[1].Open(s.nodes[0].Seal(&d.Ticket))
			if err != nil {
				t.Fatal(err)
			}
			if err := s.nodes[1].Settle(t.Context(), &ticket, guard.Succeeded); err != nil {
				t.Fatal(err)
			}
		}
		<-time.After(policy().PendingFor) // until nobody can be undecided any more
		s.flush(t, at)
		redistest.Until(t, "alice to log in at home without a challenge again", func() bool {
			d, ok, err := s.nodes[1].try("alice", home, world.Right)
			return err == nil && ok && d.Privileged
		})
		for range 25 { // Redis may be found out once more, for another of its masters, and hear of this later
			if d, _, err := s.nodes[0].try("alice", home, world.Right); d.Action != guard.Proceed || !d.Privileged {
				t.Fatalf("alice at home: %v, privileged %v, %v", d.Action, d.Privileged, err)
			}
		}
	})
}

// A new password is the end of what the old one opened, also where one node had
// not heard of it when Redis lost its memory.
func TestR14AResetOutlivesRedissMemory(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, at nodes.Server) {
		s := newSite(t, 2, at, policy(), patient)
		for i := range 2 {
			if !s.login(t, i, "alice", home) {
				t.Fatal("alice cannot log in")
			}
		}
		if err := s.nodes[1].ForgetPlaces(t.Context(), "alice", netip.Addr{}); err != nil {
			t.Fatal(err)
		}
		s.flush(t, at)
		redistest.Until(t, "both nodes to have told Redis again", func() bool {
			for _, n := range s.nodes {
				if since, _ := n.line.State(); since.IsZero() || !n.line.Up() {
					return false
				}
			}
			return true
		})
		for i, n := range s.nodes {
			e, err := n.Explain(t.Context(), "alice", netip.MustParseAddr(home))
			if err != nil || e.Status != trusted.Stranger {
				t.Errorf("node %d: %v, %v, want a stranger", i, e.Status, err)
			}
		}
	})
}
