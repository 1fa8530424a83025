package redismode_test

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"authguard/captchamode"
	"authguard/internal/redistest"
)

// Three nodes that each see some of it come to what one Mode comes to that sees
// everything, with restarts in between.
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
		s := &site{clock: &clock{now: start}, prefix: rand.Text() + ":", config: captchamode.DefaultConfig()}
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
		// What a node counts itself is an address's share of the last minute; what
		// was used of it elsewhere before, it hears with its next flush, and may
		// be first by that much. So an address goes to one node or comes in one
		// action.
		var once, several share
		home := map[*node]share{}
		rt.Repeat(map[string]func(*rapid.T){
			"signs": func(rt *rapid.T) {
				n := s.nodes[rapid.IntRange(0, 2).Draw(rt, "node")]
				sign := captchamode.Sign(rapid.IntRange(0, 2).Draw(rt, "sign"))
				for range rapid.IntRange(1, 12).Draw(rt, "times") {
					a := once.next(0)
					n.mode.Observe(sign, a)
					whole.Observe(sign, a)
				}
				n.flush(t)
			},
			"few addresses": func(rt *rapid.T) {
				n := s.nodes[rapid.IntRange(0, 2).Draw(rt, "node")]
				if _, known := home[n]; !known {
					home[n] = share(len(home) * 8)
				}
				for range rapid.IntRange(1, 12).Draw(rt, "times") {
					a := home[n] + share(rapid.IntRange(0, 3).Draw(rt, "address"))
					n.mode.Observe(captchamode.Failure, a.of(0x1000))
					whole.Observe(captchamode.Failure, a.of(0x1000))
				}
				n.flush(t)
			},
			"few addresses everywhere": func(rt *rapid.T) {
				some := [][16]byte{several.next(0x2000), several.next(0x2000), several.next(0x2000)}
				for range rapid.IntRange(1, 15).Draw(rt, "times") {
					a := rapid.SampledFrom(some).Draw(rt, "address")
					s.nodes[rapid.IntRange(0, 2).Draw(rt, "node")].mode.Observe(captchamode.Shed, a)
					whole.Observe(captchamode.Shed, a)
				}
				s.round(t)
			},
			"solved": func(rt *rapid.T) {
				if whole.State().Pressure[captchamode.Unsolved] == 0 {
					return
				}
				n := s.nodes[rapid.IntRange(0, 2).Draw(rt, "node")]
				n.mode.TakeBack(captchamode.Unsolved)
				whole.TakeBack(captchamode.Unsolved)
				n.flush(t)
			},
			"time": func(rt *rapid.T) {
				d := time.Duration(rapid.IntRange(1, 50).Draw(rt, "seconds")) * time.Second
				s.clock.pass(d)
				now.pass(d)
				whole.Tick()
				s.nodes[0].flush(t)
			},
			"restart": func(rt *rapid.T) {
				i := rapid.IntRange(0, 2).Draw(rt, "node")
				s.add(t).flush(t)
				last := len(s.nodes) - 1
				s.nodes[i], s.nodes = s.nodes[last], s.nodes[:last]
			},
			"": func(rt *rapid.T) {
				s.round(t)
				whole.Tick()
				want := whole.State()
				for i, n := range s.nodes {
					got := n.mode.State()
					if got.Level != want.Level || got.On != want.On || got.Pressure.Total() != want.Pressure.Total() || !got.Low.Equal(want.Low) {
						rt.Fatalf("node %d is at %+v, one that sees everything at %+v", i, got, want)
					}
				}
			},
		})
	})
}

// share numbers the shares.
type share uint16

func (n *share) next(from share) [16]byte {
	*n++
	return n.of(from)
}

func (n share) of(from share) [16]byte { return [16]byte{byte(from + n), byte((from + n) >> 8)} }
