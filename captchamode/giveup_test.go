//go:build !race

package captchamode_test

import (
	"testing"
	"time"

	"authguard/captchamode"
)

// Visitors are users at new IP addresses: fails of all tries have a wrong password, and after
// each of these half of the users give up. quit of those who meet a challenge leave instead.
type visitors struct {
	*life
	people      int
	fails, quit float64
	back        [3][][3][16]byte // who tries again, by step
	step        int
}

func (v *visitors) try(account, pair, address [16]byte) {
	if v.On() {
		v.Observe(captchamode.Unsolved, address)
		if v.r.Float64() < v.quit {
			return
		}
		v.TakeBack(captchamode.Unsolved)
	}
	if v.r.Float64() >= v.fails {
		v.LoggedIn(account, pair, true, v.now)
		return
	}
	if v.Failed(pair, address, [16]byte{}, v.now); v.r.Float64() < 0.5 {
		at := (v.step + 2) % len(v.back)
		v.back[at] = append(v.back[at], [3][16]byte{account, pair, address})
	}
}

// pass lets time go by with so many new visitors a minute, and guesses beside them.
func (v *visitors) pass(d time.Duration, visits float64, guesses int) {
	for range int(d / time.Minute) {
		v.minute(func(step int) {
			v.fail(due(guesses, step))
			again := v.back[v.step%len(v.back)]
			v.back[v.step%len(v.back)] = nil
			for _, one := range again {
				v.try(one[0], one[1], one[2])
			}
			for range v.drawn(visits / steps) {
				pair, address := v.stranger()
				v.try(key(v.r.IntN(v.people)), pair, address)
			}
			v.step++
		})
	}
}

func newVisitors(t *testing.T, people int, quit float64) *visitors {
	return &visitors{life: newLife(t, rhythm{}, false), people: people, fails: .69, quit: quit}
}

// 69 % of all tries fail and half of the users give up: where few users log in often, each login
// counted once in half an hour, and the mode was on for 2,794 to 2,863 of 2,880 minutes.
func TestR25UsersWhoGiveUpAreNoAttack(t *testing.T) {
	t.Parallel()
	for _, people := range []int{500, 1e6} {
		for _, visits := range []float64{20, 40, 60, 120} {
			for _, quit := range []float64{0, .5, .9} {
				v := newVisitors(t, people, quit)
				v.pass(2*day, visits, 0)
				if v.on > 30 {
					t.Errorf("%d users, %v visits a minute, %.0f %% leave at a challenge: on for %d of %d minutes",
						people, visits, 100*quit, v.on, v.minutes)
				}
			}
		}
	}
}

// The same attack is found after as many guesses where 500 users log in as where all differ.
func TestR25AnAttackWhileUsersGiveUpIsFound(t *testing.T) {
	t.Parallel()
	guesses := func(people int) (n int) {
		v := newVisitors(t, people, .5)
		v.pass(2*day, 60, 0)
		if v.on > 0 {
			t.Fatalf("%d users: on for %d minutes without an attack", people, v.on)
		}
		for n < 2000 && !v.On() {
			v.fail(1)
			n++
		}
		return n
	}
	few, many := guesses(500), guesses(1e6)
	if few > many || many > 150 {
		t.Errorf("found after %d guesses where 500 users log in, after %d where all differ; want at most 150", few, many)
	}
	t.Logf("found after %d guesses, and %d", few, many)
}

// 500 accounts of an attacker that log in all day double the threshold in a week at most.
func TestR25AccountsThatLogInAllDayAreBoundedByTheWeek(t *testing.T) {
	t.Parallel()
	v := newVisitors(t, 500, .9)
	v.pass(2*day, 20, 0)
	before := v.State().Threshold
	for range 7 * 24 * 60 {
		v.minute(func(step int) {
			for i := range 50 {
				v.LoggedIn(key(1<<20+(step*50+i)%500), key(1), true, v.now)
			}
		})
	}
	if after := v.State().Threshold; after > 2.1*before {
		t.Errorf("after a week of it the threshold is %.1f, was %.1f", after, before)
	}
}
