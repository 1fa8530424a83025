package captchamode_test

import (
	"sync"
	"testing"
	"time"

	"authguard/captchamode"
)

func TestManyMayObserveFromTheFirstMomentOn(t *testing.T) {
	t.Parallel()
	for range 200 {
		c := captchamode.DefaultConfig()
		c.ThresholdMin, c.ThresholdMax = 1000, 1000
		m, err := captchamode.NewMode(c, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				for range 5 {
					m.Observe(captchamode.Failure, [16]byte{byte(i)})
				}
			})
		}
		all.Wait()
		if got := m.State().FailureRate.Total(); got != 40 {
			t.Fatalf("the pressure is %d, want 40", got)
		}
	}
}

func TestThresholdFollowsTheNormalBetweenFloorAndCeiling(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	m, err := captchamode.NewMode(captchamode.DefaultConfig(), func() time.Time { return now }, nil)
	if err != nil {
		t.Fatal(err)
	}
	quiet := m.State().Threshold
	for minute := range 24 * 60 { // 9 accounts log in in every minute of a day
		for i := range 9 {
			m.LoggedIn(from(minute*9+i, 0), [16]byte{}, true, now)
		}
		now = now.Add(time.Minute)
		m.Tick()
	}
	if got := m.State().Threshold; quiet != 30 || got < 40 || got > 45 {
		t.Errorf("the threshold was %v and is %v, want 30 and near 5 × 9", quiet, got)
	}
	if m.On() {
		t.Error("the mode went on in what is normal")
	}
}

func TestAttackIsNotLearned(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	m, err := captchamode.NewMode(captchamode.DefaultConfig(), func() time.Time { return now }, nil)
	if err != nil {
		t.Fatal(err)
	}
	before := m.State().Normal
	for range 600 {
		for i := range 100 {
			m.Observe(captchamode.Failure, [16]byte{byte(i), byte(i >> 8)})
		}
		now = now.Add(time.Minute)
		m.Tick()
	}
	if s := m.State(); !s.On || s.Normal > before+1 {
		t.Errorf("on %v, normal %v before and %v after ten hours of attack", s.On, before, s.Normal)
	}
}

func TestTakingBackWhatIsOverHidesNothing(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	m, err := captchamode.NewMode(captchamode.DefaultConfig(), func() time.Time { return now }, nil)
	if err != nil {
		t.Fatal(err)
	}
	m.Observe(captchamode.Unsolved, [16]byte{1})
	now = now.Add(2 * time.Minute)
	m.TakeBack(captchamode.Unsolved)
	for i := range 3 {
		m.Observe(captchamode.Unsolved, [16]byte{2, byte(i)})
	}
	m.TakeBack(captchamode.Unsolved)
	if got := m.State().FailureRate[captchamode.Unsolved]; got != 2 {
		t.Errorf("the pressure is %d, want 2", got)
	}
}

func TestR25ClearingEmptiesPressureAndCoolDown(t *testing.T) {
	t.Parallel()
	w := newTown(t, captchamode.DefaultConfig())
	w.minute(func(step int) { w.fail(due(120, step)) })
	if !w.On() {
		t.Fatal("no attack")
	}
	w.Clear("ann", "it was our own load test")
	s := w.State()
	if s.On || s.Level != captchamode.Calm || s.FailureRate.Total() != 0 || !s.Low.IsZero() {
		t.Errorf("after clearing: %+v", s)
	}
	last := w.switches[len(w.switches)-1]
	if last.Cause != captchamode.ByClearing || last.Override.Who != "ann" || last.Override.Why != "it was our own load test" || last.Adopted {
		t.Errorf("told %+v", last)
	}
	w.now = w.now.Add(30 * time.Second)
	if w.fail(30); w.On() {
		t.Error("on at the threshold: something was left")
	}
	if w.fail(1); !w.On() {
		t.Error("an attack that goes on is not noticed anew")
	}
}

