package times

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// A Span is the period that a typed time names: a day from its start to its end, or one moment.
type Span struct{ From, To time.Time }

// Unreadable is the error of [Parse]; it reads well after the field's name.
type Unreadable string

func (u Unreadable) Error() string {
	return fmt.Sprintf("cannot read %.40q. Try 17 Nov 2026 or 7d", string(u))
}

// Parse reads what [Text], [Day], [Clock] and [RFC3339] print, a date such as 17 Nov 2026 with or without a time, today,
// yesterday, now, and an age such as 7d. The time zone is now's, unless the text names another. A time without a date is
// today's. Numbers with slashes are errors, because 4/5/2026 is two different days. The error is Unreadable.
func Parse(text string, now time.Time) (Span, error) {
	words := strings.Join(strings.Fields(strings.ReplaceAll(text, ",", " ")), " ")
	switch strings.ToLower(words) {
	case "now":
		return Span{now, now}, nil
	case "today":
		return dayOf(now), nil
	case "yesterday":
		return dayOf(now.AddDate(0, 0, -1)), nil
	}
	if ago, err := ParseDuration(strings.ReplaceAll(strings.TrimSuffix(words, " ago"), " ", "")); err == nil {
		at := now.Add(-ago)
		return Span{at, at}, nil
	}
	if clockOnly.MatchString(words) {
		words = now.Format("2006-01-02 ") + words
	}
	for _, layout := range dates {
		if day, err := time.ParseInLocation(layout, words, now.Location()); err == nil {
			return dayOf(day), nil
		}
	}
	if at, ok := parseMoment(words, now.Location()); ok {
		return Span{at, at}, nil
	}
	return Span{}, Unreadable(text)
}

func dayOf(t time.Time) Span {
	y, m, d := t.Date()
	return Span{time.Date(y, m, d, 0, 0, 0, 0, t.Location()), time.Date(y, m, d+1, 0, 0, 0, 0, t.Location())}
}

var (
	dates     = [...]string{time.DateOnly, "2 Jan 2006", "2 January 2006", "Jan 2 2006", "January 2 2006"}
	clocks    = [...]string{"15:04", "15:04:05"}
	clockOnly = regexp.MustCompile(`^\d{1,2}:\d\d`)
	// zoned is a time with its zone: a name, an offset, or an offset from UTC as browsers print it (GMT+5:30).
	zoned = regexp.MustCompile(`^(.*:\d\d(?:\.\d+)?) ?(?i:(Z|UTC|GMT)?([+-])(\d{1,2}):?(\d\d)?|([A-Z]{1,5}))$`)
)

// parseMoment parses a date with a time. Abbreviations of zones are not unique, so only those of the location count.
func parseMoment(words string, in *time.Location) (time.Time, bool) {
	name := ""
	if m := zoned.FindStringSubmatch(words); m != nil {
		words, name = m[1], strings.ToUpper(m[6])
		switch {
		case m[3] != "":
			hours, _ := strconv.Atoi(m[4]) // the pattern admits only digits
			minutes, _ := strconv.Atoi("0" + m[5])
			if hours > 14 || minutes > 59 {
				return time.Time{}, false
			}
			seconds := 60 * (60*hours + minutes)
			if m[3] == "-" {
				seconds = -seconds
			}
			in = time.FixedZone("", seconds)
		case name == "Z" || name == "UTC":
			name, in = "", time.UTC
		}
	}
	layout := func(date, between, clock string) (time.Time, bool) {
		if name == "" {
			at, err := time.ParseInLocation(date+between+clock, words, in)
			return at, err == nil
		}
		at, err := time.ParseInLocation(date+between+clock+" MST", words+" "+name, in)
		return at, err == nil && at.Location() == in
	}
	for _, date := range dates {
		for _, clock := range clocks {
			for _, between := range [...]string{" ", "T"} {
				if at, ok := layout(date, between, clock); ok {
					return at, true
				}
			}
		}
	}
	return time.Time{}, false
}
