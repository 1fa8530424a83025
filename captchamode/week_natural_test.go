//go:build !race

package captchamode_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"authguard/captchamode"
)

// A rhythm is how busy a site is, and what fails there without an attack.
type rhythm struct {
	people         int
	busiest        float64 // logins of a minute, on a working day at three in the afternoon
	night, weekend float64 // beside it
	typos          float64 // logins that begin with a wrong password, mended ten seconds later
	byDay, byNight float64 // failures for each login that nobody mends: 1.33 are 57 %, 2.23 are 69 %
	stale          float64 // failures a minute of programs, day and night
	sharp          bool    // everybody begins at nine, within ten minutes
	shift          time.Duration
	special        func(at time.Time) (busy float64, is bool) // a day that is not like its weekday
}

// rate is how many log in in the minute of a moment.
func (r *rhythm) rate(at time.Time) float64 {
	at = at.Add(r.shift)
	if r.special != nil {
		if busy, is := r.special(at); is {
			return r.busiest * busy
		}
	}
	return r.busiest * r.busy(at)
}

func (r *rhythm) busy(at time.Time) float64 {
	hour := float64(at.Hour()) + float64(at.Minute())/60
	part := r.night + (1-r.night)*(1-math.Cos((hour-3)/24*2*math.Pi))/2
	if r.sharp {
		part = r.night
		if hour >= 9 && hour < 18 {
			part = r.night + (1-r.night)*min(1, (hour-9)*6)
		}
	}
	if d := at.Weekday(); d == time.Saturday || d == time.Sunday {
		part *= r.weekend
	}
	return part
}

// fails is how many failures are natural for each login: more by night.
func (r *rhythm) fails(at time.Time) float64 {
	hour := float64(at.Add(r.shift).Hour())
	return r.byNight + (r.byDay-r.byNight)*(1-math.Cos((hour-3)/24*2*math.Pi))/2
}

// A life is a town with a rhythm. flat has it forget its week: the mode before it had one.
type life struct {
	*town
	rhythm
	flat   bool
	r      *rand.Rand
	slow   int // minutes of slowing
	typing [][2][16]byte
}

func newLife(t *testing.T, r rhythm, flat bool) *life {
	return &life{town: newTown(t, captchamode.DefaultConfig()), rhythm: r, flat: flat, r: rand.New(rand.NewPCG(7, 7))}
}

func (l *life) drawn(mean float64) (n int) {
	if mean > 30 {
		return max(0, int(math.Round(mean+math.Sqrt(mean)*l.r.NormFloat64())))
	}
	for mean -= l.r.ExpFloat64(); mean > 0; mean -= l.r.ExpFloat64() {
		n++
	}
	return n
}

// pass lets time go by; attack is how many guesses a minute there are beside people.
func (l *life) pass(d time.Duration, attack func() float64) {
	for end := l.now.Add(d); l.now.Before(end); {
		if l.flat && l.now.Minute() == 0 {
			s := l.Save()
			s.Week = captchamode.Week{}
			l.Restore(s)
		}
		rate := l.rate(l.now)
		guesses := 0.
		if attack != nil {
			guesses = attack()
		}
		l.minute(func(int) {
			for i, one := range l.typing { // who mistyped has it right now
				l.LoggedIn(key(i+l.r.IntN(l.people)), one[0], true, l.now)
			}
			l.typing = l.typing[:0]
			for range l.drawn(rate / steps) {
				if l.r.Float64() < l.typos {
					pair, address := l.stranger()
					l.Failed(pair, address, [16]byte{}, l.now)
					l.typing = append(l.typing, [2][16]byte{pair, address})
				} else {
					l.login(l.people)
				}
			}
			l.fail(l.drawn((rate*l.fails(l.now) + l.stale + guesses) / steps))
		})
		if l.Throttling() && !l.On() {
			l.slow++
		}
	}
}

const day, week = 24 * time.Hour, 7 * 24 * time.Hour

