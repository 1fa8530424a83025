package pages

import (
	"math"
	"strconv"
	"time"

	"authguard/captchamode"
)

// A canvas turns minutes and numbers into coordinates.
type canvas struct {
	ID                       string // "wide" or "narrow"; part of the ids in the SVG
	Width, Height            float64
	Left, Right, Top, Bottom float64
	from, to                 time.Time
	zone                     *time.Location
	step, high               float64 // of the y axis: a tick each step, up to high
}

func newCanvas(id string, now time.Time, points []captchamode.Minute) canvas {
	c := canvas{ID: id, Width: 960, Height: 300, Left: 46, Right: 828, Top: 26, Bottom: 250, zone: now.Location()}
	if id == "narrow" {
		c = canvas{ID: id, Width: 340, Height: 280, Left: 32, Right: 322, Top: 26, Bottom: 232, zone: now.Location()}
	}
	c.from, c.to = timeRange(now, points)
	c.step, c.high = niceScale(highest(points))
	return c
}

// SpanHeight is the height of what is drawn, StripTop where the coloured strip
// above a span begins, TickX where the numbers of the y axis end, and Middle that
// of the x axis.
func (c canvas) SpanHeight() float64 { return c.Bottom - c.Top }
func (c canvas) StripTop() float64   { return c.Top - 4 }
func (c canvas) TickX() float64      { return c.Left - 8 }
func (c canvas) Middle() float64     { return (c.Left + c.Right) / 2 }

// timeRange ends with the newest minute and is at least an hour long, so that
// three minutes after a start do not look like three great blocks.
func timeRange(now time.Time, points []captchamode.Minute) (from, to time.Time) {
	to = now.Truncate(time.Minute).Add(time.Minute)
	if len(points) > 0 {
		to = points[len(points)-1].Start.Add(time.Minute)
	}
	from = to.Add(-time.Hour)
	if len(points) > 0 && points[0].Start.Before(from) {
		from = points[0].Start
	}
	return from, to
}

func highest(points []captchamode.Minute) float64 {
	high := 0.0
	for _, m := range points {
		high = max(high, float64(total(m)), finite(m.Threshold), finite(m.SlowAt), finite(m.LeaveAt))
	}
	return high
}

// niceScale is a step of 1, 2 or 5 times a power of ten, and the first multiple
// of it that leaves some air above v: at most six steps.
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

// column is the left edge and the width of one minute.
func (c canvas) column(m captchamode.Minute) (x, w float64) {
	x = c.x(m.Start)
	return x, c.x(m.Start.Add(time.Minute)) - x
}

// Ticks are the labels of the y axis.
func (c canvas) Ticks() []Tick {
	var out []Tick
	for v := 0.0; v <= c.high+c.step/2; v += c.step {
		out = append(out, Tick{coord(c.y(v)), comma(int(math.Round(v)))})
	}
	return out
}

// Times are the labels of the x axis, at round minutes: each tenth, or fewer where there is less room.
func (c canvas) Times() []Tick {
	every := 10 * time.Minute
	if c.ID == "narrow" {
		every = 20 * time.Minute
	}
	for c.to.Sub(c.from)/every > 10 {
		every *= 2
	}
	var out []Tick
	for t := c.from.Truncate(every); !t.After(c.to); t = t.Add(every) {
		if !t.Before(c.from) {
			out = append(out, Tick{coord(c.x(t)), t.In(c.zone).Format("15:04")})
		}
	}
	return out
}

// coord writes a coordinate with one decimal at most.
func coord(v float64) string {
	return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64)
}

func clamp(part float64) float64 { return math.Max(0, math.Min(1, part)) }

// finite is v, or 0 for what cannot be drawn.
func finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
		return 0
	}
	return v
}
