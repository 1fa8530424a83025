package guard_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"authguard/captchamode"
	"authguard/guard"
	"authguard/internal/testing/world"
)

// pretending is a policy with one limit that pretends, and delays and challenges as
// out of the box where with says so.
func pretending(change func(p *guard.Policy)) world.Options {
	p := guard.DefaultPolicy()
	change(&p)
	return world.Options{Policy: &p}
}

// black is a limit of five a day that pretends.
var black = []guard.Limit{{Failures: 5, Window: 24 * time.Hour, Action: guard.FakeFailure}}

// limitSets put that limit on each subject.
var limitSets = map[string]func(p *guard.Policy){
	"address": func(p *guard.Policy) { p.Address, p.Account = black, nil },
	"network": func(p *guard.Policy) { p.Network, p.Account = black, nil },
	"account": func(p *guard.Policy) { p.Account = black },
}

func TestR1AndR3ALimitThatPretendsLooksAtExactlySoManyPasswords(t *testing.T) {
	t.Parallel()
	for name, change := range limitSets {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o := pretending(func(p *guard.Policy) { change(p); p.PairDelay = guard.PairDelay{} })
				o.Running = true
				w := world.New(t, o)
				w.CheckTakes = 100 * time.Millisecond
				world.Burst(200, 50, func(int) { w.Wrong(t, "alice", nowhere) })
				if got := w.Checked("alice"); got != 5 {
					t.Errorf("%d passwords were looked at, want 5", got)
				}
				right := world.New(t, o) // R3: twenty right ones at once all get in
				right.CheckTakes = 100 * time.Millisecond
				var in atomic.Int64
				world.Burst(20, 20, func(i int) {
					if right.Right(t, fmt.Sprint("user", i%20), nowhere) {
						in.Add(1)
					}
				})
				if in.Load() != 20 {
					t.Errorf("%d of 20 right passwords at once got in", in.Load())
				}
			})
		})
	}
}

// Login has a decoy checked behind a fake failure, and no answer to that signs anyone in.
func TestR16LoginOffersADecoyBehindAFakeFailure(t *testing.T) {
	t.Parallel()
	w := world.New(t, pretending(func(p *guard.Policy) { p.Account, p.PairDelay = black, guard.PairDelay{} }))
	for i := range 7 {
		offered := ""
		d, ok, err := w.Guard.Login(t.Context(), world.From("alice", nowhere), func(_ context.Context, d *guard.Decision) (bool, error) {
			offered = d.Offered(world.Right)
			return i >= 5, nil
		})
		want := guard.Proceed
		if i >= 5 {
			want = guard.FakeFailure
		}
		if err != nil || ok || d.Action != want || (offered == world.Right) != (want == guard.Proceed) {
			t.Errorf("attempt %d: %v %v %v, the password offered: %v", i, d.Action, ok, err, offered == world.Right)
		}
	}
}

// Who is pretended to meets the delays that wrong passwords have, one after the other.
func TestR12APretendedAttemptMeetsTheDelaysOfAWrongOne(t *testing.T) {
	t.Parallel()
	for name, change := range limitSets {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			world.Each(t, pretending(change), func(t *testing.T, w *world.World) {
				for i := range 5 { // the limit is full
					w.Wrong(t, map[bool]string{true: "alice", false: fmt.Sprint("other", i)}[name == "account"], map[bool]string{true: world.Address(i), false: nowhere}[name == "account"])
				}
				account, from := "victim", nowhere
				if name == "account" {
					account = "alice"
				}
				plain := world.New(t, world.Options{Policy: func() *guard.Policy {
					p := guard.DefaultPolicy()
					p.Account, p.Address = nil, nil
					return &p
				}()})
				for i := range 12 {
					d, p := w.Wrong(t, account, from), plain.Wrong(t, account, from)
					if want := map[guard.Action]guard.Action{guard.Proceed: guard.FakeFailure}[p.Action]; d.Action != want && d.Action != p.Action || d.RetryAfter != p.RetryAfter {
						t.Fatalf("%d: %v in %v, where a wrong password meets %v in %v", i, d.Action, d.RetryAfter, p.Action, p.RetryAfter)
					}
					step := max(p.RetryAfter, 300*time.Millisecond)
					w.Clock.Advance(step)
					plain.Clock.Advance(step)
				}
			})
		})
	}
}

