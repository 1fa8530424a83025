package pages

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"authguard/captchamode"
	"authguard/internal/control"
)

// A Plot is the content of the SVG in its own coordinates: texts and shapes, no style.
type Plot struct {
	Canvas     canvas
	Desc, Zone string
	Bars       []Bar
	Lines      []Line
	Spans      []Span
	Marks      []Mark
	Hits       []Hit
}

// A Bar is one part of one minute's stack.
type Bar struct{ Class, X, Y, W, H string }

// A Line is one threshold over time, with its name at the newest end.
type Line struct {
	Class, Path, Label, LabelX, LabelY string

	labelY float64 // the position without other labels
}

// A Span is consecutive minutes in one mode.
type Span struct {
	Class, X, W string
	Label       string // empty if there is no room
	LabelX      string
}

// A Mark is a time at which CAPTCHA mode turned on or off.
type Mark struct {
	X, Text string
	Label   string // empty if there is no room
}

// A Tick is one label of an axis.
type Tick struct{ At, Text string }

// A Hit is the column of one minute, with its numbers for the pointer.
type Hit struct{ X, W, Text string }

// NewPlot draws the failure rate of a span, oldest minute first. A column of several minutes shows the highest.
func NewPlot(id string, now time.Time, span control.Span, points []captchamode.Minute,
	switches []captchamode.Switch) Plot {
	high := 0.0
	for _, m := range points {
		high = max(high, float64(total(m)), finite(m.Threshold), finite(m.SlowAt), finite(m.LeaveAt))
	}
	c := newCanvas(id, now, span, high)
	p := Plot{Canvas: c, Desc: describe(c, points), Zone: now.Format("MST"), Marks: c.marks(now, switches)}
	points = c.columns(points)
	p.Spans, p.Lines = c.spans(points), c.lines(points)
	for _, m := range points {
		p.Bars = append(p.Bars, c.stack(m)...)
		p.Hits = append(p.Hits, c.hit(now, m))
	}
	return p
}

// columns keeps the highest minute of each column, with the strictest mode of all.
func (c canvas) columns(points []captchamode.Minute) (all []captchamode.Minute) {
	for _, m := range points {
		start := m.Start.Truncate(c.each)
		if start.Before(c.from) || !start.Before(c.to) {
			continue
		}
		if n := len(all); n == 0 || !all[n-1].Start.Equal(start) {
			all = append(all, m)
		} else if last := all[n-1]; total(m) > total(last) {
			m.On, m.Level = m.On || last.On, max(m.Level, last.Level)
			all[n-1] = m
		} else {
			all[n-1].On, all[n-1].Level = m.On || last.On, max(m.Level, last.Level)
		}
		all[len(all)-1].Start = start
	}
	return all
}

// markRoom is the width of a character of a mark's label.
const markRoom = 6.2

// marks returns the times at which the mode turned on or off. If labels overlap, the newest is drawn.
func (c canvas) marks(now time.Time, switches []captchamode.Switch) (all []Mark) {
	room := c.Width
	for _, s := range slices.Backward(switches) {
		if s.On == s.WasOn || s.At.Before(c.from) || s.At.After(c.to) {
			continue
		}
		word := map[bool]string{true: "on ", false: "off "}[s.On] + newMoment(now, s.At).Text
		x, w := c.x(s.At), markRoom*float64(len(word))
		m := Mark{X: coord(x), Text: "CAPTCHA mode " + word}
		if x+w <= room && x+w <= c.Width {
			m.Label, room = word, x-4
		}
		all = append(all, m)
	}
	return all
}

func (c canvas) stack(m captchamode.Minute) []Bar {
	x, w := c.column(m.Start)
	gap := math.Min(1, w/5)
	var bars []Bar
	base := 0
	for _, part := range []struct {
		class string
		n     int
	}{{"failures", m.Failures}, {"unsolved", m.Unsolved}, {"shed", m.Overload}} {
		if part.n <= 0 {
			continue
		}
		low, high := c.y(float64(base)), c.y(float64(base+part.n))
		bars = append(bars, Bar{part.class, coord(x + gap/2), coord(high), coord(w - gap), coord(low - high)})
		base += part.n
	}
	return bars
}

