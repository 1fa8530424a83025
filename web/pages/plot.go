package pages

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"time"

	"authguard/captchamode"
	"authguard/internal/events"
	"authguard/internal/metrics"
	"authguard/internal/replay"
	"authguard/internal/times"
)

// chart is a plot of a span that ends now, in one of two shapes.
type chart struct {
	*replay.Plot
	shape string // "wide", or "narrow" for a phone
	now   time.Time
	each  time.Duration // width of a column
}

func newChart(shape string, now time.Time, span metrics.Span) chart {
	c := chart{replay.NewPlot(960, 320), shape, now, time.Minute}
	c.Right, c.Top, c.Bottom = 828, 46, 270
	if c.narrow() {
		c.Width, c.Height, c.Right, c.Bottom = 340, 300, 330, 252
	}
	long := cmp.Or(span.Long(), time.Hour)
	most := map[bool]time.Duration{true: maxColumns / 2, false: maxColumns}[c.narrow()]
	for c.each < long/most {
		c.each += time.Minute
	}
	c.To = now.Truncate(c.each).Add(c.each)
	c.From = c.To.Add(-long)
	return c
}

// maxColumns bounds the columns of a wide chart, and so the weight of the page.
const maxColumns = 120

func (c chart) narrow() bool { return c.shape == "narrow" }

// scale sets the value axis, and leaves room for its labels.
func (c chart) scale(high float64) {
	c.Scale(high)
	c.Left = 14 + 6.5*float64(len(short(c.High)))
}

// times draws the labels of the time axis.
func (c chart) times(class string, height float64) {
	labels := 6
	if c.To.Sub(c.From) == metrics.LastQuarter.Long() {
		labels = 5 // full minutes
	}
	if c.narrow() {
		labels = 3
	}
	c.Times(labels, class, height, c.now.Location())
}

// column returns the column of a time; ok is false outside of the plot.
func (c chart) column(at time.Time) (i int, ok bool) {
	return int(at.Sub(c.From) / c.each), !at.Before(c.From) && at.Before(c.To)
}

func (c chart) columns() int { return int(c.To.Sub(c.From) / c.each) }

// highest returns the highest minute of each column, with the strictest mode of all.
func (c chart) highest(points []captchamode.Minute) []captchamode.Minute {
	all := make([]captchamode.Minute, c.columns())
	for _, m := range points {
		i, ok := c.column(m.Start)
		if !ok {
			continue
		}
		most := all[i]
		if most.Start.IsZero() || total(m) > total(most) {
			all[i] = m
		}
		all[i].On, all[i].Level = m.On || most.On, max(m.Level, most.Level)
		all[i].Start = c.From.Add(time.Duration(i) * c.each)
	}
	return all
}

// hides is how far bars rise above the threshold until a linear scale would hide it.
const hides = 5

// ratePlot draws the failure rate of a span, oldest minute first.
func ratePlot(shape string, now time.Time, span metrics.Span, points []captchamode.Minute,
	switches []captchamode.Switch) template.HTML {
	c, high := newChart(shape, now, span), 0.0
	for _, m := range points {
		high = max(high, float64(total(m)), replay.Finite(m.Threshold), replay.Finite(m.SlowAt), replay.Finite(m.LeaveAt))
	}
	threshold := 0.
	for _, m := range points {
		threshold = replay.Finite(m.Threshold)
	}
	c.Root = threshold > 0 && high > hides*threshold
	c.scale(high)
	columns := c.highest(points)
	modes := make([]string, len(columns))
	for i, m := range columns {
		modes[i] = map[string]string{throttling: "slow", captcha: "captcha"}[modeWords(m)]
	}
	c.Spans(modes, func(mode string, x, width float64) {
		c.Rect("span "+mode, "", x, c.Top, width, c.Bottom-c.Top)
		c.Rect("strip "+mode, "", x, c.Top-4, width, 4)
	})
	c.Grid(short)
	c.times("axis", 5)
	c.stack(columns)
	c.Path("axis", "", "M", c.Left, c.Bottom, "H", c.Right)
	c.marks(switches, 14, true)
	c.thresholds(columns)
	c.Spans(modes, func(mode string, x, width float64) {
		if width >= labelRoom {
			c.Text("span-label", "start", x+6, c.Top-8, map[string]string{"slow": throttling, "captcha": captcha}[mode])
		}
	})
	unit := "per minute"
	if c.Root {
		unit += ", square-root scale"
	}
	c.Text("axis-name", "start", 2, 11, unit)
	zone, _ := now.Zone()
	c.Text("axis-name", "middle", c.X(0.5), c.Bottom+40, "time ("+zone+")")
	if len(points) == 0 {
		c.Text("nothing", "middle", c.X(0.5), c.Top+90, "No data yet.")
	}
	for _, m := range columns {
		if !c.narrow() { // a phone has no pointer
			c.hit(m)
		}
	}
	return c.SVG("plot "+shape, "plot-"+shape, "Failure rate per minute", describe(now.Location(), points))
}

