package guard_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"authguard/captchamode"
	"authguard/guard"
	"authguard/internal/testing/world"
	"authguard/trusted"
)

// everything is a policy with a limit of each kind, and a mode that any failure switches on.
func everything() (guard.Policy, captchamode.Config) {
	p := guard.DefaultPolicy()
	p.Pair = []guard.Limit{{Failures: 2, Window: time.Hour, Action: guard.FakeFailure}}
	p.PairDelay = guard.PairDelay{After: 1, First: time.Second, Max: time.Second, Window: time.Hour}
	p.Account = []guard.Limit{{Failures: 3, Window: time.Hour, Action: guard.Challenge}, {Failures: 5, Window: time.Hour, Action: guard.Block}}
	p.Address = []guard.Limit{{Failures: 4, Window: time.Hour, Action: guard.Block}}
	p.Network = []guard.Limit{{Failures: 5, Window: time.Hour, Action: guard.Challenge}}
	p.Site = []guard.Limit{{Failures: 6, Window: time.Hour, Action: guard.Block}}
	p.KnownClient = []guard.Limit{{Failures: 2, Window: time.Hour, Action: guard.Forget}}
	p.ThrottleDelay = time.Minute
	p.Lists = []guard.NamedList{
		{Name: "bad", Verdict: guard.Blocked}, {Name: "tor", Limits: []guard.Limit{{Action: guard.Challenge}, {Failures: 1, Window: time.Hour, Action: guard.Block}}},
	}
	p.Events = map[string][]guard.EventLimit{"sms": {{Count: 1, Window: time.Hour, Action: guard.Block, By: guard.OnAccount}}}
	m := captchamode.DefaultConfig()
	m.ThresholdMin, m.ThresholdMax, m.AddressShare = 6, 6, 1
	return p, m
}

func watch(p guard.Policy) guard.Policy {
	return p.Overridden(func(string) guard.Override { return guard.Monitored })
}

func TestAPolicyThatOnlyWatchesStopsNobodyAndSaysWhatItWould(t *testing.T) {
	t.Parallel()
	written, mode := everything()
	p := watch(written)
	mode.Monitor = true
	world.Each(t, world.Options{Policy: &p, Mode: &mode}, func(t *testing.T, w *world.World) {
		w.Lists.SetNamed(map[string]*guard.Ranges{
			"bad": guard.NewRanges([]netip.Prefix{netip.MustParsePrefix("203.0.113.66/32")}), "tor": guard.NewRanges([]netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}),
		})
		says := func(d guard.Decision, want ...string) {
			t.Helper()
			if d.Action != guard.Proceed {
				t.Errorf("%v %v", d.Action, d.Reasons.Codes())
			}
			for _, code := range want {
				if !slices.Contains(d.Reasons.Codes(), code+":monitored") {
					t.Errorf("%v does not say %s", d.Reasons.Codes(), code)
				}
			}
		}
		for i := range 10 {
			d := w.Wrong(t, "alice", "192.0.2.1")
			var want []string
			for _, one := range []struct {
				after int
				code  string
			}{
				{1, "pair-delay"}, {2, "limit:pair"}, {3, "limit:account"}, {4, "limit:address"}, {5, "limit:network"},
				{6, "limit:site"}, {3, "throttled"},
			} {
				if i >= one.after {
					want = append(want, one.code)
				}
			}
			says(d, want...)
			if n := len(d.Reasons); i == 0 && n != 0 {
				t.Errorf("the first: %v", d.Reasons.Codes())
			}
		}
		says(w.Wrong(t, "bob", "203.0.113.66"), "blocklist:bad")
		if on, _, _ := w.Mode.Monitored(); w.Mode.On() || w.Mode.Throttling() || !on || w.NeedsChallenge(netip.MustParseAddr("192.0.2.1")) {
			t.Error("the mode that only watches is on")
		}
		says(w.Wrong(t, "carol", "198.51.100.7"), "list:tor", "captcha-mode")
		says(w.Wrong(t, "dave", "198.51.100.7"), "list:tor")
		if !w.Right(t, "alice", "192.0.2.1") { // the right password gets in, and its place is known
			t.Error("the right password was stopped")
		}
		w.Clock.Advance(2 * time.Hour)
		for range 4 {
			w.Wrong(t, "alice", "192.0.2.1")
		}
		if w.Status(t, "alice", "192.0.2.1") != trusted.Known {
			t.Error("a budget that is only watched forgot the place")
		}
		for range 3 {
			d, err := w.Exceeded(t.Context(), "sms", guard.Subjects{Account: "alice"})
			if err != nil || d.Action != guard.Proceed {
				t.Errorf("an event: %v %v", d.Action, err)
			}
		}

		t.Run("and the guard of the administrators is enforced, and not challenged by that", func(t *testing.T) {
			administration := w.Second(t, func(c *guard.Config) { c.Policy = written })
			var got []string
			for range 4 {
				w.Clock.Advance(2 * time.Second)
				got = append(got, administration.Wrong(t, "root", "192.0.2.99").Action.String())
			}
			if want := []string{"proceed", "proceed", "fake-failure", "fake-failure"}; !slices.Equal(got, want) {
				t.Errorf("%v, want %v", got, want)
			}
		})
	})
}

