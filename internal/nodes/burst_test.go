package nodes_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"authguard/guard"
	"authguard/internal/redisstore"
	"authguard/internal/testing/world"
)

// A charge that is being taken back holds its place for at most CheckTimeout: within it a busy machine
// has to answer. All accounts wait for that at the same time.
func TestR1BurstOverThreeNodesGetsExactlyTheLimit(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, at redisstore.Server) {
		const accounts, each = 20, 500
		p := policy()
		p.CheckTimeout = 10 * time.Second
		s := newSite(t, 3, at, p)
		world.Burst(accounts*each, 200, func(i int) { s.guess(t, i, fmt.Sprint("alice", i/each), address(i%100)) })
		for n := range accounts {
			if got := s.checks(fmt.Sprint("alice", n)); got != 5 {
				t.Errorf("account %d: %d passwords were checked, want 5", n, got)
			}
		}
	})
}

func TestR3TwentyRightPasswordsAtOnceOverThreeNodesAllGetIn(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, at redisstore.Server) {
		p := policy()
		p.CheckTimeout = time.Minute // the most there may be: nobody is taken for failed while the machine is busy
		s := newSite(t, 3, at, p)
		for _, n := range s.nodes {
			n.takes = 50 * time.Millisecond
		}
		var in atomic.Int64
		world.Burst(20, 20, func(i int) {
			if s.login(t, i, "alice", address(i)) {
				in.Add(1)
			}
		})
		if in.Load() != 20 {
			t.Errorf("%d of 20 got in", in.Load())
		}
	})
}

// A client's identity is counted once for all nodes, on whichever of them it comes.
func TestR1AnIdentityOverThreeNodesGetsExactlyTheLimit(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, at redisstore.Server) {
		p := policy()
		p.CheckTimeout = 10 * time.Second
		p.Fingerprint = []guard.Limit{{Failures: 20, Window: time.Hour, Action: guard.Challenge}}
		s := newSite(t, 3, at, p)
		var proceeded atomic.Int64
		world.Burst(300, 60, func(i int) {
			one := s.nodes[i%3]
			a := world.From(fmt.Sprint("user", i), address(i))
			a.Fingerprint = one.Identity("bot")
			d, err := one.Begin(t.Context(), a)
			if err == nil && d.Action == guard.Proceed {
				proceeded.Add(1)
				err = one.Settle(t.Context(), d.Ticket, guard.Failed)
			}
			if err != nil {
				t.Error(err)
			}
		})
		if got := proceeded.Load(); got != 20 {
			t.Errorf("%d passwords were looked at, want 20", got)
		}
	})
}