// A client that has filled the limit itself goes on where its delay was, and finds the same one.
func TestR12AFakeFailureContinuesTheDelayOfItsPair(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(p *guard.Policy){
		"address": limitSets["address"], "network": limitSets["network"], "account": limitSets["account"],
		"pair": func(p *guard.Policy) { p.Pair, p.Account = black, nil },
		"site": func(p *guard.Policy) { p.Site, p.Account = black, nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			world.Each(t, pretending(change), func(t *testing.T, w *world.World) {
				plain := world.New(t, pretending(func(p *guard.Policy) { p.Account, p.Address = nil, nil }))
				var got, want []string
				for range 60 { // an attempt each second, due or not
					d, p := w.Wrong(t, "alice", nowhere), plain.Wrong(t, "alice", nowhere)
					if p.Action == guard.Proceed && plain.Checked("alice") > 5 {
						p.Action = guard.FakeFailure
					}
					got, want = append(got, fmt.Sprint(d.Action, d.RetryAfter)), append(want, fmt.Sprint(p.Action, p.RetryAfter))
					w.Clock.Advance(time.Second)
					plain.Clock.Advance(time.Second)
				}
				if !slices.Equal(got, want) || w.Checked("alice") != 5 || plain.Checked("alice") != 9 {
					t.Errorf("%d checked:\n%v, where wrong passwords, %d checked, meet\n%v", w.Checked("alice"), got, plain.Checked("alice"), want)
				}
			})
		})
	}
}

// A password behind a fake failure was not checked: later it is no repeated one, which were free.
func TestR1APasswordBehindAFakeFailureIsNoRepeatedOne(t *testing.T) {
	t.Parallel()
	world.Each(t, pretending(func(p *guard.Policy) { p.Account, p.PairDelay = black, guard.PairDelay{} }), func(t *testing.T, w *world.World) {
		for i := range 13 {
			if d, _ := w.Offer(t, "alice", world.Address(i), fmt.Sprint("guess ", i)); (d.Action == guard.Proceed) != (i < 5) {
				t.Fatalf("%d: %v", i, d.Action)
			}
		}
		w.Clock.Advance(25 * time.Hour)
		for i := 5; i < 13; i++ {
			w.Offer(t, "alice", world.Address(100+i), fmt.Sprint("guess ", i))
		}
		if got := w.Checked("alice"); got != 10 {
			t.Errorf("%d passwords were checked, want 5 a day", got)
		}
	})
}

func TestR5AndR16PretendingCountsNowhereAndOpensToNobody(t *testing.T) {
	t.Parallel()
	world.Each(t, pretending(func(p *guard.Policy) { p.Account, p.PairDelay = black, guard.PairDelay{} }), func(t *testing.T, w *world.World) {
		removed := world.From("alice", world.Address(600))
		removed.Devices = []string{w.Device(t, "alice", home)}
		w.Clock.Advance(time.Minute)
		if err := w.RemoveKnownClients(t.Context(), "alice", netip.Addr{}); err != nil {
			t.Fatal(err)
		}
		w.Clock.Advance(time.Minute)
		home := world.From("alice", home)
		if _, ok := w.Try(t, home, world.Right); !ok {
			t.Fatal("alice cannot log in")
		}
		for i := range 5 {
			w.Wrong(t, "alice", world.Address(i))
		}
		// The device cookie of a client that was removed is no exemption under the separate keys either.
		if d, ok := w.Try(t, removed, world.Right); ok || d.Action != guard.FakeFailure || d.Known {
			t.Errorf("with a removed device: %v, privileged %v, in %v", d.Action, d.Known, ok)
		}
		before := w.Checked("alice")
		w.Clock.Advance(time.Hour)
		for i := range 50 { // knocking, with the right password too
			d, ok := w.Try(t, world.From("alice", world.Address(100+i)), []string{"wrong", world.Right}[i%2])
			if ok || d.Action != guard.FakeFailure || d.RetryAfter != 0 || d.Known || !slices.Contains(d.Reasons.Codes(), "limit:account") {
				t.Fatalf("%v %v %v", d.Action, d.Reasons.Codes(), ok)
			}
			w.Clock.Advance(time.Minute)
		}
		if got := w.Checked("alice"); got != before {
			t.Errorf("%d passwords were looked at", got-before)
		}
		if _, ok := w.Try(t, home, world.Right); !ok { // R14
			t.Error("the owner at home is pretended to")
		}
		w.Clock.Advance(23*time.Hour - 49*time.Minute)
		if d, ok := w.Try(t, world.From("alice", world.Address(500)), world.Right); !ok {
			t.Errorf("a day after the last that was looked at: %v %v", d.Action, d.Reasons.Codes())
		}
	})
}