func TestR25ClearingLeavesAPersonsWord(t *testing.T) {
	t.Parallel()
	w := newTown(t, captchamode.DefaultConfig())
	override := captchamode.Override{State: captchamode.ForcedOn, Who: "bob", Why: "a drill", Since: w.now, Until: w.now.Add(time.Hour)}
	if err := w.Force(override); err != nil {
		t.Fatal(err)
	}
	w.fail(40)
	w.Clear("ann", "x")
	if s := w.State(); !s.On || s.Override != override || s.Level != captchamode.Calm {
		t.Errorf("after clearing: %+v", s)
	}
}

// Accounts that logged in before a person cleared say how busy the site is for the rest
// of their minute, and no longer.
func TestClearingLeavesTheLoginsTheirMinute(t *testing.T) {
	t.Parallel()
	w := newTown(t, captchamode.DefaultConfig())
	for i := range 50 {
		w.LoggedIn(key(i), key(i), true, w.now)
	}
	w.Clear("ann", "x")
	if got := w.State().FailureRate[captchamode.Login]; got != 50 {
		t.Errorf("%d logins after clearing, want 50", got)
	}
	for range 2 {
		w.now = w.now.Add(31 * time.Second)
		w.Tick()
	}
	if got := w.State().FailureRate[captchamode.Login]; got != 0 {
		t.Errorf("%d logins a minute later, want none", got)
	}
}

// What was failed before a person cleared is taken back once, not again from others
// when its owner logs in; and what other nodes had counted is cleared too.
func TestClearingForgetsWhoOwedWhatAndWhatOthersCounted(t *testing.T) {
	t.Parallel()
	w := newTown(t, captchamode.DefaultConfig())
	mine, address := w.stranger()
	w.Failed(mine, address, [16]byte{}, w.now)
	w.Clear("ann", "x")
	w.fail(5)
	w.LoggedIn(key(1), mine, true, w.now)
	w.expect(t, "after a login of before", 5)

	m, now, _ := joined(t, true)
	m.Merge(captchamode.Answer{Now: *now, Nodes: 3, All: captchamode.Report{FailureRate: captchamode.Counts{captchamode.Failure: 25}}})
	if got := m.State().FailureRate.Total(); got != 25 {
		t.Fatalf("the others' pressure is %d, want 25", got)
	}
	m.Clear("ann", "x")
	if got := m.State().FailureRate.Total(); got != 0 {
		t.Errorf("after clearing the others' pressure is %d", got)
	}
}

// The threshold of somebody's site is what he says from the first minute on, and a
// quiet night takes little of it.
func TestANormalThatIsConfiguredHoldsFromTheStart(t *testing.T) {
	t.Parallel()
	c := captchamode.DefaultConfig()
	c.Baseline = 20
	w := newTown(t, c)
	if got := w.State().Threshold; got != 100 {
		t.Errorf("at the start the threshold is %v, want 5 × 20", got)
	}
	quiet := func(hours int) {
		for range hours * 60 {
			w.now = w.now.Add(time.Minute)
			w.Tick()
		}
	}
	quiet(8)
	if got := w.State().Threshold; got < 70 || got > 75 {
		t.Errorf("after a quiet night the threshold is %v, want two thirds or more of 100", got)
	}
	quiet(18)
	for minute := range 48 * 60 {
		for i := range 20 {
			w.LoggedIn(key(minute*20+i), key(1), true, w.now)
		}
		w.now = w.now.Add(time.Minute)
		w.Tick()
	}
	if got := w.State().Threshold; got < 95 || got > 100 {
		t.Errorf("after two days of 20 a minute the threshold is %v, want near 100", got)
	}
}

// In the first minutes a site is as busy as it looks; and however busy it is, the
// threshold ends at the ceiling.
func TestTheThresholdOfTheFirstMinutesIsWhatTheyShow(t *testing.T) {
	t.Parallel()
	for logins, want := range map[int]float64{0: 30, 5: 30, 20: 100, 99: 495, 101: 500, 5000: 500} {
		w := newTown(t, captchamode.DefaultConfig())
		for i := range logins {
			w.LoggedIn(key(i), key(1), true, w.now)
		}
		if got := w.State().Threshold; got != want {
			t.Errorf("%d logins: the threshold is %v, want %v", logins, got, want)
		}
	}
}
