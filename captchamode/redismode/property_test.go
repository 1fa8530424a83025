package redismode_test

import (
	"testing"
	"time"

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
		s := &site{clock: &clock{now: start}, open: on(server), prefix: rapid.StringMatching(`[a-z]{12}`).Draw(rt, "prefix") + time.Now().Format("150405.000000000"), config: captchamode.DefaultConfig()}
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
				// A node does not know of shares that were used up elsewhere and of
				// which the count was taken back since; it may then be first by that
				// much. So what is taken back here is from addresses that come once.
				few := sign != captchamode.Unsolved && rapid.Bool().Draw(rt, "few addresses")
				for range rapid.IntRange(1, 12).Draw(rt, "times") {
					a := address()
					if few {
						a = [16]byte{byte(rapid.IntRange(0, 3).Draw(rt, "address")), 0xff}
					}
					n.mode.Observe(sign, a)
					whole.Observe(sign, a)
				}
				n.flush(t)
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
