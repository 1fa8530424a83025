package pages

import (
	"time"

	"authguard/captchamode"
)

// A status is what the overview says first: the state of CAPTCHA mode.
type status struct {
	captchamode.State
	// Since is when the mode was switched last; zero: not since the start.
	Since time.Time
}

// Forced reports whether a person has overruled the detector.
func (s status) Forced() bool { return s.Force.Word != captchamode.Automatic }

// CoolingDown reports whether the detector has the mode on and may end it.
func (s status) CoolingDown() bool { return s.On && !s.Forced() }

// OffAt is the earliest moment at which the detector switches the mode off;
// zero: not known, or not cooling down.
func (s status) OffAt() time.Time {
	if s.Level != captchamode.Attack || s.Low.IsZero() {
		return time.Time{}
	}
	return s.Low.Add(s.CoolDown)
}

// A verdict is what a state is called, what it means for people who sign in, and
// its tone for the colours: "quiet", "slow", "attack" or "on".
type verdict struct{ Headline, Meaning, Tone string }

// Verdict puts the state into words.
func (s status) Verdict() verdict {
	const solve = "Everyone who signs in from a new place solves a CAPTCHA first. People at places they have used before notice nothing."
	switch attack := s.Level == captchamode.Attack; {
	case s.On && attack:
		return verdict{"Under attack — CAPTCHA mode on", solve, "attack"}
	case s.CoolingDown():
		return verdict{"Calming down — CAPTCHA mode still on", solve, "on"}
	case s.On:
		return verdict{"CAPTCHA mode on", solve, "on"}
	case attack && s.Force.Word == captchamode.ForcedOff:
		return verdict{"Under attack — CAPTCHA mode held off", "Failures are above the threshold, but nobody is asked for a CAPTCHA because a person has switched it off. " +
			"The limits of every account and address still hold.", "attack"}
	case attack:
		return verdict{"Under attack", "Failures are above the threshold. CAPTCHA mode goes on in a moment.", "attack"}
	case s.Level == captchamode.Slow:
		return verdict{"Slowing strangers", "There are more failures than usual. Strangers wait a little between two attempts; people at places they have used before notice nothing.", "slow"}
	}
	return verdict{"Quiet", "Failures are in the normal range. Nobody is slowed or asked for a CAPTCHA because of the site as a whole.", "quiet"}
}

// Part is where a rate is on the gauge of pressure and thresholds.
func (s status) Part(rate float64) string {
	top := max(finite(s.Threshold)*1.25, float64(s.Pressure.Total()), 1)
	return percent(finite(rate) / top)
}

// Now is where the pressure is.
func (s status) Now() string { return s.Part(float64(s.Pressure.Total())) }

func percent(part float64) string { return coord(100*min(part, 1)) + "%" }
