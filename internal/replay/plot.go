package replay

import (
	"fmt"
	"strings"
	"time"
)

// Plot shows four counts over time, and when CAPTCHA mode was on.
type Plot struct {
	From, To time.Time
	High     int64         // the highest count of a column
	Each     time.Duration // time per column
	Text     string        // text alternative
	Areas    []Area
	Mode     []Bar
	// Pressure is the failure rate, as an area, and Threshold is CAPTCHA mode's, as a line: SVG paths of 960 by 100. Most
	// is their maximum per minute. All are empty without data.
	Pressure, Threshold string
	Most                string
}

// Area is one count over time, as an SVG path of 960 by 200.
type Area struct{ Class, Name, Path string }

// Bar is a time in CAPTCHA mode.
type Bar struct{ X, Width string }

// Column is one time step of a plot.
type Column struct {
	Guesses, Checked, Logins, Met int64
	Mode                          bool
	Nearest
}

// Nearest is the minute in which the failure rate came nearest to the threshold of CAPTCHA mode. The zero Nearest means
// no data.
type Nearest struct {
	Pressure  int     `json:"failure_rate,omitempty"`
	Threshold float64 `json:"threshold,omitempty"`
}

// Or returns the nearer one.
func (n Nearest) Or(other Nearest) Nearest {
	if n.Threshold == 0 || other.Threshold > 0 &&
		float64(other.Pressure)*n.Threshold > float64(n.Pressure)*other.Threshold {
		return other
	}
	return n
}

const plotWidth, plotHeight, pressureHeight = 960.0, 200.0, 100.0

// NewPlot lays out columns of equal duration that start at from.
func NewPlot(from time.Time, each time.Duration, columns []Column, text string) (p Plot) {
	if len(columns) == 0 {
		return p
	}
	p.From, p.To, p.Each, p.Text = from, from.Add(each*time.Duration(len(columns))), each, text
	for _, c := range columns {
		p.High = max(p.High, c.Guesses, c.Logins)
	}
	for _, a := range []struct {
		class, name string
		of          func(Column) int64
	}{
		{"guess", "wrong passwords", func(c Column) int64 { return c.Guesses }},
		{"checked", "checked", func(c Column) int64 { return c.Checked }},
		{"login", "logins", func(c Column) int64 { return c.Logins }},
		{"met", "affected", func(c Column) int64 { return c.Met }},
	} {
		p.Areas = append(p.Areas, Area{a.class, a.name, path(columns, p.High, a.of)})
	}
	p.drawPressure(columns)
	wide := plotWidth / float64(len(columns))
	for i := 0; i < len(columns); i++ {
		first := i
		for i < len(columns) && columns[i].Mode {
			i++
		}
		if i > first {
			p.Mode = append(p.Mode, Bar{coord(float64(first) * wide), coord(max(1, float64(i-first)*wide))})
		}
	}
	return p
}

func (p *Plot) drawPressure(columns []Column) {
	high := 0.
	for _, c := range columns {
		high = max(high, 1.1*c.Threshold, float64(c.Pressure))
	}
	if high == 0 {
		return
	}
	var area, line strings.Builder
	wide, y := plotWidth/float64(len(columns)),
		func(v float64) string { return coord(pressureHeight - v/high*pressureHeight) }
	area.WriteString("M0 " + coord(pressureHeight))
	pen, last := "M", 0.
	for i, c := range columns {
		x := coord(float64(i) * wide)
		fmt.Fprintf(&area, "H%sV%s", x, y(float64(c.Pressure)))
		switch {
		case c.Threshold == 0: // no data
			pen = "M"
		case pen == "M":
			line.WriteString("M" + x + " " + y(c.Threshold))
			pen = "H"
		case c.Threshold != last:
			line.WriteString("H" + x + "V" + y(c.Threshold))
		}
		if last = c.Threshold; last > 0 && (i+1 == len(columns) || columns[i+1].Threshold == 0) {
			line.WriteString("H" + coord(float64(i+1)*wide))
		}
	}
	area.WriteString("H" + coord(plotWidth) + "V" + coord(pressureHeight) + "Z")
	p.Pressure, p.Threshold, p.Most = area.String(), line.String(), Comma(int64(high+.5))
}

// Highest formats the highest count.
func (p Plot) Highest() string { return Comma(p.High) + " in " + Spell(p.Each) }

// Begins and Ends format the plot's time range.
func (p Plot) Begins() string { return Moment(p.From) }
func (p Plot) Ends() string   { return Moment(p.To) }

// path returns an area from the axis up, one step per column.
func path(columns []Column, high int64, of func(Column) int64) string {
	if high == 0 {
		return ""
	}
	var b strings.Builder
	wide := plotWidth / float64(len(columns))
	b.WriteString("M0 " + coord(plotHeight))
	last := int64(0)
	for i, c := range columns {
		n := of(c)
		if n == last {
			continue
		}
		fmt.Fprintf(&b, "H%sV%s", coord(float64(i)*wide), coord(plotHeight-float64(n)/float64(high)*plotHeight))
		last = n
	}
	b.WriteString("H" + coord(plotWidth) + "V" + coord(plotHeight) + "Z")
	return b.String()
}

func coord(v float64) string { return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0") }
