package captchamode

import (
	"slices"
	"time"
)

// A Cause is why the mode switched: a closed set.
type Cause string

const (
	ByFailureRate Cause = "failure-rate" // the threshold was crossed
	ByCoolDown    Cause = "cool-down"    // it was quiet for the whole cool-down
	ByPerson      Cause = "forced"       // somebody said so
	ByExpiry      Cause = "expired"      // an override ended
	ByClearing    Cause = "cleared"      // somebody cleared the pressure
	ByPolicy      Cause = "policy"       // the policy enforces the mode again, or only watches from now on
	BySteadiness  Cause = "steady"       // for many hours just below the threshold: nothing switched
)

// A Switch is one change of what the site does (of the mode, of the level, or of
// who decides), or something to know about it that changes nothing: ByClearing of
// a calm site, BySteadiness.
type Switch struct {
	At          time.Time `json:"at"`
	On          bool      `json:"on"`     // CAPTCHA mode, after
	WasOn       bool      `json:"was_on"` // and before
	Level       Level     `json:"level"`
	WasLevel    Level     `json:"was_level"`
	Cause       Cause     `json:"cause"`
	Override    Override  `json:"force"` // in force after; who and why are those of whoever released or cleared it
	FailureRate int       `json:"failure_rate"`
	Threshold   float64   `json:"threshold"`
	// Adopted means that another node of the site switched, keeps the record
	// and raises the alarm; this one follows.
	Adopted bool `json:"adopted,omitzero"`
	// Monitored means that the pressure is only watched (Config.Monitor): a Level above
	// calm asks nobody for anything.
	Monitored bool `json:"monitored,omitzero"`
	// Resumed means that a level like this one ended less than a day ago: the same attack
	// goes on.
	Resumed bool `json:"resumed,omitzero"`
}

// keepSwitches is how many switches are kept in memory.
const keepSwitches = 200

// Was is what the site did before the switch: "on", "throttling" or "off".
func (s Switch) Was() string { return stateName(s.WasOn, s.WasLevel, s.Monitored) }

// Now is what the site does after the switch: "on", "throttling" or "off".
func (s Switch) Now() string { return stateName(s.On, s.Level, s.Monitored) }

// Would is what the site would do after the switch, were it not only watching; empty if
// it does that, or a person said otherwise.
func (s Switch) Would() string {
	if !s.Monitored || s.Override.State != Automatic {
		return ""
	}
	return stateName(s.Level == Attack, s.Level, false)
}

func stateName(on bool, level Level, watched bool) string {
	switch {
	case on:
		return "on"
	case level != Calm && !watched:
		return "throttling"
	}
	return "off"
}

// switchTo puts f in force, notes the change and tells of it.
func (m *Mode) switchTo(f Override, cause Cause, adopted bool, now time.Time) {
	s := Switch{
		At: now, WasOn: m.last.On, WasLevel: m.last.Level, Level: m.detector.Level, Cause: cause,
		Override: f, FailureRate: m.failureRate().Total(), Threshold: m.threshold(), Adopted: adopted, Monitored: m.config.Monitor,
	}
	s.Resumed = s.Level > s.WasLevel && m.detector.resumes(s.Level, now)
	switch {
	case cause == ByClearing: // who cleared stands in the switch; an override stays whose it was
	case f.State == Automatic:
		m.override = Override{} // who released it stands in the switch
	default:
		m.override = f
	}
	s.On = m.show()
	m.last = s
	if len(m.switches) == keepSwitches {
		m.switches = slices.Delete(m.switches, 0, 1)
	}
	m.switches = append(m.switches, s)
	m.onSwitch(s)
}
