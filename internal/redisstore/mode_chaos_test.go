package redisstore_test

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"authguard/internal/testing/clocktest"
	"authguard/internal/testing/redistest"
)

// Whatever was lost, three rounds after it all nodes say the same, and no
// attack has ended that any node knew of, but by its cool-down.
func TestNodesComeTogetherAgain(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	rapid.Check(t, func(rt *rapid.T) {
		var clients []redis.UniversalClient
		defer func() {
			for _, c := range clients {
				_ = c.Close()
			}
		}()
		s := &site{Clock: clocktest.At(start), prefix: rand.Text() + ":", config: twoHours()}
		s.open = func(t testing.TB) redis.UniversalClient {
			clients = append(clients, on(server)(t))
			return clients[len(clients)-1]
		}
		for range 3 {
			s.add(t)
		}
		s.round(t)
		attackedUntil := time.Time{} // at least, if any node was on
		note := func(n *node) {      // what n has told, or goes by alone
			if n.mode.On() && n.mode.State().FailureRate.Total() > 30 { // the cool-down begins anew
				attackedUntil = s.Now().Add(s.config.CoolDown)
			}
		}
		pick := func(rt *rapid.T) *node { return s.nodes[rapid.IntRange(0, 2).Draw(rt, "node")] }
		rt.Repeat(map[string]func(*rapid.T){
			"signs": func(rt *rapid.T) { pick(rt).fail(rapid.IntRange(1, 20).Draw(rt, "times")) },
			"flush": func(rt *rapid.T) {
				n := pick(rt)
				n.flush(t)
				note(n)
			},
			"lost": func(rt *rapid.T) {
				n := pick(rt)
				n.lost(t)
				note(n)
			},
			"empty": func(rt *rapid.T) { s.empty(t) },
			"restart": func(rt *rapid.T) { // of one that has told what it knows
				i := rapid.IntRange(0, 2).Draw(rt, "node")
				s.nodes[i].flush(t)
				note(s.nodes[i])
				s.add(t).flush(t)
				last := len(s.nodes) - 1
				s.nodes[i], s.nodes = s.nodes[last], s.nodes[:last]
			},
			"unanswered": func(rt *rapid.T) {
				n := pick(rt)
				n.fault.after, n.fault.afterOne = true, rapid.IntRange(0, 1).Draw(rt, "answered")
				_ = n.Flush(t.Context())
				n.fault.after = false
				note(n)
			},
			"time": func(rt *rapid.T) {
				s.Advance(time.Duration(rapid.IntRange(1, 2000).Draw(rt, "seconds")) * time.Second)
			},
			"together": func(rt *rapid.T) {
				for range 3 {
					s.round(t)
				}
				want := s.nodes[0].mode.State()
				for i, n := range s.nodes {
					got := n.mode.State()
					if got.Level != want.Level || got.FailureRate != want.FailureRate || got.Normal != want.Normal ||
						!got.Low.Equal(want.Low) {
						rt.Fatalf("node %d is at %+v, node 0 at %+v", i, got, want)
					}
				}
				if s.Now().Before(attackedUntil) && !want.On {
					rt.Fatalf("off at %v, though attacked until %v", s.Now(), attackedUntil)
				}
			},
		})
	})
}
