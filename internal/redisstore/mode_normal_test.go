package redisstore_test

import (
	"testing"
	"time"

	"authguard/captchamode"
)

// What captchamode's tests of R25 show of one node, over three that share the work.

// login has n accounts log in, each once.
func (n *node) login(s *site, times int) {
	for range times {
		n.mode.LoggedIn(address(), address(), true, s.Now())
	}
}

func busySiteSettles(t *testing.T, open opener) {
	for _, failures := range []int{34, 120} {
		s, on, lastOn := newSite(t, open, 3), 0, 0
		for minute := range 12 * 60 {
			for step := range 3 {
				for i, n := range s.nodes {
					n.login(s, share(failures*43/57, 9, 3*step+i))
					n.fail(share(failures, 9, 3*step+i))
				}
				s.pass(t, 20*time.Second, 20*time.Second)
			}
			if s.nodes[0].mode.On() {
				on, lastOn = on+1, minute
			}
		}
		if on > 60 || lastOn > 60 {
			t.Errorf("%d failures: on for %d minutes, last in minute %d; want an hour at most, and off then", failures, on,
				lastOn)
		}
	}
}

// share is the ith of so many parts of n.
func share(n, parts, i int) int { return n*(i+1)/parts - n*i/parts }

func huggingRaisesNothing(t *testing.T, open opener) {
	s := newSite(t, open, 3)
	before := s.nodes[0].mode.State().Threshold
	for i := range 26 * 60 * 3 {
		s.nodes[i%3].fail(7) // 28 in a minute, of 30
		s.pass(t, 20*time.Second, 20*time.Second)
	}
	if after := s.nodes[0].mode.State().Threshold; after > 2*before {
		t.Errorf("after a day of it the threshold is %v, was %v", after, before)
	}
	told := 0
	for _, n := range s.nodes {
		steady := 0
		for _, one := range n.switches {
			if one.Cause != captchamode.BySteadiness {
				continue
			}
			if steady++; !one.Adopted {
				told++
			}
			if one.At.Sub(start) > 24*time.Hour {
				t.Errorf("steady pressure was noticed after %v", one.At.Sub(start))
			}
		}
		if steady != 1 {
			t.Errorf("a node noticed steady pressure %d times, want once", steady)
		}
	}
	if told != 1 {
		t.Errorf("steady pressure is told of %d times, want once for all nodes", told)
	}
}

// A day's failures of unknown clients are those of all nodes; one network's share is, too. Each node switches, and one
// tells.
func dailyFailuresAreTheSites(t *testing.T, open opener) {
	s := newSite(t, open, 3)
	failing := func(minutes, failures int) {
		for minute := range minutes {
			for i := range failures*(minute+1)/minutes - failures*minute/minutes {
				s.nodes[(minute+i)%3].mode.Failed(address(), address(), address(), s.Now())
				s.nodes[minute%3].mode.Failed(address(), address(), [16]byte{7}, s.Now()) // one network
			}
			s.pass(t, time.Minute, 30*time.Second)
		}
	}
	failing(74*60, 74)
	for i, n := range s.nodes {
		if is := n.mode.State().Daily; n.mode.Elevated() || is.Failures < 20 || is.Failures > 32 {
			t.Errorf("node %d: usual days: %+v", i, is)
		}
	}
	failing(12*60, 300)
	told := 0
	for i, n := range s.nodes {
		if is := n.mode.State().Daily; !n.mode.Elevated() || is.Failures < 270 || is.Failures > 330 {
			t.Errorf("node %d: 300 in half a day: %+v", i, is)
		}
		for _, one := range n.switches {
			if one.Cause == captchamode.ByDailyFailures && !one.Adopted {
				told++
			}
		}
	}
	if told != 1 {
		t.Errorf("told of %d times, want once for all nodes", told)
	}
}

