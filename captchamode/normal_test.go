//go:build !race

package captchamode_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"authguard/captchamode"
)

// From a fresh start 57 % of all attempts fail, and nobody makes good a failure of
// his own: the worst that can be natural.
func TestR25ABusySiteSettles(t *testing.T) {
	t.Parallel()
	for _, failures := range []int{30, 31, 34, 40, 60, 90, 120} {
		t.Run(fmt.Sprint(failures), func(t *testing.T) {
			t.Parallel()
			w := newTown(t, captchamode.DefaultConfig())
			logins := failures * 43 / 57
			for range 2 * 24 * 60 {
				w.minute(func(step int) {
					for range due(logins, step) {
						w.login(5000)
					}
					w.fail(due(failures, step))
				})
			}
			if w.on > 60 || w.lastOn > 60 {
				t.Errorf("on for %d minutes, last in minute %d of two days; want an hour at most, and off then", w.on, w.lastOn)
			}
			t.Logf("on for %d minutes; threshold %.0f", w.on, w.State().Threshold)
		})
	}
}

// All failures of a minute come before its logins, so the mode goes on at first.
func TestR25ABusySiteThatBeginsBadlySettles(t *testing.T) {
	t.Parallel()
	for _, failures := range []int{31, 34, 60, 120} {
		w := newTown(t, captchamode.DefaultConfig())
		for range 2 * 24 * 60 {
			w.minute(func(step int) {
				if step == 0 {
					w.fail(failures)
				}
				if step == steps-1 {
					for range failures * 43 / 57 {
						w.login(5000)
					}
				}
			})
		}
		if w.on == 0 || w.on > 60 || w.lastOn > 60 {
			t.Errorf("%d failures: on for %d minutes, last in minute %d; want some, an hour at most, and off then", failures, w.on, w.lastOn)
		}
	}
}

// A site that sleeps at night and at the weekend stays off too.
func TestR25ASiteThatSleepsStaysOff(t *testing.T) {
	t.Parallel()
	w := newTown(t, captchamode.DefaultConfig())
	for minute := range 15 * 24 * 60 { // begins on a Monday, at midnight
		hour, day, failures := minute/60%24, minute/60/24%7, 40
		if hour < 7 || hour >= 19 || day >= 5 {
			failures = 2
		} else if hour == 7 {
			failures = 2 + minute%60*38/60
		}
		w.minute(func(step int) {
			w.fail(due(failures, step))
			for range due(failures*43/57, step) {
				w.login(5000)
			}
		})
	}
	if w.on > 0 {
		t.Errorf("on for %d minutes, last in minute %d", w.on, w.lastOn)
	}
}

func TestR25AnAttackOnABusySiteIsStillSeen(t *testing.T) {
	t.Parallel()
	w := newTown(t, captchamode.DefaultConfig())
	for minute := range 24*60 + 2 {
		attack := 0
		if minute >= 24*60 {
			attack = 200
		}
		w.minute(func(step int) {
			w.fail(due(34, step) + due(attack, step))
			for range due(24, step) {
				w.login(5000)
			}
		})
	}
	if w.on == 0 || w.lastOn < 24*60 {
		t.Errorf("200 guesses a minute beside 34 failures are not seen: %+v", w.State())
	}
}

func TestR25HuggingTheThresholdDoesNotRaiseIt(t *testing.T) {
	t.Parallel()
	w := newTown(t, captchamode.DefaultConfig())
	before, began := w.State().Threshold, w.now
	told := hug(w, 0)
	if after := w.State().Threshold; after > 2*before {
		t.Errorf("after a week the threshold is %.0f, was %.0f; want at most twice that", after, before)
	}
	if len(told) != 1 || told[0].At.Sub(began) > 24*time.Hour || !w.State().Steady {
		t.Errorf("steady pressure was told %+v; want once, within a day", told)
	}
	if w.on > 0 {
		t.Errorf("the mode was on for %d minutes: this is no hugging", w.on)
	}
	for range 13 * 60 {
		w.minute(func(int) {})
	}
	if w.State().Steady {
		t.Error("half a day after its end it is still steady")
	}
}

