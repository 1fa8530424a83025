package replay

// Dots is a scatter plot that shows what one quantity costs in the other.
type Dots struct {
	Across, Up string // titles of the axes
	Right, Top string // maximum values of the axes
	Points     []Dot
	Line       string // line through the points, as an SVG path of 960 by 300
	Text       string // text alternative
}

// Dot is one point.
type Dot struct{ X, Y, Class, Name string }

const dotsHeight = 300.0

// NewDots lays the points out; the leftmost must come first. class and name belong to the points.
func NewDots(across, up string, x, y []float64, class, name []string, spell func(x, y float64) (right, top string),
	text string) (d Dots) {
	d = Dots{Across: across, Up: up, Text: text}
	var right, top float64
	for i := range x {
		right, top = max(right, x[i]), max(top, y[i])
	}
	d.Right, d.Top = spell(right, top)
	scale := func(v, most, size float64) float64 {
		if most == 0 {
			return 0
		}
		return v / most * size
	}
	for i := range x {
		px, py := coord(10+scale(x[i], right, plotWidth-20)), coord(dotsHeight-10-scale(y[i], top, dotsHeight-20))
		d.Points = append(d.Points, Dot{px, py, class[i], name[i]})
		if d.Line == "" {
			d.Line = "M" + px + " " + py
		} else {
			d.Line += "H" + px + "V" + py
		}
	}
	return d
}
