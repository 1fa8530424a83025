package redisstore_test

import (
	"context"
	"testing"
	"time"

	"authguard/captchamode"
	"authguard/internal/testing/redistest"
)

// outage has every node flush in vain.
func (s *site) outage(t testing.TB) {
	t.Helper()
	for _, n := range s.nodes {
		n.lost(t)
	}
}

// passAlone lets time pass without Redis.
func (s *site) passAlone(t testing.TB, d, step time.Duration) {
	t.Helper()
	for ; d > 0; d -= step {
		s.Advance(min(d, step))
		s.outage(t)
	}
}

// empty takes everything away that Redis knows of the site.
func (s *site) empty(t testing.TB) {
	t.Helper()
	for _, key := range keysOf(t, s) {
		must(t, s.open(t).Del(t.Context(), key).Err())
	}
}

func answerLost(t *testing.T, open opener) {
	s := newSite(t, open, 2)
	s.nodes[0].fail(5)
	s.nodes[0].unanswered(t, 0)
	s.nodes[0].fail(2)
	s.nodes[0].flush(t)
	s.nodes[1].flush(t)
	s.nodes[0].wantPressure(t, 7)
	s.nodes[1].wantPressure(t, 7)
	if got := len(s.nodes[0].errors); got != 2 || s.nodes[0].errors[0] == nil || s.nodes[0].errors[1] != nil {
		t.Errorf("told of %v, want one failure and its end", s.nodes[0].errors)
	}
}

func failedFlushKeeps(t *testing.T, open opener) {
	s := newSite(t, open, 2)
	for range 3 {
		s.nodes[0].fail(2)
		s.nodes[0].lost(t)
		s.Advance(time.Second)
	}
	s.nodes[0].flush(t)
	s.nodes[1].flush(t)
	s.nodes[1].wantPressure(t, 6)
	s.pass(t, 58*time.Second, time.Second) // each is counted in its own second
	s.nodes[1].wantPressure(t, 4)
	s.pass(t, time.Second, time.Second)
	s.nodes[1].wantPressure(t, 2)
}

func olderIsNotReported(t *testing.T, open opener) {
	s := newSite(t, open, 2)
	s.nodes[0].fail(9)
	s.nodes[0].lost(t)
	s.Advance(30 * time.Second)
	s.nodes[0].fail(4)
	s.nodes[0].lost(t)
	s.Advance(31 * time.Second)
	s.nodes[0].flush(t)
	s.nodes[1].flush(t)
	s.nodes[1].wantPressure(t, 4)
}

// A node that was seen to have more than its part of the pressure is not
// attacked because Redis did not answer once.
func shortSilence(t *testing.T, open opener) {
	s := newSite(t, open, 3)
	s.nodes[0].fail(10)
	s.round(t)
	s.nodes[0].fail(3) // 13 is above a third of 30
	s.nodes[0].lost(t)
	s.nodes[0].flush(t)
	s.round(t)
	s.want(t, false)
	for _, n := range s.nodes {
		if len(n.switches) != 0 && n.switches[0].Level == captchamode.Attack {
			t.Errorf("%+v", n.switches)
		}
	}
}

func alone(t *testing.T, open opener) {
	s := newSite(t, open, 3)
	s.round(t)
	s.outage(t)
	for range 10 {
		for _, n := range s.nodes {
			n.fail(1)
			n.lost(t) // that it tries to tell the others changes nothing
		}
	}
	s.want(t, false) // a third of 30, and not above
	for _, n := range s.nodes {
		n.fail(1)
	}
	s.want(t, true) // at once, without a flush
	if got := s.nodes[0].mode.State().Threshold; got != 10 {
		t.Errorf("the threshold alone is %v, want 10", got)
	}
	s.round(t)
	s.round(t)
	s.want(t, true)
	s.wantRecorded(t, 3, 0, 3) // each by itself: none could know of the others
	if got := s.nodes[0].mode.State().Threshold; got != 30 {
		t.Errorf("the threshold together is %v, want 30", got)
	}
}

func aloneShare(t *testing.T, open opener) {
	s := newSite(t, open, 3)
	s.round(t)
	s.outage(t)
	for range 9 {
		s.nodes[0].mode.Observe(captchamode.Failure, [16]byte{9, 9})
	}
	s.nodes[0].wantPressure(t, 1) // a tenth of a third of 30
}

func higherHolds(t *testing.T, open opener) {
	s := newSite(t, open, 3)
	s.round(t)
	s.outage(t)
	s.nodes[2].fail(11)
	if !s.nodes[2].mode.On() || s.nodes[0].mode.On() {
		t.Fatal("the third node is not on alone")
	}
	s.round(t)
	s.round(t)
	s.want(t, true)
	s.wantRecorded(t, 1, 0, 3)
	s.pass(t, 2*time.Hour+2*time.Minute, time.Minute)
	s.want(t, false)
	s.wantRecorded(t, 1, 1, 6)
}