// TestWhatIsEnforcedAgainIsSoAtOnce: a policy is switched under an attack, twice.
func TestWhatIsEnforcedAgainIsSoAtOnce(t *testing.T) {
	t.Parallel()
	written, mode := everything()
	written.Pair, written.PairDelay, written.Site, written.ThrottleDelay, written.Address, written.Network = nil, guard.PairDelay{}, nil, 0, nil, nil
	world.Each(t, world.Options{Policy: &written, Mode: &mode}, func(t *testing.T, w *world.World) {
		for range 3 { // each time the other way
			for _, watched := range []bool{true, false} {
				p, m := written, mode
				if watched {
					p, m.Monitor = watch(p), true
				}
				if err := w.SetPolicy(p); err != nil {
					t.Fatal(err)
				}
				if err := w.Mode.SetConfig(m); err != nil {
					t.Fatal(err)
				}
				for i := range 7 {
					if d := w.Wrong(t, "alice", world.Address(i)); watched && d.Action != guard.Proceed {
						t.Errorf("watched: %v %v", d.Action, d.Reasons.Codes())
					}
				}
				if on := w.Mode.On(); on == watched {
					t.Errorf("watched %v, CAPTCHA mode on %v", watched, on)
				}
				if d := w.Wrong(t, "alice", "203.0.113.1"); !watched && d.Action != guard.Challenge {
					t.Errorf("enforced: %v", d.Action)
				}
			}
		}
		if on, off := w.Switched(); on != 3 || off != 2 {
			t.Errorf("the mode went on %d times and off %d, want 3 and 2", on, off)
		}
		w.Mode.Release("", "")
		if err := w.Mode.SetConfig(captchamode.Config{ThresholdMultiplier: mode.ThresholdMultiplier, ThresholdMin: 6, ThresholdMax: 6, ThrottleAt: .3, AddressShare: 1, CoolDown: time.Hour, Monitor: true}); err != nil {
			t.Fatal(err)
		}
		if w.Force(t); !w.Mode.On() {
			t.Error("the mode that somebody switched on is off, since it only watches")
		}
	})
}

// TestR28AWatchedSprayLetsInAndSaysSo: the password is right, and tried everywhere.
func TestR28AWatchedSprayLetsInAndSaysSo(t *testing.T) {
	t.Parallel()
	p := guard.DefaultPolicy()
	p.Spray = guard.Spray{Accounts: 3, Monitor: true}
	w := world.New(t, world.Options{Policy: &p})
	for i := range 3 {
		a := world.From(fmt.Sprint("user", i), world.Address(i))
		a.PasswordTag = w.Fingerprint(world.Right)
		w.Try(t, a, "wrong")
	}
	w.ForgetEvents()
	a := world.From("carol", world.Address(9))
	a.PasswordTag = w.Fingerprint(world.Right)
	if _, ok := w.Try(t, a, world.Right); !ok {
		t.Error("a limit that only watches kept somebody out")
	}
	if e := w.Events(); len(e) != 1 || e[0].Outcome != guard.Succeeded || !slices.Contains(e[0].Reasons.Codes(), "spray:monitored") {
		t.Errorf("%+v", e)
	}
}

// The decision API's tickets travel, and what would have stopped them is told still.
func TestATicketThatTravelsKeepsItsReasons(t *testing.T) {
	t.Parallel()
	written, _ := everything()
	written.Lists[0].Name = "a-list-with-a-name-as-long-as-they-can-be"[:40]
	p := watch(written)
	w := world.New(t, world.Options{Policy: &p})
	for range 9 {
		w.Wrong(t, "alice", "192.0.2.1")
	}
	d, err := w.Begin(t.Context(), world.From("alice", "192.0.2.1"))
	if err != nil {
		t.Fatal(err)
	}
	text := w.Seal(&d.Ticket)
	ticket, err := w.Open(text)
	if err != nil || len(text) > guard.MaxTicket {
		t.Fatal(err)
	}
	w.ForgetEvents()
	if err := w.Settle(t.Context(), ticket, guard.Failed); err != nil {
		t.Fatal(err)
	}
	e := w.Events()[0]
	if len(d.Reasons) < 6 || !slices.Equal(e.Reasons.Codes(), d.Reasons.Codes()) {
		t.Errorf("%v, decided were %v", e.Reasons.Codes(), d.Reasons.Codes())
	}
	for i, r := range e.Reasons {
		if l := d.Reasons[i].Limit; l != nil && *r.Limit != *l {
			t.Errorf("%+v, want %+v", *r.Limit, *l)
		}
	}
}