// A solved challenge reaches a limit that pretends as it reaches one that refuses (R8):
// whoever solves has so many passwords looked at, and none beyond.
func TestR1SolvedChallengesReachTheLimitThatPretends(t *testing.T) {
	t.Parallel()
	limitSet := func(p *guard.Policy) {
		p.PairDelay, p.Address, p.Network = guard.PairDelay{}, nil, nil
		p.Account = slices.Clone(guard.DefaultPolicy().Account)
		p.Account[1].Action = guard.FakeFailure
	}
	quiet := captchamode.DefaultConfig()
	quiet.ThresholdMin, quiet.ThresholdMax = 1_000_000, 1_000_000
	o := pretending(limitSet)
	o.Mode = &quiet
	world.Each(t, o, func(t *testing.T, w *world.World) {
		if !w.Right(t, "alice", home) {
			t.Fatal("alice cannot log in")
		}
		meets := func(i int, solves bool, password string, want guard.Action, checked int) {
			t.Helper()
			a := world.From("alice", world.Address(i))
			if solves {
				a = w.Solved(t, "alice", world.Address(i))
			}
			d, ok := w.Try(t, a, password)
			if got := w.Checked("alice") - 1; ok || d.Action != want || d.RetryAfter != 0 || got != checked {
				t.Fatalf("%d: %v %v in %v, in %v; %d looked at, want %v and %d", i, d.Action, d.Reasons.Codes(), d.RetryAfter, ok, got, want, checked)
			}
		}
		for i := range 5 {
			meets(i, false, "wrong", guard.Proceed, i+1)
		}
		meets(5, false, world.Right, guard.Challenge, 5)
		for i := 5; i < 100; i++ {
			meets(i, true, "wrong", guard.Proceed, i+1)
		}
		for i := 100; i < 120; i++ { // as a wrong one does: challenged, and then looked at by nobody
			meets(i, false, world.Right, guard.Challenge, 100)
			meets(i, true, world.Right, guard.FakeFailure, 100)
		}
		// A fake failure takes back what its own challenge was charged, or it would give itself away by
		// a delay. All of this is in one millisecond, and nothing else is taken back.
		for range 2 * guard.UnsolvedPerPair {
			if d, _ := w.Try(t, w.Asked(t, "alice", nowhere), world.Right); d.Action != guard.FakeFailure {
				t.Fatalf("%v %v", d.Action, d.Reasons.Codes())
			}
		}
		wrong := w.Asked(t, "alice", nowhere)
		wrong.Solution.Answer = "41"
		if d, _ := w.Try(t, wrong, world.Right); d.Action != guard.Challenge {
			t.Errorf("a wrong solution: %v %v", d.Action, d.Reasons.Codes())
		}
		meets(120, true, world.Right, guard.FakeFailure, 100)
		if !w.Right(t, "alice", home) { // R14
			t.Error("the owner at home is stopped")
		}
	})
}

