package redisstore_test

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"authguard/captchamode"
	"authguard/internal/testing/clocktest"
	"authguard/internal/testing/redistest"
)

// Three nodes that each see some of it come to what one Mode comes to that sees
// everything.
func TestNodesAgreeWithOneThatSeesEverything(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	rapid.Check(t, func(rt *rapid.T) {
		var clients []redis.UniversalClient
		defer func() {
			for _, c := range clients {
				_ = c.Close()
			}
		}()
		s := &site{Clock: clocktest.At(start), prefix: rand.Text() + ":", config: captchamode.DefaultConfig()}
		s.open = func(t testing.TB) redis.UniversalClient {
			clients = append(clients, on(server)(t))
			return clients[len(clients)-1]
		}
		s.config.CoolDown = 3 * time.Minute
		for range 3 {
			s.add(t)
		}
		s.round(t)
		whole, now := s.whole(t)
		rt.Repeat(map[string]func(*rapid.T){
			"signs": func(rt *rapid.T) {
				n := s.nodes[rapid.IntRange(0, 2).Draw(rt, "node")]
				sign := captchamode.Sign(rapid.IntRange(0, 2).Draw(rt, "sign"))
				for range rapid.IntRange(1, 12).Draw(rt, "times") {
					a := address()
					n.mode.Observe(sign, a)
					whole.Observe(sign, a)
				}
				n.flush(t)
			},
			"time": func(rt *rapid.T) {
				d := time.Duration(rapid.IntRange(1, 50).Draw(rt, "seconds")) * time.Second
				s.Advance(d)
				now.Advance(d)
				whole.Tick()
				s.round(t)
				s.round(t)
			},
			"": func(rt *rapid.T) {
				s.round(t)
				whole.Tick()
				want := whole.State()
				for i, n := range s.nodes {
					got := n.mode.State()
					// What the others reported is a flush old: just after a cool-down that
					// may still throttle unknown clients.
					if got.On != want.On || got.FailureRate != want.FailureRate || got.On && !got.Low.Equal(want.Low) {
						rt.Fatalf("node %d is at %+v, one that sees everything at %+v", i, got, want)
					}
				}
			},
		})
	})
}
