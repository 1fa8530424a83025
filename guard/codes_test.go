package guard_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"authguard/guard"
	"authguard/internal/testing/redistest"
	"authguard/internal/testing/world"
	"authguard/trusted"
)

// An attacker opens challenges for the owner's account from a thousand IP addresses, and from
// the owner's own (NAT), where all that the address may leave unsolved is used up.
func TestR26OpenChallengesKeepNoOwnerOut(t *testing.T) {
	t.Parallel()
	eachWithCodes(t, func(t *testing.T, w *world.World, _ *codes) {
		policy := w.Policy()
		policy.StepUp = guard.StepUp{} // the owner would need a code
		if err := w.SetPolicy(policy); err != nil {
			t.Fatal(err)
		}
		browser := world.From("alice", world.Address(2000))
		browser.Devices = []string{w.Device(t, "alice", home)}
		w.Force(t)
		attack := func(account, from string) {
			world.Burst(50, 20, func(int) { w.Wrong(t, account, from) })
			world.Burst(100, 20, func(i int) { w.Wrong(t, fmt.Sprint("user", i), from) })
		}
		world.Burst(1000, 20, func(i int) { w.Wrong(t, "alice", world.Address(i)) })
		attack("bob", home)
		if d, ok := w.Try(t, world.From("alice", home), world.Right); !ok {
			t.Errorf("at a known IP address: %v, %v", d.Action, d.Reasons.Codes())
		}
		attack("alice", world.Address(2000))
		if d, ok := w.Try(t, browser, world.Right); !ok {
			t.Errorf("with a known browser: %v, %v", d.Action, d.Reasons.Codes())
		}
		if d, ok := w.Try(t, w.Asked(t, "alice", world.Address(2001)), world.Right); !ok {
			t.Errorf("at an unknown client elsewhere: %v, %v", d.Action, d.Reasons.Codes())
		}
		// An unknown client behind the attacker's IP address waits for seconds, however long that
		// goes on.
		for range 20 {
			attack("alice", nowhere)
			d := w.Wrong(t, "alice", nowhere)
			if d.Action != guard.Delay || d.RetryAfter > 15*time.Second {
				t.Fatalf("at the attacker's IP address: %v for %v", d.Action, d.RetryAfter)
			}
			w.Clock.Advance(d.RetryAfter - time.Millisecond)
			attack("alice", nowhere) // trying meanwhile does not prolong it
			w.Clock.Advance(time.Millisecond)
		}
		if d, ok := w.Try(t, w.Asked(t, "alice", nowhere), world.Right); !ok {
			t.Errorf("there after a wait: %v, %v", d.Action, d.Reasons.Codes())
		}
		// An attacker who is always first there is passed with a verification code.
		attack("alice", world.Address(2002))
		if d, ok := w.Try(t, showing("alice's", world.Address(2002)), world.Right); !ok {
			t.Errorf("with a verification code: %v, %v", d.Action, d.Reasons.Codes())
		}
	})
}

// codes are one-time codes by account, as Codes keep them: bound to the first
// place, good for so many tries.
type codes struct {
	mu    sync.Mutex
	of    map[string]string // account by code
	at    map[string]trusted.Key
	tries map[string]int
	used  map[string]bool
	asked int
	down  bool
}

func newCodes() *codes {
	return &codes{
		of: map[string]string{"alice's": "alice"}, at: map[string]trusted.Key{}, tries: map[string]int{}, used: map[string]bool{},
	}
}

func (c *codes) Show(_ context.Context, p guard.Code) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	if c.down {
		return false, errors.New("down")
	}
	bound, taken := c.at[p.Text]
	if c.of[p.Text] != p.Account || c.used[p.Text] || c.tries[p.Text] == 5 || taken && bound != p.Address {
		return false, nil
	}
	c.at[p.Text] = p.Address
	c.tries[p.Text]++
	return true, nil
}

func (c *codes) Settle(_ context.Context, p guard.Code, o guard.Outcome) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for code, place := range c.at {
		switch {
		case place != p.Address || c.of[code] != p.Account:
		case o == guard.Succeeded:
			c.used[code] = true
		default:
			c.tries[code]--
		}
	}
	return nil
}

// closeToStrangers fails a hundred times at alice's account, from as many
// addresses and too slowly to switch the mode.
func closeToStrangers(t *testing.T, w *world.World) {
	t.Helper()
	for i := range 100 {
		w.Clock.Advance(30 * time.Second)
		w.Try(t, w.Solved(t, "alice", world.Address(i)), "wrong")
	}
	w.Clock.Advance(30 * time.Second)
	if d, _ := w.Try(t, w.Solved(t, "alice", nowhere), world.Right); d.Action != guard.Block {
		t.Fatalf("the account is not closed to strangers: %v", d.Action)
	}
}

