package guard_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"authguard/captchamode"
	"authguard/guard"
	"authguard/internal/testing/redistest"
	"authguard/internal/testing/world"
)

// oneClient is the default policy without delays, and with a limit of twenty an hour on
// the client's identity.
func oneClient(then guard.Action) world.Options {
	p := guard.DefaultPolicy()
	p.Fingerprint, p.PairDelay = []guard.Limit{{Failures: 20, Window: time.Hour, Action: then}}, guard.PairDelay{}
	m := captchamode.DefaultConfig()
	m.ThresholdMin, m.ThresholdMax = 1e9, 1e9 // never on
	return world.Options{Policy: &p, Mode: &m}
}

// with is an attempt by a client that looks like this.
func with(w *world.World, client, account, from string) guard.Attempt {
	a := world.From(account, from)
	a.Fingerprint = w.Identity(client)
	return a
}

func TestR1AndR3TheIdentitysLimitIsExact(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := oneClient(guard.Challenge)
		o.Running = true
		w := world.New(t, o)
		w.CheckTakes = 100 * time.Millisecond
		world.Burst(300, 60, func(i int) { w.Try(t, with(w, "bot", fmt.Sprint("user", i), world.Address(i)), "wrong") })
		if got := w.AllChecked(); got != 20 {
			t.Errorf("%d passwords were looked at, want 20", got)
		}
		right := world.New(t, o)
		right.CheckTakes = 100 * time.Millisecond
		var in atomic.Int64
		world.Burst(60, 60, func(i int) {
			if _, ok := right.Try(t, with(right, "bot", fmt.Sprint("user", i), world.Address(i)), world.Right); ok {
				in.Add(1)
			}
		})
		if in.Load() != 60 {
			t.Errorf("%d of 60 right passwords at once got in", in.Load())
		}
	})
}

// A botnet guesses once from each address, and all of it with one client.
func TestR13AndR14TheIdentitysLimitAsksStrangersWithThatClientAndNobodyElse(t *testing.T) {
	t.Parallel()
	story := func(t *testing.T, w *world.World) {
		if _, ok := w.Try(t, with(w, "Firefox", "alice", home), world.Right); !ok {
			t.Fatal("nobody gets in")
		}
		w.Try(t, with(w, "Firefox", "alice", home), "wrong") // at a known place it is the budget that counts
		for i := range 20 {
			if d, _ := w.Try(t, with(w, "Firefox", fmt.Sprint("user", i), world.Address(i)), "wrong"); d.Action != guard.Proceed {
				t.Fatalf("%d: %v %v", i, d.Action, d.Reasons.Codes())
			}
			w.Clock.Advance(time.Minute)
		}
		for i := range 100 { // knocking (R5) keeps nothing closed, see the end
			d, _ := w.Try(t, with(w, "Firefox", "carol", world.Address(100+i)), world.Right)
			if d.Action != guard.Challenge || !slices.Equal(d.Reasons.Codes(), []string{"limit:fingerprint"}) {
				t.Fatalf("%v %v, want a challenge", d.Action, d.Reasons.Codes())
			}
			w.Clock.Advance(6 * time.Second)
		}
		if _, ok := w.Try(t, with(w, "Firefox", "alice", home), world.Right); !ok {
			t.Error("a known place is asked")
		}
		for _, other := range []string{"Chrome", ""} {
			if _, ok := w.Try(t, with(w, other, "dave"+other, world.Address(300)), world.Right); !ok {
				t.Errorf("somebody with another client (%q) is asked", other)
			}
		}
		a := with(w, "Firefox", "erin", world.Address(301))
		a.Solution = w.Solve(t, a)
		if d, ok := w.Try(t, a, world.Right); !ok || !d.Reasons.Has(guard.ChallengeSolved) {
			t.Errorf("a solved challenge does not let in: %v %v", d.Action, d.Reasons.Codes())
		}
		if d, ok := w.Try(t, a, world.Right); ok && !d.Known { // the place is known now
			t.Error("a challenge was spent twice")
		}
		w.Clock.Advance(30*time.Minute + time.Millisecond) // since the first wrong one: 60
		if _, ok := w.Try(t, with(w, "Firefox", "carol", world.Address(102)), world.Right); !ok {
			t.Error("after an hour there is no room")
		}
		w.Try(t, with(w, "Firefox", "frank", world.Address(400)), "wrong")
		if d, _ := w.Try(t, with(w, "Firefox", "frank", world.Address(401)), "wrong"); d.Action != guard.Challenge { // a success took its own charge back, and no other (R4)
			t.Errorf("a second wrong one after an hour: %v %v", d.Action, d.Reasons.Codes())
		}
	}
	world.Each(t, oneClient(guard.Challenge), story)
	t.Run("Cluster", func(t *testing.T) {
		t.Parallel()
		o := oneClient(guard.Challenge)
		o.Redis = redistest.Cluster(t).Client(t)
		story(t, world.New(t, o))
	})
}

