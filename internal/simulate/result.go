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

	ModeOn time.Duration   `json:"mode_on"`
	Series []replay.Bucket `json:"series"`
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
