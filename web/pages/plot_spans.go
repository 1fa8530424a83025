package pages

import "time"

// labelRoom is the width below which a span goes without its label.
const labelRoom = 92

// spans joins neighbouring minutes of one mode. Quiet ones are not drawn.
func (c canvas) spans(points []MinutePoint) []Span {
	var out []Span
	for i := 0; i < len(points); {
		j := i + 1
		for j < len(points) && points[j].Mode == points[i].Mode {
			j++
		}
		if s, ok := c.span(points[i:j]); ok {
			out = append(out, s)
		}
		i = j
	}
	return out
}

func (c canvas) span(run []MinutePoint) (Span, bool) {
	mode := run[0].Mode
	if mode != ModeSlow && mode != ModeCAPTCHA {
		return Span{}, false
	}
	x := c.x(run[0].Start)
	w := c.x(run[len(run)-1].Start.Add(time.Minute)) - x
	s := Span{Class: mode, X: coord(x), W: coord(w), LabelX: coord(x + 6)}
	if w >= labelRoom {
		s.Label = run[0].ModeWords()
	}
	return s, true
}

// A swatchRow is one entry of the plot's legend.
type swatchRow struct{ Class, Text string }

// swatches is the legend.
func swatches() []swatchRow {
	return []swatchRow{
		{"bar failures", "Failed sign-ins"},
		{"bar unsolved", "Challenges left unsolved"},
		{"bar shed", "Turned away, too busy"},
		{"span captcha", "CAPTCHA mode on"},
		{"span slow", "Slowing strangers"},
	}
}
