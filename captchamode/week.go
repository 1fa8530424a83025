package captchamode

import (
	"slices"
	"time"
)

// A site is as busy as its hour of the week, again and again. The average of a day is
// too high for its nights, in which an attack could hide, and too low for Monday at
// nine. So the detector learns how many accounts log in at each hour of the week (R25).
// Every hour is bounded by itself: whoever comes at the same hour each week, with
// accounts of his own or with failures, moves it by an eighth at most.
//
// It only ever lowers the threshold as far as the site's other days and its usual
// pressure at that hour allow, and where it does not fit the last day, not at all
// (docs/decisions/0043).

// A Week is what is usual at each hour of the week. Hours are UTC: a site that changes
// its clocks finds the hours beside its own counted too. The zero Week knows nothing.
type Week struct {
	// Hours are 168 from Monday at midnight on, or none. They are replaced, never
	// changed, so that a Week may be copied.
	Hours []Hour `json:"hours,omitempty"`
	// Foreseen is how many accounts the hours of the last day said would log in, a
	// minute: the average of the same minutes as Detector.Normal.
	Foreseen float64 `json:"foreseen,omitempty"`
	// Running is the hour that is not over.
	Running Running `json:"running,omitzero"`
}

// An Hour is what is usual in one.
type Hour struct {
	Logins      float64 `json:"logins"`       // accounts that log in, a minute
	FailureRate float64 `json:"failure_rate"` // the average minute's, without attacks
	Weeks       int     `json:"weeks"`        // that Logins are learned from
	Calm        int     `json:"calm"`         // that Pressure is learned from
}

// Running is an hour that is being learned from: sums over its minutes.
type Running struct {
	Start       time.Time `json:"start"`
	Minutes     int       `json:"minutes"`
	Logins      float64   `json:"logins"`
	Calm        int       `json:"calm"` // minutes without an attack
	FailureRate float64   `json:"failure_rate"`
}

const (
	weekHours = 7 * 24
	// enoughMinutes of an hour have to be known to learn from it: after an outage or in
	// an attack there are fewer.
	enoughMinutes = 30
	// weeksCount is how many weeks an hour is averaged over, and most and least how far
	// from what is usual one week's hour counts. So an hour rises by an eighth in a week
	// and a holiday takes an eighth away.
	weeksCount          = 4
	mostHour, leastHour = 3. / 2, 1. / 2
	// otherDays is the part of the busiest day's same hour below which no hour lowers the
	// threshold: some Saturday people work.
	otherDays = 1. / 2
	// trustedUpTo is how many times busier than its hours say the last day may have been
	// for them to lower anything: else the site has changed.
	trustedUpTo = 2
)

// hourOf is the number of a moment's hour in the week, from Monday at midnight UTC on.
func hourOf(at time.Time) int {
	const monday = 3 // 1 January 1970 was a Thursday
	return int((at.Unix()/3600 + monday*24) % weekHours)
}

// near is the highest of some hours and those beside them; false if one is not known.
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

// between is near at a moment: from the middle of an hour it goes straight to the
// middle of the next one.
func (w *Week) between(at time.Time, of func(*Hour) (float64, bool)) (float64, bool) {
	from := at.Add(-30 * time.Minute)
	before, known := w.near(hourOf(from), of)
	after, also := w.near((hourOf(from)+1)%weekHours, of)
	part := float64(from.Unix()%3600) / 3600
	return before + (after-before)*part, known && also
}

// usual is how many accounts are usual at a moment for the threshold; normal is the
// last day's average, which is all there is before a week was seen. The pressure that
// is usual at that hour counts like logins, and slack more: who has failed there all
// along is no attack.
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

// learn takes in one minute: how many accounts logged in, and how large the pressure
// was at its end. least is what makes no difference, of logins and of pressure.
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

// close learns from the hour that is over.
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

// drift moves what is usual towards what one week's hour was, within bounds. Numbers
// are kept to a thousandth, so that they are short where they are written.
func drift(usual, was, least float64, weeks int) (float64, int) {
	if weeks > 0 {
		was = min(max(was, usual*leastHour), max(usual*mostHour, least))
	}
	weeks = min(weeks+1, weeksCount)
	usual += (was - usual) / float64(weeks)
	return float64(int64(usual*1000+0.5)) / 1000, weeks
}

// foresee has the minute count in what the hours of the last day said.
func (w *Week) foresee(start time.Time) {
	if w.Hours != nil {
		w.Foreseen += (w.Hours[hourOf(start)].Logins - w.Foreseen) / normalOver
	}
}

// valid reports whether the numbers make sense.
func (w *Week) valid() bool {
	ok := len(w.Hours) == 0 || len(w.Hours) == weekHours
	for _, h := range w.Hours {
		ok = ok && counts(h.Logins) && counts(h.FailureRate) && h.Weeks >= 0 && h.Calm >= 0
	}
	r := &w.Running
	return ok && counts(w.Foreseen) && counts(r.Logins) && counts(r.FailureRate) && r.Minutes >= 0 && r.Calm >= 0
}

// known is how many hours were seen, each as often as counts.
func (w *Week) known() (n int) {
	for _, h := range w.Hours {
		n += h.Weeks
	}
	return n
}
