package pages

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"time"

	"authguard/captchamode"
	"authguard/guard"
	"authguard/internal/control"
)

// NowView is the administration's first page: is the site under attack, and what is
// done about it. Its forms post to /mode and /unlock.
type NowView struct {
	Admin
	// Overview is what is going on.
	Overview control.Overview
}

// RenderNow draws the whole page.
func RenderNow(v NowView) ([]byte, error) { return render("now", v) }

// RenderLive draws the part of the page that changes by itself: what is inside
// the section with the id live. GET /fragment answers with it.
func RenderLive(v NowView) ([]byte, error) { return render("live", v) }

// Frame is what surrounds the page.
func (v NowView) Frame() frame {
	return frame{Title: v.Status().Verdict().Headline + " · Administration", Script: "admin.js", Wide: true}
}

// Plots are the same numbers drawn twice, for wide and for narrow windows; the
// stylesheet shows one of them.
func (v NowView) Plots() []Plot {
	return []Plot{NewPlot("wide", v.Now, v.Overview.Minutes), NewPlot("narrow", v.Now, v.Overview.Minutes)}
}

// Status is what the page says first.
func (v NowView) Status() status {
	s := status{State: v.Overview.State}
	for _, one := range slices.Backward(v.Overview.Switches) {
		if one.On != one.WasOn {
			s.Since = one.At
			break
		}
	}
	return s
}

// Newest is the minutes with the newest first, for the table behind the plot.
func (v NowView) Newest() iter.Seq2[int, captchamode.Minute] {
	return slices.Backward(v.Overview.Minutes)
}

// Zone is the abbreviation of the time zone of all times shown.
func (v NowView) Zone() string { return v.Now.Format("MST") }

// shownSwitches is how many changes of the mode the page lists.
const shownSwitches = 20

// History is the newest changes of CAPTCHA mode, newest first.
func (v NowView) History() (all []change) {
	for _, s := range slices.Backward(v.Overview.Switches[max(0, len(v.Overview.Switches)-shownSwitches):]) {
		all = append(all, change(s))
	}
	return all
}

// A change is one change of CAPTCHA mode.
type change captchamode.Switch

// To is what it changed to, in words.
func (c change) To() string {
	switch {
	case c.Cause == captchamode.ByClearing:
		return "Pressure cleared"
	case c.Cause == captchamode.BySteadiness:
		return "Steady pressure just below the threshold"
	case c.Cause == captchamode.ByPerson && c.Force.Word == captchamode.ForcedOff: // strangers may be slowed all the same
		return "CAPTCHA mode off"
	}
	to := map[string]string{"on": "CAPTCHA mode on", "slow": "Slowing strangers"}[captchamode.Switch(c).Now()]
	to = cmp.Or(to, "CAPTCHA mode off")
	if c.Cause == captchamode.ByExpiry || c.Cause == captchamode.ByPerson && c.Force.Word == captchamode.Automatic {
		return to + ", automatic again"
	}
	return to
}

// ByPerson reports whether a person made the change, and not the detector.
func (c change) ByPerson() bool {
	return c.Cause == captchamode.ByPerson || c.Cause == captchamode.ByClearing
}

// A subjectTable is one of the two tables of subjects.
type subjectTable struct {
	NowView
	Kind string // "account" or "address": the name of the form field
	Rows []control.Subject
}

// Table is the table of accounts or that of addresses.
func (v NowView) Table(kind string) subjectTable {
	return subjectTable{v, kind, map[string][]control.Subject{"account": v.Overview.Accounts, "address": v.Overview.Addresses}[kind]}
}

// nextWords is what the next attempt of a subject gets.
func nextWords(s control.Subject) string {
	words := map[string]string{"": "not known", "proceed": "free", "challenge": "gets a CAPTCHA", "wait": "waits " + guard.Spell(s.Wait)}[s.Next]
	words = cmp.Or(words, "refused")
	if s.Stopped > 0 {
		words += fmt.Sprintf("; %d stopped", s.Stopped)
	}
	return words
}

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
