package guard_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"authguard/captchamode"
	"authguard/guard"
	"authguard/internal/testing/world"
	"authguard/trusted"
)

// elevate makes more unknown clients fail within a day than usual, after three quiet days. The failure rate stays low.
func elevate(t *testing.T, w *world.World) {
	t.Helper()
	for range 73 * 60 {
		w.Clock.Advance(time.Minute)
		w.Mode.Tick()
	}
	for i := range 30 {
		key := func(of byte) [16]byte { return [16]byte{byte(i), of} }
		w.Mode.Failed(key(1), key(2), key(3), w.Clock.Now())
		w.Clock.Advance(time.Minute)
		w.Mode.Tick()
	}
	w.Clock.Advance(2 * time.Minute)
	w.Mode.Tick()
	if w.Mode.On() || w.Mode.Throttling() || !w.Mode.Elevated() {
		t.Fatalf("not elevated alone: %+v", w.Mode.State())
	}
}

// outcome is all that an integration can see of a decision and its settlement.
func outcome(d guard.Decision, ok bool) string {
	return fmt.Sprint(d.Action, d.Insufficient, d.Reasons.Codes(), d.RetryAfter, ok)
}

// While the site is under attack, a right password from an unknown client is a wrong one, until there is a code.
func TestR32ARightPasswordIsNotEnough(t *testing.T) {
	t.Parallel()
	for name, attack := range map[string]func(t *testing.T, w *world.World){
		"CAPTCHA mode": func(t *testing.T, w *world.World) { w.Force(t) },
		"elevated":     elevate,
		"throttling": func(t *testing.T, w *world.World) {
			for i := range 11 {
				w.Mode.Observe(captchamode.Failure, [16]byte{byte(i)})
			}
			if w.Mode.On() || !w.Mode.Throttling() {
				t.Fatalf("%+v", w.Mode.State())
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachWithCodes(t, func(t *testing.T, w *world.World, _ *codes) {
				attack(t, w)
				try := func(account, from, password string) (guard.Decision, bool) {
					a := world.From(account, from)
					if w.Mode.On() {
						a = w.Asked(t, account, from)
					}
					return w.Try(t, a, password)
				}
				before := w.Mode.State().FailureRate[captchamode.Failure]
				right, in := try("alice", nowhere, world.Right)
				if after := w.Mode.State().FailureRate[captchamode.Failure]; after != before+1 {
					t.Errorf("the failure rate was %d and is %d: CAPTCHA mode would reveal a right password", before, after)
				}
				events := w.Events()
				last := events[len(events)-1]
				if in || !right.Insufficient || last.Outcome != guard.Insufficient || !last.Reasons.Has(guard.StepUpNeeded) {
					t.Errorf("%s, event %v %v", outcome(right, in), last.Outcome, last.Reasons.Codes())
				}
				wrong, wrongIn := try("bob", world.Address(9), "wrong")
				if a, b := outcome(right, in), outcome(wrong, wrongIn); a != b {
					t.Errorf("right: %s\nwrong: %s", a, b)
				}
				for _, account := range []string{"alice", "bob"} {
					if n := w.Used(t, account, nowhere, guard.OnAccount); n != 1 {
						t.Errorf("%s has %d failures, want 1", account, n)
					}
				}
				if st := w.Status(t, "alice", nowhere); st != trusted.Unknown {
					t.Errorf("the client is %v", st)
				}
				w.Clock.Advance(3 * time.Second) // throttled
				if d, ok := w.Try(t, showing("alice's", nowhere), world.Right); !ok || d.Insufficient || !d.CodeValid {
					t.Errorf("with the code: %s", outcome(d, ok))
				}
				if d, ok := w.Try(t, world.From("alice", nowhere), world.Right); !ok || !d.Known {
					t.Errorf("known from then on: %s", outcome(d, ok))
				}
			})
		})
	}
}

func TestR32KnownClientsAndPasskeysNoticeNothing(t *testing.T) {
	t.Parallel()
	eachWithCodes(t, func(t *testing.T, w *world.World, _ *codes) {
		if !w.Right(t, "alice", home) {
			t.Fatal("not in")
		}
		w.Force(t)
		if d, ok := w.Try(t, world.From("alice", home), world.Right); !ok || d.Reasons.Has(guard.StepUpNeeded) {
			t.Errorf("a known client: %s", outcome(d, ok))
		}
		a := world.From("alice", nowhere)
		a.Passkey = true
		if d, ok := w.Try(t, a, world.Right); !ok || d.Reasons.Has(guard.StepUpNeeded) {
			t.Errorf("a passkey: %s", outcome(d, ok))
		}
	})
}

