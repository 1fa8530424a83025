package pages

import (
	"encoding/xml"
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"authguard/captchamode"
	"authguard/internal/metrics"
)

// A shape is one element of a plot.
type shape struct {
	Class string  `xml:"class,attr"`
	X     float64 `xml:"x,attr"`
	Y     float64 `xml:"y,attr"`
	W     float64 `xml:"width,attr"`
	H     float64 `xml:"height,attr"`
	D     string  `xml:"d,attr"`
	Title string  `xml:"title"`
	Text  string  `xml:",chardata"`
}

type drawing struct {
	Desc   string  `xml:"desc"`
	Shapes []shape `xml:",any"`
}

func drawn(t testing.TB, svg template.HTML) (d drawing) {
	t.Helper()
	if err := xml.Unmarshal([]byte(svg), &d); err != nil {
		t.Fatalf("%v\n%s", err, svg)
	}
	return d
}

// of returns the shapes whose class begins with this.
func (d drawing) of(class string) (all []shape) {
	for _, s := range d.Shapes {
		if strings.HasPrefix(s.Class, class) {
			all = append(all, s)
		}
	}
	return all
}

func (d drawing) texts(class string) (all []string) {
	for _, s := range d.of(class) {
		all = append(all, s.Text)
	}
	return all
}

func rates(t testing.TB, now time.Time, span metrics.Span, points []captchamode.Minute, switches ...captchamode.Switch) drawing {
	t.Helper()
	return drawn(t, ratePlot("wide", now, span, points, switches))
}

// bars returns the bottom, top, left and width of each bar.
func (d drawing) bars(t testing.TB) (all [][4]float64) {
	t.Helper()
	for _, s := range d.of("bar") {
		for part := range strings.SplitSeq(strings.TrimSuffix(s.D, "Z"), "Z") {
			var x, low, high, width, again float64
			if _, err := fmt.Sscanf(part, "M%f %fV%fh%fV%f", &x, &low, &high, &width, &again); err != nil || low != again {
				t.Fatalf("%q: %v", part, err)
			}
			all = append(all, [4]float64{low, high, x, width})
		}
	}
	return all
}

func TestBarsStackToTheTotal(t *testing.T) {
	t.Parallel()
	m := captchamode.Minute{Start: noon.Truncate(time.Minute), Failures: 50, Unsolved: 30, Overload: 20}
	d := rates(t, noon, metrics.LastHour, []captchamode.Minute{m})
	if kinds := d.of("bar"); len(kinds) != 3 || kinds[0].Class != "bar failures" || kinds[1].Class != "bar unsolved" || kinds[2].Class != "bar shed" {
		t.Fatalf("bars: %+v", kinds)
	}
	bars := d.bars(t)
	const top, bottom, high = 46.0, 270.0, 150.0
	if want := bottom - 100/high*(bottom-top); bars[2][1] < want-0.1 || bars[2][1] > want+0.1 {
		t.Errorf("the stack ends at %v, not at %v", bars[2][1], want)
	}
	if bars[0][0] != bottom || bars[1][0] != bars[0][1] || bars[2][0] != bars[1][1] {
		t.Errorf("the bars do not stand on one another: %v", bars)
	}
}

// Measured before: a threshold of 30 under bars of 1,500 lay on the axis.
func TestTheThresholdIsSeenBelowHighBars(t *testing.T) {
	t.Parallel()
	points := hour(1200)
	for i := range points {
		points[i].Threshold = 30
	}
	for _, shape := range shapes {
		d := drawn(t, ratePlot(shape, noon, metrics.LastHour, points, nil))
		var y float64
		if _, err := fmt.Sscanf(d.of("line on")[0].D[strings.Index(d.of("line on")[0].D, " ")+1:], "%f", &y); err != nil {
			t.Fatal(err)
		}
		bottom := map[string]float64{"wide": 270, "narrow": 252}[shape]
		if bottom-y < 25 || d.texts("axis-name")[0] != "per minute, square-root scale" {
			t.Errorf("%s: the threshold is %v above the axis of %q", shape, bottom-y, d.texts("axis-name"))
		}
	}
	if d := rates(t, noon, metrics.LastHour, hour(0)); d.texts("axis-name")[0] != "per minute" {
		t.Errorf("a quiet site has %q", d.texts("axis-name"))
	}
}

func TestTimeRunsFromLeftToRight(t *testing.T) {
	t.Parallel()
	d := rates(t, noon, metrics.LastHour, hour(0))
	hits := d.of("hit")
	axis := d.of("axis")[6].D // after six labels
	left, right, _ := strings.Cut(axis[1:], " ")
	right = right[strings.Index(right, "H")+1:]
	if x := strconv.FormatFloat(hits[0].X, 'f', -1, 64); len(hits) != 60 || x != left || right != "828" || hits[59].X+hits[59].W < 827.9 {
		t.Errorf("%d columns from %s to %v on %s", len(hits), x, hits[59].X+hits[59].W, axis)
	}
	ticks := strings.Join(d.texts("tick"), " ")
	if want := "11:10 11:20 11:30 11:40 11:50 12:00"; !strings.HasSuffix(ticks, want) {
		t.Errorf("ticks: %s", ticks)
	}
}

func TestADayHasItsDateWhereItBegins(t *testing.T) {
	t.Parallel()
	zone := time.FixedZone("CEST", 7200)
	ticks := strings.Join(rates(t, noon.In(zone), metrics.LastDay, nil).texts("tick"), " ")
	if want := "16:00 20:00 2026-03-14 04:00 08:00 12:00"; !strings.HasSuffix(ticks, want) {
		t.Errorf("ticks: %s, want %s", ticks, want)
	}
}