// Two of three logins fail at night, as on real sites, and nobody mends one.
func TestR20NaturalNightsNeverSwitchTheMode(t *testing.T) {
	t.Parallel()
	for _, busiest := range []float64{12, 60, 150} {
		l := newLife(t, rhythm{people: 1e6, busiest: busiest, night: .1, weekend: .5, byDay: 1.33, byNight: 2.23}, false)
		l.pass(4*week, nil)
		if l.on > 0 {
			t.Errorf("%v logins a minute: on for %d minutes of four weeks", busiest, l.on)
		}
	}
}

// After a weekend with almost nobody all log in within ten minutes, three times as many as
// in any other ten, and one in ten mistypes.
func TestR20MondayAtNineNeverSwitchesTheMode(t *testing.T) {
	t.Parallel()
	for _, people := range []int{50, 5_000, 200_000} {
		r := rhythm{people: people, busiest: float64(people) * 4 / 540, night: .02, weekend: .02, sharp: true, typos: .1, byDay: .02, byNight: .02}
		r.special = func(at time.Time) (float64, bool) {
			return 3, at.Weekday() == time.Monday && at.Hour() == 9 && at.Minute() < 10
		}
		l := newLife(t, r, false)
		l.now = l.now.Add(-2 * day) // a weekend comes first
		l.pass(2*week+3*day, nil)
		for _, s := range l.switches {
			if s.On {
				t.Errorf("%d people: %+v", people, s)
			}
		}
	}
}

// Where more logins fail than succeed, and nobody mends one, one threshold for all hours
// took each Monday for an attack. Nor are a change of the clocks, the day after a holiday and
// a week with half as many people more an attack.
func TestR20AMondayOfASiteWhereMostLoginsFailIsNoAttackEither(t *testing.T) {
	t.Parallel()
	usual := rhythm{people: 1e6, busiest: 60, night: .05, weekend: .05, sharp: true, byDay: 1.33, byNight: 2.23}
	began := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC).Add(4 * week)
	holiday, twice := usual, usual
	holiday.special = func(at time.Time) (float64, bool) { return .05, !at.Before(began) && at.Weekday() == time.Monday }
	twice.special = func(at time.Time) (float64, bool) { return 1.5 * usual.busy(at), !at.Before(began) }
	var learned [2]captchamode.Snapshot
	for i, flat := range []bool{false, true} {
		l := newLife(t, usual, flat)
		l.pass(4*week, nil)
		learned[i] = l.Save()
	}
	for name, one := range map[string]struct {
		rhythm
		shift time.Duration
	}{
		"an ordinary week": {usual, 0}, "a holiday": {holiday, 0}, "half as many people more": {twice, 0},
		"clocks an hour forward": {usual, time.Hour}, "clocks an hour back": {usual, -time.Hour},
	} {
		l, flat := newLife(t, one.rhythm, false), newLife(t, one.rhythm, true)
		for i, l := range []*life{l, flat} {
			l.now, l.serial, l.shift = began, 1<<30, one.shift
			l.Restore(learned[i])
			l.pass(week, nil)
		}
		if l.on > 0 || flat.on == 0 {
			t.Errorf("%s: on for %d minutes, %d with one threshold for all hours", name, l.on, flat.on)
		}
		t.Logf("%s: on for %d minutes, %d with one threshold for all hours", name, l.on, flat.on)
	}
}

