//go:build !race

package captchamode_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"authguard/captchamode"
)

// docs/decisions/0043: what else could follow the hour. Each gets the same
// minutes of a site where more logins fail than succeed.
func TestWhatElseCouldFollowTheHour(t *testing.T) {
	t.Parallel()
	site := rhythm{busiest: 60, night: .05, weekend: .05, sharp: true, byDay: 1.33, byNight: 2.23}
	ours := func(flat bool) func() judge {
		return func() judge {
			w := newTown(t, captchamode.DefaultConfig())
			return func(at time.Time, logins, failures int) float64 {
				if flat && at.Minute() == 0 {
					s := w.Save()
					s.Week = captchamode.Week{}
					w.Restore(s)
				}
				w.now = at
				w.quick(time.Minute, func(time.Time) (int, int) { return logins, failures })
				return w.State().Threshold
			}
		}
	}
	ramp := func(at time.Time, _ float64) float64 { // as in TestR25AnAttackByNightIsFoundSooner
		if since := at.Sub(monday.Add(3*day + 2*time.Hour)); since > 0 && since < 4*time.Hour {
			return 2 * since.Minutes()
		}
		return 0
	}
	hug := func(_ time.Time, threshold float64) float64 { return 0.9 * threshold }
	for _, one := range []struct {
		name string
		new  func() judge
	}{
		{"one threshold", ours(true)}, {"hours, bounded", ours(false)},
		{"average of failures", average}, {"worst of the hour", worst}, {"Holt-Winters", holtWinters},
	} {
		natural, night, hugged := watch(one.new(), site, nil), watch(one.new(), site, ramp), watch(one.new(), site, hug)
		t.Logf("%-20s natural: %4d minutes above; by night found after %4.0f guesses; after a month of hugging %3.1f times by night, %3.1f by day",
			one.name, natural.above, night.found, min(hugged.night, 99), min(hugged.noon, 99))
		if one.name == "hours, bounded" && (natural.above > 0 || night.found > 600 || hugged.night >= 2 || hugged.noon >= 2) {
			t.Errorf("%+v %+v %+v", natural, night, hugged)
		}
	}
}

// A judge gets a minute and has its threshold.
type judge func(at time.Time, logins, failures int) float64

// monday is when the month begins, after four weeks.
var monday = time.Date(2026, 3, 30, 0, 0, 0, 0, time.UTC)

// seen is what a judge made of a month after four weeks to learn.
type seen struct {
	above       int     // minutes above the threshold in the month
	guesses     float64 // of the attacker's
	found       float64 // of these until one minute was above
	night, noon float64 // the threshold on its last Tuesday, beside the one before it
}

// watch shows a judge two months; attack is how many guesses there are in a minute of the
// second, which knows the threshold of the minute before.
func watch(see judge, site rhythm, attack func(at time.Time, threshold float64) float64) (s seen) {
	l, threshold := life{rhythm: site, r: rand.New(rand.NewPCG(3, 3))}, 30.
	before := map[int]float64{}
	for at := monday.Add(-4 * week); at.Before(monday.Add(30 * day)); at = at.Add(time.Minute) {
		failures, guesses := l.drawn(site.rate(at)*site.fails(at)), 0
		if attack != nil && !at.Before(monday) {
			guesses = int(attack(at, threshold))
			if guesses < int(threshold) { // he knows what is natural, too
				guesses = max(0, guesses-failures)
			}
		}
		threshold = see(at, l.drawn(site.rate(at)), failures+guesses)
		if now := at.Weekday() == time.Tuesday && at.Minute() == 30; now && at.Before(monday) {
			before[at.Hour()] = threshold
		} else if now {
			s.night, s.noon = atHour(at, 3, threshold/before[3], s.night), atHour(at, 12, threshold/before[12], s.noon)
		}
		if at.Before(monday) {
			continue
		}
		if float64(failures+guesses) > threshold {
			s.above++
		}
		if s.guesses += float64(guesses); guesses > 0 && float64(failures+guesses) > threshold && s.found == 0 {
			s.found = s.guesses
		}
	}
	return s
}

// atHour is now at the hour, and before otherwise.
func atHour(at time.Time, hour int, now, before float64) float64 {
	if at.Hour() == hour {
		return now
	}
	return before
}

// average is three times what has failed in a minute of the last day.
func average() judge {
	mean, n := 0., 0.
	return func(_ time.Time, _, failures int) float64 {
		threshold := max(30, 3*mean)
		n++
		mean += (float64(failures) - mean) / min(n, 24*60)
		return threshold
	}
}

// worst is half as much again as the worst minute of the same hour in the four weeks before.
func worst() judge {
	var weeks [168][5]float64
	return func(at time.Time, _, failures int) float64 {
		hour, turn := int(at.Unix()/3600)%168, int(at.Unix()/3600/168)%5
		one := &weeks[hour]
		if at.Minute() == 0 {
			one[turn] = 0
		}
		high := 0.
		for i, n := range one {
			if i != turn {
				high = max(high, n)
			}
		}
		one[turn] = max(one[turn], float64(failures))
		return max(30, 1.5*high)
	}
}

// holtWinters is the additive method as Graphite has it, of a season of a week, with three
// deviations for a band.
func holtWinters() judge {
	const alpha, beta, gamma, season = .1, .0035, .1, 7 * 24 * 60
	var level, trend float64
	seasonal, deviation := make([]float64, season), make([]float64, season)
	i := 0
	return func(_ time.Time, _, failures int) float64 {
		y, slot := float64(failures), i%season
		predicted := level + trend + seasonal[slot]
		threshold := predicted + 3*deviation[slot]
		if i++; i <= season {
			threshold = math.Inf(1)
		}
		before := level
		level = alpha*(y-seasonal[slot]) + (1-alpha)*(level+trend)
		trend = beta*(level-before) + (1-beta)*trend
		seasonal[slot] = gamma*(y-level) + (1-gamma)*seasonal[slot]
		deviation[slot] = gamma*math.Abs(y-predicted) + (1-gamma)*deviation[slot]
		return max(30, threshold)
	}
}
