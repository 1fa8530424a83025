package guard_test

import (
	"context"
	"fmt"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"authguard/captchamode"
	"authguard/guard"
	"authguard/internal/testing/world"
)

func wantUsed(t *testing.T, w *world.World, account, address string, n int) {
	t.Helper()
	for _, of := range []guard.SubjectKind{guard.OnAccount, guard.OnAddress, guard.OnNetwork, guard.OnPair} {
		if got := w.Used(t, account, address, of); got != n {
			t.Errorf("the %v has %d failures, want %d", of, got, n)
		}
	}
}

func pressure(w *world.World) int { return w.Mode.State().FailureRate[captchamode.Failure] }

func TestR28TheSameWrongPasswordCountsOnce(t *testing.T) {
	t.Parallel()
	world.Each(t, world.Options{}, func(t *testing.T, w *world.World) {
		for range 20 {
			if d, ok := w.Offer(t, "alice", nowhere, "stale"); d.Action != guard.Proceed || ok {
				t.Fatalf("%v, %v: every try must be looked at", d.Action, ok)
			}
			w.Clock.Advance(2 * time.Second)
		}
		wantUsed(t, w, "alice", nowhere, 1)
		if got, checked := pressure(w), w.Checked("alice"); got != 1 || checked != 20 {
			t.Errorf("pressure %d, %d checked; want 1 and 20", got, checked)
		}
		w.Offer(t, "alice", nowhere, "another")
		wantUsed(t, w, "alice", nowhere, 2)
		for i, e := range w.Events() {
			if again := 0 < i && i < 20; e.Repeat != again {
				t.Errorf("event %d: repeat is %v", i, e.Repeat)
			}
		}
		// The same words at another account, or in another site, are another guess.
		w.Offer(t, "bob", nowhere, "stale")
		if got := w.Used(t, "bob", nowhere, guard.OnAccount); got != 1 {
			t.Errorf("bob has %d failures, want 1", got)
		}
	})
}

func TestR28ATicketThatTravelsKeepsThatItsPasswordIsRepeated(t *testing.T) {
	t.Parallel()
	world.Each(t, world.Options{}, func(t *testing.T, w *world.World) {
		for range 4 {
			a := world.From("alice", nowhere)
			a.PasswordTag = w.Fingerprint("stale")
			d, err := w.Begin(t.Context(), a)
			if err != nil || d.Action != guard.Proceed {
				t.Fatal(d.Action, err)
			}
			travelled, err := w.Open(w.Seal(&d.Ticket))
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Settle(t.Context(), travelled, guard.Failed); err != nil {
				t.Fatal(err)
			}
			w.Clock.Advance(2 * time.Second)
		}
		wantUsed(t, w, "alice", nowhere, 1)
		for i, e := range w.Events() {
			if e.Repeat != (i > 0) || e.AccountFailures != min(i, 1) {
				t.Errorf("event %d: repeat %v, %d earlier failures", i, e.Repeat, e.AccountFailures)
			}
		}
	})
}

func staleProgramsSwitchNoMode(t *testing.T, mail bool) {
	world.Each(t, world.Options{Mail: mail}, func(t *testing.T, w *world.World) {
		for minute := range 10 {
			for second := range 12 {
				for program := range min(50, 10*(minute+1)) {
					if d, _ := w.Offer(t, fmt.Sprint("owner", program), world.Address(program), "stale"); d.Action != guard.Proceed && (mail || !d.Reasons.Has(guard.SprayedAsks)) {
						t.Fatalf("minute %d: program %d is answered %v", minute, program, d.Action)
					}
				}
				w.Clock.Advance(5 * time.Second)
				if second == 0 {
					if d, ok := w.Offer(t, fmt.Sprint("person", minute), world.Address(1000+minute), world.Right); !ok {
						t.Fatalf("minute %d: a person is answered %v", minute, d.Action)
					}
				}
			}
		}
		if on, _ := w.Switched(); on != 0 {
			t.Errorf("the mode went on %d times", on)
		}
	})
}

