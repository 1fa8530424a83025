package simulate

import (
	"time"

	"authguard/internal/replay"
)

// Report is one scenario under several defenses.
type Report struct {
	Scenario Scenario `json:"scenario"`
	Results  []Result `json:"results"`
}

// Result is the result of one defense. Let and Stopped are the two figures that count, of attempts with the right
// password, as in StopGuessing (Schechter and others, 2019): stopping wrong passwords harms no user.
type Result struct {
	Name string `json:"name"`

	Attackers

	// Logins are users' with the right password. Stopped were blocked, WaysIn needed a verification code, Delayed had to
	// wait, and Challenges were shown to them. People is the number of different users affected by any of these. Known*
	// count logins of known clients.
	Logins          int           `json:"logins"`
	Slips           int           `json:"slips"` // wrong passwords of users and their programs
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

// Attackers are counts of attackers' guesses. Checked of the Guesses reached the password check, after Solved
// challenges. Right had the right password, Let signed in, to Lost different accounts.
type Attackers struct {
	Guesses int `json:"guesses"`
	Checked int `json:"checked"`
	Solved  int `json:"solved"`
	Right   int `json:"right"`
	Let     int `json:"let_in"`
	Lost    int `json:"accounts_compromised"`
}

// Hour is one column of a plot.
type Hour struct {
	At      time.Time `json:"at"`
	Guesses int       `json:"guesses"`
	Checked int       `json:"checked"`
	Let     int       `json:"let_in"`
	Logins  int       `json:"logins"`
	Met     int       `json:"met"` // affected logins
	Mode    bool      `json:"mode"`
	// Nearest is how near the failure rate came to the threshold of CAPTCHA mode; authguard only.
	replay.Nearest
}

// at returns the hour of a time, which must not be before the newest.
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

func (r *Result) minute(end time.Time, on bool, pressure replay.Nearest) {
	h := r.at(end.Add(-time.Nanosecond))
	if h.Nearest = h.Nearest.Or(pressure); on {
		h.Mode = true
		r.ModeOn += time.Minute
	}
}