// An attacker raises what is normal for a month: by 1 % a day, as the wording of a
// well-known test has it, and as fast as the bounds let him.
func TestR25AMonthOfPoisonDoesNotDoubleTheThreshold(t *testing.T) {
	t.Parallel()
	clean := newTown(t, captchamode.DefaultConfig())
	calm := func(at time.Time) (float64, float64) {
		r := rhythm{busiest: 60, night: .2, weekend: .5}
		return r.rate(at), .3 * r.rate(at)
	}
	clean.evenly(4*week, calm)
	kept, before := clean.Save(), clean.Week()
	always := func(time.Time) bool { return true }
	atThree := func(at time.Time) bool { return at.Hour() == 3 }
	mondays := func(at time.Time) bool { return at.Weekday() == time.Monday }
	daily := func(at time.Time) float64 { return math.Pow(1.01, at.Sub(clean.now).Hours()/24) - 1 }
	twice := func(time.Time) float64 { return 1 }
	flood := func(time.Time) float64 { return 1000 }
	for _, one := range []struct {
		name             string
		when             func(time.Time) bool
		more             func(time.Time) float64 // of what is usual
		logins, failures bool
		single           bool // all from one address
	}{
		{"1 % a day", always, daily, true, true, false},
		{"1 % a day, at three", atThree, daily, true, true, false},
		{"1 % a day, on Mondays", mondays, daily, true, true, false},
		{"1 % a day, one address", always, daily, true, true, true},
		{"1 % a day, failures", always, daily, false, true, false},
		{"twice as much", always, twice, true, true, false},
		{"twice as much, at three", atThree, twice, true, true, false},
		{"as many accounts as can be, at three", atThree, flood, true, false, false},
	} {
		w := newTown(t, captchamode.DefaultConfig())
		w.now, w.serial, w.single = clean.now, clean.serial, one.single
		w.Restore(kept)
		w.evenly(30*day, func(at time.Time) (float64, float64) {
			logins, failures := calm(at)
			if !one.when(at) {
				return logins, failures
			}
			more := one.more(at)
			if one.logins {
				logins += min(logins*more, 400)
			}
			if one.failures {
				failures *= 1 + more
			}
			return logins, failures
		})
		most := 0.
		for i, h := range w.Week() {
			most = max(most, h.Threshold/before[i].Threshold)
		}
		if t.Logf("%-40s %.2f times", one.name, most); most >= 2 || w.on > 0 {
			t.Errorf("%s: %.2f times the threshold, and on for %d minutes", one.name, most, w.on)
		}
	}
	hugger := newTown(t, captchamode.DefaultConfig())
	hugger.now, hugger.serial = clean.now, clean.serial
	hugger.Restore(kept)
	for range 30 * 24 * 60 {
		hugger.minute(func(int) {
			if room := int(.95*hugger.State().Threshold) - hugger.State().FailureRate.Total(); room > 0 {
				hugger.fail(room)
			}
			for range 2 {
				hugger.login(1e6)
			}
		})
	}
	for i, h := range hugger.Week() {
		if h.Threshold >= 2*before[i].Threshold || hugger.on > 0 {
			t.Fatalf("hugging for a month: hour %d has %+v, and had %+v", i, h, before[i])
		}
	}
}

// evenly is quick, of a rate.
func (w *town) evenly(d time.Duration, rate func(at time.Time) (logins, failures float64)) {
	var logins, failures float64
	w.quick(d, func(at time.Time) (int, int) {
		if w.On() {
			w.on++
		}
		l, f := rate(at)
		logins, failures = logins-math.Floor(logins)+l, failures-math.Floor(failures)+f
		return int(logins), int(failures)
	})
}

// An attack by night, by a botnet of ever more addresses: two guesses a minute more in
// each minute.
func TestR25AnAttackByNightIsFoundSooner(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		name       string
		busiest    float64
		day, night float64
		found      [2]int // after so many guesses, and with one threshold for all hours
	}{
		{"a site of 5,000 people", 27, .1, .1, [2]int{132, 870}},
		{"of 20,000", 108, .1, .1, [2]int{870, 12882}},
		{"of 20,000 where two of three fail by night", 108, 1.33, 2.23, [2]int{4032, 11342}},
	} {
		var found [2]int
		for i, flat := range []bool{false, true} {
			l := newLife(t, rhythm{people: 1e6, busiest: one.busiest, night: .1, weekend: .5, typos: .05, byDay: one.day, byNight: one.night}, flat)
			l.pass(3*week+3*day+2*time.Hour, nil) // Thursday, at two
			if l.On() {
				t.Fatal("on before it")
			}
			guesses := 0.
			for rate := 2.; !l.On() && rate < 1000; rate += 2 {
				l.pass(time.Minute, func() float64 { return rate })
				guesses += rate
			}
			found[i] = int(guesses)
		}
		if found != one.found {
			t.Errorf("%s: found after %d guesses, want %d", one.name, found, one.found)
		}
	}
}