func TestAPretendedTicketIsSettledOnceAndNeverAsASuccess(t *testing.T) {
	t.Parallel()
	for _, sealed := range []bool{false, true} {
		w := world.New(t, pretending(limitSets["account"]))
		for i := range 5 {
			w.Wrong(t, "alice", world.Address(i))
		}
		begin := func() guard.Ticket {
			d, err := w.Begin(t.Context(), world.From("alice", nowhere))
			if err != nil || d.Action != guard.FakeFailure {
				t.Fatalf("%v %v", d.Action, err)
			}
			if !sealed {
				return d.Ticket
			}
			ticket, err := w.Open(w.Seal(&d.Ticket))
			if err != nil {
				t.Fatal(err)
			}
			return ticket
		}
		ticket := begin()
		if err := w.Settle(t.Context(), ticket, guard.Succeeded); !errors.Is(err, guard.ErrInsufficient) {
			t.Errorf("settled as a success: %v", err)
		}
		if err := w.Settle(t.Context(), ticket, guard.Failed); !errors.Is(err, guard.ErrSettled) {
			t.Errorf("settled again: %v", err)
		}
		if cookie, _, _ := w.Guard.Device(ticket); cookie != "" {
			t.Error("it got a device cookie")
		}
		for range 9 { // what was not done counts nowhere: there is never a delay
			if err := w.Settle(t.Context(), begin(), guard.Abandoned); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(w.Events()); n != 5+10 {
			t.Errorf("%d events, want one for each", n)
		}
	}
}

func TestR20PretendingIsPressure(t *testing.T) {
	t.Parallel()
	w := world.New(t, pretending(limitSets["account"]))
	for i := range 9 { // the password that was wrong before, too: it was not checked
		w.Offer(t, "alice", world.Address(i), fmt.Sprint("guess ", i%5))
	}
	if got := w.Mode.State().FailureRate.Total(); got != 9 {
		t.Errorf("the pressure is %d, want 9", got)
	}
}

// A fake failure checks no password, so the password is no part of a spray: else a client beyond
// its limit would make any password a sprayed one.
func TestR28AFakeFailureIsNoPartOfASpray(t *testing.T) {
	t.Parallel()
	world.Each(t, pretending(limitSets["address"]), func(t *testing.T, w *world.World) {
		for i := range 5 {
			w.Wrong(t, fmt.Sprint("other", i), nowhere)
		}
		for i := range 12 {
			if d, _ := w.Offer(t, fmt.Sprint("victim", i), nowhere, "common"); d.Action != guard.FakeFailure {
				t.Fatalf("%d: %v %v", i, d.Action, d.Reasons.Codes())
			}
		}
		if n := len(w.Sprays()); n != 0 {
			t.Errorf("%d passwords are said to be sprayed", n)
		}
	})
}

func TestADecoyIsNeverThePassword(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 26, 27, 72, 1000} {
		password := string(make([]byte, n))
		if one := guard.Decoy(password); one == password || len(one) != max(n, 26) || one == guard.Decoy(password) {
			t.Errorf("%d: %q", n, one)
		}
	}
}

// A pair has a limitSet for strangers beside its delay. It is no budget of a known place,
// and that of a known place is nothing to a stranger.
func TestAPairsLimitBindsStrangersAlone(t *testing.T) {
	t.Parallel()
	for _, then := range []guard.Action{guard.FakeFailure, guard.Block, guard.Challenge} {
		t.Run(then.String(), func(t *testing.T) {
			t.Parallel()
			o := pretending(func(p *guard.Policy) {
				p.Account, p.Address, p.PairDelay = nil, nil, guard.PairDelay{}
				p.Pair = []guard.Limit{{Failures: 5, Window: time.Hour, Action: then}}
			})
			world.Each(t, o, func(t *testing.T, w *world.World) {
				if !w.Right(t, "alice", home) {
					t.Fatal("alice cannot log in")
				}
				for range 10 {
					w.Wrong(t, "alice", nowhere)
				}
				d, ok := w.Try(t, world.From("alice", nowhere), world.Right)
				if ok || d.Action != then || !slices.Contains(d.Reasons.Codes(), "limit:pair") || w.Checked("alice") != 6 {
					t.Errorf("%v %v, %d checked", d.Action, d.Reasons.Codes(), w.Checked("alice"))
				}
				if !w.Right(t, "alice", world.Address(1)) || !w.Right(t, "bob", nowhere) {
					t.Error("another pair is stopped")
				}
				for range 10 { // at home it is the budget that counts
					if d := w.Wrong(t, "alice", home); d.Action != guard.Proceed {
						t.Fatalf("at home: %v %v", d.Action, d.Reasons.Codes())
					}
				}
				w.Clock.Advance(time.Hour + time.Millisecond)
				if !w.Right(t, "alice", nowhere) {
					t.Error("after an hour there is no room (R5)")
				}
			})
		})
	}
	p := guard.DefaultPolicy()
	p.Pair = []guard.Limit{{Failures: 500, Window: time.Hour, Action: guard.FakeFailure}}
	if err := p.Validate(); err == nil {
		t.Error("a limit that the delay makes unreachable is taken (R8)")
	}
}
