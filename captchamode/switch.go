package captchamode

import (
	"slices"
	"time"
)

// A Cause is why the mode switched: a closed set.
type Cause string

const (
	ByFailureRate Cause = "failure-rate" // crossed the threshold
	ByCoolDown    Cause = "cool-down"    // low for the whole cool-down
	ByPerson      Cause = "forced"       // an administrator's override
	ByExpiry      Cause = "expired"      // an override ended
	ByClearing    Cause = "cleared"      // an administrator cleared the failure rate
	ByPolicy      Cause = "policy"       // monitoring mode was turned on or off
	BySteadiness  Cause = "steady"       // just below the threshold for many hours; no switch
	// ByDailyFailures: the failures of a day are elevated, or no longer.
	ByDailyFailures Cause = "daily-failures"
)

// A Switch is a change of the mode, of the level, or of the override. It may also be an event without a change:
// ByClearing while the site is calm, or BySteadiness.
type Switch struct {
	At          time.Time `json:"at"`
	On          bool      `json:"on"`     // CAPTCHA mode, after
	WasOn       bool      `json:"was_on"` // and before
	Level       Level     `json:"level"`
	WasLevel    Level     `json:"was_level"`
	Cause       Cause     `json:"cause"`
	Override    Override  `json:"force"`             // after the switch; who and why are those of the release or clearing
	Elevated    bool      `json:"elevated,omitzero"` // more failures of unknown clients in a day than usual
	Attacked    bool      `json:"attacked,omitzero"` // the site is, after; whatever an administrator decides
	FailureRate int       `json:"failure_rate"`      // of a minute; for ByDailyFailures, both are of a day
	Threshold   float64   `json:"threshold"`
	// Adopted means that another node made the switch, records it and raises the alert.
	Adopted bool `json:"adopted,omitzero"`
	// Monitored means that the failure rate is only monitored (Config.Monitor): the Level has no effect.
	Monitored bool `json:"monitored,omitzero"`
	// Resumed means that such a level ended less than a day ago: the attack continues.
	Resumed bool `json:"resumed,omitzero"`
}

const keepSwitches = 200

// Was returns the mode before the switch: "on", "throttling" or "off".
func (s Switch) Was() string { return stateName(s.WasOn, s.WasLevel, s.Monitored) }

// Now returns the mode after the switch: "on", "throttling" or "off".
func (s Switch) Now() string { return stateName(s.On, s.Level, s.Monitored) }

// Would returns the mode that monitoring prevents after the switch; "" without monitoring, or with an override.
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

func (m *Mode) switchTo(f Override, cause Cause, adopted bool, now time.Time) {
	s := Switch{
		At: now, WasOn: m.last.On, WasLevel: m.last.Level, Level: m.detector.Level, Cause: cause,
		Override: f, FailureRate: m.failureRate().Total(), Threshold: m.threshold(), Adopted: adopted,
		Monitored: m.config.Monitor, Elevated: m.detector.Daily.Elevated,
	}
	// An attack that raised the failure rate of a minute is over after the cool-down, even if the day is still elevated.
	s.Attacked = s.Level != Calm || s.Elevated && (cause == ByDailyFailures || m.last.Attacked && cause != ByCoolDown)
	if cause == ByDailyFailures {
		s.FailureRate, s.Threshold = m.detector.Daily.Failures(), m.detector.Daily.Threshold()
	}
	s.Resumed = s.Level > s.WasLevel && m.detector.resumes(s.Level, now)
	switch {
	case cause == ByClearing: // the switch records who cleared; the override keeps its administrator
	case f.State == Automatic:
		m.override = Override{} // the switch records who released it
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