// showing is an attempt at alice's account with a one-time code.
func showing(code, from string) guard.Attempt {
	a := world.From("alice", from)
	a.VerificationCode = code
	return a
}

// eachWithCodes tells a story in memory and in Redis, with codes for alice.
func eachWithCodes(t *testing.T, story func(t *testing.T, w *world.World, c *codes)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		c := newCodes()
		story(t, world.New(t, world.Options{Mail: true, Codes: c}), c)
	})
	t.Run("Redis", func(t *testing.T) {
		t.Parallel()
		c := newCodes()
		story(t, world.New(t, world.Options{Mail: true, Codes: c, Redis: redistest.Shared(t).Client(t)}), c)
	})
}

func TestR29ACodeAndThePasswordLetOnePlaceIntoAClosedAccount(t *testing.T) {
	t.Parallel()
	eachWithCodes(t, func(t *testing.T, w *world.World, c *codes) {
		closeToStrangers(t, w)
		if d, _ := w.Try(t, showing("a guess", nowhere), world.Right); d.Action != guard.Block || d.RetryAfter <= 0 || !d.Reasons.Has(guard.CodeFailed) {
			t.Errorf("a made-up code: %v %v %v", d.Action, d.RetryAfter, d.Reasons.Codes())
		}
		checked := w.Checked("alice")
		d, ok := w.Try(t, showing("alice's", nowhere), "wrong")
		if d.Action != guard.Proceed || !d.CodeValid || ok || w.Checked("alice") != checked+1 {
			t.Errorf("the code and a wrong password: %v, in %v", d.Action, ok)
		}
		if d, _ := w.Try(t, showing("alice's", home), world.Right); d.Action != guard.Block {
			t.Errorf("at a second place: %v", d.Action)
		}
		if _, ok := w.Try(t, showing("alice's", nowhere), world.Right); !ok {
			t.Error("the code and the right password did not get in")
		}
		if !c.used["alice's"] || w.Status(t, "alice", nowhere) != trusted.Known {
			t.Errorf("used %v, the place is %v", c.used["alice's"], w.Status(t, "alice", nowhere))
		}
		if !w.Right(t, "alice", nowhere) {
			t.Error("the place is not let in without the code afterwards")
		}
		if d, _ := w.Try(t, showing("alice's", home), world.Right); d.Action != guard.Block {
			t.Errorf("used again elsewhere: %v", d.Action)
		}
		if d, _ := w.Try(t, w.Solved(t, "alice", world.Address(7)), world.Right); d.Action != guard.Block {
			t.Errorf("an attacker afterwards: %v", d.Action)
		}
	})
}

func TestR29AGuessedCodeCountsForTheAddressAndClosesNoAccount(t *testing.T) {
	t.Parallel()
	eachWithCodes(t, func(t *testing.T, w *world.World, c *codes) {
		closeToStrangers(t, w)
		for range 10 {
			w.Try(t, showing("a guess", nowhere), world.Right)
		}
		e, err := w.Explain(t.Context(), "alice", netip.MustParseAddr(nowhere))
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range e.Lines {
			want := map[guard.SubjectKind]int{guard.OnAddress: 10, guard.OnNetwork: 10, guard.OnAccount: 100}
			if n, listed := want[l.Subject]; listed && l.Used != n {
				t.Errorf("%v, want %d", l, n)
			}
		}
		asked := c.asked
		a := showing("alice's", nowhere) // a good one stands for the solve that the address is asked for
		if d, ok := w.Try(t, a, world.Right); !ok {
			t.Errorf("%v %v", d.Action, d.Reasons.Codes())
		}
		for range 1100 {
			w.Clock.Advance(7 * time.Second)
			w.Try(t, showing("a guess", world.Address(500)), world.Right)
		}
		if n, want := c.asked-asked-1, w.Policy().Address[3].Failures; n != want {
			t.Errorf("%d codes of one address were looked at, want %d: then it is refused", n, want)
		}
	})
}

