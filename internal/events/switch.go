package events

import "time"

// The states of a ModeSwitch.
const (
	ModeOff  = "off"
	ModeSlow = "slow" // strangers are slowed; a third of the threshold was crossed
	ModeOn   = "on"
)

// CauseForced is the cause of a switch that a person made.
const CauseForced = "forced"

// A ModeSwitch is one change of CAPTCHA mode, of the detector's opinion, or of
// who decides.
type ModeSwitch struct {
	At       time.Time
	From, To string // what the site does: ModeOff, ModeSlow or ModeOn
	// Attacked is what the detector thinks after the switch, whatever a person
	// says: more logins fail than usual.
	Attacked bool
	// Cause is a stable code: CauseForced, or the detector's, such as
	// "pressure".
	Cause string
	// Who and Why are those of the person whose word holds, or who ended one.
	Who, Why string
	// Pressure and Threshold are in failures per minute, at the time.
	Pressure, Threshold float64
	// Until is when a person's word ends; zero for never or not applicable.
	Until time.Time
}
