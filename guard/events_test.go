package guard_test

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"authguard/captchamode/challenge"
	"authguard/guard"
	"authguard/internal/testing/world"
)

// limited is the default policy with limits on events.
func limited(events map[string][]guard.EventLimit) world.Options {
	p := guard.DefaultPolicy()
	p.Events = events
	return world.Options{Policy: &p}
}

// count is one event that must not break.
func count(t *testing.T, w *world.World, event string, s guard.Subjects) guard.Decision {
	t.Helper()
	d, err := w.Exceeded(t.Context(), event, s)
	if err != nil {
		t.Errorf("%s of %+v: %v", event, s, err)
	}
	return d
}

var reset = map[string][]guard.EventLimit{"password-reset": {
	{Count: 5, Window: time.Hour, Action: guard.Block, By: guard.OnAccount},
	{Count: 20, Window: 24 * time.Hour, Action: guard.Block, By: guard.OnAddress},
	{Count: 200, Window: time.Hour, Action: guard.Alert, By: guard.OnSite},
}}

func TestR1EventsAtOnceGetExactlyTheLimit(t *testing.T) {
	t.Parallel()
	for by, limit := range map[guard.SubjectKind]func(i int) guard.Subjects{
		guard.OnAccount: func(i int) guard.Subjects { return guard.Subjects{Account: []string{"Alice", "alice ", "ALICE"}[i%3]} }, // R11
		guard.OnAddress: func(int) guard.Subjects { return guard.Subjects{Address: netip.MustParseAddr(nowhere)} },
		guard.OnNetwork: func(i int) guard.Subjects {
			return guard.Subjects{Address: netip.AddrFrom4([4]byte{203, 0, 113, byte(i)})}
		},
		guard.OnSubject: func(int) guard.Subjects { return guard.Subjects{Subject: "+44 20 7946 0000"} },
		guard.OnSite:    func(int) guard.Subjects { return guard.Subjects{} },
	} {
		t.Run(by.String(), func(t *testing.T) {
			t.Parallel()
			o := limited(map[string][]guard.EventLimit{"sms": {{Count: 5, Window: time.Hour, Action: guard.Block, By: by}}})
			world.Each(t, o, func(t *testing.T, w *world.World) {
				var through atomic.Int64
				world.Burst(200, 50, func(i int) {
					switch d := count(t, w, "sms", limit(i)); d.Action {
					case guard.Proceed:
						through.Add(1)
					case guard.Block:
						if d.RetryAfter != time.Hour && d.RetryAfter != time.Hour+time.Millisecond {
							t.Errorf("a refused one may come back in %v, want an hour", d.RetryAfter)
						}
					default:
						t.Errorf("%v %v", d.Action, d.Reasons.Codes())
					}
				})
				if through.Load() != 5 {
					t.Errorf("%d went through, want 5", through.Load())
				}
			})
		})
	}
}

func TestR2AndR5EventsCountOnExactWindowsAndRefusedOnesNowhere(t *testing.T) {
	t.Parallel()
	world.Each(t, limited(reset), func(t *testing.T, w *world.World) {
		alice := guard.Subjects{Account: "alice", Address: netip.MustParseAddr(nowhere)}
		for range 5 { // one every ten minutes
			if d := count(t, w, "password-reset", alice); d.Action != guard.Proceed {
				t.Fatalf("%v %v", d.Action, d.Reasons.Codes())
			}
			w.Clock.Advance(10 * time.Minute)
		}
		for range 99 { // knocking
			d := count(t, w, "password-reset", alice)
			if d.Action != guard.Block || !slices.Equal(d.Reasons.Codes(), []string{"limit:account"}) {
				t.Fatalf("%v %v", d.Action, d.Reasons.Codes())
			}
			w.Clock.Advance(6 * time.Second)
		}
		w.Clock.Advance(6 * time.Second) // the first is an hour old
		if d := count(t, w, "password-reset", alice); d.Action != guard.Block {
			t.Errorf("after an hour to the millisecond: %v; a window is closed", d.Action)
		}
		w.Clock.Advance(time.Millisecond)
		if d := count(t, w, "password-reset", alice); d.Action != guard.Proceed {
			t.Errorf("after an hour: %v %v", d.Action, d.Reasons.Codes())
		}
		if d := count(t, w, "password-reset", alice); d.Action != guard.Block {
			t.Errorf("a second one after an hour: %v", d.Action)
		}
		lines, err := w.ExplainEvent(t.Context(), "password-reset", alice)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range lines { // the refused ones took nothing from the address or the site
			if want := map[guard.SubjectKind]int{guard.OnAccount: 5, guard.OnAddress: 6, guard.OnSite: 5}[l.Subject]; l.Used != want {
				t.Errorf("%s, want %d", l, want)
			}
		}
		if err := w.UnlockEvent(t.Context(), "password-reset", guard.Subjects{Account: "alice"}); err != nil {
			t.Fatal(err)
		}
		if d := count(t, w, "password-reset", alice); d.Action != guard.Proceed {
			t.Errorf("after unlocking: %v", d.Action)
		}
	})
}

