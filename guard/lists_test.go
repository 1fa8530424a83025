package guard_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"authguard/guard"
	"authguard/internal/testing/world"
)

// datacenter is an address on the list that these tests are about.
const datacenter = "198.51.100.9"

// oneList is the default policy, without delays, with one list of a network.
func oneList(l guard.NamedList) world.Options {
	p := guard.DefaultPolicy()
	l.Name = "datacenters"
	p.Lists, p.PairDelay = []guard.NamedList{l}, guard.PairDelay{}
	return world.Options{Policy: &p}
}

func limits(all ...guard.Limit) guard.NamedList { return guard.NamedList{Limits: all} }

// always asks every stranger.
var always = guard.Limit{Action: guard.Challenge}

// fill puts datacenter's network on the list.
func fill(w *world.World) {
	w.Lists.SetNamed(map[string]*guard.Ranges{"datacenters": guard.NewRanges([]netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")})})
}

func isDecided(t *testing.T, d guard.Decision, want guard.Action, codes ...string) {
	t.Helper()
	if d.Action != want || !slices.Equal(d.Reasons.Codes(), codes) {
		t.Errorf("decided %v for %v, want %v for %v", d.Action, d.Reasons.Codes(), want, codes)
	}
}

func TestR13AListAsksItsStrangersForAChallengeAndNobodyElse(t *testing.T) {
	t.Parallel()
	world.Each(t, oneList(limits(always)), func(t *testing.T, w *world.World) {
		if !w.Right(t, "alice", datacenter) {
			t.Fatal("an empty list stops somebody")
		}
		fill(w)
		for range 30 { // known places pass (R14)
			if !w.Right(t, "alice", datacenter) {
				t.Fatal("the list stops a known place")
			}
		}
		isDecided(t, w.Wrong(t, "bob", datacenter), guard.Challenge, "list:datacenters")
		isDecided(t, w.Wrong(t, "bob", nowhere), guard.Proceed)
		if n := w.Checked("bob"); n != 1 { // R16
			t.Errorf("%d passwords were looked at, want the one from elsewhere", n)
		}
		if !w.NeedsChallenge(netip.MustParseAddr(datacenter)) || w.NeedsChallenge(netip.MustParseAddr(nowhere)) {
			t.Error("the sign-in page does not ask whom the list asks")
		}
		a := w.Solved(t, "bob", datacenter)
		if d, ok := w.Try(t, a, world.Right); !ok {
			t.Errorf("a solved challenge does not let in: %v %v", d.Action, d.Reasons.Codes())
		}
		d, _ := w.Try(t, a, world.Right) // it is good once (R17); the place is known now
		isDecided(t, d, guard.Proceed, "known-client")
		w.Lists.Set([]guard.Listing{{Prefix: netip.MustParsePrefix(datacenter + "/32"), Verdict: guard.Allowed}})
		if !w.Right(t, "carol", datacenter) {
			t.Error("an allowed address is asked because of a list")
		}
		w.Lists.Set([]guard.Listing{{Prefix: netip.MustParsePrefix("198.51.100.0/25"), Verdict: guard.Blocked}})
		isDecided(t, w.Wrong(t, "alice", datacenter), guard.Block, "blocklist")
		met := w.TalliedLists()["datacenters"]
		if met != (guard.ListTally{Met: 33, Stopped: 1}) {
			t.Errorf("the list has met %+v, want 33 and 1 stopped", met)
		}
	})
}

func TestR17AListTakesNoSolveTwice(t *testing.T) {
	t.Parallel()
	world.Each(t, oneList(limits(always)), func(t *testing.T, w *world.World) {
		fill(w)
		a := w.Solved(t, "bob", datacenter)
		d, _ := w.Try(t, a, "wrong")
		isDecided(t, d, guard.Proceed, "challenge-solved")
		d, _ = w.Try(t, a, "wrong")
		isDecided(t, d, guard.Challenge, "list:datacenters", "challenge-failed")
		if n := w.Checked("bob"); n != 1 {
			t.Errorf("%d passwords were looked at for one solve", n)
		}
	})
}

func TestR1AListsLimitIsExactForEachAddress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := oneList(limits(guard.Limit{Failures: 2, Window: time.Hour, Action: guard.Challenge}))
		o.Running = true
		w := world.New(t, o)
		fill(w)
		w.CheckTakes = 100 * time.Millisecond
		for n := range 3 {
			from := fmt.Sprintf("198.51.100.%d", 20+n)
			world.Burst(60, 20, func(i int) { w.Wrong(t, fmt.Sprint("user", n, "-", i), from) })
		}
		if got := w.AllChecked(); got != 6 {
			t.Errorf("%d passwords were looked at from three addresses, want 6", got)
		}
	})
}