func (c canvas) hit(now time.Time, m captchamode.Minute) Hit {
	x, w := c.column(m.Start)
	text := fmt.Sprintf("%s: %s, %s unsolved, %s rejected · CAPTCHA above %s · %s",
		newMoment(now, m.Start).Text, countWords(m.Failures, "failure"),
		comma(m.Unsolved), comma(m.Overload), rateWords(m.Threshold), modeWords(m))
	return Hit{coord(x), coord(w), text}
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
func describe(c canvas, points []captchamode.Minute) string {
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
		points[0].Start.In(c.zone).Format("15:04"), last.Start.Add(time.Minute).In(c.zone).Format("15:04"),
		countWords(failures, "failure"), countWords(unsolved, "challenge"), countWords(shed, "attempt"),
		peak.Start.In(c.zone).Format("15:04"), comma(total(peak)), rateWords(last.Threshold), countWords(on, "minute"))
}

var thresholds = [...]struct {
	class, label string
	of           func(captchamode.Minute) float64
}{
	{"on", "CAPTCHA", func(m captchamode.Minute) float64 { return m.Threshold }},
	{"leave", "turns off", func(m captchamode.Minute) float64 { return m.LeaveAt }},
	{"slow", "throttling", func(m captchamode.Minute) float64 { return m.SlowAt }},
}

const labelGap = 14

// lines draws each threshold as steps, since it changes with the learned baseline.
func (c canvas) lines(points []captchamode.Minute) []Line {
	x, down := c.Right+8, 4.0
	if c.ID == "narrow" { // above the line, not beside its end
		x, down = c.Left+4, -4
	}
	var out []Line
	for _, t := range thresholds {
		if path, last := c.steps(points, t.of); path != "" {
			out = append(out, Line{Class: t.class, Path: path, Label: t.label + " " + short(last), LabelX: coord(x),
				labelY: c.y(last) + down})
		}
	}
	c.placeLabels(out)
	return out
}

// steps returns the SVG path of one threshold and its newest value. A minute without a value leaves a gap.
func (c canvas) steps(points []captchamode.Minute, of func(captchamode.Minute) float64) (path string, last float64) {
	var b strings.Builder
	var end time.Time
	for _, m := range points {
		v := finite(of(m))
		if v == 0 {
			end = time.Time{}
			continue
		}
		x, w := c.column(m.Start)
		if m.Start.Equal(end) {
			b.WriteString(" V" + coord(c.y(v)))
		} else {
			b.WriteString(" M" + coord(x) + " " + coord(c.y(v)))
		}
		b.WriteString(" H" + coord(x+w))
		last, end = v, m.Start.Add(c.each)
	}
	return strings.TrimSpace(b.String()), last
}

// placeLabels moves the names of the lines apart, from the lowest up.
func (c canvas) placeLabels(lines []Line) {
	order := make([]*Line, 0, len(lines))
	for i := range lines {
		order = append(order, &lines[i])
	}
	slices.SortStableFunc(order, func(a, b *Line) int { return cmp.Compare(b.labelY, a.labelY) })
	floor := c.Bottom
	for _, l := range order {
		y := min(l.labelY, floor)
		l.LabelY, floor = coord(y), y-labelGap
	}
}

const labelRoom = 92

// spans joins adjacent minutes of one mode. It leaves out minutes with the mode off.
func (c canvas) spans(points []captchamode.Minute) (out []Span) {
	for i, next := 0, 0; i < len(points); i = next {
		mode := modeWords(points[i])
		for next = i + 1; next < len(points) && modeWords(points[next]) == mode; {
			next++
		}
		class := map[string]string{throttling: "slow", captcha: "captcha"}[mode]
		if class == "" {
			continue
		}
		x := c.x(points[i].Start)
		w := c.x(points[next-1].Start.Add(c.each)) - x
		s := Span{Class: class, X: coord(x), W: coord(w), LabelX: coord(x + 6)}
		if w >= labelRoom {
			s.Label = mode
		}
		out = append(out, s)
	}
	return out
}