// Somebody who has any number of accounts of his own is bounded by the week.
func TestR25AccountsOfOnesOwnAreBoundedByTheWeek(t *testing.T) {
	t.Parallel()
	w := newTown(t, captchamode.DefaultConfig())
	for range 24 * 60 { // the site's first day
		w.minute(func(step int) {
			w.fail(due(8, step))
			for range due(6, step) {
				w.login(5000)
			}
		})
	}
	before := w.State().Threshold
	hug(w, 60) // another 60 accounts in each minute
	if after := w.State().Threshold; after <= before || after > 2.1*before {
		t.Errorf("after a week of it the threshold is %.1f, was %.1f; want it raised, and at most twice that", after, before)
	}
}

func TestR25FewAccountsOfOnesOwnChangeNothing(t *testing.T) {
	t.Parallel()
	for accounts, most := range map[int]float64{60: 30, 100: 50} { // each counts three times in half an hour
		w := newTown(t, captchamode.DefaultConfig())
		for range 2 * 24 * 60 {
			w.minute(func(step int) { // 600 logins a minute
				for i := range 50 {
					w.LoggedIn(key((step*50+i)%accounts), key(1), true, w.now)
				}
			})
		}
		if after := w.State().Threshold; after > most+0.1 {
			t.Errorf("after two days of %d accounts the threshold is %.1f, want %.0f", accounts, after, most)
		}
	}
}

// A strategy is when somebody with eleven addresses and 500 attempts a day makes
// how many of them.
func TestR25FiveHundredAttemptsADayHoldTheModeForFourHoursAtMost(t *testing.T) {
	t.Parallel()
	type chance struct {
		on         bool
		pressure   int
		left       int           // of today's attempts
		coolsUntil time.Duration // what is left of the cool-down; zero while it stands still
		day, hour  int
	}
	for name, tries := range map[string]func(c chance) int{
		"as soon as it is off": func(c chance) int {
			if c.on {
				return 0
			}
			return 31
		},
		"before it goes off": func(c chance) int {
			if c.on && (c.coolsUntil == 0 || c.coolsUntil > time.Minute) {
				return 0
			}
			return 31 - c.pressure
		},
		"just above the lower threshold": func(c chance) int {
			if c.on {
				return max(0, 16-c.pressure)
			}
			return 31
		},
		"half of the day's just above the lower one": func(c chance) int {
			switch {
			case c.on && c.left > 250:
				return max(0, 16-c.pressure)
			case c.on && (c.coolsUntil == 0 || c.coolsUntil > time.Minute):
				return 0
			}
			return 31 - c.pressure
		},
		"two days' attempts around midnight": func(c chance) int {
			if c.day%2 == 0 && c.hour < 21 || c.on && (c.coolsUntil == 0 || c.coolsUntil > time.Minute) {
				return 0
			}
			return 31 - c.pressure
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newTown(t, captchamode.DefaultConfig())
			for day := range 7 {
				left, before, used := 500, w.on, [11][2 * 24 * 60]int{}
				free := func(minute int64) (int, bool) {
					at := int(minute % int64(len(used[0])))
					for i := range used {
						if last := (at + len(used[i]) - 1) % len(used[i]); used[i][at]+used[i][last] < 3 {
							used[i][at]++
							return i, true
						}
					}
					return 0, false
				}
				for minute := range 24 * 60 {
					w.minute(func(step int) {
						s := w.State()
						c := chance{on: s.On, pressure: s.FailureRate.Total(), left: left, day: day, hour: minute / 60}
						if !s.Low.IsZero() {
							c.coolsUntil = s.Low.Add(time.Duration(s.CoolDown)).Sub(w.now)
						}
						for i := range min(left, max(0, tries(c))) {
							if one, ok := free(w.now.Unix() / 60); ok { // he knows what an address may contribute
								left--
								w.Failed(key(1<<42+i), key(1<<43+one), [16]byte{}, w.now)
							}
						}
					})
				}
				if on := w.on - before; on > 4*60 {
					t.Errorf("day %d: %d attempts held the mode for %d minutes", day, 500-left, on)
				} else {
					t.Logf("day %d: %d attempts, %d minutes", day, 500-left, on)
				}
			}
		})
	}
}

