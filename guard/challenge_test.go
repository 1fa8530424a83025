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