// Whoever is asked for what others did with the same client solves one challenge, as hard
// as the account asks for, although the identity is known to be full.
func TestR29AFullIdentityHidesNoWork(t *testing.T) {
	t.Parallel()
	o := oneClient(guard.Challenge)
	o.Work = true
	w := world.New(t, o)
	for i := range 30 { // of alice's, by others
		a := with(w, fmt.Sprint("client", i), "alice", world.Address(i))
		d, _ := w.Try(t, a, "wrong")
		if d.Action == guard.Challenge {
			a.Solution = w.Works(t, a, d)
			d, _ = w.Try(t, a, "wrong")
		}
		if d.Action != guard.Proceed {
			t.Fatalf("%d: %v %v", i, d.Action, d.Reasons.Codes())
		}
	}
	for i := range 21 { // and the node knows that it is full
		w.Try(t, with(w, "bot", fmt.Sprint("user", i), world.Address(100+i)), "wrong")
	}
	for range 2 { // the second goes by what the node knows
		a := with(w, "bot", "alice", world.Address(200))
		d, _ := w.Try(t, a, world.Right)
		if d.Action != guard.Challenge {
			t.Fatalf("%v", d.Action)
		}
		c, err := w.Issue(t.Context(), a, d)
		if err != nil || c.PoW == nil || c.PoW.Work != 400 {
			t.Errorf("%+v, %v; want the work doubled twice", c.PoW, err)
		}
	}
}

func TestTheIdentitysLimitNeverRefuses(t *testing.T) {
	t.Parallel()
	if p := guard.DefaultPolicy(); len(p.Fingerprint) > 0 {
		t.Errorf("%v", p.Fingerprint)
	}
	for _, then := range []guard.Action{guard.Block, guard.FakeFailure, guard.Delay, guard.Forget} {
		p := *oneClient(then).Policy
		if err := p.Validate(); err == nil || !strings.HasPrefix(err.Error(), "limits.fingerprint[0].action: must be challenge or alert, not "+then.String()+": thousands of users") {
			t.Errorf("%v", err)
		}
	}
	for _, c := range []struct {
		then    guard.Action
		monitor bool
		words   string
	}{
		{guard.Alert, false, "the client's fingerprint had 20 failed logins within 1 hour, which is its limit; it only alerts"},
		{guard.Challenge, true, "the client's fingerprint had 20 failed logins within 1 hour, which is its limit; recorded only, because this limit is monitored"},
	} {
		o := oneClient(c.then)
		o.Policy.Fingerprint[0].Monitor = c.monitor
		w := world.New(t, o)
		for i := range 25 {
			d, _ := w.Try(t, with(w, "bot", fmt.Sprint("user", i), world.Address(i)), "wrong")
			if d.Action != guard.Proceed || i >= 20 != slices.Equal(d.Reasons.Codes(), []string{"limit:fingerprint:monitored"}) {
				t.Errorf("%d: %v %v", i, d.Action, d.Reasons.Codes())
			}
			if i >= 20 && d.Reasons[0].String() != c.words {
				t.Errorf("%q", d.Reasons[0])
			}
		}
	}
}

