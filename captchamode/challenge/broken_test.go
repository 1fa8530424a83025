package challenge_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"authguard/captchamode/challenge"
)

func preferPoW(c *challenge.Config) { c.Preferred = "pow" }

func TestR18ABrokenProviderFallsBackToTheBuiltIn(t *testing.T) {
	t.Parallel()
	d := newDesk(t, preferPoW)
	d.pow.breaks.Store(true)
	c := d.issue(t)
	if c.Kind != "image" || c.Image == "" || d.fallbacks.Load() != 1 {
		t.Fatalf("issued %+v after %d reports", c, d.fallbacks.Load())
	}
	expectReason(t, d.check(t, here, c.ID, "anything"), challenge.Wrong)
	d.pow.breaks.Store(false)
	if c := d.issue(t); c.Kind != "pow" {
		t.Errorf("kind %q after the provider was mended", c.Kind)
	}
}

func TestR18AHangingProviderFallsBackToo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, preferPoW)
		d.pow.hangs.Store(true)
		began := time.Now()
		if c := d.issue(t); c.Kind != "image" || d.fallbacks.Load() != 1 {
			t.Errorf("issued %+v after %d reports", c, d.fallbacks.Load())
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

func TestAClientThatLeavesIsNoBrokenProvider(t *testing.T) {
	t.Parallel()
	d := newDesk(t, preferPoW)
	d.pow.hangs.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.Issue(ctx, here, false); !errors.Is(err, context.Canceled) || d.fallbacks.Load() != 0 {
		t.Errorf("error %v, %d reports", err, d.fallbacks.Load())
	}
}

func TestWithoutAnyProviderThereIsNoChallenge(t *testing.T) {
	t.Parallel()
	d := newDesk(t, preferPoW)
	d.pow.breaks.Store(true)
	d.image.breaks.Store(true)
	if c, err := d.Issue(t.Context(), here, false); !errors.Is(err, errBroken) || c != (challenge.Challenge{}) {
		t.Errorf("issued %+v, %v", c, err)
	}
}

func TestAProviderThatCannotCheckIsNoPass(t *testing.T) {
	t.Parallel()
	d := newDesk(t, preferPoW)
	c := d.issue(t)
	d.pow.breaks.Store(true)
	v, err := d.Check(t.Context(), challenge.Solution{ID: c.ID, Answer: c.PoW.Salt}, here)
	if v.Solved || v.Reason != challenge.Unchecked || !errors.Is(err, errBroken) {
		t.Errorf("verdict %+v, %v", v, err)
	}
	d.pow.breaks.Store(false)
	expectReason(t, d.check(t, here, c.ID, c.PoW.Salt), challenge.AlreadySpent)
}

// noSpent is a store that fails, and would say yes.
type noSpent struct{}

func (noSpent) Spend(context.Context, [16]byte, time.Time) (bool, error) { return true, errBroken }

func (noSpent) Take(context.Context, [16]byte) (bool, error) { return true, errBroken }

func (noSpent) Full() float64 { return 0 }

func (noSpent) Epoch() [16]byte { return [16]byte{} }

func (noSpent) Seen(context.Context, [16]byte, time.Time) (bool, error) { return false, errBroken }

func TestAStoreThatFailsIsNoPass(t *testing.T) {
	t.Parallel()
	d := newDesk(t, func(c *challenge.Config) { c.Spent = noSpent{} })
	c := d.issue(t)
	v, err := d.Check(t.Context(), challenge.Solution{ID: c.ID, Answer: c.PoW.Salt}, here)
	if v != (challenge.Verdict{}) || !errors.Is(err, errBroken) {
		t.Errorf("verdict %+v, %v", v, err)
	}
	if _, err := d.Media(t.Context(), c.ID, "png"); !errors.Is(err, errBroken) {
		t.Errorf("its picture: %v", err)
	}
}

func TestAFullStoreIsNoPass(t *testing.T) {
	t.Parallel()
	d := newDesk(t, func(c *challenge.Config) { c.Spent = challenge.NewMemorySpent(1, c.Now) })
	first, second := d.issue(t), d.issue(t)
	expectReason(t, d.check(t, here, first.ID, first.PoW.Salt), challenge.Right)
	v, err := d.Check(t.Context(), challenge.Solution{ID: second.ID, Answer: second.PoW.Salt}, here)
	if v.Solved || !errors.Is(err, challenge.ErrSpentFull) {
		t.Errorf("verdict %+v, %v", v, err)
	}
}

// What was spent in memory is forgotten at a restart, so what was issued
// before it must be unknown after it.
func TestNothingIssuedBeforeARestartIsSolvedAfterIt(t *testing.T) {
	t.Parallel()
	before, after := newDesk(t), newDesk(t)
	c := before.issue(t)
	expectReason(t, before.check(t, here, c.ID, c.PoW.Salt), challenge.Right)
	expectReason(t, after.check(t, here, c.ID, c.PoW.Salt), challenge.Unknown)
}

// shared stands for a store of several nodes: it has no epoch.
type shared struct{ challenge.Spent }

func (shared) Epoch() [16]byte { return [16]byte{} }

func TestNodesWithASharedStoreSolveEachOthers(t *testing.T) {
	t.Parallel()
	store := shared{challenge.NewMemorySpent(0, newClock().Now)}
	share := func(c *challenge.Config) { c.Spent = store }
	one, two := newDesk(t, share), newDesk(t, share)
	c := one.issue(t)
	expectReason(t, two.check(t, here, c.ID, c.PoW.Salt), challenge.Right)
	expectReason(t, one.check(t, here, c.ID, c.PoW.Salt), challenge.AlreadySpent)
}

func TestAnotherSecretOpensNothing(t *testing.T) {
	t.Parallel()
	store := shared{challenge.NewMemorySpent(0, newClock().Now)}
	one := newDesk(t, func(c *challenge.Config) { c.Spent = store })
	two := newDesk(t, func(c *challenge.Config) {
		c.Spent, c.Secret = store, []byte("another secret of at least 32 bytes")
	})
	c := one.issue(t)
	expectReason(t, two.check(t, here, c.ID, c.PoW.Salt), challenge.Unknown)
}

// deaf is a provider that never says whether an answer is right.
type deaf struct{ *plainKind }

func (deaf) Check(ctx context.Context, _ challenge.Task, _ string) (bool, error) {
	<-ctx.Done()
	return true, ctx.Err()
}

// A provider that hangs over an answer holds an attempt for two seconds, and then the
// answer was not looked at.
func TestR18AProviderThatHangsOverAnAnswerIsNoPass(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, func(c *challenge.Config) {
			c.Others = []challenge.Provider{deaf{&plainKind{kind: "pow", orImage: true}}}
		}, preferPoW)
		c := d.issue(t)
		began := time.Now()
		v, err := d.Check(t.Context(), challenge.Solution{ID: c.ID, Answer: "anything"}, here)
		if took := time.Since(began); v.Solved || err == nil || took > 2*time.Second {
			t.Errorf("%+v, %v after %v", v, err, took)
		}
	})
}
