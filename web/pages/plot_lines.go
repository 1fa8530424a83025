package pages

import (
	"sort"
	"strings"
	"time"
)

// A threshold is one of the lines, and how to read it from a minute.
type threshold struct {
	class, label string
	of           func(MinutePoint) float64
}

var thresholds = [...]threshold{
	{"on", "CAPTCHA on", func(m MinutePoint) float64 { return m.Threshold }},
	{"leave", "may go off", func(m MinutePoint) float64 { return m.Leave }},
	{"slow", "slowing", func(m MinutePoint) float64 { return m.Slow }},
}

// labelGap is the least distance between the base lines of two labels.
const labelGap = 14

// lines draws each threshold as steps, minute by minute, since it moves with
// what the site has learned.
func (c canvas) lines(points []MinutePoint) []Line {
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
func (c canvas) steps(points []MinutePoint, of func(MinutePoint) float64) (path string, last float64) {
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
		lines[i].LabelX, lines[i].Anchor = coord(c.right+8), "start"
		if c.narrow {
			at[i] = heights[i] - 4
			lines[i].LabelX, lines[i].Anchor = coord(c.left+4), "start"
		}
	}
	sort.SliceStable(order, func(a, b int) bool { return at[order[a]] > at[order[b]] })
	floor := c.bottom
	for _, i := range order {
		at[i] = min(at[i], floor)
		floor = at[i] - labelGap
		lines[i].LabelY = coord(at[i])
	}
}