// What is no reason for the other limits of strangers is none for this one.
func TestTheIdentitysLimitCountsAsTheOthersDo(t *testing.T) {
	t.Parallel()
	world.Each(t, oneClient(guard.Challenge), func(t *testing.T, w *world.World) {
		w.Lists.Set([]guard.Listing{{Prefix: netip.MustParsePrefix("198.51.100.0/24"), Verdict: guard.Allowed}})
		same := with(w, "bot", "alice", world.Address(1))
		same.PasswordTag = w.Fingerprint("hunter2")
		for range 30 { // one password counts once (R28)
			w.Try(t, same, "wrong")
		}
		for i := range 30 { // nobody has looked at these
			d, err := w.Begin(t.Context(), with(w, "bot", fmt.Sprint("user", i), world.Address(100+i)))
			if err == nil {
				ticket, opened := w.Open(w.Seal(&d.Ticket)) // the decision API's travel
				if err = opened; err == nil {
					err = w.Settle(t.Context(), ticket, []guard.Outcome{guard.Abandoned, guard.Succeeded}[i%2])
				}
			}
			if err != nil || d.Action != guard.Proceed {
				t.Fatalf("%d: %v %v", i, d.Action, err)
			}
		}
		for i := range 19 {
			d, err := w.Begin(t.Context(), with(w, "bot", fmt.Sprint("guessed", i), world.Address(200+i)))
			if err != nil || d.Action != guard.Proceed {
				t.Fatalf("%d: %v %v", i, d.Action, err)
			}
			w.ForgetEvents()
			ticket, err := w.Open(w.Seal(&d.Ticket))
			if err == nil {
				err = w.Settle(t.Context(), ticket, guard.Failed)
			}
			if e := w.Events(); err != nil || len(e) != 1 || e[0].Identity != w.Identity("bot") {
				t.Fatalf("%v %+v", err, e)
			}
		}
		if d, _ := w.Try(t, with(w, "bot", "bob", world.Address(300)), world.Right); d.Action != guard.Challenge {
			t.Errorf("after 1 and 19: %v", d.Action)
		}
		if d, ok := w.Try(t, with(w, "bot", "carol", "198.51.100.1"), world.Right); !ok {
			t.Errorf("an allowed address is asked: %v", d.Reasons.Codes())
		}
	})
}

// What is pretended to meets the challenges that other accounts meet (R12), and adds
// nothing to what is counted (R5).
func TestR12APretendedAttemptMeetsTheIdentitysChallenge(t *testing.T) {
	t.Parallel()
	o := oneClient(guard.Challenge)
	o.Policy.Account = []guard.Limit{{Failures: 2, Window: 24 * time.Hour, Action: guard.FakeFailure}}
	world.Each(t, o, func(t *testing.T, w *world.World) {
		for i := range 2 {
			w.Try(t, with(w, "other", "alice", world.Address(i)), "wrong")
		}
		for i := range 25 {
			if d, _ := w.Try(t, with(w, "bot", "alice", world.Address(10+i)), "wrong"); d.Action != guard.FakeFailure {
				t.Fatalf("%d: %v %v", i, d.Action, d.Reasons.Codes())
			}
		}
		for i := range 20 {
			if d, _ := w.Try(t, with(w, "bot", fmt.Sprint("user", i), world.Address(100+i)), "wrong"); d.Action != guard.Proceed {
				t.Fatalf("%d: %v %v", i, d.Action, d.Reasons.Codes())
			}
		}
		for _, account := range []string{"alice", "nobody"} {
			if d, _ := w.Try(t, with(w, "bot", account, world.Address(200)), "wrong"); d.Action != guard.Challenge {
				t.Errorf("%s: %v %v", account, d.Action, d.Reasons.Codes())
			}
		}
	})
}

// An identity is keyed: nobody finds another's, and two realms share none.
func TestR23AnIdentityIsKeyedAndShort(t *testing.T) {
	t.Parallel()
	w, seen := world.New(t, world.Options{}), map[uint32]bool{}
	for i := range 1000 {
		seen[w.Identity(fmt.Sprint("client ", i))] = true
	}
	if len(seen) != 1000 || seen[0] || w.Identity("") != 0 {
		t.Errorf("%d identities", len(seen))
	}
	var there []uint32
	for _, realm := range []string{"", "shop"} {
		g, err := guard.New(guard.Config{Realm: realm, Policy: guard.DefaultPolicy(), Secret: []byte("another secret of sixteen bytes"), Store: guard.NewLocal(w.Counts, nil), Mode: w.Mode})
		if err != nil {
			t.Fatal(err)
		}
		there = append(there, g.Identity("client 1"))
	}
	if there[0] == there[1] || there[0] == w.Identity("client 1") {
		t.Error("the same for another secret or realm")
	}
}
