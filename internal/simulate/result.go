package simulate

import (
	"time"

	"authguard/internal/report"
)

// A Report is one scenario under several defences.
type Report struct {
	Scenario Scenario `json:"scenario"`
	Results  []Result `json:"results"`
}

// A Result is what became of everybody under one defence. The two figures that count are
// Let and Stopped, of attempts with the right password, as in StopGuessing (Schechter and
// others, 2019): whatever a defence does to wrong ones is no harm to anybody.
type Result struct {
	Name string `json:"name"`

	// Guesses are an attacker's; Checked were looked at, after Solved challenges. Right of
	// them had the right password, Let were let in, to Lost different accounts.
	Guesses int `json:"guesses"`
	Checked int `json:"checked"`
	Solved  int `json:"solved"`
	Right   int `json:"right"`
	Let     int `json:"let_in"`
	Lost    int `json:"accounts_compromised"`

	// Logins are people's with the right password. Stopped were refused, WaysIn were asked
	// for a one-time code as well, Delayed were told to wait, Challenges were shown to them,
	// to People different ones that met any of these. Known* are those at a place, or with a
	// browser, where the person had logged in before.
	Logins          int           `json:"logins"`
	Slips           int           `json:"slips"` // people's wrong passwords, and their programs'
	Challenges      int           `json:"challenges"`
	Delayed         int           `json:"delayed"`
	WaysIn          int           `json:"ways_in"`
	Stopped         int           `json:"stopped"`
	People          int           `json:"people"`
	KnownChallenged int           `json:"known_challenged"`
	KnownStopped    int           `json:"known_stopped"`
	LongestOut      time.Duration `json:"longest_out"`

	ModeOn time.Duration `json:"mode_on"`
	Series []Hour        `json:"series"`
}

// An Hour is one column of a plot.
type Hour struct {
	At      time.Time `json:"at"`
	Guesses int       `json:"guesses"`
	Checked int       `json:"checked"`
	Let     int       `json:"let_in"`
	Logins  int       `json:"logins"`
	Met     int       `json:"met"` // of the logins
	Mode    bool      `json:"mode"`
	// Nearest is how near the pressure came to CAPTCHA mode's threshold; of authguard alone.
	report.Nearest
}

// at is the hour of a time, which is not before the newest.
func (r *Result) at(now time.Time) *Hour {
	hour := now.Truncate(time.Hour)
	for len(r.Series) == 0 || r.Series[len(r.Series)-1].At.Before(hour) {
		next := start()
		if n := len(r.Series); n > 0 {
			next = r.Series[n-1].At.Add(time.Hour)
		}
		r.Series = append(r.Series, Hour{At: next})
	}
	return &r.Series[len(r.Series)-1]
}

func (h *Hour) guess(v *verdict) {
	h.Guesses++
	if v.checked {
		h.Checked++
	}
	if v.in {
		h.Let++
	}
}

func (h *Hour) login(met bool) {
	if h.Logins++; met {
		h.Met++
	}
}

// minute ends a minute.
func (r *Result) minute(end time.Time, on bool, pressure report.Nearest) {
	h := r.at(end.Add(-time.Nanosecond))
	if h.Nearest = h.Nearest.Or(pressure); on {
		h.Mode = true
		r.ModeOn += time.Minute
	}
}
