// Package plot draws plots as SVG. The shapes have classes for a style sheet, no styles and no scripts, so that they
// work under a strict Content-Security-Policy. All texts are escaped.
package replay

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strconv"
	"strings"
	"time"

	"authguard/internal/times"
)

// Plot is a plot of values over columns of equal width, usually times. Shapes that are drawn later cover earlier ones.
// All coordinates are those of the SVG, from its top left corner. It is not safe for concurrent use.
type Plot struct {
	Width, Height float64
	// Left, Right, Top and Bottom are the positions of the axes.
	Left, Right, Top, Bottom float64
	// From and To are the ends of the time axis, High and Step the end and the labels of the value axis.
	From, To   time.Time
	High, Step float64
	// Root draws values by their square root, so that low values stay visible beside high ones.
	Root bool
	// Stretch lets the style sheet set both sides, for plots without texts.
	Stretch bool

	shapes strings.Builder
}

// NewPlot returns an empty plot whose axes are its edges.
func NewPlot(width, height float64) *Plot {
	return &Plot{Width: width, Height: height, Right: width, Bottom: height}
}

// SVG returns the plot. The description, and the ID that it needs, may be empty.
func (p *Plot) SVG(class, id, name, description string) template.HTML {
	var head element
	head.open("svg", "class", class, "viewBox", "0 0 "+Coord(p.Width)+" "+Coord(p.Height), "role", "img")
	if p.Stretch {
		head.attributes("preserveAspectRatio", "none")
	}
	if description == "" {
		head.attributes("aria-label", name)
		head.WriteString(">")
	} else {
		head.attributes("aria-labelledby", id+"-title "+id+"-desc")
		fmt.Fprintf(&head, `><title id="%s-title">%s</title><desc id="%[1]s-desc">%[3]s</desc>`, html.EscapeString(id),
			html.EscapeString(name), html.EscapeString(description))
	}
	return template.HTML(head.String() + p.shapes.String() + "</svg>")
}

// X returns the position of a part of the horizontal axis, from 0 to 1.
func (p *Plot) X(part float64) float64 { return p.Left + clamp(part)*(p.Right-p.Left) }

// At returns the position of a time.
func (p *Plot) At(t time.Time) float64 {
	return p.X(float64(t.Sub(p.From)) / float64(p.To.Sub(p.From)))
}

// Y returns the position of a value. A value outside of the axis is at its end.
func (p *Plot) Y(v float64) float64 {
	part := clamp(Finite(v) / max(p.High, math.SmallestNonzeroFloat64))
	if p.Root {
		part = math.Sqrt(part)
	}
	return p.Bottom - part*(p.Bottom-p.Top)
}

// Rect draws a rectangle. The title is shown by the pointer; it may be empty.
func (p *Plot) Rect(class, title string, x, y, width, height float64) {
	p.shape("rect", title, "class", class, "x", x, "y", y, "width", width, "height", height)
}

// Circle draws a point.
func (p *Plot) Circle(class, title string, x, y, radius float64) {
	p.shape("circle", title, "class", class, "cx", x, "cy", y, "r", radius)
}

// Path draws a path of commands and coordinates: "M", 1.0, 2.0, "H", 3.0.
func (p *Plot) Path(class, title string, path ...any) {
	var d strings.Builder
	for i, part := range path {
		switch v := part.(type) {
		case string:
			d.WriteString(v)
		case float64:
			if _, after := path[i-1].(float64); after {
				d.WriteString(" ")
			}
			d.WriteString(Coord(v))
		}
	}
	p.shape("path", title, "class", class, "d", d.String())
}

// Text draws a text, anchored at its "start", "middle" or "end".
func (p *Plot) Text(class, anchor string, x, y float64, text string) {
	var e element
	e.open("text", "class", class, "x", x, "y", y, "text-anchor", anchor)
	fmt.Fprintf(&p.shapes, "%s>%s</text>\n", e.String(), html.EscapeString(text))
}

// Area draws values as an area, one step per column.
func (p *Plot) Area(class string, values []float64) {
	path, last := []any{"M", p.Left, p.Bottom}, 0.0
	for i, v := range values {
		if v != last {
			path = append(path, "H", p.X(float64(i)/float64(len(values))), "V", p.Y(v))
		}
		last = v
	}
	p.Path(class, "", append(path, "H", p.Right, "V", p.Bottom, "Z")...)
}