func fewAttemptsHoldIt(t *testing.T, open opener) {
	s := newSite(t, open, 3)
	s.config = captchamode.DefaultConfig()
	for _, n := range s.nodes {
		must(t, n.mode.SetConfig(s.config))
	}
	left, on := 500, 0
	for range 24 * 60 {
		if left >= 31 && !s.nodes[0].mode.On() {
			for i := range 31 { // one attempt an address and node: what it may contribute
				s.nodes[i%3].mode.Observe(captchamode.Failure, [16]byte{7, byte(i % 11)})
			}
			left -= 31
		}
		s.round(t)
		s.pass(t, time.Minute, 30*time.Second)
		if s.nodes[0].mode.On() {
			on++
		}
	}
	if on == 0 || on > 4*60 {
		t.Errorf("%d attempts held the mode for %d minutes", 500-left, on)
	}
}

func correctedElsewhere(t *testing.T, open opener) {
	s := newSite(t, open, 3)
	pair := address()
	s.nodes[0].mode.Failed(pair, address(), [16]byte{}, s.Now())
	s.nodes[1].mode.Failed(pair, address(), [16]byte{}, s.Now())
	s.nodes[0].fail(4)
	s.round(t)
	s.Advance(10 * time.Second)
	s.nodes[2].mode.LoggedIn(address(), pair, true, s.Now())
	for range 4 {
		s.round(t)
	}
	for _, n := range s.nodes {
		n.wantPressure(t, 4)
	}
	s.Advance(2 * time.Second)
	s.nodes[0].mode.Failed(pair, address(), [16]byte{}, s.Now()) // after it logged in: that is pressure
	s.round(t)
	s.round(t)
	for _, n := range s.nodes {
		n.wantPressure(t, 5)
	}
	s.pass(t, 51*time.Second, time.Second)
	s.round(t)
	for _, n := range s.nodes {
		n.wantPressure(t, 1) // what was taken back makes no room for others
	}
}

func clearedOnAll(t *testing.T, open opener) {
	s := newSite(t, open, 3)
	for range 3 {
		for _, n := range s.nodes {
			n.fail(20)
		}
		s.round(t)
	}
	s.want(t, true)
	s.nodes[1].mode.Clear("ann", "a load test")
	for range 3 {
		s.round(t)
	}
	s.want(t, false)
	for i, n := range s.nodes {
		n.wantPressure(t, 0)
		last := n.switches[len(n.switches)-1]
		if last.Cause != captchamode.ByClearing || last.Adopted != (i != 1) {
			t.Errorf("node %d was told %+v", i, last)
		}
	}
	s.wantRecorded(t, 1, 1, 6)
	s.pass(t, time.Minute, time.Second)
	s.want(t, false)
	for i := range 31 {
		s.nodes[i%3].fail(1)
	}
	s.round(t)
	s.round(t)
	s.want(t, true) // an attack that goes on is noticed anew
	n := s.add(t)
	n.flush(t)
	s.want(t, true)
}

func clearedWhileAway(t *testing.T, open opener) {
	s := newSite(t, open, 3)
	s.nodes[0].fail(31)
	s.round(t)
	s.outage(t)
	s.nodes[2].mode.Clear("ann", "a load test")
	s.outage(t)
	s.pass(t, 2*time.Second, time.Second)
	s.round(t)
	s.want(t, false)
	for _, n := range s.nodes {
		n.wantPressure(t, 0)
	}
}

func clearedWhileNodeAway(t *testing.T, open opener) {
	s := newSite(t, open, 3)
	for _, n := range s.nodes {
		n.fail(11)
	}
	s.round(t)
	s.round(t)
	s.want(t, true)
	away := s.nodes[2]
	away.lost(t)
	s.nodes = s.nodes[:2]
	s.nodes[0].mode.Clear("ann", "a load test")
	s.round(t)
	s.want(t, false)
	s.nodes = append(s.nodes, away)
	away.flush(t)
	s.round(t)
	s.want(t, false)
	for _, n := range s.nodes {
		n.wantPressure(t, 0)
	}
}