// Whoever repeats a password meets what a new one would: the delay, the
// challenge, the refusal. So nobody learns which passwords were tried before,
// and nobody goes on guessing with them.
func TestR28ARepeatPassesNothingThatANewPasswordWouldNot(t *testing.T) {
	t.Parallel()
	world.Each(t, world.Options{}, func(t *testing.T, w *world.World) {
		for i := range 3 {
			w.Offer(t, "alice", nowhere, fmt.Sprint("guess", i))
		}
		same := func(what string, action guard.Action) {
			t.Helper()
			again, _ := w.Offer(t, "alice", nowhere, "guess0")
			other, _ := w.Offer(t, "alice", nowhere, "never tried")
			if again.Action != action || other.Action != action || again.RetryAfter != other.RetryAfter {
				t.Errorf("%s: a repeat is answered %v after %v, a new one %v after %v; want %v",
					what, again.Action, again.RetryAfter, other.Action, other.RetryAfter, action)
			}
		}
		checked := w.Checked("alice")
		same("delayed", guard.Delay)
		w.Clock.Advance(time.Minute)
		for i := range 2 {
			w.Offer(t, "alice", world.Address(i), fmt.Sprint("guess", 3+i))
		}
		checked += 2
		same("at the account's limit", guard.Challenge)
		// The failure rate counts no repeated password: a stale program would raise it.
		for password, counted := range map[string]bool{"guess3": false, "never tried": true} {
			w.Clock.Advance(2 * time.Second) // a node believes for one what it has just seen
			if d, _ := w.Offer(t, "alice", world.Address(0), password); d.Action != guard.Challenge || d.Counted != counted {
				t.Errorf("%s: %v, in the failure rate %v", password, d.Action, d.Counted)
			}
		}
		for i := range 95 {
			a := w.Solved(t, "alice", world.Address(10+i))
			a.PasswordTag = w.Fingerprint(fmt.Sprint("solved", i))
			w.Try(t, a, "wrong")
			w.Clock.Advance(10 * time.Second)
		}
		checked += 95
		same("at the refusing one", guard.Block)
		if got := w.Checked("alice"); got != checked {
			t.Errorf("%d were checked, want %d", got, checked)
		}
	})
}

// They wait for each other like different ones: no more are checked at once than
// would be of these.
func TestR28FiveHundredOfTheSameAtOnceAreOneGuess(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		from func(int) string
		most int64 // checked at once
	}{
		"from one address": {func(int) string { return nowhere }, 3}, // the pair's delay begins
		"from a hundred":   {func(i int) string { return world.Address(i % 100) }, 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 5 {
				synctest.Test(t, func(t *testing.T) {
					w := world.New(t, world.Options{Running: true})
					var checking, most, checked atomic.Int64
					world.Burst(500, 100, func(i int) { // so many may wait at one address
						a := world.From("alice", one.from(i))
						a.PasswordTag = w.Fingerprint("stale")
						_, ok, err := w.Login(context.Background(), a, func(context.Context) (bool, error) {
							now := checking.Add(1)
							for was := most.Load(); was < now && !most.CompareAndSwap(was, now); was = most.Load() {
							}
							time.Sleep(20 * time.Millisecond)
							checking.Add(-1)
							checked.Add(1)
							return false, nil
						})
						if ok || err != nil {
							t.Errorf("%v, %v", ok, err)
						}
					})
					if got := w.Used(t, "alice", nowhere, guard.OnAccount); got != 1 {
						t.Errorf("%d counted, want 1", got)
					}
					if checked.Load() != 500 || most.Load() != one.most {
						t.Errorf("%d were checked, %d at once; want 500 and %d", checked.Load(), most.Load(), one.most)
					}
				})
			}
		})
	}
}

func TestR28FiveHundredDifferentOnesGetExactlyTheLimit(t *testing.T) {
	t.Parallel()
	for range 5 {
		synctest.Test(t, func(t *testing.T) {
			w := world.New(t, world.Options{Running: true})
			w.CheckTakes = 100 * time.Millisecond
			world.Burst(500, 200, func(i int) { w.Offer(t, "alice", world.Address(i%100), fmt.Sprint("guess", i)) })
			if got := w.Checked("alice"); got != 5 {
				t.Errorf("%d passwords were checked, want 5", got)
			}
		})
	}
}

