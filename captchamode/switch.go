package captchamode

import "time"

// A Force is a person's word on the mode (R21). The zero Force leaves it to
// the detector.
type Force struct {
	Word  Word      `json:"word"`
	Who   string    `json:"who"`
	Why   string    `json:"why"`
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
}

// A Word is what a person said of the mode.
type Word string

const (
	Automatic Word = ""
	ForcedOn  Word = "on"
	ForcedOff Word = "off"
)

// A Cause is why the mode switched: a closed set.
type Cause string

const (
	ByPressure Cause = "pressure"  // the threshold was crossed
	ByCoolDown Cause = "cool-down" // it was quiet for the whole cool-down
	ByPerson   Cause = "forced"    // somebody said so
	ByExpiry   Cause = "expired"   // a person's word ran out
)

// A Switch is one change of what the site does: of the mode, of the level, or
// of who decides.
type Switch struct {
	At        time.Time `json:"at"`
	On        bool      `json:"on"`     // CAPTCHA mode, after
	WasOn     bool      `json:"was_on"` // and before
	Level     Level     `json:"level"`
	WasLevel  Level     `json:"was_level"`
	Cause     Cause     `json:"cause"`
	Force     Force     `json:"force"` // in force after
	Pressure  int       `json:"pressure"`
	Threshold float64   `json:"threshold"`
	// Adopted means that another node of the site switched, keeps the record
	// and raises the alarm; this one follows.
	Adopted bool `json:"adopted,omitzero"`
}

// keepSwitches is how many switches are kept in memory.
const keepSwitches = 200

// Was is what the site did before the switch: "on", "slow" or "off".
func (s Switch) Was() string { return word(s.WasOn, s.WasLevel) }

// Now is what the site does after the switch: "on", "slow" or "off".
func (s Switch) Now() string { return word(s.On, s.Level) }

func word(on bool, level Level) string {
	switch {
	case on:
		return "on"
	case level != Calm:
		return "slow"
	}
	return "off"
}
