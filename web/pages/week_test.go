package pages

import (
	"strings"
	"testing"
	"time"

	"authguard/captchamode"
	"authguard/internal/metrics"
)

// office is a week in which people work from eight to six, UTC.
func office() (hours []captchamode.Expected) {
	for i := range weekHours {
		h := captchamode.Expected{Threshold: 30, Hour: captchamode.Hour{Logins: 2, FailureRate: 1, Weeks: 3, Calm: 3}}
		if hour, day := i%24, i/24; hour >= 8 && hour < 18 && day < 5 {
			h.Threshold, h.Logins, h.FailureRate = 200, 40, 6
		}
		hours = append(hours, h)
	}
	return hours
}

// Whatever zone the reader is in, each hour stands where it is by their clock.
func TestTheWeekIsDrawnByTheReadersClock(t *testing.T) {
	t.Parallel()
	for _, zone := range []*time.Location{time.UTC, time.FixedZone("", 3600), time.FixedZone("", -7*3600), time.FixedZone("", 5*3600+1800)} {
		now := noon.In(zone)
		d := drawn(t, weekPlot("wide", now, office()))
		points := weekOf(mondayOf(now), office())
		if len(points) != weekHours || points[0].Start.Weekday() != time.Monday || points[0].Start.Hour() != 0 || points[0].Start.After(now) || now.Sub(points[0].Start) > 8*24*time.Hour {
			t.Fatalf("%s: begins at %v", now, points[0].Start)
		}
		for _, p := range points {
			utc := p.Start.UTC()
			day := utc.Weekday() != time.Saturday && utc.Weekday() != time.Sunday
			if want := map[bool]float64{true: 200, false: 30}[day && utc.Hour() >= 8 && utc.Hour() < 18]; p.Threshold != want {
				t.Fatalf("%v: the threshold is %v, want %v", p.Start, p.Threshold, want)
			}
		}
		ticks := strings.Join(d.texts("tick"), " ")
		label := map[bool]string{true: "now 200", false: "now 30"}[noon.Weekday() != time.Saturday && noon.Weekday() != time.Sunday]
		if !strings.HasSuffix(ticks, "Mon Tue Wed Thu Fri Sat Sun") || len(d.of("line on")) != 1 || d.texts("line-label")[0] != label || strings.Count(d.of("bar")[0].D, "Z") != weekHours {
			t.Errorf("%s: %s\n%+v", now, ticks, d)
		}
	}
	v := NowView{Admin: around("/"), Series: metrics.Series{Week: office()}}
	if rows := v.WeekTable(); len(rows) != 24 || rows[9].Hour != "09:00" || len(rows[9].Days) != 7 {
		t.Errorf("%+v", rows)
	}
}

func TestBeforeAWeekWasSeenThePageSaysSo(t *testing.T) {
	t.Parallel()
	v := attacked()
	v.Series.Week, v.Show = nil, "week"
	page, err := RenderNow(v)
	if err != nil || !strings.Contains(string(page), "The threshold follows the hour of the week after one week") || strings.Contains(string(page), "week-table") {
		t.Errorf("%v\n%s", err, page)
	}
}

// Failures per login are shown; nothing else follows from them.
func TestFailuresPerLoginAreShown(t *testing.T) {
	t.Parallel()
	for want, counts := range map[string]metrics.Counts{
		"": {Refused: 7}, "1.5": {Failures: 3, Logins: 2}, "1,234 to 0": {Failures: 1234}, "0.0": {Logins: 9},
	} {
		v := NowView{Series: metrics.Series{Points: []metrics.Point{{Counts: counts}, {}}}}
		if got := v.PerLogin(); got != want {
			t.Errorf("%+v: %q, want %q", counts, got, want)
		}
	}
	page, err := RenderNow(attacked())
	if err != nil || !strings.Contains(string(page), "<dt>Failures per success</dt><dd>3.5 ") {
		t.Errorf("%v: the page does not say it", err)
	}
}