// The outcome is sealed: an attempt that began in the attack is not enough after it.
func TestR32ATicketKeepsIt(t *testing.T) {
	t.Parallel()
	eachWithCodes(t, func(t *testing.T, w *world.World, _ *codes) {
		elevate(t, w)
		d, err := w.Begin(t.Context(), world.From("alice", nowhere))
		if err != nil || !d.Insufficient {
			t.Fatal(d.Reasons.Codes(), err)
		}
		ticket, err := w.Open(w.Seal(&d.Ticket))
		if err != nil {
			t.Fatal(err)
		}
		w.Mode.Clear("ann", "over")
		if err := w.Settle(t.Context(), ticket, guard.Succeeded); !errors.Is(err, guard.ErrInsufficient) {
			t.Errorf("%v", err)
		}
		if _, ok := w.Try(t, world.From("alice", nowhere), world.Right); !ok {
			t.Error("after the attack the password is enough")
		}
	})
}

// Where no code can be sent, an unknown client solves a challenge, unless the policy refuses it. Nobody is challenged
// only because unknown clients are throttled.
func TestR32WithoutMailThereIsAChallenge(t *testing.T) {
	t.Parallel()
	world.Each(t, world.Options{}, func(t *testing.T, w *world.World) {
		for i := range 11 {
			w.Mode.Observe(captchamode.Failure, [16]byte{byte(i)})
		}
		if d, ok := w.Try(t, world.From("bob", home), world.Right); !ok || !w.Mode.Throttling() {
			t.Errorf("throttled: %s", outcome(d, ok))
		}
		elevate(t, w)
		d, _ := w.Try(t, world.From("alice", nowhere), world.Right)
		if d.Action != guard.Challenge || !d.Reasons.Has(guard.StepUpNeeded) {
			t.Fatalf("%v, %v", d.Action, d.Reasons.Codes())
		}
		if d, ok := w.Try(t, w.Asked(t, "alice", nowhere), world.Right); !ok {
			t.Errorf("after the challenge: %s", outcome(d, ok))
		}
		policy := w.Policy()
		policy.StepUp.BlockWithoutCode = true
		if err := w.SetPolicy(policy); err != nil {
			t.Fatal(err)
		}
		if d, ok := w.Try(t, world.From("bob", nowhere), world.Right); ok || !d.Insufficient || d.Action != guard.Proceed {
			t.Errorf("refused: %s", outcome(d, ok))
		}
	})
}

func TestR32MonitoredStepUpIsOnlyRecorded(t *testing.T) {
	t.Parallel()
	policy := guard.DefaultPolicy()
	policy = policy.Overridden(func(set string) guard.Override {
		if set == guard.StepUpLimits {
			return guard.Monitored
		}
		return guard.AsWritten
	})
	world.Each(t, world.Options{Policy: &policy, Mail: true, Codes: newCodes()}, func(t *testing.T, w *world.World) {
		elevate(t, w)
		d, ok := w.Try(t, world.From("alice", nowhere), world.Right)
		if codes := d.Reasons.Codes(); !ok || len(codes) != 1 || codes[0] != "step-up:monitored" || !d.Monitored() {
			t.Errorf("%s", outcome(d, ok))
		}
	})
}

// Of parallel attempts with the right password none gets in, with the code one does.
func TestR32InParallel(t *testing.T) {
	t.Parallel()
	eachWithCodes(t, func(t *testing.T, w *world.World, _ *codes) {
		elevate(t, w)
		world.Burst(40, 20, func(i int) {
			_, ok, err := w.Login(context.Background(), world.From(fmt.Sprint("user", i), world.Address(i)),
				func(context.Context) (bool, error) { return true, nil })
			if ok || err != nil {
				t.Errorf("in %v, %v", ok, err)
			}
		})
	})
}

// The failure rate, and so the answer's challenge, is the same after a right password. But owners do not keep the day
// elevated.
func TestR32TheFailureRateTellsNothing(t *testing.T) {
	t.Parallel()
	for _, password := range []string{world.Right, "wrong"} {
		w := world.New(t, world.Options{Mail: true, Codes: newCodes()})
		for i := range 30 {
			w.Mode.Observe(captchamode.Failure, [16]byte{byte(i)})
		}
		if w.Mode.On() || !w.Mode.Throttling() {
			t.Fatalf("%+v", w.Mode.State())
		}
		if w.Try(t, world.From("alice", nowhere), password); !w.Mode.On() {
			t.Errorf("%s: CAPTCHA mode is off: %+v", password, w.Mode.State())
		}
	}
	w := world.New(t, world.Options{Mail: true, Codes: newCodes()})
	elevate(t, w)
	before := w.Mode.State().Daily.Failures
	for i := range 100 {
		if d, ok := w.Try(t, world.From(fmt.Sprint("user", i), world.Address(i)), world.Right); ok || !d.Insufficient {
			t.Fatalf("%s", outcome(d, ok))
		}
		w.Clock.Advance(time.Minute)
		w.Mode.Tick()
	}
	if is := w.Mode.State().Daily; is.Failures > before {
		t.Errorf("owners keep the day elevated: %+v", is)
	}
}

