package times_test

import (
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"pgregory.net/rapid"

	"authguard/internal/times"
)

func zone(t interface{ Fatal(...any) }, name string) *time.Location {
	in, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

func TestPeopleTypeTimesInManyForms(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 23, 3, 30, 15, 0, zone(t, "Europe/Berlin"))
	for text, want := range map[string][2]string{
		"now":                           {"2026-11-23T02:30:15.000Z"},
		"Today":                         {"2026-11-22T23:00:00.000Z", "2026-11-23T23:00:00.000Z"},
		" yesterday ":                   {"2026-11-21T23:00:00.000Z", "2026-11-22T23:00:00.000Z"},
		"7d":                            {"2026-11-16T02:30:15.000Z"},
		"7 d":                           {"2026-11-16T02:30:15.000Z"},
		"90m ago":                       {"2026-11-23T01:00:15.000Z"},
		"17 Nov 2026":                   {"2026-11-16T23:00:00.000Z", "2026-11-17T23:00:00.000Z"},
		"november 17, 2026":             {"2026-11-16T23:00:00.000Z", "2026-11-17T23:00:00.000Z"},
		"2026-11-17":                    {"2026-11-16T23:00:00.000Z", "2026-11-17T23:00:00.000Z"},
		"17 Nov 2026 03:04":             {"2026-11-17T02:04:00.000Z"},
		"17 Nov 2026, 03:04:05":         {"2026-11-17T02:04:05.000Z"},
		"2026-11-17 03:04 UTC":          {"2026-11-17T03:04:00.000Z"},
		"2026-11-17 03:04:05 CET":       {"2026-11-17T02:04:05.000Z"},
		"2026-11-17 03:04:05 GMT+5:30":  {"2026-11-16T21:34:05.000Z"},
		"2026-11-17T03:04":              {"2026-11-17T02:04:00.000Z"},
		"2026-11-17T03:04:05.678z":      {"2026-11-17T03:04:05.678Z"},
		"2026-11-17T03:04:05-02:30":     {"2026-11-17T05:34:05.000Z"},
		"2026-11-17 03:04:05 -03":       {"2026-11-17T06:04:05.000Z"},
		"03:04":                         {"2026-11-23T02:04:00.000Z"},
		"3:04 UTC":                      {"2026-11-23T03:04:00.000Z"},
		"2026-10-25 02:30:00 CEST":      {"2026-10-25T00:30:00.000Z"}, // the hour that there is twice
		"2026-10-25 02:30:00 CET":       {"2026-10-25T01:30:00.000Z"},
		"":                              {},
		"last tuesday":                  {},
		"17/11/2026":                    {},
		"31 Feb 2026":                   {},
		"2026-11-17 03:04 EST":          {}, // of three continents
		"2026-11-17 03:04 +99":          {},
		"2026-11-17 25:00":              {},
		strings.Repeat("2026", 100):     {},
		"2026-11-17 03:04 UTC tomorrow": {},
	} {
		got, err := times.Parse(text, now)
		if want[0] == "" {
			if err == nil || !strings.HasPrefix(err.Error(), "cannot read ") || len(err.Error()) > 100 {
				t.Errorf("%q: %v, %v", text, got, err)
			}
			continue
		}
		if want[1] == "" {
			want[1] = want[0]
		}
		if from, to := times.RFC3339(got.From), times.RFC3339(got.To); err != nil || from != want[0] || to != want[1] {
			t.Errorf("%q: from %s to %s, %v; want %v", text, from, to, err, want)
		}
	}
}

// Printed times parse back, in any zone.
func TestParseReadsWhatIsPrinted(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		in := zone(r, rapid.SampledFrom([]string{"UTC", "Europe/Berlin", "Europe/London", "America/New_York",
			"Asia/Kolkata", "Asia/Kathmandu", "America/Sao_Paulo", "Australia/Lord_Howe", "Pacific/Kiritimati"}).Draw(r, "zone"))
		const year = 365 * 24 * 3600 * 1000
		at := time.UnixMilli(rapid.Int64Range(30*year, 130*year).Draw(r, "at")).In(in)
		second := at.Truncate(time.Second)
		for text, want := range map[string]time.Time{times.Text(at): second, times.RFC3339(at): at,
			at.UTC().Format(time.RFC3339): second, times.Text(at.UTC()): second} {
			if got, err := times.Parse(text, at); err != nil || !got.From.Equal(want) || !got.To.Equal(want) {
				r.Fatalf("%q: %v, %v; want %v", text, got, err, want)
			}
		}
		if got, err := times.Parse(times.Day(at), at); err != nil || at.Before(got.From) || !at.Before(got.To) {
			r.Fatalf("%q: %v, %v", times.Day(at), got, err)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"today", "7d", "17 Nov 2026 03:04", "2026-11-17 03:04:05 CET", "2026-11-17T03:04:05+02:00"} {
		f.Add(text)
	}
	now := time.Date(2026, 11, 23, 3, 30, 15, 0, zone(f, "Europe/Berlin"))
	f.Fuzz(func(t *testing.T, text string) {
		got, err := times.Parse(text, now)
		if err != nil {
			return
		}
		if got.To.Before(got.From) || got.To.Sub(got.From) > 25*time.Hour {
			t.Fatalf("%q: %v", text, got)
		}
		if again, err := times.Parse(times.RFC3339(got.From), now); got.From.Year() > 0 && (err != nil || !again.From.Equal(got.From.Truncate(time.Millisecond))) {
			t.Fatalf("%q: %v, %v; want %v", text, again, err, got.From)
		}
	})
}
