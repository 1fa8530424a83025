package pages

import (
	"math"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/dustin/go-humanize"

	"authguard/guard"
	"authguard/internal/events"
	"authguard/internal/replay"
	"authguard/internal/times"
)

// Sentence capitalizes the first letter and adds a full stop.
func Sentence(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	text = string(unicode.ToUpper(first)) + text[size:]
	if last, _ := utf8.DecodeLastRuneInString(text); unicode.IsPunct(last) {
		return text
	}
	return text + "."
}

func comma(n int) string { return humanize.Comma(int64(n)) }

// short abbreviates a number: 333k for 333,333.
func short(v float64) string {
	switch v = replay.Finite(v); {
	case v >= 999_500:
		return strconv.FormatFloat(math.Round(v/1e5)/10, 'f', -1, 64) + "M"
	case v >= 9_950:
		return strconv.FormatFloat(math.Round(v/1e3), 'f', -1, 64) + "k"
	}
	return rateWords(v)
}

// rateWords writes a rate per minute: whole numbers from 10, one decimal below.
func rateWords(v float64) string {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "–"
	case math.Abs(v) >= 10 || v == math.Trunc(v):
		return comma(int(math.Round(v)))
	}
	return strconv.FormatFloat(v, 'f', 1, 64)
}

// A moment is one time as users and machines read it, relative to now.
type moment struct {
	ISO  string // empty for the zero time
	Text string // "14:05", with the date if it is not today
	Full string // see times.Text
	Ago  string // "3 minutes ago", "in 2 hours", "now"
}

func newMoment(now, t time.Time) moment {
	if t.IsZero() {
		return moment{}
	}
	local := t.In(now.Location())
	text := times.Clock(local)
	if day := times.Day(local); day != times.Day(now) {
		text = day + " " + text
	}
	return moment{ISO: times.Second(t), Text: text, Full: times.Text(local), Ago: agoWords(now, t)}
}

// agoWords is coarse, because the page redraws it every two seconds and it must not flicker.
func agoWords(now, t time.Time) string {
	d := now.Sub(t)
	switch {
	case d > -time.Second && d < 10*time.Second:
		return "now"
	case d < 0:
		return "in " + guard.Spell(-d)
	case d < time.Minute:
		return "under a minute ago"
	case d < time.Hour:
		return events.Count(int(d/time.Minute), "minute") + " ago"
	case d < 48*time.Hour:
		return events.Count(int(d/time.Hour), "hour") + " ago"
	}
	return events.Count(int(d/(24*time.Hour)), "day") + " ago"
}
