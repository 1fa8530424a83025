package alerts

import "time"

const (
	// ratioWindow is the time in which failures are held against successes.
	ratioWindow = 10 * time.Minute
	// ratioFailures is how many failures a window must have before its ratio says
	// anything; of so few attempts nothing is learned either.
	ratioFailures = 30
	ratioAttempts = 30
	// ratioFirst is how many windows only teach what is usual; a week's count in the end.
	ratioFirst = 6
	ratioWeek  = int(7 * 24 * time.Hour / ratioWindow)
	// ratioCalm is how many windows must be usual again before that is told.
	ratioCalm = 3
)

// An edge is what a ratio tells.
type edge uint8

const (
	same edge = iota
	above
	below
)

// A ratio holds failed logins against successful ones, and learns what is usual on this
// site: one in five on one, two of three on another. It is a hint for people and never
// switches anything (R20). What is usual at most doubles in a week.
type ratio struct {
	floor             float64 // nobody is told below it; 0: never
	began             time.Time
	failed, succeeded int    // since then
	before            [2]int // and in the window before, so that the first minutes of one do not speak for it
	usual             float64
	learned           int // windows
	over              bool
	calm              int // windows in a row that were usual
}

func of(failed, succeeded int) float64 { return float64(failed) / float64(max(succeeded, 1)) }

func (r *ratio) now() float64 { return of(r.failed+r.before[0], r.succeeded+r.before[1]) }

func (r *ratio) exceeds(failed int, is float64) bool {
	return failed >= ratioFailures && is > max(r.floor, 2*r.usual)
}

// count counts one login. What happens during an attack teaches nothing.
func (r *ratio) count(at time.Time, failed, attack bool) (e edge, is, usual float64) {
	if r.floor <= 0 {
		return same, 0, 0
	}
	is = r.now()
	if e = r.roll(at, attack); e != same {
		return e, is, r.usual
	}
	if failed {
		r.failed++
	} else {
		r.succeeded++
	}
	if r.over || attack || r.learned < ratioFirst || !r.exceeds(r.failed, r.now()) {
		return same, 0, 0
	}
	r.over, r.calm = true, 0
	return above, r.now(), r.usual
}

// roll begins a new window if it is time.
func (r *ratio) roll(at time.Time, attack bool) (e edge) {
	windows := int(at.Sub(r.began) / ratioWindow)
	if windows < 1 {
		return same
	}
	is := of(r.failed, r.succeeded)
	exceeded := r.exceeds(r.failed, is)
	if r.calm += windows; exceeded {
		r.calm = windows - 1
	}
	if !r.over && !attack && r.failed+r.succeeded >= ratioAttempts && (r.learned < ratioFirst || !exceeded) {
		r.learned = min(r.learned+1, ratioWeek)
		r.usual += (is - r.usual) / float64(r.learned)
	}
	if r.over && r.calm >= ratioCalm {
		r.over, e = false, below
	}
	r.before = [2]int{}
	if windows == 1 {
		r.before = [2]int{r.failed, r.succeeded}
	}
	r.began, r.failed, r.succeeded = at, 0, 0
	return e
}
