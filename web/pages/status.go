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

// Headline is the state in a few words.
func (s status) Headline() string {
	switch {
	case s.On && s.Level == captchamode.Attack:
		return "Under attack — CAPTCHA mode on"
	case s.On && !s.Forced():
		return "Calming down — CAPTCHA mode still on"
	case s.On:
		return "CAPTCHA mode on"
	case s.Level == captchamode.Attack && s.Force.Word == captchamode.ForcedOff:
		return "Under attack — CAPTCHA mode held off"
	case s.Level == captchamode.Attack:
		return "Under attack"
	case s.Level == captchamode.Slow:
		return "Slowing strangers"
	}
	return "Quiet"
}

// Meaning is what the state means for people who sign in.
func (s status) Meaning() string {
	switch {
	case s.On:
		return "Everyone who signs in from a new place solves a CAPTCHA first. People at places they have used before notice nothing."
	case s.Level == captchamode.Attack && s.Force.Word == captchamode.ForcedOff:
		return "Failures are above the threshold, but nobody is asked for a CAPTCHA because a person has switched it off. The limits of every account and address still hold."
	case s.Level == captchamode.Attack:
		return "Failures are above the threshold. CAPTCHA mode goes on in a moment."
	case s.Level == captchamode.Slow:
		return "There are more failures than usual. Strangers wait a little between two attempts; people at places they have used before notice nothing."
	}
	return "Failures are in the normal range. Nobody is slowed or asked for a CAPTCHA because of the site as a whole."
}

// Tone is "quiet", "slow", "attack" or "on", for the colours.
func (s status) Tone() string {
	switch {
	case s.Level == captchamode.Attack:
		return "attack"
	case s.On:
		return "on"
	case s.Level == captchamode.Slow:
		return "slow"
	}
	return "quiet"
}

// Part is where a rate is on the gauge of pressure and thresholds.
func (s status) Part(rate float64) string {
	top := max(finite(s.Threshold)*1.25, float64(s.Pressure.Total()), 1)
	return percent(finite(rate) / top)
}

// Now is where the pressure is.
func (s status) Now() string { return s.Part(float64(s.Pressure.Total())) }

func percent(part float64) string { return coord(100*min(part, 1)) + "%" }
