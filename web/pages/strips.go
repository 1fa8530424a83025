package pages

import (
	"fmt"
	"html/template"
	"slices"
	"strings"
	"time"

	"authguard/captchamode"
	"authguard/internal/metrics"
)

const (
	stripHeight = 30.0
	stripText   = 20.0
)

var counted = [...]struct {
	name string
	of   func(metrics.Counts) int
}{
	{"Attempts", func(c metrics.Counts) int { return c.Attempts }},
	{"Failed", func(c metrics.Counts) int { return c.Failures }},
	{"Challenges issued", func(c metrics.Counts) int { return c.Shown }},
	{"Challenges solved", func(c metrics.Counts) int { return c.Solved }},
	{"Blocked or delayed", func(c metrics.Counts) int { return c.Refused }},
	{"Known clients admitted", func(c metrics.Counts) int { return c.Known }},
}

// strips draws small plots of one span, one below the other, each with its own scale.
func strips(shape string, now time.Time, span metrics.Span, s metrics.Series,
	switches []captchamode.Switch) template.HTML {
	c := newChart(shape, now, span)
	c.Left, c.Right, c.Top = 2, c.Width-2, 4
	if long := c.To.Sub(c.From); long <= time.Hour {
		c.each = long / 120
		if c.narrow() {
			c.each *= 2
		}
	}
	c.Bottom = c.Top + float64(len(counted))*(stripText+stripHeight)
	c.Height = c.Bottom + 26
	c.times("grid", c.Top-c.Bottom)
	var words, texts []string
	top, bottom := c.Top, c.Bottom
	for _, row := range counted {
		sums, text, peak := c.strip(s, row.of)
		c.High, c.Top, c.Bottom = slices.Max(sums), c.Top+stripText, c.Top+stripText+stripHeight
		c.Path("axis", "", "M", c.Left, c.Bottom, "H", c.Right)
		c.Area("area", sums)
		c.Top = c.Bottom
		texts, words = append(texts, text+peak), append(words, row.name+": "+text+peak)
	}
	c.Top, c.Bottom = top, bottom
	c.marks(switches, c.Top, false)
	for i, row := range counted {
		y := c.Top + float64(i)*(stripText+stripHeight) + stripText - 5
		c.Text("strip-name", "start", c.Left, y, row.name)
		c.Text("tick", "end", c.Right, y, texts[i])
	}
	return c.SVG("plot strips "+shape, "strips-"+shape, "Login attempts", strings.Join(words, ". ")+".")
}

// strip returns the average of each column, and in words the sum and the peak.
func (c chart) strip(s metrics.Series, of func(metrics.Counts) int) (sums []float64, text, words string) {
	sums = make([]float64, c.columns())
	var peak metrics.Point
	var sum int
	for _, p := range s.Points {
		if i, ok := c.column(p.Start); ok {
			sums[i] += float64(of(p.Counts)) * float64(s.Each) / float64(c.each)
		}
		if sum += of(p.Counts); of(p.Counts) > of(peak.Counts) {
			peak = p
		}
	}
	text = comma(sum)
	if !c.narrow() {
		text += " total"
	}
	n := of(peak.Counts)
	if n == 0 {
		return sums, text, ""
	}
	when := newMoment(c.now, peak.Start).Text
	if c.narrow() {
		return sums, text, fmt.Sprintf(", peak %s at %s", short(float64(n)), when)
	}
	unit := map[time.Duration]string{time.Second: "per second", time.Minute: "per minute"}[s.Each]
	return sums, text, fmt.Sprintf(", peak %s %s at %s", comma(n), unit, when)
}