// marks draws the times at which the mode turned on or off, from top down. If labels overlap, the newest is drawn.
func (c chart) marks(switches []captchamode.Switch, top float64, labels bool) {
	room := c.Width
	for _, s := range slices.Backward(switches) {
		if s.On == s.WasOn || s.At.Before(c.From) || s.At.After(c.To) {
			continue
		}
		word := map[bool]string{true: "on ", false: "off "}[s.On] + newMoment(c.now, s.At).Text
		x := c.At(s.At)
		c.Path("mode-mark", "CAPTCHA mode "+word, "M", x, top, "V", c.Bottom)
		if width := 6.2 * float64(len(word)); labels && x+width <= room {
			c.Text("mark-label", "start", x+4, 24, word)
			room = x - 4
		}
	}
}

// stack draws the parts of the columns' failure rates, each kind as one shape.
func (c chart) stack(columns []captchamode.Minute) {
	width := c.X(1/float64(len(columns))) - c.X(0)
	gap := min(1, width/5)
	kinds := [...]string{"failures", "unsolved", "shed"}
	var paths [len(kinds)][]any
	for i, m := range columns {
		base := 0
		for kind, n := range [...]int{m.Failures, m.Unsolved, m.Overload} {
			if n > 0 {
				x := c.X(float64(i) / float64(len(columns)))
				paths[kind] = append(paths[kind], "M", x+gap/2, c.Y(float64(base)), "V", c.Y(float64(base+n)), "h", width-gap,
					"V", c.Y(float64(base)), "Z")
				base += n
			}
		}
	}
	for kind, path := range paths {
		if path != nil {
			c.Path("bar "+kinds[kind], "", path...)
		}
	}
}

// hit draws the column that shows its numbers to the pointer.
func (c chart) hit(m captchamode.Minute) {
	if m.Start.IsZero() {
		return
	}
	text := newMoment(c.now, m.Start).Text + ": " + events.Count(m.Failures, "failure")
	if m.Unsolved > 0 {
		text += ", " + comma(m.Unsolved) + " unsolved"
	}
	if m.Overload > 0 {
		text += ", " + comma(m.Overload) + " rejected"
	}
	x := c.At(m.Start)
	c.Rect("hit", text, x, c.Top, c.At(m.Start.Add(c.each))-x, c.Bottom-c.Top)
}

const (
	quiet      = "off"
	throttling = "throttling"
	captcha    = "CAPTCHA mode"
)

func modeWords(m captchamode.Minute) string {
	switch {
	case m.On:
		return captcha
	case m.Level != captchamode.Calm:
		return throttling
	}
	return quiet
}

// total is the failure rate of a minute.
func total(m captchamode.Minute) int {
	return max(m.Failures, 0) + max(m.Unsolved, 0) + max(m.Overload, 0)
}

// describe puts the plot into words for screen readers.
func describe(zone *time.Location, points []captchamode.Minute) string {
	if len(points) == 0 {
		return "No data yet."
	}
	var failures, unsolved, shed, on int
	peak := points[0]
	for _, m := range points {
		failures, unsolved, shed = failures+m.Failures, unsolved+m.Unsolved, shed+m.Overload
		if total(m) > total(peak) {
			peak = m
		}
		if m.On {
			on++
		}
	}
	last := points[len(points)-1]
	return fmt.Sprintf("From %s to %s: %s, %s unsolved, %s rejected for overload. The failure rate peaked at %s with %s "+
		"a minute. CAPTCHA mode now turns on above %s a minute. It was on for %s.",
		times.Clock(points[0].Start.In(zone)), times.Clock(last.Start.Add(time.Minute).In(zone)),
		events.Count(failures, "failure"), events.Count(unsolved, "challenge"), events.Count(shed, "attempt"),
		times.Clock(peak.Start.In(zone)), comma(total(peak)), rateWords(last.Threshold), events.Count(on, "minute"))
}

const labelGap, labelRoom = 14, 92

// thresholds draws each threshold as steps, since it changes with the learned baseline, and its name at the newest end.
func (c chart) thresholds(columns []captchamode.Minute) {
	type label struct {
		class, text string
		y           float64
	}
	var labels []label
	x, down := c.Right+8, 4.0
	if c.narrow() { // above the line, not beside its end
		x, down = c.Left+4, -4
	}
	for _, t := range []struct {
		class, label string
		of           func(captchamode.Minute) float64
	}{
		{"on", "CAPTCHA", func(m captchamode.Minute) float64 { return m.Threshold }},
		{"leave", "turns off", func(m captchamode.Minute) float64 { return m.LeaveAt }},
		{"slow", "throttling", func(m captchamode.Minute) float64 { return m.SlowAt }},
	} {
		if last := c.line(t.class, columns, t.of); last > 0 {
			labels = append(labels, label{t.class, t.label + " " + short(last), c.Y(last) + down})
		}
	}
	slices.SortStableFunc(labels, func(a, b label) int { return cmp.Compare(b.y, a.y) })
	floor := c.Bottom
	for _, l := range labels { // apart, from the lowest up
		y := min(l.y, floor)
		c.Text("line-label "+l.class, "start", x, y, l.text)
		floor = y - labelGap
	}
}

// line draws a value as steps, and returns the newest; 0: none.
func (c chart) line(class string, columns []captchamode.Minute, of func(captchamode.Minute) float64) (last float64) {
	values := make([]float64, len(columns))
	for i, m := range columns {
		values[i] = replay.Finite(of(m))
		last = cmp.Or(values[i], last)
	}
	if path := c.Steps(values); path != nil {
		c.Path("halo", "", path...)
		c.Path("line "+class, "", path...)
	}
	return last
}