// Attempts that offer the same password at once, in every order and however they end: a
// wrong one is charged once, also if the first of them withdraws. Otherwise an attempt
// that is always withdrawn would carry any number of free guesses past R1.
func TestR28AttemptsAtOnceWithOnePasswordAreOneGuess(t *testing.T) {
	t.Parallel()
	const never = guard.Outcome(255)
	names := map[guard.Outcome]string{guard.Failed: "failed", guard.Abandoned: "abandoned", guard.Succeeded: "succeeded", never: "never settled"}
	world.Each(t, world.Options{}, func(t *testing.T, w *world.World) {
		account := 0
		story := func(left int, order []int, outcomes ...guard.Outcome) {
			t.Helper()
			account++
			w.Clock.Advance(time.Minute) // CAPTCHA mode stays off
			name, ctx := fmt.Sprint("person", account), context.Background()
			var tickets []guard.Ticket
			for i := range outcomes {
				a := world.From(name, world.Address(10*account+i))
				a.PasswordTag = w.Fingerprint("the same of " + name)
				d, err := w.Begin(ctx, a)
				if err != nil || d.Action != guard.Proceed {
					t.Fatalf("%v, %v", d.Action, err)
				}
				tickets = append(tickets, d.Ticket)
			}
			what := ""
			for _, i := range order {
				what += fmt.Sprintf(", %d %s", i, names[outcomes[i]])
				if outcomes[i] == never {
					continue
				}
				if err := w.Settle(ctx, tickets[i], outcomes[i]); err != nil {
					t.Fatal(err)
				}
			}
			// As another unknown client sees it: after a login an address is known.
			if got := w.Used(t, name, world.Address(10*account+9), guard.OnAccount); got != left {
				t.Errorf("%s: the account has %d failures, want %d", what[2:], got, left)
			}
		}
		for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
			for i := range 8 {
				outcomes, left := make([]guard.Outcome, 3), 0
				for j := range outcomes {
					if outcomes[j] = guard.Abandoned; i>>j&1 == 1 {
						outcomes[j], left = guard.Failed, 1
					}
				}
				story(left, order, outcomes...)
			}
		}
		for _, order := range [][]int{{0, 1}, {1, 0}} {
			for _, with := range []guard.Outcome{guard.Abandoned, guard.Succeeded} {
				story(0, order, guard.Succeeded, with)
				story(0, order, with, guard.Succeeded)
			}
			// An attempt that is never settled has failed, and so its charge stands.
			story(1, order, never, guard.Failed)
			story(1, order, never, guard.Abandoned)
			story(1, order, never, guard.Succeeded)
			story(1, order, guard.Abandoned, never)
			story(1, order, guard.Succeeded, never)
			story(2, order, guard.Failed, never) // it cannot take its own back
			story(2, order, never, never)
		}
	})
}

// An answer to a challenge that counts for nothing withdraws its attempt. What
// it tried is a new guess afterwards.
func TestR28AWithdrawnGuessIsNotKnown(t *testing.T) {
	t.Parallel()
	world.Each(t, world.Options{}, func(t *testing.T, w *world.World) {
		for i := range 5 {
			w.Offer(t, "alice", world.Address(i), fmt.Sprint("guess", i))
		}
		a := w.Solved(t, "alice", nowhere)
		a.Solution.Answer, a.PasswordTag = "wrong", w.Fingerprint("withdrawn")
		if d, _ := w.Try(t, a, "withdrawn"); d.Action != guard.Challenge {
			t.Fatalf("answered %v", d.Action)
		}
		a = w.Solved(t, "alice", nowhere)
		a.PasswordTag = w.Fingerprint("withdrawn")
		if d, _ := w.Try(t, a, "withdrawn"); d.Action != guard.Proceed {
			t.Fatalf("answered %v", d.Action)
		}
		if got := w.Used(t, "alice", nowhere, guard.OnAccount); got != 6 {
			t.Errorf("the account has %d failures, want 6", got)
		}
	})
}

// What the owner mistypes at home is charged to a stranger who guesses it: one
// who went free would know that he is close. And the other way round.
func TestR28AStrangerDoesNotLearnWhatTheOwnerMistypes(t *testing.T) {
	t.Parallel()
	world.Each(t, world.Options{}, func(t *testing.T, w *world.World) {
		w.Right(t, "alice", home)
		w.Offer(t, "alice", home, "rihgt")
		w.Offer(t, "alice", nowhere, "rihgt")
		wantUsed(t, w, "alice", nowhere, 1)
		w.Offer(t, "alice", nowhere, "guess")
		w.Offer(t, "alice", home, "guess")
		if got := w.Used(t, "alice", home, guard.OnKnownClient); got != 2 {
			t.Errorf("the place has %d failures, want 2", got)
		}
	})
}

// The password may have been changed to one that was wrong before.
func TestR28APasswordThatHasBecomeRightGetsInAndIsForgotten(t *testing.T) {
	t.Parallel()
	world.Each(t, world.Options{}, func(t *testing.T, w *world.World) {
		try := func(ok bool) {
			t.Helper()
			a := world.From("alice", nowhere)
			a.PasswordTag = w.Fingerprint("tomorrow's")
			if _, in, err := w.Login(context.Background(), a, func(context.Context) (bool, error) { return ok, nil }); in != ok || err != nil {
				t.Fatalf("%v, %v", in, err)
			}
			w.Clock.Advance(time.Hour)
		}
		try(false)
		try(true)
		if err := w.RemoveKnownClients(context.Background(), "alice", netip.Addr{}); err != nil {
			t.Fatal(err)
		}
		try(false)
		if got := w.Used(t, "alice", nowhere, guard.OnAccount); got != 2 {
			t.Errorf("the account has %d failures, want 2: the first and the new one", got)
		}
	})
}
