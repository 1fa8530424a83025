package pages

import (
	"math"
	"strconv"
	"time"

	"authguard/internal/control"
)

// A canvas maps times and numbers to SVG coordinates.
type canvas struct {
	ID                       string // "wide" or "narrow"; part of the ids in the SVG
	Width, Height            float64
	Left, Right, Top, Bottom float64
	from, to                 time.Time
	zone                     *time.Location
	each                     time.Duration // width of a column
	step, high               float64       // of the y axis: a tick each step, up to high
}

// newCanvas returns one of two shapes for a span: "wide", or "narrow" for a phone. It ends with the current minute.
func newCanvas(id string, now time.Time, span control.Span, high float64) canvas {
	c := canvas{ID: id, Width: 960, Height: 320, Right: 828, Top: 46, Bottom: 270, zone: now.Location(), each: time.Minute}
	if id == "narrow" {
		c.Width, c.Height, c.Right, c.Bottom = 340, 300, 330, 252
	}
	c.to = now.Truncate(time.Minute).Add(time.Minute)
	c.from = c.to.Add(-time.Hour)
	if span == control.LastDay {
		c.each = 4 * time.Minute
		if id == "narrow" {
			c.each = 12 * time.Minute
		}
		c.to = now.Truncate(c.each).Add(c.each)
		c.from = c.to.Add(-24 * time.Hour)
	}
	c.step, c.high = niceScale(high)
	c.Left = 14 + 6.5*float64(len(short(c.high)))
	return c
}

// SpanHeight is the height of the plot, the others are positions: of the colored strip, the y labels and the x label.
func (c canvas) SpanHeight() float64 { return c.Bottom - c.Top }
func (c canvas) StripTop() float64   { return c.Top - 4 }
func (c canvas) TickX() float64      { return c.Left - 8 }
func (c canvas) Middle() float64     { return (c.Left + c.Right) / 2 }

// niceScale returns a step of 1, 2 or 5 times a power of ten and its first multiple above v, for at most six steps.
func niceScale(v float64) (step, high float64) {
	v = math.Max(v*1.06, 4)
	power := math.Pow(10, math.Floor(math.Log10(v/5)))
	for _, m := range []float64{1, 2, 5, 10} {
		if step = m * power; v/step <= 5 {
			break
		}
	}
	step = math.Max(step, 1)
	return step, math.Ceil(v/step) * step
}

func (c canvas) x(t time.Time) float64 {
	part := float64(t.Sub(c.from)) / float64(c.to.Sub(c.from))
	return c.Left + clamp(part)*(c.Right-c.Left)
}

func (c canvas) y(v float64) float64 {
	return c.Bottom - clamp(finite(v)/c.high)*(c.Bottom-c.Top)
}

func (c canvas) column(start time.Time) (x, w float64) {
	x = c.x(start)
	return x, c.x(start.Add(c.each)) - x
}

// Ticks returns the labels of the y axis.
func (c canvas) Ticks() []Tick {
	var out []Tick
	for v := 0.0; v <= c.high+c.step/2; v += c.step {
		out = append(out, Tick{coord(c.y(v)), short(v)})
	}
	return out
}

// Times returns the labels of the x axis, at round times in the reader's zone, with the date at midnight.
func (c canvas) Times() []Tick {
	every := c.to.Sub(c.from) / 6
	if c.ID == "narrow" {
		every = c.to.Sub(c.from) / 3
	}
	var out []Tick
	year, month, day := c.from.In(c.zone).Date()
	for t := time.Date(year, month, day, 0, 0, 0, 0, c.zone); !t.After(c.to); t = t.Add(every) {
		layout := "15:04"
		if t.Hour() == 0 && t.Minute() == 0 && every >= time.Hour {
			layout = "2 Jan"
		}
		if !t.Before(c.from) {
			out = append(out, Tick{coord(c.x(t)), t.Format(layout)})
		}
	}
	return out
}

func coord(v float64) string {
	return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64)
}

func clamp(part float64) float64 { return math.Max(0, math.Min(1, part)) }

// finite returns v, or 0 for a value that cannot be drawn.
func finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
		return 0
	}
	return v
}
