package guard_test

import (
	"errors"
	"net/netip"
	"testing"

	"authguard/guard"
	"authguard/internal/testing/redistest"
	"authguard/internal/testing/world"
	"authguard/trusted"
)

// eachWithLeaks tells a story where every right password is known from leaks.
func eachWithLeaks(t *testing.T, mail bool, story func(t *testing.T, w *world.World)) {
	t.Helper()
	leaked := new(guard.LeakedPasswords)
	leaked.Set(func(password string) bool { return password == world.Right })
	o := world.Options{Mail: mail, Codes: newCodes(), Leaked: leaked}
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		story(t, world.New(t, o))
	})
	t.Run("Redis", func(t *testing.T) {
		t.Parallel()
		o := o
		o.Codes, o.Redis = newCodes(), redistest.Shared(t).Client(t)
		story(t, world.New(t, o))
	})
}

func offering(w *world.World, account, from, password string) guard.Attempt {
	a := world.From(account, from)
	a.PasswordLeaked = w.Leaked(password)
	return a
}

func lastOf(w *world.World) guard.Event {
	all := w.Events()
	return all[len(all)-1]
}

// A right password that is known from leaks takes the way of the step-up at an unknown client, on a quiet day. To the
// client it is a wrong one, on the list or not.
func TestR32ALeakedPasswordNeedsACode(t *testing.T) {
	t.Parallel()
	eachWithLeaks(t, true, func(t *testing.T, w *world.World) {
		right, in := w.Try(t, offering(w, "alice", nowhere, world.Right), world.Right)
		if e := lastOf(w); in || !right.Insufficient || !right.MayNeedCode || e.Outcome != guard.Insufficient ||
			!e.Reasons.Has(guard.StepUpNeeded) || !e.Reasons.Has(guard.PasswordLeaked) {
			t.Errorf("%s, event %v %v", outcome(right, in), e.Outcome, e.Reasons.Codes())
		}
		wrong, in := w.Try(t, offering(w, "bob", world.Address(9), world.Right), "another account's")
		if e := lastOf(w); in || !wrong.MayNeedCode || e.Outcome != guard.Failed || e.Reasons.Has(guard.PasswordLeaked) {
			t.Errorf("wrong but leaked: %s, event %v %v", outcome(wrong, in), e.Outcome, e.Reasons.Codes())
		}
		wrong, in = w.Try(t, offering(w, "carol", world.Address(10), "wrong"), "wrong")
		if in || !wrong.MayNeedCode || wrong.Insufficient {
			t.Errorf("wrong: %s", outcome(wrong, in))
		}
		for account, from := range map[string]string{"alice": nowhere, "bob": world.Address(9), "carol": world.Address(10)} {
			for _, of := range []guard.SubjectKind{guard.OnAccount, guard.OnPair, guard.OnAddress} {
				if n := w.Used(t, account, from, of); n != 1 {
					t.Errorf("%s has %d failures of %v, want 1", account, n, of)
				}
			}
		}
		if st := w.Status(t, "alice", nowhere); st != trusted.Unknown {
			t.Errorf("the client is %v", st)
		}
		a := offering(w, "alice", nowhere, world.Right)
		a.VerificationCode = "alice's"
		if d, ok := w.Try(t, a, world.Right); !ok || d.Insufficient || !d.PasswordLeaked || d.MayNeedCode {
			t.Errorf("with the code: %s", outcome(d, ok))
		}
		if d, ok := w.Try(t, offering(w, "alice", nowhere, world.Right), world.Right); !ok || !d.Known || !d.PasswordLeaked || d.MayNeedCode {
			t.Errorf("known from then on: %s", outcome(d, ok))
		}
		if e := lastOf(w); !e.Reasons.Has(guard.PasswordLeaked) || e.Reasons.Has(guard.StepUpNeeded) {
			t.Errorf("a known client's event: %v", e.Reasons.Codes())
		}
		if d, ok := w.Try(t, offering(w, "dave", nowhere, "not leaked"), world.Right); !ok || d.PasswordLeaked {
			t.Errorf("a password that is not on the list: %s", outcome(d, ok))
		}
	})
}

func TestR32ATicketKeepsThatThePasswordIsLeaked(t *testing.T) {
	t.Parallel()
	eachWithLeaks(t, true, func(t *testing.T, w *world.World) {
		for from, want := range map[string]error{nowhere: guard.ErrInsufficient, home: nil} {
			if from == home && !w.Right(t, "alice", home) {
				t.Fatal("not in")
			}
			d, err := w.Begin(t.Context(), offering(w, "alice", from, world.Right))
			if err != nil {
				t.Fatal(err)
			}
			ticket, err := w.Open(w.Seal(&d.Ticket))
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Settle(t.Context(), ticket, guard.Succeeded); !errors.Is(err, want) {
				t.Errorf("%s: %v", from, err)
			}
			if e := lastOf(w); !e.Reasons.Has(guard.PasswordLeaked) {
				t.Errorf("%s: %v", from, e.Reasons.Codes())
			}
		}
	})
}

// Where no code can be sent, the owner of a leaked password gets in: a challenge would reveal which passwords are on
// the list, and there is no attack that would justify a block. The policy may refuse it. It may also only record it.
func TestR32ALeakedPasswordWithoutCodes(t *testing.T) {
	t.Parallel()
	eachWithLeaks(t, false, func(t *testing.T, w *world.World) {
		d, ok := w.Try(t, offering(w, "alice", nowhere, world.Right), world.Right)
		if e := lastOf(w); !ok || !d.PasswordLeaked || d.MayNeedCode || !e.Reasons.Has(guard.PasswordLeaked) {
			t.Errorf("%s, event %v", outcome(d, ok), e.Reasons.Codes())
		}
		policy := w.Policy()
		policy.StepUp.BlockWithoutCode = true
		if err := w.SetPolicy(policy); err != nil {
			t.Fatal(err)
		}
		if d, ok := w.Try(t, offering(w, "bob", nowhere, world.Right), world.Right); ok || !d.Insufficient || !d.MayNeedCode {
			t.Errorf("blocked: %s", outcome(d, ok))
		}
		policy.StepUp.Leaked = false
		if err := w.SetPolicy(policy); err != nil {
			t.Fatal(err)
		}
		d, ok = w.Try(t, offering(w, "carol", nowhere, world.Right), world.Right)
		if e := lastOf(w); !ok || e.Reasons.Codes()[0] != "password-leaked:monitored" {
			t.Errorf("recorded: %s, event %v", outcome(d, ok), e.Reasons.Codes())
		}
	})
}

func TestR32AllowedAddressesAndPasskeysNeedNoCodeForALeakedPassword(t *testing.T) {
	t.Parallel()
	eachWithLeaks(t, true, func(t *testing.T, w *world.World) {
		w.Lists.Set([]guard.Listing{{Prefix: netip.MustParsePrefix("198.51.100.0/24"), Verdict: guard.Allowed}})
		if d, ok := w.Try(t, offering(w, "alice", "198.51.100.7", world.Right), world.Right); !ok || d.MayNeedCode {
			t.Errorf("allowed: %s", outcome(d, ok))
		}
		a := offering(w, "bob", nowhere, world.Right)
		a.Passkey = true
		if d, ok := w.Try(t, a, world.Right); !ok || d.MayNeedCode {
			t.Errorf("a passkey: %s", outcome(d, ok))
		}
	})
}