// What an attack earns: the least for a moment of it, the most for a long or a
// large one, and something between.
func TestR25CoolDownIsAsLongAsTheAttackDeserves(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		rate, minutes int
		least, most   time.Duration
	}{
		{35, 2, 10 * time.Minute, 10 * time.Minute},
		{60, 60, 25 * time.Minute, 35 * time.Minute},
		{300, 20, 45 * time.Minute, 55 * time.Minute},
		{300, 60, 2 * time.Hour, 2 * time.Hour},
		{3000, 6, 2 * time.Hour, 2 * time.Hour},
	} {
		w := newTown(t, captchamode.DefaultConfig())
		for range one.minutes {
			w.minute(func(step int) { w.fail(due(one.rate, step)) })
		}
		began := w.now
		for w.On() && w.now.Sub(began) < 4*time.Hour {
			w.minute(func(int) {})
		}
		if held := w.now.Sub(began) - time.Minute; held < one.least-time.Minute || held > one.most+2*time.Minute {
			t.Errorf("%d a minute for %d minutes: on for another %v, want %v to %v", one.rate, one.minutes, held, one.least, one.most)
		}
	}
}

// Pulses are one attack: one start is new, and the mode is on for little more than the minute of each pulse.
func TestR25PulsesAreOneAttack(t *testing.T) {
	t.Parallel()
	w := newTown(t, captchamode.DefaultConfig())
	pulses, before := 0, 0
	for minute := range 2 * 24 * 60 {
		if minute == 24*60 {
			pulses, before = 0, w.on
		}
		w.minute(func(step int) {
			if minute%13 == 0 && step == 0 {
				pulses++
				w.fail(60)
			}
		})
	}
	if on := w.on - before; on < pulses || on > 2*pulses {
		t.Errorf("on for %d minutes of the second day, want one or two of each of %d pulses", on, pulses)
	}
	if n := fresh(w.switches); n != 1 {
		t.Errorf("%d starts are new, want the first", n)
	}
}

// fresh counts the starts that resume nothing.
func fresh(all []captchamode.Switch) (n int) {
	for _, s := range all {
		if s.On && !s.WasOn && !s.Resumed {
			n++
		}
	}
	return n
}

// What counts as steady is most of half a day and not a moment sooner; a pause of some
// minutes does not hide it, and makes no second alert.
func TestR25SteadyPressureIsMostOfHalfADayWhateverThePauses(t *testing.T) {
	t.Parallel()
	w := newTown(t, captchamode.DefaultConfig())
	began, told := w.now, []captchamode.Switch(nil)
	for minute := range 30 * 60 {
		w.minute(func(int) {
			if room := 28 - w.State().FailureRate.Total(); room > 0 && minute%10 < 7 {
				w.fail(room)
			}
		})
	}
	for _, s := range w.switches {
		if s.Cause == captchamode.BySteadiness {
			told = append(told, s)
		}
	}
	if len(told) != 1 || told[0].At.Sub(began) < 12*time.Hour {
		t.Errorf("began at %v, told %+v; want once, after half a day or more", began, told)
	}
	for pressure, steady := range map[int]bool{14: false, 15: true, 30: true} {
		w := newTown(t, captchamode.DefaultConfig())
		for minute := range 24 * 60 {
			w.minute(func(int) { w.fail(max(0, pressure-w.State().FailureRate.Total())) })
			if minute < 12*60-1 && w.State().Steady {
				t.Fatalf("%d a minute are steady after %d minutes", pressure, minute)
			}
		}
		if w.State().Steady != steady {
			t.Errorf("%d a minute for a day: steady is %v, want %v from half the threshold on", pressure, !steady, steady)
		}
	}
}

// The mode goes off below half of what switches it on, and above that it stays.
func TestR20BetweenTheThresholdsTheModeStays(t *testing.T) {
	t.Parallel()
	for pressure, on := range map[int]bool{14: false, 15: true, 29: true} {
		w := newTown(t, captchamode.DefaultConfig())
		w.fail(31)
		for range 6 * 60 {
			w.minute(func(int) { w.fail(max(0, pressure-w.State().FailureRate.Total())) })
		}
		if w.On() != on {
			t.Errorf("six hours at %d a minute: on is %v, want %v", pressure, w.On(), on)
		}
	}
}