// Nodes restart one after the other, and an administrator may take stricter limits back after a restart. Up to the
// numbers of the default limits, nothing is forgotten.
func TestStricterLimitsOfAnotherProcessForgetNoFailures(t *testing.T) {
	t.Parallel()
	p := guard.DefaultPolicy()
	p.Address, p.Network, p.Spray, p.PairDelay = nil, nil, guard.Spray{}, guard.PairDelay{}
	p.Account = []guard.Limit{{Failures: 60, Window: 10 * time.Minute, Action: guard.Block}}
	if (guard.Policy{}).Retain() < 24*time.Hour {
		t.Error("a memory under short limits deletes failures that the default limits count")
	}
	mode := captchamode.DefaultConfig()
	mode.Monitor = true
	world.Each(t, world.Options{Policy: &p, Mode: &mode}, func(t *testing.T, w *world.World) {
		other := w.Second(t, func(c *guard.Config) {
			c.Realm = ""
			c.Policy.Account = []guard.Limit{{Failures: 2, Window: time.Second, Action: guard.Block}}
		})
		checked := 0
		for i := range 120 {
			of := w
			if i%4 == 0 {
				of = other
			}
			if d := of.Wrong(t, "alice", world.Address(i)); d.Checks() {
				checked++
			}
			w.Clock.Advance(2 * time.Second)
		}
		if d := w.Wrong(t, "alice", world.Address(1000)); d.Checks() {
			t.Errorf("with %d failures in 4 minutes, the limit of 60 in 10 minutes is not full", checked)
		}
	})
}

// TestStricterLimitsForAWhileForgetNoFailures: an administrator sets stricter limits with a shorter window, or none,
// and then the earlier ones again.
func TestStricterLimitsForAWhileForgetNoFailures(t *testing.T) {
	t.Parallel()
	p := guard.DefaultPolicy()
	p.Address, p.Network, p.Spray, p.PairDelay = nil, nil, guard.Spray{}, guard.PairDelay{}
	p.Account = []guard.Limit{{Failures: 60, Window: 10 * time.Minute, Action: guard.Block}}
	p.Events = map[string][]guard.EventLimit{
		"sms": {{Count: 60, Window: 10 * time.Minute, Action: guard.Block, By: guard.OnSubject}},
	}
	p.Lists = []guard.NamedList{{Name: "tor", Limits: p.Account}}
	strict := p
	strict.Account = []guard.Limit{{Failures: 1, Window: 10 * time.Second, Action: guard.Block}}
	strict.Events = map[string][]guard.EventLimit{
		"sms": {{Count: 1, Window: 10 * time.Second, Action: guard.Block, By: guard.OnSubject}},
	}
	strict.Address, strict.Lists = strict.Account, nil
	without := strict
	without.Events = nil
	mode := captchamode.DefaultConfig()
	mode.Monitor = true
	world.Each(t, world.Options{Policy: &p, Mode: &mode}, func(t *testing.T, w *world.World) {
		w.Lists.SetNamed(map[string]*guard.Ranges{
			"tor": guard.NewRanges([]netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}),
		})
		from := 0
		for _, one := range []struct {
			name string
			try  func() guard.Decision
		}{
			{"account", func() guard.Decision { from++; return w.Wrong(t, "alice", world.Address(from)) }},
			{"address on a list", func() guard.Decision { from++; return w.Wrong(t, fmt.Sprint("user", from), "198.51.100.7") }},
			{"event", func() guard.Decision {
				d, err := w.Exceeded(t.Context(), "sms", guard.Subjects{Subject: "+44 20 7946 0000"})
				if err != nil {
					t.Fatal(err)
				}
				return d
			}},
		} {
			set := func(p guard.Policy) {
				t.Helper()
				if err := w.SetPolicy(p); err != nil {
					t.Fatal(err)
				}
			}
			guess := func(what string, n, want int) {
				t.Helper()
				let := 0
				for range n {
					if one.try().Action == guard.Proceed {
						let++
					}
				}
				if let != want {
					t.Errorf("%s: %d attempts proceed %s, want %d", one.name, let, what, want)
				}
			}
			guess("at first", 70, 60)
			set(without)
			set(strict)
			for range 9 {
				w.Clock.Advance(11 * time.Second)
				guess("under the stricter limit", 2, 1)
			}
			set(p)
			w.Clock.Advance(2 * time.Second) // a node believes a block for a second
			guess("with the first limit again", 70, 0)
			w.Clock.Advance(10*time.Minute - 101*time.Second + time.Millisecond)
			guess("once the first have left the window", 70, 51)
			w.Clock.Advance(time.Hour)
		}
	})
}