func TestAnEventIsNothingToALoginAndNothingToAnother(t *testing.T) {
	t.Parallel()
	world.Each(t, limited(map[string][]guard.EventLimit{
		"sign-up": {{Count: 1, Window: time.Hour, Action: guard.Block, By: guard.OnAddress}},
		"message": {{Count: 1, Window: time.Hour, Action: guard.Block, By: guard.OnAddress}, {Count: 1, Window: time.Hour, Action: guard.Delay, By: guard.OnSubject}},
	}), func(t *testing.T, w *world.World) {
		here := guard.Subjects{Address: netip.MustParseAddr(nowhere), Subject: "room 1"}
		for _, c := range []struct {
			event string
			s     guard.Subjects
			want  guard.Action
		}{
			{"sign-up", here, guard.Proceed}, {"sign-up", here, guard.Block}, {"message", here, guard.Proceed}, {"message", here, guard.Block},
			{"message", guard.Subjects{Address: netip.MustParseAddr(home), Subject: "room 1"}, guard.Delay},
			{"message", guard.Subjects{Address: netip.MustParseAddr(home), Subject: "room 2"}, guard.Proceed}, // the one before took nothing from the address
			{"message", guard.Subjects{Address: netip.MustParseAddr(world.Address(1)), Subject: "Room 2"}, guard.Proceed},
		} {
			if d := count(t, w, c.event, c.s); d.Action != c.want {
				t.Errorf("%s %+v: %v, want %v", c.event, c.s, d.Action, c.want)
			}
		}
		e, err := w.Explain(t.Context(), "alice", netip.MustParseAddr(nowhere))
		if err != nil || !e.Open() {
			t.Errorf("a login after that: %v, %v", e.Summary(), err)
		}
		for _, l := range e.Lines {
			if l.Used != 0 {
				t.Errorf("%s", l)
			}
		}
	})
}

func TestWhatAnEventCountsByMustComeAlong(t *testing.T) {
	t.Parallel()
	w := world.New(t, limited(reset))
	here := netip.MustParseAddr(nowhere)
	for name, s := range map[string]guard.Subjects{"no account": {Address: here}, "no address": {Account: "alice"}, "nothing": {}} {
		if d, err := w.Exceeded(t.Context(), "password-reset", s); !errors.Is(err, guard.ErrSubjectMissing) || d.Action != guard.Block {
			t.Errorf("%s: %v, %v", name, d.Action, err)
		}
	}
	if d, err := w.Exceeded(t.Context(), "login", guard.Subjects{}); !errors.Is(err, guard.ErrNoEvent) || d.Action != guard.Block {
		t.Errorf("an event without limits: %v, %v", d.Action, err)
	}
	for range 20 { // a name that is none counts for its address (R11)
		if d := count(t, w, "password-reset", guard.Subjects{Account: "a\x00b", Address: here}); !d.Reasons.Has(guard.BadAccountName) || d.Action != guard.Block {
			t.Fatalf("%v %v", d.Action, d.Reasons.Codes())
		}
	}
	if d := count(t, w, "password-reset", guard.Subjects{Account: "alice", Address: here}); !slices.Equal(d.Reasons.Codes(), []string{"limit:address"}) {
		t.Errorf("after twenty bad names: %v %v", d.Action, d.Reasons.Codes())
	}
}

func TestR17AnEventThatIsChallengedTakesOneSolve(t *testing.T) {
	t.Parallel()
	world.Each(t, limited(map[string][]guard.EventLimit{"sign-up": {
		{Count: 1, Window: time.Hour, Action: guard.Challenge, By: guard.OnAddress}, {Count: 3, Window: time.Hour, Action: guard.Block, By: guard.OnAddress},
	}}), func(t *testing.T, w *world.World) {
		s := guard.Subjects{Address: netip.MustParseAddr(nowhere)}
		count(t, w, "sign-up", s)
		d := count(t, w, "sign-up", s)
		if d.Action != guard.Challenge {
			t.Fatalf("the second: %v", d.Action)
		}
		issued, err := w.IssueFor(t.Context(), "sign-up", s, d)
		if err != nil {
			t.Fatal(err)
		}
		s.Solution = challenge.Solution{ID: issued.ID, Answer: world.Answer}
		elsewhere := s
		elsewhere.Address = netip.MustParseAddr(home)
		count(t, w, "sign-up", guard.Subjects{Address: elsewhere.Address})
		if d := count(t, w, "sign-up", elsewhere); d.Action != guard.Challenge {
			t.Errorf("a solve from another address: %v", d.Action)
		}
		if d, err = w.Exceeded(t.Context(), "sign-up", s); err != nil || d.Action != guard.Proceed || !d.Verdict.Solved {
			t.Errorf("solved: %v, %v", d.Action, err)
		}
		if d := count(t, w, "sign-up", s); d.Action != guard.Challenge || !d.Reasons.Has(guard.ChallengeFailed) {
			t.Errorf("the same solve again: %v %v", d.Action, d.Reasons.Codes())
		}
	})
}

