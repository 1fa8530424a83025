package pages

import (
	"math"
	"time"
)

// A Level is how hard the site is being guessed at.
type Level uint8

const (
	// Quiet: failures are in the normal range.
	Quiet Level = iota
	// Slowing: above a third of the threshold; strangers are slowed.
	Slowing
	// Attack: above the threshold.
	Attack
)

// A Control is who decides about CAPTCHA mode.
type Control uint8

const (
	// Automatic: the detector.
	Automatic Control = iota
	// ForcedOn and ForcedOff: a person, for a time.
	ForcedOn
	ForcedOff
)

// Status is what the overview says first.
type Status struct {
	Level Level
	// CAPTCHA says whether the mode is on, whoever switched it.
	CAPTCHA bool
	Control Control
	// Since is when the mode was switched last; zero: not since the start.
	Since time.Time
	// By, Reason and Until belong to a forced mode.
	By     string
	Reason string
	Until  time.Time
	// OffAt is the earliest moment at which the automatic goes off; zero: not
	// known, or not cooling down.
	OffAt time.Time
	// Pressure is failures, challenges left unsolved and attempts shed, per
	// minute. The mode goes on above Threshold, strangers are slowed above
	// Slow, and the mode may go off below Leave.
	Pressure  float64
	Slow      float64
	Threshold float64
	Leave     float64
}

// Headline is the state in a few words.
func (s Status) Headline() string {
	switch {
	case s.CAPTCHA && s.Level == Attack:
		return "Under attack — CAPTCHA mode on"
	case s.CAPTCHA && s.Control == Automatic:
		return "Calming down — CAPTCHA mode still on"
	case s.CAPTCHA:
		return "CAPTCHA mode on"
	case s.Level == Attack && s.Control == ForcedOff:
		return "Under attack — CAPTCHA mode held off"
	case s.Level == Attack:
		return "Under attack"
	case s.Level == Slowing:
		return "Slowing strangers"
	}
	return "Quiet"
}

// Meaning is what the state means for the people who sign in.
func (s Status) Meaning() string {
	switch {
	case s.CAPTCHA:
		return "Everyone who signs in from a new place solves a CAPTCHA first. People at places they have used before notice nothing."
	case s.Level == Attack && s.Control == ForcedOff:
		return "Failures are above the threshold, but nobody is asked for a CAPTCHA because a person has switched it off. The limits of every account and address still hold."
	case s.Level == Attack:
		return "Failures are above the threshold. CAPTCHA mode goes on in a moment."
	case s.Level == Slowing:
		return "There are more failures than usual. Strangers wait a little between two attempts; people at places they have used before notice nothing."
	}
	return "Failures are in the normal range. Nobody is slowed or asked for a CAPTCHA because of the site as a whole."
}

// Tone is "quiet", "slow", "attack" or "on", for the colours.
func (s Status) Tone() string {
	switch {
	case s.Level == Attack:
		return "attack"
	case s.CAPTCHA:
		return "on"
	case s.Level == Slowing:
		return "slow"
	}
	return "quiet"
}

// Forced reports whether a person has overruled the automatic.
func (s Status) Forced() bool { return s.Control != Automatic }

// CoolingDown reports whether the automatic has the mode on and may end it.
func (s Status) CoolingDown() bool { return s.CAPTCHA && !s.Forced() }

// Gauge is the pressure and its thresholds on one scale.
func (s Status) Gauge() gauge {
	top := math.Max(finite(s.Threshold)*1.25, finite(s.Pressure))
	if top <= 0 {
		return gauge{}
	}
	part := func(v float64) string { return percent(finite(v) / top) }
	return gauge{
		Fill: part(s.Pressure),
		Marks: []mark{
			{Class: "slow", At: part(s.Slow)},
			{Class: "leave", At: part(s.Leave)},
			{Class: "on", At: part(s.Threshold)},
		},
	}
}

// A gauge is a bar with marks, all in percent of its width.
type gauge struct {
	Fill  string
	Marks []mark
}

type mark struct{ Class, At string }

func percent(part float64) string { return coord(100*math.Min(part, 1)) + "%" }