// An administrator's CAPTCHA mode needs the step-up even if the failure rate is only monitored; without challenges
// there is nothing to ask for.
func TestR32WhatIsMonitoredAndWhatIsMissing(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Mail: true, Codes: newCodes()})
	c := w.Mode.Config()
	c.Monitor = true
	if err := w.Mode.SetConfig(c); err != nil {
		t.Fatal(err)
	}
	w.Force(t)
	for i := range 11 {
		w.Mode.Observe(captchamode.Failure, [16]byte{byte(i)})
	}
	if d, ok := w.Try(t, w.Asked(t, "alice", nowhere), world.Right); ok || !d.Insufficient {
		t.Errorf("forced: %s", outcome(d, ok))
	}
	bare := world.New(t, world.Options{})
	elevate(t, bare)
	second := bare.Second(t, func(c *guard.Config) { c.Mode, c.Challenges = bare.Mode, nil })
	if d, ok := second.Try(t, world.From("alice", nowhere), world.Right); !ok {
		t.Errorf("without challenges: %s", outcome(d, ok))
	}
}

// An integration that delivers codes itself gets one after a right password, and none after a wrong one.
func TestR32AnIntegrationDeliversTheCode(t *testing.T) {
	t.Parallel()
	world.Each(t, world.Options{}, func(t *testing.T, w *world.World) {
		elevate(t, w)
		account := "alice"
		try := func(from, code, password string) (code2 string, ok bool, err error) {
			a := world.From(account, from)
			a.WantsCode, a.VerificationCode = true, code
			d, ok, err := w.Login(t.Context(), a, func(context.Context) (bool, error) {
				return password == world.Right, nil
			})
			required := new(guard.CodeRequired)
			if errors.As(err, &required) {
				if !d.Insufficient || !errors.Is(err, guard.ErrInsufficient) || ok {
					t.Errorf("%s, %v", outcome(d, ok), err)
				}
				return required.Code, ok, nil
			}
			return "", ok, err
		}
		if code, ok, err := try(nowhere, "", "wrong"); code != "" || ok || err != nil {
			t.Errorf("wrong: %q %v %v", code, ok, err)
		}
		code, ok, err := try(nowhere, "", world.Right)
		if len(code) != 19 || ok || err != nil {
			t.Fatalf("right: %q %v %v", code, ok, err)
		}
		if again, ok, err := try(nowhere, "", world.Right); again != "" || ok || err != nil {
			t.Errorf("a second one within ten minutes: %q %v %v", again, ok, err)
		}
		w.Clock.Advance(time.Minute)
		if _, ok, err := try(nowhere, code, "wrong"); ok || err != nil {
			t.Errorf("with a wrong password: %v %v", ok, err)
		}
		account = "bob"
		if _, ok, err := try(nowhere, code, world.Right); ok || err != nil {
			t.Errorf("at another account: %v %v", ok, err)
		}
		account = "alice"
		w.Clock.Advance(time.Minute)
		if _, ok, err := try("198.51.100.77", strings.ToLower(code), world.Right); !ok || err != nil {
			t.Errorf("with the code: %v %v", ok, err) // the owner is elsewhere than the thief
		}
	})
}

func TestR32AnOwnCodeExpiresAndIsLimited(t *testing.T) {
	t.Parallel()
	world.Each(t, world.Options{}, func(t *testing.T, w *world.World) {
		w.Force(t)
		sent, first := 0, ""
		for range 23 {
			a := w.Asked(t, "alice", nowhere)
			a.WantsCode = true
			d, err := w.Begin(t.Context(), a)
			if err != nil || !d.Checks() {
				t.Fatal(d.Action, d.Reasons.Codes(), err)
			}
			ticket, err := w.Open(w.Seal(&d.Ticket))
			if err != nil {
				t.Fatal(err)
			}
			required := new(guard.CodeRequired)
			if err := w.Settle(t.Context(), ticket, guard.Succeeded); !errors.As(err, &required) {
				t.Fatal(err)
			}
			if required.Code != "" {
				if sent++; first == "" {
					first = required.Code
				}
			}
			w.Clock.Advance(time.Hour)
		}
		if sent != guard.CodesPerDay {
			t.Errorf("%d codes within a day, want %d", sent, guard.CodesPerDay)
		}
		a := world.From("alice", nowhere)
		a.WantsCode, a.VerificationCode = true, first
		if d, err := w.Begin(t.Context(), a); err != nil || d.CodeValid || !d.Reasons.Has(guard.CodeFailed) {
			t.Errorf("a code of yesterday: %s %v", outcome(d, false), err)
		}
	})
}