func TestListsAndMonitorHoldForEvents(t *testing.T) {
	t.Parallel()
	w := world.New(t, limited(map[string][]guard.EventLimit{"call": {
		{Count: 1, Window: time.Hour, Action: guard.Block, By: guard.OnAddress},
		{Count: 1, Window: time.Hour, Action: guard.Block, By: guard.OnSubject, Monitor: true},
	}}))
	w.Lists.Set([]guard.Listing{{Prefix: netip.MustParsePrefix("198.51.100.0/24"), Verdict: guard.Allowed}, {Prefix: netip.MustParsePrefix("203.0.113.0/24"), Verdict: guard.Blocked}})
	for range 3 {
		if d := count(t, w, "call", guard.Subjects{Address: netip.MustParseAddr("198.51.100.1"), Subject: "key 1"}); d.Action != guard.Proceed {
			t.Errorf("an allowed address: %v %v", d.Action, d.Reasons.Codes())
		}
	}
	d := count(t, w, "call", guard.Subjects{Address: netip.MustParseAddr("198.51.100.1"), Subject: "key 1"})
	if !slices.Equal(d.Reasons.Codes(), []string{"limit:subject:monitored"}) {
		t.Errorf("a limit on monitor: %v", d.Reasons.Codes())
	}
	if d := count(t, w, "call", guard.Subjects{Address: netip.MustParseAddr("203.0.113.1"), Subject: "key 2"}); d.Action != guard.Block || !d.Reasons.Has(guard.BlockedByAdmin) {
		t.Errorf("a blocked address: %v", d.Action)
	}
}

func TestR24ALimitOnEventsIsToldOfTwice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := limited(map[string][]guard.EventLimit{"card": {
			{Count: 3, Window: time.Minute, Action: guard.Alert, By: guard.OnSite}, {Count: 1, Window: time.Hour, Action: guard.Block, By: guard.OnSubject},
		}})
		o.Running = true
		w := world.New(t, o)
		for i := range 10 {
			if d := count(t, w, "card", guard.Subjects{Subject: fmt.Sprint("4111 1111 1111 ", i)}); d.Action != guard.Proceed {
				t.Errorf("%d: %v; an alert stops nothing", i, d.Action)
			}
			time.Sleep(time.Second)
		}
		for range 5 {
			count(t, w, "card", guard.Subjects{Subject: "4111 1111 1111 0"})
		}
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		var told []string
		met := 0
		for _, e := range w.Events() {
			if e.Edge == guard.Met {
				met++
				continue
			}
			if e.Limited != "card" || e.Account != "" || e.Address.IsValid() {
				t.Errorf("%+v", e)
			}
			told = append(told, fmt.Sprint(e.Edge == guard.Reached, " ", e.Action, " ", e.Reasons[0].Subject, " ", e.Count, " ", e.Subject != ""))
		}
		want := []string{"true alert site 1 false", "true block subject 1 true", "false alert site 7 false", "false block subject 5 true"}
		if !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
		if met != 7+5 {
			t.Errorf("%d were told of that came beyond a limit, want 12", met)
		}
	})
}

// However many subjects reach a limit, a bounded number of them is named.
func TestR31AFloodOfSubjectsIsToldOfAsOne(t *testing.T) {
	t.Parallel()
	w := world.New(t, limited(map[string][]guard.EventLimit{"sms": {{Count: 1, Window: time.Hour, Action: guard.Block, By: guard.OnSubject}}}))
	for i := range 2500 {
		for range 2 {
			count(t, w, "sms", guard.Subjects{Subject: fmt.Sprint(i)})
		}
	}
	if n := len(slices.DeleteFunc(w.Events(), func(e guard.Event) bool { return e.Edge == guard.Met })); n != 1001 {
		t.Errorf("%d edges were told of, want 1,000 and one for all the others", n)
	}
	if tallied := w.Tallied()["sms"]; tallied["proceed"] != 2500 || tallied["block"] != 2500 {
		t.Errorf("%v", tallied)
	}
}
