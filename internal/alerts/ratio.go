package alerts

import "time"

const (
	// ratioWindow is the period in which failures are compared with successes.
	ratioWindow = 10 * time.Minute
	// ratioFailures is the least number of failures for an alert, ratioAttempts that of attempts for learning.
	ratioFailures = 30
	ratioAttempts = 30
	// ratioFirst is how many windows only learn the baseline; ratioWeek limits its weight to a week.
	ratioFirst = 6
	ratioWeek  = int(7 * 24 * time.Hour / ratioWindow)
	// ratioCalm is how many normal windows in a row end the alert.
	ratioCalm = 3
)

// An edge is a change of a ratio.
type edge uint8

const (
	same edge = iota
	above
	below
)

// A ratio compares failed with successful logins and learns the site's baseline, from one in five to two of three. It
// only alerts and never switches anything (R20). The baseline at most doubles in a week, which limits what a slow
// attack can teach it.
type ratio struct {
	floor             float64 // least ratio for an alert; 0: never
	began             time.Time
	failed, succeeded int    // since then
	before            [2]int // those of the previous window, so that the first minutes of one do not decide
	usual             float64
	learned           int // windows
	over              bool
	calm              int // normal windows in a row
}

func of(failed, succeeded int) float64 { return float64(failed) / float64(max(succeeded, 1)) }

func (r *ratio) now() float64 { return of(r.failed+r.before[0], r.succeeded+r.before[1]) }

func (r *ratio) exceeds(failed int, is float64) bool {
	return failed >= ratioFailures && is > max(r.floor, 2*r.usual)
}

// count counts one login. Attempts during an attack do not change the baseline.
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
