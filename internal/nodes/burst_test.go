package nodes_test

import (
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"authguard/guard"
	"authguard/internal/redisstore"
)

func TestR1BurstOverThreeNodesGetsExactlyTheLimit(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, at redisstore.Server) {
		s := newSite(t, 3, at, policy())
		for run := range 20 {
			account := fmt.Sprintf("alice%d", run)
			s.burst(t, account, 500, 200)
			if got := s.checks(account); got != 5 {
				t.Errorf("run %d: %d passwords were checked, want 5", run, got)
			}
		}
	})
}

func (s *site) burst(t *testing.T, account string, n, atATime int) {
	var next atomic.Int64
	var all sync.WaitGroup
	for range atATime {
		all.Go(func() {
			for i := int(next.Add(1)); i <= n; i = int(next.Add(1)) {
				s.guess(t, i, account, address(i%100))
			}
		})
	}
	all.Wait()
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
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				if s.login(t, i, "alice", address(i)) {
					in.Add(1)
				}
			})
		}
		all.Wait()
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
		p.Fingerprint = []guard.Limit{{Failures: 20, Window: time.Hour, Action: guard.Challenge}}
		s := newSite(t, 3, at, p)
		var next, proceeded atomic.Int64
		var all sync.WaitGroup
		for range 60 {
			all.Go(func() {
				for i := int(next.Add(1)); i <= 300; i = int(next.Add(1)) {
					one := s.nodes[i%3]
					d, err := one.Begin(t.Context(), guard.Attempt{
						Account: fmt.Sprint("user", i), Address: netip.MustParseAddr(address(i)), Fingerprint: one.Identity("bot"),
						Integration: "test",
					})
					if err != nil {
						t.Error(err)
					} else if d.Action == guard.Proceed {
						proceeded.Add(1)
						if err := one.Settle(t.Context(), d.Ticket, guard.Failed); err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
		all.Wait()
		if got := proceeded.Load(); got != 20 {
			t.Errorf("%d passwords were looked at, want 20", got)
		}
	})
}