func laterHolds(t *testing.T, open opener) {
	s := newSite(t, open, 2)
	s.nodes[0].fail(31)
	s.round(t)
	s.pass(t, 61*time.Second, time.Second) // quiet from now on
	s.passAlone(t, time.Hour, time.Minute)
	s.nodes[1].fail(16) // above half of 30
	s.nodes[1].mode.Tick()
	s.passAlone(t, 61*time.Second, time.Second)
	want := s.Now()
	s.passAlone(t, time.Minute, time.Minute)
	s.round(t)
	s.round(t)
	for i, n := range s.nodes {
		if got := n.mode.State().Low; !got.Equal(want) {
			t.Errorf("node %d: the cool-down began at %v, want %v", i, got, want)
		}
	}
	s.want(t, true)
	s.pass(t, 2*time.Hour-time.Minute, time.Minute)
	s.want(t, false)
	s.wantRecorded(t, 1, 1, 4)
}

// An outage longer than the cool-down: it was quiet everywhere, and so it stays
// off when Redis comes back and says what held before.
func cooledDownAlone(t *testing.T, open opener) {
	s := newSite(t, open, 2)
	s.nodes[0].fail(31)
	s.round(t)
	s.passAlone(t, time.Hour, time.Minute)
	s.want(t, true) // not because of the loss
	s.passAlone(t, 62*time.Minute, time.Minute)
	s.want(t, false)
	s.round(t)
	s.round(t)
	s.want(t, false)
	s.wantRecorded(t, 1, 2, 4)
}

func offWhileAway(t *testing.T, open opener) {
	for name, attacked := range map[string]bool{"quiet": false, "attacked": true} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, open, 3)
			s.nodes[0].fail(31)
			s.round(t)
			away := s.nodes[2]
			s.nodes = s.nodes[:2]
			for range 130 {
				s.pass(t, time.Minute, time.Minute)
				if attacked {
					away.fail(6)
				}
				away.lost(t)
			}
			s.want(t, false)
			s.nodes = append(s.nodes, away)
			away.flush(t)
			s.round(t)
			s.want(t, attacked)
		})
	}
}

func emptiedInAnAttack(t *testing.T, open opener) {
	s := newSite(t, open, 3)
	s.nodes[0].fail(31)
	s.round(t)
	s.pass(t, 5*time.Minute, time.Second)
	low := s.nodes[0].mode.State().Low
	s.empty(t)
	s.round(t)
	s.round(t)
	s.want(t, true)
	n := s.add(t)
	n.flush(t)
	s.want(t, true)
	if got := n.mode.State().Low; !got.Equal(low) {
		t.Errorf("the cool-down began at %v, want %v as before", got, low)
	}
	s.wantRecorded(t, 1, 0, 4)
}

func newNodeSpeaksFirst(t *testing.T, open opener) {
	s := newSite(t, open, 2)
	s.pass(t, 10*time.Minute, time.Minute)
	s.nodes[0].fail(31)
	s.round(t)
	s.empty(t)
	s.add(t).flush(t)
	s.round(t)
	s.round(t)
	s.want(t, true)
}

func reportedAgain(t *testing.T, open opener) {
	s := newSite(t, open, 2)
	s.nodes[0].fail(7)
	s.nodes[0].mode.Observe(captchamode.Overload, address())
	s.nodes[0].mode.TakeBack(captchamode.Failure)
	s.nodes[1].fail(4)
	s.round(t)
	s.Advance(5 * time.Second)
	s.empty(t)
	s.round(t)
	s.round(t)
	for _, n := range s.nodes {
		n.wantPressure(t, 11)
	}
}

// A replica that becomes master may lack the last second's writes.
func lostLastWrites(t *testing.T, open opener) {
	s := newSite(t, open, 2)
	c := s.open(t)
	key := s.prefix + "{" + s.prefix + "mode}agreed"
	before, err := c.HGetAll(t.Context(), key).Result()
	must(t, err)
	s.nodes[0].fail(31)
	s.nodes[0].flush(t)
	must(t, c.HSet(t.Context(), key, before).Err())
	s.nodes[1].flush(t)
	s.round(t)
	s.round(t)
	s.want(t, true)
}

func unknownWhether(t *testing.T, open opener) {
	s := newSite(t, open, 2)
	s.nodes[0].fail(15)
	s.round(t)
	s.nodes[1].fail(16)
	s.nodes[1].unanswered(t, 1) // the flush is answered, the switch is not
	s.nodes[0].flush(t)
	s.nodes[1].flush(t)
	s.want(t, true)
	s.wantRecorded(t, 1, 0, 2)
	s.pass(t, 61*time.Second+2*time.Hour-time.Minute, time.Second*61)
	s.want(t, true)
	s.Advance(time.Minute)
	s.nodes[1].unanswered(t, 1) // and neither is the switch off
	s.nodes[0].flush(t)
	s.nodes[1].flush(t)
	s.want(t, false)
	s.wantRecorded(t, 1, 1, 4)
}

// The whole of R22 for the mode, with a server that dies and comes back empty.
func TestServerThatDiesInAnAttack(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	s := newSite(t, on(server), 3)
	s.nodes[0].fail(31)
	s.round(t)
	server.Kill()
	for range 8 {
		s.Advance(10 * time.Minute)
		for _, n := range s.nodes {
			if n.Flush(context.Background()) == nil {
				t.Fatal("a dead server answers")
			}
			if n.Nodes() != 3 {
				t.Fatalf("the nodes last seen are %d, want 3", n.Nodes())
			}
		}
	}
	s.want(t, true)
	server.Start(t)
	s.round(t)
	s.round(t)
	s.want(t, true)
	late := s.add(t)
	late.flush(t)
	s.want(t, true)
	s.wantRecorded(t, 1, 0, 4)
}