func TestR2AListsWindowIsExactAndSharesTheAddresssCount(t *testing.T) {
	t.Parallel()
	world.Each(t, oneList(limits(guard.Limit{Failures: 2, Window: time.Hour, Action: guard.Challenge})), func(t *testing.T, w *world.World) {
		user := 0
		wrong := func() guard.Decision {
			user++
			return w.Wrong(t, fmt.Sprint("user", user), datacenter)
		}
		wrong()
		wrong()
		wrong()
		isDecided(t, wrong(), guard.Proceed) // not on the list: ten a minute
		fill(w)
		isDecided(t, wrong(), guard.Challenge, "list:datacenters") // what was counted before counts
		w.Clock.Advance(time.Hour + time.Millisecond)
		isDecided(t, wrong(), guard.Proceed)
		isDecided(t, wrong(), guard.Proceed)
		d := wrong()
		isDecided(t, d, guard.Challenge, "list:datacenters")
		isDecided(t, w.Wrong(t, "somebody", nowhere), guard.Proceed)
		w.Lists.SetNamed(nil)
		isDecided(t, wrong(), guard.Proceed)
	})
}

func TestAListThatOnlyWatchesStopsNobody(t *testing.T) {
	t.Parallel()
	o := oneList(limits(guard.Limit{Action: guard.Challenge, Monitor: true}))
	w := world.New(t, o)
	fill(w)
	isDecided(t, w.Wrong(t, "bob", datacenter), guard.Proceed, "list:datacenters:monitored")
	if got := w.TalliedLists()["datacenters"]; got != (guard.ListTally{Met: 1}) {
		t.Errorf("met %+v", got)
	}
}

func TestTheFirstListThatHasAnAddressDecides(t *testing.T) {
	t.Parallel()
	p := guard.DefaultPolicy()
	p.Lists = []guard.NamedList{
		{Name: "ours", Verdict: guard.Allowed}, {Name: "bad", Verdict: guard.Blocked},
		{Name: "tor", Limits: []guard.Limit{always}},
	}
	w := world.New(t, world.Options{Policy: &p})
	of := func(all ...string) *guard.Ranges {
		var ranges []netip.Prefix
		for _, one := range all {
			ranges = append(ranges, netip.MustParsePrefix(one))
		}
		return guard.NewRanges(ranges)
	}
	w.Lists.SetNamed(map[string]*guard.Ranges{
		"ours": of("192.0.2.1/32"), "bad": of("192.0.2.0/30", "2001:db8::/32"), "tor": of("192.0.2.0/24", "::ffff:203.0.113.0/120"),
	})
	w.Force(t)
	for address, want := range map[string]string{
		"192.0.2.1": "allowlist:ours", "192.0.2.2": "blocklist:bad", "192.0.2.9": "captcha-mode,list:tor", "2001:db8::7": "blocklist:bad",
		"::ffff:192.0.2.2": "blocklist:bad", "203.0.113.7": "captcha-mode,list:tor", "198.51.100.1": "captcha-mode",
	} {
		d := w.Wrong(t, "bob"+address, address)
		if got := strings.Join(d.Reasons.Codes(), ","); got != want {
			t.Errorf("%s: %v for %s, want %s", address, d.Action, got, want)
		}
	}
	if w.Right(t, "alice", "192.0.2.2") {
		t.Error("the right password gets in from a blocked list")
	}
	e, err := w.Explain(t.Context(), "bob", netip.MustParseAddr("192.0.2.9"))
	if err != nil || !strings.Contains(strings.Join(e.Text(), "\n"), "the address is on the list tor") || e.Open() {
		t.Errorf("explained as %q (%v)", e.Text(), err)
	}
}

