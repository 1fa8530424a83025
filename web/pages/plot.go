package pages

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"authguard/captchamode"
)

// A Plot is everything the SVG is made of, in its own coordinates: texts and
// shapes, no style.
type Plot struct {
	Canvas     canvas
	Desc, Zone string
	Bars       []Bar
	Lines      []Line
	Spans      []Span
	Hits       []Hit
}

// A Bar is one part of one minute's stack.
type Bar struct{ Class, X, Y, W, H string }

// A Line is one threshold over time, with its name at the newest end.
type Line struct {
	Class, Path, Label, LabelX, LabelY string

	labelY float64 // where the label would be if it were alone
}

// A Span is a stretch of minutes in one mode.
type Span struct {
	Class, X, W string
	Label       string // empty where there is no room for it
	LabelX      string
}

// A Tick is one label of an axis.
type Tick struct{ At, Text string }

// A Hit is the column of one minute, with its numbers for the pointer.
type Hit struct{ X, W, Text string }

// NewPlot lays the points out, oldest first, in one of two shapes: "wide", or
// "narrow" for a phone. The time axis is an hour long, or longer if the points
// are.
func NewPlot(id string, now time.Time, points []captchamode.Minute) Plot {
	c := newCanvas(id, now, points)
	p := Plot{Canvas: c, Desc: describe(c, points), Zone: now.Format("MST"), Spans: c.spans(points), Lines: c.lines(points)}
	for _, m := range points {
		p.Bars = append(p.Bars, c.stack(m)...)
		p.Hits = append(p.Hits, c.hit(m))
	}
	return p
}

// stack is the bars of one minute, from the axis up.
func (c canvas) stack(m captchamode.Minute) []Bar {
	x, w := c.column(m)
	gap := math.Min(1, w/5)
	var bars []Bar
	base := 0
	for _, part := range []struct {
		class string
		n     int
	}{{"failures", m.Failures}, {"unsolved", m.Unsolved}, {"shed", m.Shed}} {
		if part.n <= 0 {
			continue
		}
		low, high := c.y(float64(base)), c.y(float64(base+part.n))
		bars = append(bars, Bar{part.class, coord(x + gap/2), coord(high), coord(w - gap), coord(low - high)})
		base += part.n
	}
	return bars
}

func (c canvas) hit(m captchamode.Minute) Hit {
	x, w := c.column(m)
	text := fmt.Sprintf("%s: %s, %s unsolved, %s shed · CAPTCHA above %s · %s",
		m.Start.In(c.zone).Format("15:04"), countWords(m.Failures, "failure"),
		comma(m.Unsolved), comma(m.Shed), rateWords(m.Threshold), modeWords(m))
	return Hit{coord(x), coord(w), text}
}

// The modes of a minute, in words.
const (
	quiet   = "quiet"
	slowing = "slowing"
	captcha = "CAPTCHA mode"
)

func modeWords(m captchamode.Minute) string {
	switch {
	case m.On:
		return captcha
	case m.Level != captchamode.Calm:
		return slowing
	}
	return quiet
}

// total is all that counts as pressure.
func total(m captchamode.Minute) int { return max(m.Failures, 0) + max(m.Unsolved, 0) + max(m.Shed, 0) }

// describe puts the plot into words for people who cannot see it.
func describe(c canvas, points []captchamode.Minute) string {
	if len(points) == 0 {
		return "Nothing has been counted yet."
	}
	var failures, unsolved, shed, on int
	peak := points[0]
	for _, m := range points {
		failures, unsolved, shed = failures+m.Failures, unsolved+m.Unsolved, shed+m.Shed
		if total(m) > total(peak) {
			peak = m
		}
		if m.On {
			on++
		}
	}
	last := points[len(points)-1]
	return fmt.Sprintf("From %s to %s: %s, %s left unsolved, %s shed. The highest minute was %s with %s in all; the threshold for CAPTCHA mode is %s now. CAPTCHA mode was on for %s.",
		points[0].Start.In(c.zone).Format("15:04"), last.Start.Add(time.Minute).In(c.zone).Format("15:04"),
		countWords(failures, "failure"), countWords(unsolved, "challenge"), countWords(shed, "attempt"),
		peak.Start.In(c.zone).Format("15:04"), comma(total(peak)), rateWords(last.Threshold), countWords(on, "minute"))
}

// thresholds are the lines, and how to read each from a minute.
var thresholds = [...]struct {
	class, label string
	of           func(captchamode.Minute) float64
}{
	{"on", "CAPTCHA on", func(m captchamode.Minute) float64 { return m.Threshold }},
	{"leave", "may go off", func(m captchamode.Minute) float64 { return m.LeaveAt }},
	{"slow", "slowing", func(m captchamode.Minute) float64 { return m.SlowAt }},
}

// labelGap is the least distance between the base lines of two labels.
const labelGap = 14

// lines draws each threshold as steps, minute by minute, since it moves with
// what the site has learned.
func (c canvas) lines(points []captchamode.Minute) []Line {
	x, down := c.Right+8, 4.0
	if c.ID == "narrow" { // above the line, not beside its end
		x, down = c.Left+4, -4
	}
	var out []Line
	for _, t := range thresholds {
		if path, last := c.steps(points, t.of); path != "" {
			out = append(out, Line{Class: t.class, Path: path, Label: t.label + " " + rateWords(last), LabelX: coord(x), labelY: c.y(last) + down})
		}
	}
	c.placeLabels(out)
	return out
}

// steps is the SVG path of one threshold and its newest value. A minute
// without a value, or one that is missing, leaves a gap.
func (c canvas) steps(points []captchamode.Minute, of func(captchamode.Minute) float64) (path string, last float64) {
	var b strings.Builder
	var end time.Time
	for _, m := range points {
		v := finite(of(m))
		if v == 0 {
			end = time.Time{}
			continue
		}
		x, w := c.column(m)
		if m.Start.Equal(end) {
			b.WriteString(" V" + coord(c.y(v)))
		} else {
			b.WriteString(" M" + coord(x) + " " + coord(c.y(v)))
		}
		b.WriteString(" H" + coord(x+w))
		last, end = v, m.Start.Add(time.Minute)
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

// labelRoom is the width below which a span goes without its label.
const labelRoom = 92

// spans joins neighbouring minutes of one mode. Quiet ones are not drawn.
func (c canvas) spans(points []captchamode.Minute) (out []Span) {
	for i, next := 0, 0; i < len(points); i = next {
		mode := modeWords(points[i])
		for next = i + 1; next < len(points) && modeWords(points[next]) == mode; {
			next++
		}
		class := map[string]string{slowing: "slow", captcha: "captcha"}[mode]
		if class == "" {
			continue
		}
		x := c.x(points[i].Start)
		w := c.x(points[next-1].Start.Add(time.Minute)) - x
		s := Span{Class: class, X: coord(x), W: coord(w), LabelX: coord(x + 6)}
		if w >= labelRoom {
			s.Label = mode
		}
		out = append(out, s)
	}
	return out
}
