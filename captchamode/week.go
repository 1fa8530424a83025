package captchamode

import (
	"slices"
	"time"
)

// The detector learns how many accounts sign in at each hour of the week (R25). A day's average is too high for its
// nights, in which an attack could hide, and too low for Monday at nine. Each hour is bounded individually: an
// attacker who comes at the same hour each week changes it by at most an eighth per week.
//
// An hour lowers the threshold only as far as the other days and its own usual failure rate allow. It does not lower
// the threshold if the hours do not match the last day (docs/decisions/0043).

// A Week is the baseline for each hour of the week, in UTC. Daylight saving time shifts it by one hour, so the
// neighboring hours count too. The zero Week is empty.
type Week struct {
	// Hours has 168 elements from Monday 00:00, or none. It is replaced and never modified, so a Week may be copied.
	Hours []Hour `json:"hours,omitempty"`
	// Foreseen is the number of accounts per minute that Hours predicted for the last day: the same average as
	// Detector.Normal.
	Foreseen float64 `json:"foreseen,omitempty"`
	// Running is the current hour.
	Running Running `json:"running,omitzero"`
}

// An Hour is the baseline of one hour of the week.
type Hour struct {
	Logins      float64 `json:"logins"`       // accounts that sign in per minute
	FailureRate float64 `json:"failure_rate"` // average per minute, without attacks
	Weeks       int     `json:"weeks"`        // weeks in Logins
	Calm        int     `json:"calm"`         // weeks in FailureRate
}

// Running is the hour being learned: sums over its minutes.
type Running struct {
	Start       time.Time `json:"start"`
	Minutes     int       `json:"minutes"`
	Logins      float64   `json:"logins"`
	Calm        int       `json:"calm"` // minutes without an attack
	FailureRate float64   `json:"failure_rate"`
}

const (
	weekHours = 7 * 24
	// enoughMinutes of an hour must be known to learn from it: after an outage or in an attack there are fewer.
	enoughMinutes = 30
	// weeksCount is the number of weeks in an hour's average. mostHour and leastHour bound one week's deviation. An hour
	// therefore rises by at most an eighth per week, and a holiday lowers it by an eighth.
	weeksCount          = 4
	mostHour, leastHour = 3. / 2, 1. / 2
	// otherDays is the fraction of the busiest day's same hour below which an hour does not lower the threshold:
	// sometimes people work on a Saturday.
	otherDays = 1. / 2
	// trustedUpTo is how many times busier than predicted the last day may be. Above that, the site has changed, and no
	// hour lowers the threshold.
	trustedUpTo = 2
)

// hourOf returns the hour of the week, from Monday 00:00 UTC.
func hourOf(at time.Time) int {
	const monday = 3 // 1 January 1970 was a Thursday
	return int((at.Unix()/3600 + monday*24) % weekHours)
}

// near returns the maximum of an hour and its neighbors; false if one of them is not known.
func (w *Week) near(hour int, of func(*Hour) (float64, bool)) (high float64, known bool) {
	for beside := -1; beside <= 1; beside++ {
		one, known := of(&w.Hours[(hour+beside+weekHours)%weekHours])
		if !known {
			return 0, false
		}
		high = max(high, one)
	}
	return high, true
}

func loginsOf(h *Hour) (float64, bool)      { return h.Logins, h.Weeks > 0 }
func failureRateOf(h *Hour) (float64, bool) { return h.FailureRate, h.Calm > 0 }

// between interpolates near linearly between the middles of two hours.
func (w *Week) between(at time.Time, of func(*Hour) (float64, bool)) (float64, bool) {
	from := at.Add(-30 * time.Minute)
	before, known := w.near(hourOf(from), of)
	after, also := w.near((hourOf(from)+1)%weekHours, of)
	part := float64(from.Unix()%3600) / 3600
	return before + (after-before)*part, known && also
}

// usual returns the baseline for the threshold at a moment. normal is the last day's average, and is used alone
// before the first week. The hour's usual failure rate and slack are a lower bound: users who always failed at that
// hour are no attack.
func (w *Week) usual(at time.Time, normal, slack float64) float64 {
	if w.Hours == nil {
		return normal
	}
	usual, known := w.between(at, loginsOf)
	pressure, calm := w.between(at, failureRateOf)
	if !known || !calm || normal > trustedUpTo*w.Foreseen {
		return max(normal, usual)
	}
	if usual >= normal {
		return usual
	}
	least := pressure + slack
	for day := range 7 {
		other, _ := w.between(at.Add(time.Duration(day)*24*time.Hour), loginsOf)
		least = max(least, otherDays*other)
	}
	return max(usual, min(normal, least))
}

// learn adds one minute: the accounts that signed in, and the failure rate at its end. Numbers up to least change
// nothing.
func (w *Week) learn(start time.Time, logins, pressure float64, attacked bool, least [2]float64) {
	if hour := start.Truncate(time.Hour); !hour.Equal(w.Running.Start) {
		w.close(least)
		w.Running = Running{Start: hour}
	}
	r := &w.Running
	r.Minutes++
	r.Logins += logins
	if !attacked {
		r.Calm++
		r.FailureRate += pressure
	}
}

func (w *Week) close(least [2]float64) {
	r := w.Running
	if r.Minutes < enoughMinutes {
		return
	}
	if w.Hours = slices.Clone(w.Hours); w.Hours == nil {
		w.Hours = make([]Hour, weekHours)
	}
	h := &w.Hours[hourOf(r.Start)]
	h.Logins, h.Weeks = drift(h.Logins, r.Logins/float64(r.Minutes), least[0], h.Weeks)
	if r.Calm >= enoughMinutes {
		h.FailureRate, h.Calm = drift(h.FailureRate, r.FailureRate/float64(r.Calm), least[1], h.Calm)
	}
}

// drift moves the average toward one week's value, within bounds. Numbers are rounded to a thousandth, so that they
// are short in the file.
func drift(usual, was, least float64, weeks int) (float64, int) {
	if weeks > 0 {
		was = min(max(was, usual*leastHour), max(usual*mostHour, least))
	}
	weeks = min(weeks+1, weeksCount)
	usual += (was - usual) / float64(weeks)
	return float64(int64(usual*1000+0.5)) / 1000, weeks
}

// foresee adds the predicted logins of a minute to the last day's average.
func (w *Week) foresee(start time.Time) {
	if w.Hours != nil {
		w.Foreseen += (w.Hours[hourOf(start)].Logins - w.Foreseen) / normalOver
	}
}

func (w *Week) valid() bool {
	ok := len(w.Hours) == 0 || len(w.Hours) == weekHours
	for _, h := range w.Hours {
		ok = ok && counts(h.Logins) && counts(h.FailureRate) && h.Weeks >= 0 && h.Calm >= 0
	}
	r := &w.Running
	return ok && counts(w.Foreseen) && counts(r.Logins) && counts(r.FailureRate) && r.Minutes >= 0 && r.Calm >= 0
}

// known returns the number of learned hours over all weeks.
func (w *Week) known() (n int) {
	for _, h := range w.Hours {
		n += h.Weeks
	}
	return n
}
