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
		c.Floor, c.Ceiling = 1000, 1000
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
		if got := m.State().Pressure.Total(); got != 40 {
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
	if got := m.State().Pressure[captchamode.Unsolved]; got != 2 {
		t.Errorf("the pressure is %d, want 2", got)
	}
}