func TestR29ACodeHasFewTriesAndAnOverloadCostsNone(t *testing.T) {
	t.Parallel()
	eachWithCodes(t, func(t *testing.T, w *world.World, _ *codes) {
		closeToStrangers(t, w)
		for range 9 { // nobody looked at the password: no try
			d, err := w.Begin(t.Context(), showing("alice's", nowhere))
			if err != nil || d.Action != guard.Proceed {
				t.Fatalf("%v %v", d.Action, err)
			}
			if err := w.Settle(t.Context(), d.Ticket, guard.Abandoned); err != nil {
				t.Fatal(err)
			}
		}
		before := w.Checked("alice")
		for range 20 {
			w.Clock.Advance(time.Minute) // the pair's delay holds with a code too
			w.Try(t, showing("alice's", nowhere), "wrong")
		}
		if n := w.Checked("alice") - before; n != 5 {
			t.Errorf("%d passwords were checked with one code, want 5", n)
		}
	})
}

func TestR29ACodeStandsForTheSolveOfTheModeButLiftsNoBlock(t *testing.T) {
	t.Parallel()
	eachWithCodes(t, func(t *testing.T, w *world.World, c *codes) {
		w.Force(t)
		if d, _ := w.Try(t, showing("a guess", world.Address(9)), world.Right); d.Action != guard.Challenge || !d.Reasons.Has(guard.CodeFailed) {
			t.Errorf("a made-up code in CAPTCHA mode: %v", d.Action)
		}
		w.Lists.Set([]guard.Listing{{Prefix: netip.MustParsePrefix(home + "/32"), Verdict: guard.Blocked}})
		if d, _ := w.Try(t, showing("alice's", home), world.Right); d.Action != guard.Block {
			t.Errorf("a blocked address with a code: %v", d.Action)
		}
		asked := c.asked
		if d, ok := w.Try(t, showing("alice's", nowhere), world.Right); !ok || c.asked != asked+1 {
			t.Errorf("a code in CAPTCHA mode: %v", d.Action)
		}
		w.Try(t, showing("alice's", nowhere), world.Right)
		if c.asked != asked+1 {
			t.Error("a code was looked at where the place is known")
		}
	})
}

func TestR29ACodeThatCannotBeLookedAtIsAnErrorAndChargesNobody(t *testing.T) {
	t.Parallel()
	eachWithCodes(t, func(t *testing.T, w *world.World, c *codes) {
		c.down = true
		for range 30 {
			if d, err := w.Begin(t.Context(), showing("alice's", nowhere)); err == nil || d.Action != guard.Block {
				t.Fatalf("%v, %v", d.Action, err)
			}
		}
		e, err := w.Explain(t.Context(), "alice", netip.MustParseAddr(nowhere))
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range e.Lines {
			if l.Used != 0 {
				t.Errorf("charged: %v", l)
			}
		}
	})
}

func TestR29ATicketThatTravelsKeepsItsCode(t *testing.T) {
	t.Parallel()
	eachWithCodes(t, func(t *testing.T, w *world.World, c *codes) {
		d, err := w.Begin(t.Context(), showing("alice's", nowhere))
		if err != nil {
			t.Fatal(err)
		}
		opened, err := w.Open(w.Seal(&d.Ticket))
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Settle(t.Context(), opened, guard.Succeeded); err != nil || !c.used["alice's"] {
			t.Errorf("%v, used %v", err, c.used["alice's"])
		}
	})
}

// A passkey cannot be guessed: an attack on its account, or on the whole site, stops no login with it.
func TestAPasskeyNeedsNoChallengeAndEndsNoAdministratorsBlock(t *testing.T) {
	t.Parallel()
	with := func(from string) guard.Attempt {
		a := world.From("alice", from)
		a.Passkey = true
		return a
	}
	eachWithCodes(t, func(t *testing.T, w *world.World, _ *codes) {
		closeToStrangers(t, w)
		w.Force(t)
		d, ok := w.Try(t, with(world.Address(10)), world.Right)
		if !ok || !d.Reasons.Has(guard.PasskeyVerified) {
			t.Errorf("%v, %v", d.Action, d.Reasons.Codes())
		}
		if d, ok := w.Try(t, world.From("alice", world.Address(10)), world.Right); !ok || !d.Known {
			t.Errorf("its client is not known: %v", d.Action)
		}
		solving := w.Asked(t, "alice", world.Address(11))
		solving.Passkey = true
		if _, ok := w.Try(t, solving, world.Right); !ok {
			t.Error("with a solution that it does not need")
		}
		w.Lists.Set([]guard.Listing{{Prefix: netip.MustParsePrefix(home + "/32"), Verdict: guard.Blocked}})
		if d, _ := w.Try(t, with(home), world.Right); d.Action != guard.Block {
			t.Errorf("at an address that an administrator has blocked: %v", d.Action)
		}
	})
}
