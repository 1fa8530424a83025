package pages

import (
	"fmt"
	"time"
)

// LookUp is the form that explains one account or address, and its answer.
type LookUp struct {
	// Account and Address are what was asked for, as typed.
	Account string
	Address string
	// Problem is a sentence of the handler's own, for what could not be
	// looked up.
	Problem string
	// Result is nil before anything was asked.
	Result *Explain
}

// Explain is what the guard knows about an account, an address, or both.
type Explain struct {
	// Summary is what would happen to the next attempt, in one sentence.
	Summary string
	// Open says that the next attempt would be let through to its password.
	Open   bool
	Limits []LimitLine
	// Known says that the account has signed in from the address before.
	Known bool
}

// A LimitLine is how one limit stands.
type LimitLine struct {
	// Subject is what is counted: "account", "address", "network", "pair".
	Subject string
	// Name is whose count it is.
	Name   string
	Used   int
	Limit  int
	Window time.Duration
	// Then is what happens beyond, in words: "a CAPTCHA", "refused until it
	// frees".
	Then string
	// FreesAt is when the next attempt has room again; zero where it has room
	// now.
	FreesAt time.Time
	// Monitor marks a limit that is recorded and not enforced.
	Monitor bool
}

// Asked reports whether there is an answer to show.
func (l LookUp) Asked() bool { return l.Result != nil }

// Full reports whether the limit has no room left.
func (l LimitLine) Full() bool { return l.Limit > 0 && l.Used >= l.Limit }

// Words is how the limit stands, in one sentence.
func (l LimitLine) Words() string {
	return fmt.Sprintf("%s of %s in any %s", comma(l.Used), countWords(l.Limit, "failure"), windowWords(l.Window))
}

// Part is the filled part of the line's bar.
func (l LimitLine) Part() string {
	if l.Limit <= 0 {
		return percent(0)
	}
	return percent(float64(max(l.Used, 0)) / float64(l.Limit))
}

// windowWords is "minute", "hour", "24 hours": the words after "any".
func windowWords(d time.Duration) string {
	switch d {
	case time.Second:
		return "second"
	case time.Minute:
		return "minute"
	case time.Hour:
		return "hour"
	}
	return DurationWords(d)
}
