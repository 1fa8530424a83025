package pages

import (
	"fmt"
	"math"
	"sort"
	"strings"
	"time"

	"authguard/captchamode"
)

// A Plot is everything the SVG is made of, in its own coordinates: texts and
// shapes, no style.
type Plot struct {
	Canvas      canvas
	Title, Desc string
	Zone        string
	Empty       bool
	Bars        []Bar
	Lines       []Line
	Spans       []Span
	Hits        []Hit
}

// A Bar is one part of one minute's stack.
type Bar struct{ Class, X, Y, W, H string }

// A Line is one threshold over time, with its name at the newest end.
type Line struct{ Class, Path, Label, LabelX, LabelY, Anchor string }

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
	p := Plot{
		Canvas: c, Title: "Failed sign-ins per minute", Desc: describe(c, points), Zone: now.Format("MST"), Empty: len(points) == 0,
		Spans: c.spans(points), Lines: c.lines(points),
	}
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

// A threshold is one of the lines, and how to read it from a minute.
type threshold struct {
	class, label string
	of           func(captchamode.Minute) float64
}

var thresholds = [...]threshold{
	{"on", "CAPTCHA on", func(m captchamode.Minute) float64 { return m.Threshold }},
	{"leave", "may go off", func(m captchamode.Minute) float64 { return m.LeaveAt }},
	{"slow", "slowing", func(m captchamode.Minute) float64 { return m.SlowAt }},
}

// labelGap is the least distance between the base lines of two labels.
const labelGap = 14

// lines draws each threshold as steps, minute by minute, since it moves with
// what the site has learned.
func (c canvas) lines(points []captchamode.Minute) []Line {
	var out []Line
	var heights []float64
	for _, t := range thresholds {
		path, last := c.steps(points, t.of)
		if path == "" {
			continue
		}
		out = append(out, Line{Class: t.class, Path: path, Label: t.label + " " + rateWords(last)})
		heights = append(heights, c.y(last))
	}
	c.placeLabels(out, heights)
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

// placeLabels puts the names beside the ends of their lines, or above them
// where the plot is narrow, and moves them apart.
func (c canvas) placeLabels(lines []Line, heights []float64) {
	order := make([]int, len(lines))
	at := make([]float64, len(lines))
	for i := range lines {
		order[i] = i
		at[i] = heights[i] + 4
		lines[i].LabelX, lines[i].Anchor = coord(c.Right+8), "start"
		if c.ID == "narrow" {
			at[i] = heights[i] - 4
			lines[i].LabelX, lines[i].Anchor = coord(c.Left+4), "start"
		}
	}
	sort.SliceStable(order, func(a, b int) bool { return at[order[a]] > at[order[b]] })
	floor := c.Bottom
	for _, i := range order {
		at[i] = min(at[i], floor)
		floor = at[i] - labelGap
		lines[i].LabelY = coord(at[i])
	}
}

// labelRoom is the width below which a span goes without its label.
const labelRoom = 92

// spans joins neighbouring minutes of one mode. Quiet ones are not drawn.
func (c canvas) spans(points []captchamode.Minute) []Span {
	var out []Span
	for i := 0; i < len(points); {
		j := i + 1
		for j < len(points) && modeWords(points[j]) == modeWords(points[i]) {
			j++
		}
		if s, ok := c.span(points[i:j]); ok {
			out = append(out, s)
		}
		i = j
	}
	return out
}

func (c canvas) span(run []captchamode.Minute) (Span, bool) {
	class := "captcha"
	switch modeWords(run[0]) {
	case quiet:
		return Span{}, false
	case slowing:
		class = "slow"
	}
	x := c.x(run[0].Start)
	w := c.x(run[len(run)-1].Start.Add(time.Minute)) - x
	s := Span{Class: class, X: coord(x), W: coord(w), LabelX: coord(x + 6)}
	if w >= labelRoom {
		s.Label = modeWords(run[0])
	}
	return s, true
}
