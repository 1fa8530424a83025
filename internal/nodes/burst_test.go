package nodes_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"authguard/internal/nodes"
)

func TestR1BurstOverThreeNodesGetsExactlyTheLimit(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, at nodes.Server) {
		s := newSite(t, 3, at, policy(), patient)
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
	kinds(t, func(t *testing.T, at nodes.Server) {
		p := policy()
		p.PendingFor = 5 * time.Second
		s := newSite(t, 3, at, p, patient)
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