// A fake failure gets no code, whatever the integration says of the password.
func TestR32AFakeFailureGetsNoCode(t *testing.T) {
	t.Parallel()
	policy := guard.DefaultPolicy()
	policy.Account = []guard.Limit{{Failures: 1, Window: time.Hour, Action: guard.FakeFailure}}
	world.Each(t, world.Options{Policy: &policy}, func(t *testing.T, w *world.World) {
		w.Wrong(t, "alice", home)
		a := world.From("alice", nowhere)
		a.WantsCode = true
		d, err := w.Begin(t.Context(), a)
		if err != nil || d.Action != guard.FakeFailure {
			t.Fatal(d.Action, d.Reasons.Codes(), err)
		}
		if err := w.Settle(t.Context(), d.Ticket, guard.Succeeded); err != guard.ErrInsufficient {
			t.Errorf("%v %T", err, err)
		}
	})
}

// A code allows five passwords, from however many IP addresses.
func TestR29AnOwnCodeAllowsFivePasswords(t *testing.T) {
	t.Parallel()
	world.Each(t, world.Options{}, func(t *testing.T, w *world.World) {
		elevate(t, w)
		a := world.From("alice", nowhere)
		a.WantsCode = true
		d, err := w.Begin(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		required := new(guard.CodeRequired)
		if err := w.Settle(t.Context(), d.Ticket, guard.Succeeded); !errors.As(err, &required) || required.Code == "" {
			t.Fatalf("%v", err)
		}
		valid := 0
		for i := range 20 {
			a := world.From("alice", fmt.Sprintf("203.0.113.%d", 50+i))
			a.WantsCode, a.VerificationCode = true, required.Code
			d, err := w.Begin(t.Context(), a)
			if err != nil {
				t.Fatal(err)
			}
			if d.CodeValid {
				valid++
			}
			if d.Checks() {
				_ = w.Settle(t.Context(), d.Ticket, guard.Failed)
			}
		}
		if valid != guard.CodeTries {
			t.Errorf("%d passwords with one code, want %d", valid, guard.CodeTries)
		}
	})
}

// trips counts a store's calls: over Redis, each is a round trip, which a client could time.
type trips struct {
	guard.Store
	n *int
}

func (s trips) Begin(ctx context.Context, c *guard.Charge) error {
	*s.n++
	return s.Store.Begin(ctx, c)
}

func (s trips) Read(ctx context.Context, c *guard.Charge) (guard.Used, error) {
	*s.n++
	return s.Store.Read(ctx, c)
}

func (s trips) Settle(ctx context.Context, c *guard.Charge, o guard.Outcome) error {
	*s.n++
	return s.Store.Settle(ctx, c, o)
}

// R12: a wrong password takes as many round trips as a right one that needs a code, on the list of leaked ones or not.
func TestR32RightAndWrongPasswordsTakeAsManyTrips(t *testing.T) {
	t.Parallel()
	for _, attack := range []bool{true, false} {
		w := world.New(t, world.Options{})
		n := 0
		second := w.Second(t, func(c *guard.Config) {
			c.Store, c.Leaked = trips{c.Store, &n}, new(guard.LeakedPasswords)
			c.Leaked.Set(func(password string) bool { return strings.HasPrefix(password, "leaked") })
		})
		if attack {
			elevate(t, second)
		}
		taken := map[int]bool{}
		for i, password := range []string{"leaked right", "leaked wrong", "wrong"} {
			a := world.From("alice", world.Address(i))
			a.WantsCode, a.PasswordLeaked = true, second.Leaked(password)
			before := n
			d, err := second.Begin(t.Context(), a)
			if err != nil || !d.Checks() {
				t.Fatal(d.Action, err)
			}
			err = second.Settle(t.Context(), d.Ticket, guard.OutcomeOf(password == "leaked right"))
			if errors.Is(err, guard.ErrInsufficient) != (i == 0) {
				t.Errorf("%s: %v", password, err)
			}
			taken[n-before] = true
		}
		if len(taken) != 1 {
			t.Errorf("attack %v: calls of the store: %v", attack, taken)
		}
	}
}
