package guard_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"authguard/guard"
	"authguard/internal/testing/world"
)

// siteLimit is the default policy with a limit of twenty an hour on the site, and no
// delays.
func siteLimit(then guard.Action) world.Options {
	p := guard.DefaultPolicy()
	p.Site, p.PairDelay = []guard.Limit{{Failures: 20, Window: time.Hour, Action: then}}, guard.PairDelay{}
	return world.Options{Policy: &p}
}

func TestR1AndR3TheSitesLimitIsExact(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := siteLimit(guard.Block)
		o.Running = true
		w := world.New(t, o)
		w.CheckTakes = 100 * time.Millisecond
		world.Burst(300, 60, func(i int) { w.Wrong(t, fmt.Sprint("user", i), world.Address(i)) })
		if got := w.AllChecked(); got != 20 {
			t.Errorf("%d passwords were looked at, want 20", got)
		}
		right := world.New(t, o)
		right.CheckTakes = 100 * time.Millisecond
		var in atomic.Int64
		world.Burst(60, 60, func(i int) {
			if right.Right(t, fmt.Sprint("user", i), world.Address(i)) {
				in.Add(1)
			}
		})
		if in.Load() != 60 {
			t.Errorf("%d of 60 right passwords at once got in", in.Load())
		}
	})
}

func TestR13AndR14TheSitesLimitRefusesStrangersAndNobodyElse(t *testing.T) {
	t.Parallel()
	codes := newCodes()
	o := siteLimit(guard.Block)
	o.Codes = codes
	world.Each(t, o, func(t *testing.T, w *world.World) {
		if !w.Right(t, "alice", home) || !w.Right(t, "bob", world.Address(900)) {
			t.Fatal("nobody gets in")
		}
		for i := range 20 {
			w.Wrong(t, fmt.Sprint("user", i), world.Address(i))
			w.Clock.Advance(time.Minute)
		}
		for i := range 100 { // knocking (R5): the first leaves the window in 40 minutes
			d, ok := w.Try(t, world.From("carol", world.Address(100+i)), world.Right)
			if left := 40*time.Minute + time.Millisecond - time.Duration(i)*6*time.Second; ok || d.Action != guard.Block || d.RetryAfter != left || !slices.Equal(d.Reasons.Codes(), []string{"limit:site"}) {
				t.Fatalf("%v %v %v, want refuse and %v", d.Action, d.RetryAfter, d.Reasons.Codes(), left)
			}
			w.Clock.Advance(6 * time.Second)
		}
		w.Wrong(t, "alice", home) // at a known place it is the budget that counts
		e, err := w.Explain(t.Context(), "carol", world.From("", world.Address(100)).Address)
		if err != nil || e.Open() {
			t.Errorf("explained as %s, %v", e.Summary(), err)
		}
		for _, l := range e.Lines {
			if want := map[guard.SubjectKind]int{guard.OnSite: 20}[l.Subject]; l.Used != want {
				t.Errorf("%s, want %d", l, want)
			}
		}
		if !w.Right(t, "alice", home) {
			t.Error("a known place is refused")
		}
		if _, ok := w.Try(t, showing("alice's", world.Address(300)), world.Right); !ok && len(codes.used) == 0 {
			t.Error("a one-time code and the password do not let in (R29)")
		}
		w.Clock.Advance(30*time.Minute + time.Millisecond)
		if !w.Right(t, "carol", world.Address(100)) {
			t.Error("after an hour there is no room")
		}
		w.Wrong(t, "dave", world.Address(400))
		if d := w.Wrong(t, "dave", world.Address(401)); d.Action != guard.Block { // a success took its own charge back, and no other (R4)
			t.Errorf("a second wrong one after an hour: %v %v", d.Action, d.Reasons.Codes())
		}
	})
}

func TestTheSitesLimitIsOffByDefaultAndCanPretendOrWatch(t *testing.T) {
	t.Parallel()
	if p := guard.DefaultPolicy(); len(p.Site) > 0 {
		t.Errorf("%v", p.Site)
	}
	for _, c := range []struct {
		then    guard.Action
		monitor bool
		want    guard.Action
	}{{guard.FakeFailure, false, guard.FakeFailure}, {guard.Block, true, guard.Proceed}} {
		o := siteLimit(c.then)
		o.Policy.Site[0].Monitor = c.monitor
		w := world.New(t, o)
		for i := range 20 {
			w.Wrong(t, fmt.Sprint("user", i), world.Address(i))
		}
		for i := range 3 {
			if d, ok := w.Try(t, world.From(fmt.Sprint("carol", i), world.Address(50+i)), world.Right); d.Action != c.want || ok != (c.want == guard.Proceed) {
				t.Errorf("%v %v %v, want %v", d.Action, d.Reasons.Codes(), ok, c.want)
			}
		}
	}
	p := guard.DefaultPolicy()
	p.Site = []guard.Limit{{Failures: 20, Window: time.Hour, Action: guard.Challenge}}
	p.KnownClient = []guard.Limit{{Failures: 20, Window: time.Hour, Action: guard.FakeFailure}}
	if err := p.Validate(); err == nil || err.Error() != "limits.site[0].action: must be block or fake-failure, not challenge\nlimits.known_client[0].action: must be challenge or forget, not fake-failure" {
		t.Errorf("%v", err)
	}
}

func TestASealedTicketTakesTheSitesChargeBack(t *testing.T) {
	t.Parallel()
	w := world.New(t, siteLimit(guard.Block))
	for i := range 30 {
		d, err := w.Begin(t.Context(), world.From(fmt.Sprint("user", i), world.Address(i)))
		if err != nil || d.Action != guard.Proceed {
			t.Fatalf("%d: %v %v", i, d.Action, err)
		}
		ticket, err := w.Open(w.Seal(&d.Ticket))
		if err == nil {
			err = w.Settle(t.Context(), ticket, []guard.Outcome{guard.Succeeded, guard.Abandoned}[i%2])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