func TestACoolDownShorterThanTheLeastIsThatOfEveryAttack(t *testing.T) {
	t.Parallel()
	c := captchamode.DefaultConfig()
	c.CoolDown = 5 * time.Minute
	w := newTown(t, c)
	w.fail(31)
	if got := time.Duration(w.State().CoolDown); got != 5*time.Minute {
		t.Errorf("the cool-down is %v, want 5 m", got)
	}
}

// What somebody bought with accounts of his own is lost again: half of it in a quarter.
func TestR25TheMostThatIsNormalFadesAgain(t *testing.T) {
	t.Parallel()
	w := newTown(t, captchamode.DefaultConfig())
	s := w.Save()
	s.Learned, s.Normal, s.Most = 1<<20, 6, 800
	w.Restore(s)
	for range 7 * 24 * 60 {
		w.now = w.now.Add(time.Minute)
		w.Tick()
	}
	if most := w.Save().Most; most < 758 || most > 759 {
		t.Errorf("after a week 800 are %.1f, want 758.4: half of it after thirteen", most)
	}
}

// hug attacks at 0.95 of the threshold for a week, and beside that lets so many more
// accounts of the attacker's log in each minute.
func hug(w *town, accounts int) (told []captchamode.Switch) {
	before := len(w.switches)
	for range 7 * 24 * 60 {
		w.minute(func(step int) {
			for i := range due(accounts, step) {
				w.LoggedIn(key(w.minutes*accounts+step*accounts/steps+i), key(1), true, w.now)
			}
			if room := int(0.95*w.State().Threshold) - w.State().FailureRate.Total(); room > 0 {
				w.fail(room)
			}
		})
	}
	for _, s := range w.switches[before:] {
		if s.Cause == captchamode.BySteadiness {
			told = append(told, s)
		}
	}
	return told
}

// A person who clears forgets all of an attack: the next one earns its own cool-down
// and is not steady at once.
func TestR25AfterClearingTheNextAttackIsANewOne(t *testing.T) {
	t.Parallel()
	w := newTown(t, captchamode.DefaultConfig())
	hug(w, 0)
	for range 60 {
		w.minute(func(step int) { w.fail(due(300, step)) })
	}
	if s := w.State(); time.Duration(s.CoolDown) != 2*time.Hour || !s.Steady {
		t.Fatalf("before: %+v", s)
	}
	w.Clear("ann", "it was us")
	if s := w.State(); s.Steady {
		t.Error("still steady after clearing")
	}
	for range 90 {
		w.minute(func(step int) { w.fail(due(24, step)) })
	}
	if w.State().Steady {
		t.Error("steady again after an hour and a half")
	}
	w.now = w.now.Add(2 * time.Minute)
	w.fail(31)
	if s := w.State(); !s.On || time.Duration(s.CoolDown) != 10*time.Minute {
		t.Errorf("a small attack after clearing: on %v with a cool-down of %v, want on and 10 m", s.On, s.CoolDown)
	}
}

// Whoever has an account of his own takes back his own failures, in the seconds in
// which they counted, and so hides nobody else's.
func TestR25NobodyLaundersOthersFailures(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		dice := rand.New(rand.NewPCG(seed, 0))
		w, other := newTown(t, captchamode.DefaultConfig()), newTown(t, captchamode.DefaultConfig())
		for range 400 {
			if n := dice.IntN(3); n == 0 { // the attacker's own: one of three pairs, at one address each
				i := dice.IntN(3)
				if dice.IntN(2) == 0 {
					w.Failed(key(100+i), key(200+i), [16]byte{}, w.now)
				} else {
					w.LoggedIn(key(100+i), key(100+i), true, w.now)
				}
			} else if n == 1 {
				w.fail(1)
				other.fail(1)
			}
			d := time.Duration(dice.IntN(8)) * time.Second
			w.now, other.now = w.now.Add(d), other.now.Add(d)
			if got, want := w.State().FailureRate.Total(), other.State().FailureRate.Total(); got < want {
				t.Fatalf("seed %d: the pressure is %d, and %d without the attacker's own accounts", seed, got, want)
			}
		}
	}
}
