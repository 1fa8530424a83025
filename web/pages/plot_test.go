package pages

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"authguard/captchamode"
	"authguard/internal/control"
)

func number(t testing.TB, s string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestBarsStackToTheTotal(t *testing.T) {
	t.Parallel()
	m := captchamode.Minute{Start: noon.Truncate(time.Minute), Failures: 50, Unsolved: 30, Overload: 20}
	c := newCanvas("wide", noon, control.LastHour, 100)
	bars := c.stack(m)
	if len(bars) != 3 || bars[0].Class != "failures" || bars[1].Class != "unsolved" || bars[2].Class != "shed" {
		t.Fatalf("bars: %+v", bars)
	}
	if top := number(t, bars[2].Y); top != number(t, coord(c.y(100))) {
		t.Errorf("the stack ends at %v, not at 100", top)
	}
	if base := number(t, bars[0].Y) + number(t, bars[0].H); base != c.Bottom {
		t.Errorf("the stack starts at %v, not on the axis", base)
	}
}

func TestTimeRunsFromLeftToRight(t *testing.T) {
	t.Parallel()
	points := hour(0)
	c := newCanvas("wide", noon, control.LastHour, 60)
	first, w := c.column(points[0].Start)
	last, _ := c.column(points[59].Start)
	if first != c.Left || coord(last+w) != coord(c.Right) {
		t.Errorf("columns from %v to %v", first, last+w)
	}
	want := []string{"11:10", "11:20", "11:30", "11:40", "11:50", "12:00"}
	for i, tick := range c.Times() {
		if tick.Text != want[i] {
			t.Errorf("tick %d is %s", i, tick.Text)
		}
	}
}

func TestADayHasItsDateWhereItBegins(t *testing.T) {
	t.Parallel()
	zone := time.FixedZone("CEST", 7200)
	var texts []string
	for _, tick := range newCanvas("wide", noon.In(zone), control.LastDay, 60).Times() {
		texts = append(texts, tick.Text)
	}
	if got, want := strings.Join(texts, " "), "16:00 20:00 14 Mar 04:00 08:00 12:00"; got != want {
		t.Errorf("ticks: %s, want %s", got, want)
	}
}

func TestAColumnOfADayIsItsHighestMinute(t *testing.T) {
	t.Parallel()
	start := noon.Truncate(time.Hour)
	points := []captchamode.Minute{{Start: start, Failures: 3, On: true}, {Start: start.Add(time.Minute), Failures: 9, Unsolved: 1}, {Start: start.Add(2 * time.Minute), Failures: 4}}
	all := newCanvas("wide", noon, control.LastDay, 60).columns(points)
	if len(all) != 1 || total(all[0]) != 10 || !all[0].On || !all[0].Start.Equal(start) {
		t.Errorf("%+v", all)
	}
}

func TestSwitchesAreMarkedWithTheirTimeAndNotOverOneAnother(t *testing.T) {
	t.Parallel()
	at := func(ago time.Duration, on bool) captchamode.Switch {
		return captchamode.Switch{At: noon.Add(-ago), On: on, WasOn: !on}
	}
	marks := newCanvas("wide", noon, control.LastDay, 60).marks(noon, []captchamode.Switch{
		at(30*time.Hour, true), at(20*time.Hour, true), at(2*time.Hour+time.Minute, false), at(2*time.Hour, true), {At: noon.Add(-time.Hour), On: true, WasOn: true},
	})
	var labels []string
	for _, m := range marks {
		labels = append(labels, m.Label+"|"+m.Text)
	}
	want := "on 10:00|CAPTCHA mode on 10:00,|CAPTCHA mode off 09:59,on 13 Mar 16:00|CAPTCHA mode on 13 Mar 16:00"
	if got := strings.Join(labels, ","); got != want {
		t.Errorf("marks: %s\nwant %s", got, want)
	}
}

func TestAStripSaysItsPeakAndDrawsEveryColumn(t *testing.T) {
	t.Parallel()
	series := control.Series{Each: time.Second}
	for i := range 3600 {
		p := control.Point{Start: noon.Truncate(time.Minute).Add(time.Duration(i-3540) * time.Second)}
		p.Attempts = 2
		if i == 1800 {
			p.Failures = 20
		}
		series.Points = append(series.Points, p)
	}
	s := NewStrips("wide", noon, control.LastHour, series, nil)
	if got := s.Rows[0]; got.Now != "7,200 total" || !strings.HasPrefix(got.Peak, ", peak 2 per second at 11:01:00") || strings.Count(got.Path, "V") != 2 {
		t.Errorf("attempts: %+v", got)
	}
	if got := s.Rows[1]; got.Now != "20 total" || got.Peak != ", peak 20 per second at 11:31:00" || strings.Count(got.Path, "V") != 3 {
		t.Errorf("failures: %+v", got)
	}
	if got := s.Rows[2]; got.Now != "0 total" || got.Peak != "" || got.Path != "" {
		t.Errorf("challenges: %+v", got)
	}
	if !strings.Contains(s.Desc, "Failed: 20 total, peak 20 per second at 11:31:00.") {
		t.Errorf("in words: %s", s.Desc)
	}
}

func TestScaleIsRoundAndLeavesAir(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ v, step, high float64 }{
		{0, 1, 4}, {3, 1, 4}, {4, 1, 5}, {65, 20, 80}, {150, 50, 200}, {199, 50, 250}, {6100, 2000, 8000},
	} {
		if step, high := niceScale(tc.v); step != tc.step || high != tc.high {
			t.Errorf("niceScale(%v) = %v, %v", tc.v, step, high)
		}
	}
}

