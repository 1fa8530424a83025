//go:build !race

package captchamode_test

import (
	"testing"
	"time"

	"authguard/captchamode"
)

// A holder keeps the mode on with few attempts: a burst when the mode has been off for a pause, and
// up to keep in the last minute while it is on and the cool-down has less than late to go. Paced, the
// attempts of a week are spread over it.
type holder struct {
	burst, keep int
	pause, late time.Duration
	paced       bool
}

// hold lets a week pass with so many attempts a day, on average.
func (w *town) hold(h holder, attempts int) {
	var off time.Time
	made := 0
	for minute := range 7 * 24 * 60 {
		w.minute(func(int) {
			s, n, left := w.State(), 0, 7*attempts-made
			cools := !s.Low.IsZero() && s.Low.Add(time.Duration(s.CoolDown)).Sub(w.now) > h.late
			switch {
			case s.On:
				if off = w.now; !cools {
					n = h.keep - s.FailureRate.Total()
				}
			case h.paced && made+h.burst > attempts*minute/(24*60):
			case w.now.Sub(off) >= h.pause:
				n = h.burst - s.FailureRate.Total()
			}
			n = min(left, max(0, n))
			made += n
			w.fail(n)
		})
	}
}

// 1,988 attempts a day held the mode on for 95 % of a week, with a new cool-down for each burst.
func TestR25BurstsResumeTheOldCoolDown(t *testing.T) {
	t.Parallel()
	most := 0
	for _, burst := range []int{31, 60} {
		for _, keep := range []int{0, 16, 31} {
			for _, pause := range []time.Duration{0, 20 * time.Minute} {
				for late := time.Duration(0); late <= 5*time.Minute && (keep > 0 || late == 0); late = 5*late + time.Minute {
					for _, paced := range []bool{false, true} {
						w, h := newTown(t, captchamode.DefaultConfig()), holder{burst, keep, pause, late, paced}
						w.hold(h, 1988)
						if most = max(most, w.on); w.on > 7*180 || fresh(w.switches) != 1 {
							t.Errorf("%+v: on for %d minutes a day, %d new starts", h, w.on/7, fresh(w.switches))
						}
					}
				}
			}
		}
	}
	t.Logf("at most %d minutes a day", most/7)
}

// A start that resumes is answered at once, a large one with the whole cool-down; and a day after the
// end, or after clearing, a start is new.
func TestR25AResumedAttackIsStillAnswered(t *testing.T) {
	t.Parallel()
	w := newTown(t, captchamode.DefaultConfig())
	burst := func(n int) captchamode.State {
		w.fail(n)
		w.now = w.now.Add(time.Second)
		return w.State()
	}
	quiet := func(d time.Duration) {
		for range int(d / time.Minute) {
			w.minute(func(int) {})
		}
	}
	restart := func() {
		kept := w.Save()
		other := newTown(t, captchamode.DefaultConfig())
		other.now, other.serial = w.now, w.serial
		other.Restore(kept)
		w = other
	}
	if s := burst(31); !s.On || time.Duration(s.CoolDown) != 10*time.Minute {
		t.Fatalf("the first start: %+v", s)
	}
	quiet(15 * time.Minute)
	restart()
	if s := burst(31); !s.On || time.Duration(s.CoolDown) >= time.Minute {
		t.Fatalf("a quarter of an hour later: on %v with a cool-down of %v", s.On, s.CoolDown)
	}
	if quiet(3 * time.Minute); w.On() {
		t.Error("on three minutes after a burst that resumed the attack")
	}
	for range 60 {
		w.minute(func(step int) { w.fail(due(300, step)) })
	}
	if s := w.State(); !s.On || time.Duration(s.CoolDown) != 2*time.Hour {
		t.Errorf("a large attack: %+v", s)
	}
	quiet(90 * time.Minute)
	if s := burst(31); time.Duration(s.CoolDown) > 45*time.Minute {
		t.Errorf("a burst gives the whole cool-down anew: %v", s.CoolDown)
	}
	quiet(26 * time.Hour)
	if s := burst(31); time.Duration(s.CoolDown) != 10*time.Minute {
		t.Errorf("a day later: %+v", s)
	}
	quiet(time.Hour)
	w.Clear("ann", "test")
	if s := burst(31); time.Duration(s.CoolDown) != 10*time.Minute || w.switches[len(w.switches)-1].Resumed {
		t.Errorf("after clearing: %+v", s)
	}
}
