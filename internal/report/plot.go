package report

import (
	"fmt"
	"strings"
	"time"
)

// A Plot shows what happened over time: four counts, each a part of the one before or
// beside it, and when CAPTCHA mode was on.
type Plot struct {
	From, To time.Time
	High     int64         // the highest count of a column
	Each     time.Duration // that a column is wide
	Text     string        // what it shows, for who does not see it
	Areas    []Area
	Mode     []Bar
}

// An Area is one count over time, as a path of an SVG of 960 by 200.
type Area struct{ Class, Name, Path string }

// A Bar is a time in CAPTCHA mode.
type Bar struct{ X, Width string }

// A Column is one moment of a plot.
type Column struct {
	Guesses, Checked, Logins, Met int64
	Mode                          bool
}

const plotWidth, plotHeight = 960.0, 200.0

// NewPlot lays columns out that begin at a time and are each so long.
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
		{"checked", "looked at", func(c Column) int64 { return c.Checked }},
		{"login", "logins", func(c Column) int64 { return c.Logins }},
		{"met", "that met something", func(c Column) int64 { return c.Met }},
	} {
		p.Areas = append(p.Areas, Area{a.class, a.name, path(columns, p.High, a.of)})
	}
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

// Highest says what the highest column is.
func (p Plot) Highest() string { return Comma(p.High) + " in " + Spell(p.Each) }

// Begins and Ends are the plot's edges.
func (p Plot) Begins() string { return Moment(p.From) }
func (p Plot) Ends() string   { return Moment(p.To) }

// path is an area from the axis up, a step a column.
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
