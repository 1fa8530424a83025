package captchamode_test

import (
	"testing"
	"time"

	"authguard/captchamode"
)

// An address has its share of any minute, not one before the clock's minute ends and
// another after.
func TestR20AnAddressHasOneShareAcrossTheTurnOfTheMinute(t *testing.T) {
	t.Parallel()
	w := newTown(t, captchamode.DefaultConfig())
	counted := 0
	w.now = w.now.Add(59 * time.Second) // a second before the minute ends
	for range 2 {
		for range 10 {
			if w.Observe(captchamode.Failure, key(7)) {
				counted++
			}
		}
		w.now = w.now.Add(2 * time.Second)
	}
	if counted != 3 {
		t.Errorf("counted %d times within two seconds, want its share of 3", counted)
	}
}

// However small the share is, one failure counts; and of three nodes each counts a
// third of it, since the address may go to all of them.
func TestR20AnAddressCountsAtLeastOnceAndOnEachNodeForItsPart(t *testing.T) {
	t.Parallel()
	counted := func(m *captchamode.Mode) (n int) {
		for range 10 {
			if m.Observe(captchamode.Failure, key(7)) {
				n++
			}
		}
		return n
	}
	c := captchamode.DefaultConfig()
	c.AddressShare = 1. / 1000
	if n := counted(newTown(t, c).Mode); n != 1 {
		t.Errorf("with a share below one it counted %d times, want once", n)
	}
	m, _, _ := joined(t, true)
	if n := counted(m); n != 1 {
		t.Errorf("one of three nodes counted it %d times, want a third of 3", n)
	}
}

// What was taken back here and counted elsewhere hides nothing of another kind.
func TestASignTakenBackOftenerThanItWasCountedHidesNoOther(t *testing.T) {
	t.Parallel()
	if got := (captchamode.Counts{captchamode.Failure: 20, captchamode.Unsolved: -15}).Total(); got != 20 {
		t.Errorf("the total is %d, want 20", got)
	}
}
