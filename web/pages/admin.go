package pages

import (
	"io"
	"time"
)

// AdminView is the administrator's overview. Its forms post to /mode, /unlock
// and /forget; the look-up is a GET of / with account and address.
type AdminView struct {
	Site Site
	// CSRF goes into every form, as a hidden field named csrf.
	CSRF string
	// User is who is signed in.
	User string
	// Now is the moment of all numbers. Times are shown in its location.
	Now time.Time
	// Notice is the outcome of the form that was sent last; zero at first.
	Notice   Notice
	Warnings []Warning
	Status   Status
	// Minutes are the plot's numbers, oldest first: an hour, as a rule.
	Minutes []MinutePoint
	// Addresses and Accounts are the subjects with the most failures in the
	// last hour, most first.
	Addresses []Subject
	Accounts  []Subject
	// Switches is the history of CAPTCHA mode, newest first.
	Switches []Switch
	LookUp   LookUp
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

// A Warning is something to mend, shown above everything else.
type Warning struct {
	Title string
	// Text says what it means and what to do.
	Text string
	// Setting is the line to put into the configuration; empty leaves it out.
	Setting string
}

// A Subject is one account or address in a table.
type Subject struct {
	// Name is the account or the address, exactly as the unlock form sends it
	// back.
	Name     string
	Failures int
	LastSeen time.Time
	// Status says what happens to its next attempt, in a few words; empty is
	// "free".
	Status string
	// Closed marks a status that keeps people out or asks them for more.
	Closed bool
}

// A Switch is one change of CAPTCHA mode.
type Switch struct {
	At time.Time
	// To is what it changed to, in words: "CAPTCHA mode on".
	To string
	// By is a person, or empty for the machine.
	By     string
	Reason string
	// Until is when a person's word ends; zero for none.
	Until time.Time
}

// RenderAdmin writes the whole page.
func RenderAdmin(w io.Writer, v AdminView) error { return render(w, "admin", v) }

// RenderLive writes the part of the page that changes by itself: what is inside
// the section with the id live. GET /fragment answers with it.
func RenderLive(w io.Writer, v AdminView) error { return render(w, "live", v) }

// Frame is what surrounds the page.
func (v AdminView) Frame() frame {
	return frame{Site: v.Site, Title: v.Status.Headline() + " · Administration", Script: "admin.js", Wide: true}
}

// Plots are the same numbers drawn twice, for wide and for narrow windows; the
// stylesheet shows one of them.
func (v AdminView) Plots() []Plot {
	return []Plot{NewPlot("wide", v.Now, v.Minutes), NewPlot("narrow", v.Now, v.Minutes)}
}

// Newest is the minutes with the newest first, for the table behind the plot.
func (v AdminView) Newest() []MinutePoint {
	rows := make([]MinutePoint, 0, len(v.Minutes))
	for i := len(v.Minutes) - 1; i >= 0; i-- {
		rows = append(rows, v.Minutes[i])
	}
	return rows
}

// Zone is the abbreviation of the time zone of all times shown.
func (v AdminView) Zone() string { return v.Now.Format("MST") }

// a subjectTable is one of the two tables of subjects.
type subjectTable struct {
	Now  time.Time
	CSRF string
	Kind string // "account" or "address": the name of the form field
	Rows []Subject
}
