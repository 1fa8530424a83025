package guard_test

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"authguard/captchamode"
	"authguard/captchamode/challenge"
	"authguard/failures"
	"authguard/guard"
	"authguard/internal/testing/world"
	"authguard/trusted"
)

// full is a store of spent challenges that has no room.
type full struct{ challenge.Spent }

func (full) Spend(context.Context, [16]byte, time.Time) (bool, error) { return false, errDown }

// Nobody can solve a challenge any more: somebody has to hear why.
func TestAChallengeThatCannotBeSpentIsTold(t *testing.T) {
	t.Parallel()
	counts, err := failures.NewMemory(failures.Config{})
	places, err2 := trusted.NewMemory(trusted.MemoryConfig{})
	mode, err3 := captchamode.NewMode(captchamode.DefaultConfig(), nil, nil)
	desk, err4 := challenge.New(challenge.Config{
		Secret: []byte("a secret of thirty-two bytes, at least"), Spent: full{challenge.NewMemorySpent(0, nil)}, BuiltIn: world.Riddle{},
	})
	var told []error
	g, err5 := guard.New(guard.Config{
		Policy: guard.DefaultPolicy(), Secret: make([]byte, 32), Store: guard.NewLocal(counts, places), Mode: mode,
		Challenges: desk, Callbacks: guard.Callbacks{Failed: func(err error) { told = append(told, err) }},
	})
	if err := errors.Join(err, err2, err3, err4, err5); err != nil {
		t.Fatal(err)
	}
	try := func(solve challenge.Solution) guard.Decision {
		d, err := g.Begin(t.Context(), guard.Attempt{Account: "alice", Address: netip.MustParseAddr("192.0.2.1"), Solution: solve})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	if err := mode.Force(captchamode.Override{State: captchamode.ForcedOn, Who: "test", Why: "test", Until: time.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	c, err := g.Issue(t.Context(), guard.Attempt{Address: netip.MustParseAddr("192.0.2.1")}, guard.Decision{})
	if err != nil {
		t.Fatal(err)
	}
	if d := try(challenge.Solution{ID: c.ID, Answer: world.Answer}); d.Action != guard.Challenge {
		t.Errorf("%v", d.Action)
	}
	if len(told) != 1 || !errors.Is(told[0], errDown) {
		t.Errorf("told %v", told)
	}
}

// An app that shows no challenge: its owner solves one ahead, and one attempt carries it, with no cookie.
func TestR17ASolutionAheadIsOneAttempt(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{})
	other := world.New(t, world.Options{Beside: w}) // another node
	w.Force(t)
	other.Force(t)
	attempt := func(account, from, at string) guard.Attempt {
		return guard.Attempt{Account: account, Address: netip.MustParseAddr(from), Integration: at}
	}
	solve := func(account, from, answer string) guard.Decision {
		t.Helper()
		a := attempt(account, from, "proxy/login")
		c, err := w.Issue(t.Context(), a, guard.Decision{})
		if err != nil {
			t.Fatal(err)
		}
		a.Solution = challenge.Solution{ID: c.ID, Answer: answer}
		d, err := w.SolveAhead(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	carried := func(w *world.World, a guard.Attempt) bool {
		t.Helper()
		d, err := w.Begin(t.Context(), a)
		if err != nil || d.Action != guard.Challenge {
			t.Fatalf("%v, %v", d.Action, err)
		}
		if a.Solution, err = w.SolvedAhead(t.Context(), a, d); err != nil {
			t.Fatal(err)
		}
		d, err = w.Begin(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		return d.Checks()
	}
	for _, account := range []string{"alice", "made-up"} { // R12
		if d := solve(account, "203.0.113.9", "wrong"); d.Action != guard.Challenge || !d.Reasons.Has(guard.ChallengeFailed) {
			t.Errorf("a wrong answer: %v %v", d.Action, d.Reasons)
		}
		if carried(w, attempt(account, "203.0.113.9", "proxy/login")) {
			t.Error("a wrong answer is carried")
		}
		if d := solve(account, "203.0.113.9", world.Answer); d.Action != guard.Proceed {
			t.Errorf("solved: %v %v", d.Action, d.Reasons)
		}
		for name, a := range map[string]guard.Attempt{
			"another account":     attempt("bob", "203.0.113.9", "proxy/login"),
			"another address":     attempt(account, "203.0.113.10", "proxy/login"),
			"another integration": attempt(account, "203.0.113.9", "proxy/api"),
		} {
			if carried(w, a) {
				t.Errorf("%s: %s carries the solution", account, name)
			}
		}
		for i, want := range []bool{true, false} {
			if got := carried(other, attempt(account, "203.0.113.9", "proxy/login")); got != want {
				t.Errorf("%s, attempt %d on another node: %t", account, i+1, got)
			}
		}
	}
	solve("alice", "203.0.113.9", world.Answer)
	w.Clock.Advance(challenge.TTL + time.Minute)
	if carried(w, attempt("alice", "203.0.113.9", "proxy/login")) {
		t.Error("carried for longer than a challenge lives")
	}
}

// Cheap solutions cannot be collected: the account's level at the attempt counts.
func TestR29ASolutionAheadIsOfTheLevelAtTheAttempt(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Work: true})
	a := world.From("alice", "203.0.113.9")
	solve := func() {
		t.Helper()
		c, err := w.Issue(t.Context(), a, guard.Decision{})
		if err != nil {
			t.Fatal(err)
		}
		first := a
		first.Solution = challenge.Solution{ID: c.ID, Answer: world.Answer, Work: world.Done}
		if d, err := w.SolveAhead(t.Context(), first); err != nil || d.Action != guard.Proceed {
			t.Fatalf("%v %v, %v", d.Action, d.Reasons, err)
		}
	}
	solved := func(from string) guard.Attempt {
		t.Helper()
		a := w.Solved(t, "alice", from)
		a.Solution.Work = world.Done
		return a
	}
	carried := func() bool {
		t.Helper()
		d := w.Wrong(t, "alice", "203.0.113.9")
		if d.Action != guard.Challenge {
			t.Fatalf("%v", d.Action)
		}
		s, err := w.SolvedAhead(t.Context(), a, d)
		if err != nil {
			t.Fatal(err)
		}
		return s.Claimed()
	}
	for i := range guard.WorkFrom - 1 {
		w.Try(t, solved(world.Address(i)), "wrong")
	}
	solve()
	w.Try(t, solved(world.Address(100)), "wrong")
	if carried() {
		t.Error("a solution of level 0 is carried at a higher one")
	}
	if solve(); !carried() {
		t.Error("a solution of the level now is not carried")
	}
}
