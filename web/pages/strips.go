package pages

import (
	"fmt"
	"strings"
	"time"

	"authguard/captchamode"
	"authguard/internal/control"
)

// Strips are small plots of one span, one below the other, each with its own scale.
type Strips struct {
	Canvas canvas
	Desc   string
	Rows   []Strip
	Marks  []Mark
}

// A Strip is one of these plots.
type Strip struct {
	Name, Now, Peak string
	Path            string // of the area
	Top, Base       string
	NameY           string
}

const (
	stripHeight = 30.0
	stripText   = 20.0
)

var counted = [...]struct {
	name string
	of   func(control.Counts) int
}{
	{"Attempts", func(c control.Counts) int { return c.Attempts }},
	{"Failed", func(c control.Counts) int { return c.Failures }},
	{"Challenges issued", func(c control.Counts) int { return c.Shown }},
	{"Challenges solved", func(c control.Counts) int { return c.Solved }},
	{"Blocked or delayed", func(c control.Counts) int { return c.Refused }},
	{"Known clients admitted", func(c control.Counts) int { return c.Known }},
}

// NewStrips draws a series in one of the shapes of newCanvas.
func NewStrips(id string, now time.Time, span control.Span, s control.Series, switches []captchamode.Switch) Strips {
	c := newCanvas(id, now, span, 1)
	c.Left, c.Right, c.Top = 2, c.Width-2, 4
	if span == control.LastHour {
		c.each = 10 * time.Second
		if id == "narrow" {
			c.each = 30 * time.Second
		}
	}
	c.Bottom = c.Top + float64(len(counted))*(stripText+stripHeight)
	c.Height = c.Bottom + 26
	all := Strips{Canvas: c, Marks: c.marks(now, switches)}
	unit := map[time.Duration]string{time.Second: "per second", time.Minute: "per minute"}[s.Each]
	var words []string
	for i, row := range counted {
		one := c.strip(now, s, row.of, unit)
		one.Name = row.name
		top := c.Top + float64(i)*(stripText+stripHeight) + stripText
		one.Top, one.Base, one.NameY = coord(top), coord(top+stripHeight), coord(top-5)
		all.Rows = append(all.Rows, one)
		words = append(words, fmt.Sprintf("%s: %s%s", row.name, one.Now, one.Peak))
	}
	all.Desc = strings.Join(words, ". ") + "."
	return all
}

func (c canvas) strip(now time.Time, s control.Series, of func(control.Counts) int, unit string) (one Strip) {
	sums := make([]float64, int(c.to.Sub(c.from)/c.each))
	var peak control.Point
	var sum int
	for _, p := range s.Points {
		if column := int(p.Start.Sub(c.from) / c.each); !p.Start.Before(c.from) && column < len(sums) {
			sums[column] += float64(of(p.Counts)) * float64(s.Each) / float64(c.each)
		}
		if sum += of(p.Counts); of(p.Counts) > of(peak.Counts) {
			peak = p
		}
	}
	one.Now = comma(sum) + " total"
	if c.ID == "narrow" {
		one.Now = comma(sum)
	}
	if of(peak.Counts) == 0 {
		return one
	}
	layout := map[time.Duration]string{time.Second: "15:04:05"}[s.Each]
	when := newMoment(now, peak.Start).Text
	if layout != "" {
		when = peak.Start.In(c.zone).Format(layout)
	}
	one.Peak = fmt.Sprintf(", peak %s %s at %s", comma(of(peak.Counts)), unit, when)
	if c.ID == "narrow" {
		one.Peak = fmt.Sprintf(", peak %s at %s", short(float64(of(peak.Counts))), when)
	}
	one.Path = c.area(sums)
	return one
}

func (c canvas) area(sums []float64) string {
	high := 0.0
	for _, v := range sums {
		high = max(high, v)
	}
	var b strings.Builder
	w := (c.Right - c.Left) / float64(len(sums))
	fmt.Fprintf(&b, "M%s 0", coord(c.Left))
	last := 0.0
	for i, v := range sums {
		if v != last {
			fmt.Fprintf(&b, "H%sV%s", coord(c.Left+float64(i)*w), coord(-v/max(high, 1e-9)*stripHeight))
		}
		last = v
	}
	fmt.Fprintf(&b, "H%sV0Z", coord(c.Right))
	return b.String()
}
