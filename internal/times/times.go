// Package times formats and parses times and durations, and counts events by time in bounded memory ([Ring], [Counts]).
//
// Times have one form for people, of which pages also show parts, and RFC 3339 for programs. The settings, the HTTP API
// and the commands share durations such as 30s, 1h30m, 7d and 2w, so that each can parse what another prints.
package times

import "time"

// Text formats a time for people, in its own zone: 2026-03-02 14:05:10 UTC. The zero time is "-".
func Text(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Format("2006-01-02 15:04:05 MST")
}

// Day returns the date in Text.
func Day(t time.Time) string { return t.Format(time.DateOnly) }

// Clock returns the hour and the minute in Text.
func Clock(t time.Time) string { return t.Format("15:04") }

// Date returns a date as people type it: 2 Mar 2026.
func Date(t time.Time) string { return t.Format("2 Jan 2006") }

// Zone returns the abbreviation of the time's zone in Text.
func Zone(t time.Time) string { return t.Format("MST") }

// Later returns the later of two times.
func Later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Second is RFC3339 without milliseconds, which pages do not show.
func Second(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// RFC3339 formats a time for programs, in UTC and with milliseconds: 2026-03-02T14:05:10.000Z. The zero time is empty.
func RFC3339(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z07:00")
}
