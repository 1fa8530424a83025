package pages

import (
	"cmp"
	"fmt"
	"iter"
	"net/url"
	"slices"

	"authguard/captchamode"
	"authguard/guard"
	"authguard/internal/control"
	"authguard/internal/events"
)

// AdminView is the administrator's overview. Its forms post to /mode, /unlock,
// /forget and /pass; the look-up is a GET of / with account and address.
type AdminView struct {
	// CSRF goes into every form, as a hidden field named csrf.
	CSRF string
	// Realm is the one that is shown, and Realms are the names of all.
	Realm  string
	Realms []string
	// User is who is signed in.
	User string
	// Overview is what is going on. Times are shown in the location of its Now.
	control.Overview
	// Notice is the outcome of the form that was sent last; zero at first.
	Notice Notice
	LookUp LookUp
	// Pass is a one-time code that was just made; zero for none.
	Pass control.Code
}

// A Notice is the outcome of a form.
type Notice struct {
	// Text is a sentence of the handler's own; empty shows nothing.
	Text string
	// Subject is the account or address it is about, as it was typed; shown
	// after the text.
	Subject string
	// Bad marks an outcome that needs another try.
	Bad bool
}

// RenderAdmin draws the whole page.
func RenderAdmin(v AdminView) ([]byte, error) { return render("admin", v) }

// RenderLive draws the part of the page that changes by itself: what is inside
// the section with the id live. GET /fragment answers with it.
func RenderLive(v AdminView) ([]byte, error) { return render("live", v) }

// At is a path of the administration, for the realm that is shown.
func (v AdminView) At(path string) string { return At(path, v.Realm) }

// Of is the overview of a realm.
func (v AdminView) Of(realm string) string { return At("/", realm) }

// Elsewhere is the realm that is shown, if that is not the default one.
func (v AdminView) Elsewhere() string { return events.RealmName(v.Realm) }

// At is a path of the administration, for a realm.
func At(path, realm string) string {
	if realm = events.RealmName(realm); realm == "" {
		return path
	}
	return path + "?realm=" + url.QueryEscape(realm)
}

// Others reports whether there is more than one realm to choose from.
func (v AdminView) Others() bool { return len(v.Realms) > 1 }

// Frame is what surrounds the page.
func (v AdminView) Frame() frame {
	return frame{Title: v.Status().Verdict().Headline + " · Administration", Script: "admin.js", Wide: true}
}

// Plots are the same numbers drawn twice, for wide and for narrow windows; the
// stylesheet shows one of them.
func (v AdminView) Plots() []Plot {
	return []Plot{NewPlot("wide", v.Now, v.Minutes), NewPlot("narrow", v.Now, v.Minutes)}
}

// Status is what the page says first.
func (v AdminView) Status() status {
	s := status{State: v.State}
	for _, one := range slices.Backward(v.Switches) {
		if one.On != one.WasOn {
			s.Since = one.At
			break
		}
	}
	return s
}

// Newest is the minutes with the newest first, for the table behind the plot.
func (v AdminView) Newest() iter.Seq2[int, captchamode.Minute] { return slices.Backward(v.Minutes) }

// Zone is the abbreviation of the time zone of all times shown.
func (v AdminView) Zone() string { return v.Now.Format("MST") }

// shownSwitches is how many changes of the mode the page lists.
const shownSwitches = 20

// History is the newest changes of CAPTCHA mode, newest first.
func (v AdminView) History() (all []change) {
	for _, s := range slices.Backward(v.Switches[max(0, len(v.Switches)-shownSwitches):]) {
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
	AdminView
	Kind string // "account" or "address": the name of the form field
	Rows []control.Subject
}

// Table is the table of accounts or that of addresses.
func (v AdminView) Table(kind string) subjectTable {
	return subjectTable{v, kind, map[string][]control.Subject{"account": v.Accounts, "address": v.Addresses}[kind]}
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
