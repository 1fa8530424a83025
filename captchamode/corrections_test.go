package captchamode_test

import (
	"testing"
	"time"

	"authguard/captchamode"
)

func (w *town) expect(t *testing.T, what string, pressure int) {
	t.Helper()
	if got := w.State().FailureRate.Total(); got != pressure {
		t.Errorf("%s: the pressure is %d, want %d", what, got, pressure)
	}
}

func TestR25AFailureThatIsMadeGoodIsNoPressure(t *testing.T) {
	t.Parallel()
	w := newTown(t, captchamode.DefaultConfig())
	mine, address := w.stranger()
	w.Failed(mine, address, [16]byte{}, w.now)
	w.fail(4)
	w.now = w.now.Add(20 * time.Second)
	w.Failed(mine, address, [16]byte{}, w.now)
	want := func(n int) {
		t.Helper()
		if got := w.State().FailureRate.Total(); got != n {
			t.Errorf("the pressure is %d, want %d", got, n)
		}
	}
	want(6)
	w.LoggedIn(key(1), key(2), true, w.now) // somebody else
	want(6)
	w.LoggedIn(key(3), mine, true, w.now)
	want(4)
	w.LoggedIn(key(3), mine, true, w.now) // not twice
	want(4)
	w.now = w.now.Add(41 * time.Second)
	want(0) // not less, and nobody's room
	w.fail(3)
	want(3)
	w.now = w.now.Add(30 * time.Second)
	want(3)
}

func TestR25MakingGoodGivesNoAddressMoreThanItsShare(t *testing.T) {
	t.Parallel()
	w := newTown(t, captchamode.DefaultConfig())
	counted := 0
	for i := range 50 {
		if w.Failed(key(300+i), key(7), [16]byte{}, w.now) {
			counted++
		}
		w.LoggedIn(key(1), key(300+i), true, w.now)
	}
	if counted != 3 {
		t.Errorf("an address contributed %d times in a minute, want its share of 3", counted)
	}
}

func TestR25WhatNobodyRemembersIsNotTakenBack(t *testing.T) {
	t.Parallel()
	c := captchamode.DefaultConfig()
	c.ThresholdMin, c.ThresholdMax = 1e6, 1e6
	w := newTown(t, c)
	mine, address := w.stranger()
	for range 20 {
		w.Failed(mine, address, [16]byte{}, w.now)
	}
	w.LoggedIn(key(1), mine, true, w.now)
	if got := w.State().FailureRate.Total(); got != 12 {
		t.Errorf("of 20 failures of a pair %d are left, want 12: eight are remembered", got)
	}
	mine, address = w.stranger()
	w.Failed(mine, address, [16]byte{}, w.now)
	w.fail(1 << 18)
	before := w.State().FailureRate.Total()
	w.LoggedIn(key(1), mine, true, w.now)
	if got := w.State().FailureRate.Total(); got != before {
		t.Errorf("a failure that a flood pushed out was taken back: %d of %d", got, before)
	}
}

// Only a stranger's login mends: what somebody behind the owner's address tried is no
// typing mistake of the owner, whose known place has a budget of its own.
func TestR25AKnownPlaceMendsNothing(t *testing.T) {
	t.Parallel()
	w := newTown(t, captchamode.DefaultConfig())
	mine, address := w.stranger()
	w.Failed(mine, address, [16]byte{}, w.now)
	w.LoggedIn(key(1), mine, false, w.now)
	w.expect(t, "the owner came from a known place", 1)
}

// One failure is mended once: on nodes each may hear of the same login several times.
func TestR25AMendThatComesTwiceMendsOnce(t *testing.T) {
	t.Parallel()
	m, now, _ := joined(t, true)
	pair := key(5)
	hear := func() {
		r := m.Report()
		next := m.Merge(captchamode.Answer{To: r, Now: *now, Nodes: 3, All: captchamode.Report{
			FailureRate: r.FailureRate, Corrected: []captchamode.CorrectedTypo{{Pair: first8(pair), At: now.Unix()}},
		}})
		if next != nil {
			m.Apply(*next)
		}
	}
	observe(m, 2)
	m.Failed(pair, key(6), [16]byte{}, *now)
	for range 3 {
		hear()
	}
	if got := m.State().FailureRate.Total(); got != 2 {
		t.Errorf("heard three times: the pressure is %d, want 2", got)
	}
	*now = now.Add(3 * time.Second)
	m.Failed(pair, key(7), [16]byte{}, *now)
	r := m.Report()
	m.Merge(captchamode.Answer{To: r, Now: *now, Nodes: 3, All: captchamode.Report{
		FailureRate: r.FailureRate, Corrected: []captchamode.CorrectedTypo{{Pair: first8(pair), At: now.Unix() - 3}},
	}})
	if got := m.Report().FailureRate.Total(); got != 3 {
		t.Errorf("a failure after the login: the pressure is %d, want 3", got)
	}
}

func first8(k [16]byte) (n uint64) {
	for i := range 8 {
		n |= uint64(k[i]) << (8 * i)
	}
	return n
}

// However many log in at once, what a node reports of them is bounded.
func TestAReportNamesFewMends(t *testing.T) {
	t.Parallel()
	m, now, _ := joined(t, true)
	for i := range 1000 {
		m.LoggedIn(key(i), key(i), true, *now)
	}
	if n := len(m.Report().Corrected); n != 64 {
		t.Errorf("1000 logins: the report names %d, want 64", n)
	}
	*now = now.Add(6 * time.Second)
	if n := len(m.Report().Corrected); n != 0 {
		t.Errorf("six seconds later it names %d, want none", n)
	}
	m.LoggedIn(key(1), key(1), true, *now)
	if n := len(m.Report().Corrected); n != 1 {
		t.Errorf("the old ones leave room for %d new ones, want 1", n)
	}
}