func TestExplainNamesAListThatStopsNobodyYet(t *testing.T) {
	t.Parallel()
	w := world.New(t, oneList(limits(guard.Limit{Failures: 2, Window: time.Hour, Action: guard.Challenge})))
	fill(w)
	e, err := w.Explain(t.Context(), "", netip.MustParseAddr(datacenter))
	text := strings.Join(e.Text(), "\n")
	if err != nil || !e.Open() || !strings.Contains(text, "the address is on the list datacenters") ||
		!strings.Contains(text, "address on the list datacenters: 0 of 2 failures in any hour, then challenge") {
		t.Errorf("explained as %q (%v)", text, err)
	}
}

func TestR8AListsLimitThatCannotBeReachedIsAnError(t *testing.T) {
	t.Parallel()
	hour := func(n int, then guard.Action) guard.Limit {
		return guard.Limit{Failures: n, Window: time.Hour, Action: then}
	}
	for want, l := range map[string]guard.NamedList{
		"lists[0].limits[0].failures: can never be reached: limits.address[1] allows 20 per 1 hour": {Name: "x", Limits: []guard.Limit{hour(21, guard.Challenge)}},
		"lists[0].limits[1]: can never be reached: 0 challenge":                                     {Name: "x", Limits: []guard.Limit{always, hour(2, guard.Challenge)}},
		"unknown clients get a challenge first":                                                     {Name: "x", Limits: []guard.Limit{{Action: guard.Block}}},
		"lists[0].limits[0].action: must be challenge":                                              {Name: "x", Limits: []guard.Limit{hour(2, guard.Forget)}},
		"lists[0].limits: at most 8 limits together with limits.address, not 9":                     {Name: "x", Limits: slices.Repeat([]guard.Limit{hour(2, guard.Challenge)}, 5)},
		"lists[0].name: must be 1 to 40":                                                            {Name: "A b", Verdict: guard.Blocked},
		"lists[0].limits: must have a limit":                                                        {Name: "x"},
		"lists[0].limits: are not used":                                                             {Name: "x", Verdict: guard.Blocked, Limits: []guard.Limit{always}},
	} {
		p := guard.DefaultPolicy()
		p.Lists = []guard.NamedList{l}
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v; want %q", l, err, want)
		}
	}
	p := guard.DefaultPolicy()
	p.Lists = []guard.NamedList{{Name: "x", Limits: []guard.Limit{always, hour(400, guard.Block)}}, {Name: "x", Verdict: guard.Allowed}}
	if err := p.Validate(); err == nil || err.Error() != "lists[1].name: is the name of another list" {
		t.Errorf("got %v", err)
	}
}

func TestR1AnAttemptThatTravelsGivesBackWhatItsListCounted(t *testing.T) {
	t.Parallel()
	world.Each(t, oneList(limits(guard.Limit{Failures: 1, Window: time.Hour, Action: guard.Challenge})), func(t *testing.T, w *world.World) {
		fill(w)
		for i := range 5 {
			d, err := w.Begin(t.Context(), world.From(fmt.Sprint("user", i), datacenter))
			if err != nil || d.Action != guard.Proceed {
				t.Fatalf("%d: %v %v %v", i, d.Action, d.Reasons.Codes(), err)
			}
			ticket, err := w.Open(w.Seal(&d.Ticket))
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Settle(t.Context(), ticket, guard.Succeeded); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// What a list of 100,000 ranges costs: see docs/how-to/ip-lists.md.
func BenchmarkNamedListOf100000(b *testing.B) {
	all := make([]netip.Prefix, 100_000)
	for i := range all {
		all[i] = netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(1 + i*7%223), byte(i >> 8), byte(i), byte(i * 64)}), 22+i%9).Masked()
	}
	var l guard.Lists
	l.SetNamed(map[string]*guard.Ranges{"datacenters": guard.NewRanges(all)})
	b.Run("look", func(b *testing.B) {
		a := netip.MustParseAddr(nowhere)
		for b.Loop() {
			l.Named("datacenters").Has(a)
		}
	})
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			guard.NewRanges(all)
		}
	})
}