func TestAColumnOfADayIsItsHighestMinute(t *testing.T) {
	t.Parallel()
	start := noon.Truncate(time.Hour)
	d := rates(t, noon, metrics.LastDay, []captchamode.Minute{{Start: start, Failures: 3, On: true}, {Start: start.Add(time.Minute), Failures: 9, Unsolved: 1}, {Start: start.Add(2 * time.Minute), Failures: 4}})
	hits := d.of("hit")
	if len(hits) != 1 || hits[0].Title != "12:00: 9 failures, 1 unsolved" {
		t.Errorf("%+v", hits)
	}
}

func TestSwitchesAreMarkedWithTheirTimeAndNotOverOneAnother(t *testing.T) {
	t.Parallel()
	at := func(ago time.Duration, on bool) captchamode.Switch {
		return captchamode.Switch{At: noon.Add(-ago), On: on, WasOn: !on}
	}
	d := rates(t, noon, metrics.LastDay, nil,
		at(30*time.Hour, true), at(20*time.Hour, true), at(2*time.Hour+time.Minute, false), at(2*time.Hour, true), captchamode.Switch{At: noon.Add(-time.Hour), On: true, WasOn: true})
	var titles []string
	for _, m := range d.of("mode-mark") {
		titles = append(titles, m.Title)
	}
	got := strings.Join(append(titles, d.texts("mark-label")...), ",")
	if want := "CAPTCHA mode on 10:00,CAPTCHA mode off 09:59,CAPTCHA mode on 2026-03-13 16:00,on 10:00,on 2026-03-13 16:00"; got != want {
		t.Errorf("marks: %s\nwant %s", got, want)
	}
}

func TestAStripSaysItsPeakAndDrawsEveryColumn(t *testing.T) {
	t.Parallel()
	series := metrics.Series{Each: time.Second}
	for i := range 3600 {
		p := metrics.Point{Start: noon.Truncate(time.Minute).Add(time.Duration(i-3540) * time.Second)}
		p.Attempts = 2
		if i == 1800 {
			p.Failures = 20
		}
		series.Points = append(series.Points, p)
	}
	d := drawn(t, strips("wide", noon, metrics.LastHour, series, nil))
	texts, areas := d.texts("tick")[6:], d.of("area")
	for i, want := range []string{"7,200 total, peak 2 per second at 11:01", "20 total, peak 20 per second at 11:31", "0 total"} {
		steps := []int{2, 3, 1}[i]
		if texts[i] != want || strings.Count(areas[i].D, "V") != steps {
			t.Errorf("%q with %s, want %q with %d steps", texts[i], areas[i].D, want, steps)
		}
	}
	if !strings.Contains(d.Desc, "Failed: 20 total, peak 20 per second at 11:31.") {
		t.Errorf("in words: %s", d.Desc)
	}
}

func TestAThresholdMovesInSteps(t *testing.T) {
	t.Parallel()
	points := hour(0)
	for i := 30; i < 60; i++ {
		points[i].Threshold = 70
	}
	points[10].SlowAt = 0
	d := rates(t, noon, metrics.LastHour, points)
	if on := d.of("line on")[0].D; strings.Count(on, "V") != 1 || strings.Count(on, "M") != 1 || d.texts("line-label on")[0] != "CAPTCHA 70" {
		t.Errorf("%s, labels %q", on, d.texts("line-label"))
	}
	if slow := d.of("line slow")[0].D; strings.Count(slow, "M") != 2 {
		t.Errorf("a missing value left %s, not two pieces", slow)
	}
}

func TestSpansJoinNeighbours(t *testing.T) {
	t.Parallel()
	points := hour(1)
	points[20].Level = captchamode.Slow
	d := rates(t, noon, metrics.LastHour, points)
	if spans := d.of("span "); len(spans) != 2 || spans[0].Class != "span slow" || spans[1].Class != "span captcha" {
		t.Fatalf("spans: %+v", spans)
	}
	if got := strings.Join(d.texts("span-label"), ","); got != "CAPTCHA mode" {
		t.Errorf("labels %s", got)
	}
}

func TestThePlotIsToldInWords(t *testing.T) {
	t.Parallel()
	words := rates(t, noon, metrics.LastHour, hour(1000)).Desc
	for _, want := range []string{"From 11:01 to 12:01", "20,000 challenges unsolved", "peaked at 11:42 with 1,254 a minute", "on for 20 minutes", "above 60 a minute"} {
		if !strings.Contains(words, want) {
			t.Errorf("%q does not say %q", words, want)
		}
	}
	if d := rates(t, noon, metrics.LastHour, nil); d.Desc != "No data yet." || len(d.of("nothing")) != 1 {
		t.Error("an empty plot is not told")
	}
}

func TestNothingIsDrawnOutside(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		points := anyMinutes(rt)
		id := rapid.SampledFrom([]string{"wide", "narrow"}).Draw(rt, "shape")
		span := rapid.SampledFrom(metrics.Spans()).Draw(rt, "span")
		d := drawn(t, ratePlot(id, noon, span, points, nil))
		right, bottom := 828.0, 270.0
		if id == "narrow" {
			right, bottom = 330, 252
		}
		for _, b := range d.bars(t) {
			if b[2] < 14 || b[2]+b[3] > right+0.2 || b[1] < 45.9 || b[0] > bottom+0.2 || b[3] <= 0 || b[1] > b[0] {
				rt.Fatalf("bar outside: %+v", b)
			}
		}
		labels := d.of("line-label")
		for i, a := range labels {
			if a.Y > bottom+0.1 {
				rt.Fatalf("label below the axis: %+v", a)
			}
			for _, b := range labels[i+1:] {
				if d := a.Y - b.Y; d < labelGap-0.2 && d > -labelGap+0.2 {
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
