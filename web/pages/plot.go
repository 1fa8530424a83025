package pages

import (
	"fmt"
	"math"
	"time"
)

// The modes of a minute, as they are drawn behind the bars.
const (
	ModeQuiet   = "quiet"
	ModeSlow    = "slow"
	ModeCAPTCHA = "captcha"
)

// A MinutePoint is one minute of the plot.
type MinutePoint struct {
	Start    time.Time
	Failures int
	// Unsolved is challenges that were issued and left, Shed is attempts
	// turned away for overload.
	Unsolved int
	Shed     int
	// Threshold, Slow and Leave are what they were in that minute; zero draws
	// no line.
	Threshold float64
	Slow      float64
	Leave     float64
	// Mode is one of ModeQuiet, ModeSlow and ModeCAPTCHA; empty is quiet.
	Mode string
}

// Total is all that counts as pressure.
func (p MinutePoint) Total() int { return max(p.Failures, 0) + max(p.Unsolved, 0) + max(p.Shed, 0) }

// ModeWords is the mode as the table says it.
func (p MinutePoint) ModeWords() string {
	switch p.Mode {
	case ModeCAPTCHA:
		return "CAPTCHA mode"
	case ModeSlow:
		return "slowing"
	}
	return "quiet"
}

// A Plot is everything the SVG is made of, in its own coordinates: texts and
// shapes, no style.
type Plot struct {
	ID            string // "wide" or "narrow"; part of the ids in the SVG
	Width, Height string
	Left, Right   string
	Top, Bottom   string
	SpanHeight    string // from Top to Bottom
	StripTop      string // of the coloured strip above a span
	TickX, NameX  string // of the numbers and the name of the y axis
	Title, Desc   string
	AxisY, AxisX  string
	AxisXAt       string // the middle of the x axis
	Empty         bool
	Bars          []Bar
	Lines         []Line
	Spans         []Span
	Ticks         []Tick // of the y axis
	Times         []Tick // of the x axis
	Hits          []Hit
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
func NewPlot(id string, now time.Time, points []MinutePoint) Plot {
	c := newCanvas(id, now, points)
	p := Plot{
		ID: id, Width: coord(c.width), Height: coord(c.height),
		Left: coord(c.left), Right: coord(c.right), Top: coord(c.top), Bottom: coord(c.bottom),
		SpanHeight: coord(c.bottom - c.top), StripTop: coord(c.top - 4),
		TickX: coord(c.left - 8), NameX: coord(2),
		Title: "Failed sign-ins per minute", Desc: describe(c, points),
		AxisY: "per minute", AxisX: "time (" + now.Format("MST") + ")", AxisXAt: coord((c.left + c.right) / 2),
		Empty: len(points) == 0,
		Ticks: c.ticks(), Times: c.times(),
	}
	p.Spans = c.spans(points)
	p.Lines = c.lines(points)
	for _, m := range points {
		p.Bars = append(p.Bars, c.stack(m)...)
		p.Hits = append(p.Hits, c.hit(m))
	}
	return p
}

// stack is the bars of one minute, from the axis up.
func (c canvas) stack(m MinutePoint) []Bar {
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

func (c canvas) hit(m MinutePoint) Hit {
	x, w := c.column(m)
	text := fmt.Sprintf("%s: %s, %s unsolved, %s shed · CAPTCHA above %s · %s",
		m.Start.In(c.zone).Format("15:04"), countWords(m.Failures, "failure"),
		comma(m.Unsolved), comma(m.Shed), rateWords(m.Threshold), m.ModeWords())
	return Hit{coord(x), coord(w), text}
}

// describe is the plot for those who cannot see it.
func describe(c canvas, points []MinutePoint) string {
	if len(points) == 0 {
		return "Nothing has been counted yet."
	}
	var failures, unsolved, shed, on int
	peak := points[0]
	for _, m := range points {
		failures, unsolved, shed = failures+m.Failures, unsolved+m.Unsolved, shed+m.Shed
		if m.Total() > peak.Total() {
			peak = m
		}
		if m.Mode == ModeCAPTCHA {
			on++
		}
	}
	last := points[len(points)-1]
	return fmt.Sprintf("From %s to %s: %s, %s left unsolved, %s shed. The highest minute was %s with %s in all; the threshold for CAPTCHA mode is %s now. CAPTCHA mode was on for %s.",
		points[0].Start.In(c.zone).Format("15:04"), last.Start.Add(time.Minute).In(c.zone).Format("15:04"),
		countWords(failures, "failure"), countWords(unsolved, "challenge"), countWords(shed, "attempt"),
		peak.Start.In(c.zone).Format("15:04"), comma(peak.Total()), rateWords(last.Threshold), countWords(on, "minute"))
}