// Steps returns the path of a line through values, one step per column. A value of 0 leaves a gap.
func (p *Plot) Steps(values []float64) (path []any) {
	x := func(i int) float64 { return p.X(float64(i) / float64(len(values))) }
	for i, v := range values {
		switch {
		case v == 0:
			continue
		case i == 0 || values[i-1] == 0:
			path = append(path, "M", x(i), p.Y(v))
		case v != values[i-1]:
			path = append(path, "H", x(i), "V", p.Y(v))
		}
		if i+1 == len(values) || values[i+1] == 0 {
			path = append(path, "H", x(i+1))
		}
	}
	return path
}

// Spans calls draw for all columns that follow one another with the same name, except for columns without one.
func (p *Plot) Spans(names []string, draw func(name string, x, width float64)) {
	for i, next := 0, 0; i < len(names); i = next {
		for next = i + 1; next < len(names) && names[next] == names[i]; {
			next++
		}
		x := p.X(float64(i) / float64(len(names)))
		if names[i] != "" {
			draw(names[i], x, p.X(float64(next)/float64(len(names)))-x)
		}
	}
}

// Scale sets High to a round value above v, and Step to 1, 2 or 5 times a power of ten, for at most six labels.
func (p *Plot) Scale(v float64) {
	v = max(v*1.06, 4)
	power := math.Pow(10, math.Floor(math.Log10(v/5)))
	for _, m := range []float64{1, 2, 5, 10} {
		if p.Step = m * power; v/p.Step <= 5 {
			break
		}
	}
	p.Step = max(p.Step, 1)
	p.High = math.Ceil(v/p.Step) * p.Step
}

// labelRoom is the least distance of two labels of the value axis.
const labelRoom = 26

// ticks returns the labelled values: multiples of Step, or with Root, round values far enough from one another.
func (p *Plot) ticks() (all []float64) {
	if !p.Root {
		for v := 0.0; v <= p.High+p.Step/2; v += p.Step {
			all = append(all, v)
		}
		return all
	}
	all = []float64{p.High}
	for power := math.Pow(10, math.Floor(math.Log10(p.High))); power >= 1; power /= 10 {
		for _, m := range []float64{5, 2, 1} {
			if v := m * power; p.Y(v)-p.Y(all[len(all)-1]) >= labelRoom && p.Bottom-p.Y(v) >= labelRoom {
				all = append(all, v)
			}
		}
	}
	return append(all, 0)
}

// Grid draws the lines and labels of the value axis.
func (p *Plot) Grid(label func(float64) string) {
	for _, v := range p.ticks() {
		p.Path("grid", "", "M", p.Left, p.Y(v), "H", p.Right)
		p.Text("tick", "end", p.Left-8, p.Y(v)+4, label(v))
	}
}

// Times draws the labels of the time axis below lines of this height: about as many as asked for, at round times of
// the zone, with the date at midnight.
func (p *Plot) Times(labels int, class string, height float64, zone *time.Location) {
	every := p.To.Sub(p.From) / time.Duration(labels)
	year, month, day := p.From.In(zone).Date()
	for t := time.Date(year, month, day, 0, 0, 0, 0, zone); !t.After(p.To); t = t.Add(every) {
		label := times.Clock(t)
		if t.Hour() == 0 && t.Minute() == 0 && every >= time.Hour {
			label = times.Day(t)
		}
		if !t.Before(p.From) {
			p.Path(class, "", "M", p.At(t), p.Bottom, "v", height)
			half := 3.6 * float64(len(label)) // of its width: it is not cut at an edge
			p.Text("tick", "middle", max(half, min(p.At(t), p.Width-half)), p.Bottom+19, label)
		}
	}
}

func (p *Plot) shape(name, title string, attributes ...any) {
	var e element
	e.open(name, attributes...)
	if title == "" {
		p.shapes.WriteString(e.String() + "/>\n")
		return
	}
	fmt.Fprintf(&p.shapes, "%s><title>%s</title></%s>\n", e.String(), html.EscapeString(title), name)
}

type element struct{ strings.Builder }

// open writes a start tag without its end.
func (e *element) open(name string, attributes ...any) {
	e.WriteString("<" + name)
	e.attributes(attributes...)
}

// attributes writes names and values in turn, except for empty ones.
func (e *element) attributes(pairs ...any) {
	for i := 0; i < len(pairs); i += 2 {
		text, ok := pairs[i+1].(string)
		if !ok {
			text = Coord(pairs[i+1].(float64))
		}
		if text != "" {
			fmt.Fprintf(e, ` %s="%s"`, pairs[i], html.EscapeString(text))
		}
	}
}

// Coord formats a coordinate, with a tenth as its finest step.
func Coord(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) }

// Finite returns v, or 0 for a value that cannot be drawn.
func Finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
		return 0
	}
	return v
}

func clamp(part float64) float64 { return max(0, min(1, part)) }