func TestAThresholdMovesInSteps(t *testing.T) {
	t.Parallel()
	points := hour(0)
	for i := 30; i < 60; i++ {
		points[i].Threshold = 70
	}
	points[10].SlowAt = 0
	p := NewPlot("wide", noon, control.LastHour, points, nil)
	if n := strings.Count(p.Lines[0].Path, "V"); n != 60-1 || p.Lines[0].Label != "CAPTCHA 70" {
		t.Errorf("%d steps, label %q", n, p.Lines[0].Label)
	}
	if n := strings.Count(p.Lines[2].Path, "M"); n != 2 {
		t.Errorf("a missing value left %d pieces, not 2", n)
	}
}

func TestSpansJoinNeighbours(t *testing.T) {
	t.Parallel()
	points := hour(1)
	points[20].Level = captchamode.Slow
	p := NewPlot("wide", noon, control.LastHour, points, nil)
	if len(p.Spans) != 2 || p.Spans[0].Class != "slow" || p.Spans[1].Class != "captcha" {
		t.Fatalf("spans: %+v", p.Spans)
	}
	if p.Spans[0].Label != "" || p.Spans[1].Label != "CAPTCHA mode" {
		t.Errorf("labels %q and %q", p.Spans[0].Label, p.Spans[1].Label)
	}
}

func TestThePlotIsToldInWords(t *testing.T) {
	t.Parallel()
	d := NewPlot("wide", noon, control.LastHour, hour(1000), nil).Desc
	for _, want := range []string{"From 11:01 to 12:01", "20,000 challenges unsolved", "peaked at 11:42 with 1,254 a minute", "on for 20 minutes", "above 60 a minute"} {
		if !strings.Contains(d, want) {
			t.Errorf("%q does not say %q", d, want)
		}
	}
	if NewPlot("wide", noon, control.LastHour, nil, nil).Desc != "No data yet." {
		t.Error("an empty plot is not told")
	}
}

func TestNothingIsDrawnOutside(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		points := anyMinutes(rt)
		id := rapid.SampledFrom([]string{"wide", "narrow"}).Draw(rt, "shape")
		span := rapid.SampledFrom([]control.Span{control.LastHour, control.LastDay}).Draw(rt, "span")
		p := NewPlot(id, noon, span, points, nil)
		c := p.Canvas
		for _, b := range p.Bars {
			x, y, w, h := number(t, b.X), number(t, b.Y), number(t, b.W), number(t, b.H)
			if x < c.Left-0.1 || x+w > c.Right+0.2 || y < c.Top-0.1 || y+h > c.Bottom+0.2 || w <= 0 || h < 0 {
				rt.Fatalf("bar outside: %+v", b)
			}
		}
		lowest := c.Bottom
		for i := len(p.Lines) - 1; i >= 0; i-- {
			if y := number(t, p.Lines[i].LabelY); y > lowest+0.1 {
				rt.Fatalf("label below the axis: %+v", p.Lines[i])
			}
		}
		for i, a := range p.Lines {
			for _, b := range p.Lines[i+1:] {
				if d := number(t, a.LabelY) - number(t, b.LabelY); d < labelGap-0.2 && d > -labelGap+0.2 {
					rt.Fatalf("labels overlap: %+v %+v", a, b)
				}
			}
		}
	})
}

func anyMinutes(rt *rapid.T) []captchamode.Minute {
	limit := rapid.OneOf(rapid.Float64Range(0, 1e6), rapid.SampledFrom([]float64{0, -1, notANumber}))
	count := rapid.IntRange(-5, 1_000_000)
	n := rapid.IntRange(0, 90).Draw(rt, "minutes")
	points := make([]captchamode.Minute, n)
	for i := range points {
		points[i] = captchamode.Minute{
			Start:    noon.Truncate(time.Minute).Add(time.Duration(i-n) * time.Minute),
			Failures: count.Draw(rt, "failures"), Unsolved: count.Draw(rt, "unsolved"), Overload: count.Draw(rt, "shed"),
			Threshold: limit.Draw(rt, "threshold"), SlowAt: limit.Draw(rt, "slow"), LeaveAt: limit.Draw(rt, "leave"),
			On: rapid.Bool().Draw(rt, "on"), Level: captchamode.Level(rapid.IntRange(0, 3).Draw(rt, "level")),
		}
	}
	return points
}
