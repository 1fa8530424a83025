package trial

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"
)

//go:embed page.html
var page string

// Page writes the report as one page that loads nothing and runs nothing.
func (r *Report) Page(w io.Writer) error {
	t, err := template.New("page").Funcs(template.FuncMap{
		"comma": comma, "moment": moment, "quote": quote, "plot": newPlot,
	}).Parse(page)
	if err != nil {
		return err
	}
	return t.Execute(w, r)
}

// A plot is one policy's series as paths of an SVG of 960 by 240.
type plot struct {
	Guesses, Checked, Logins, Hindered string // paths
	Mode                               []bar
	High                               int64
	From, To                           time.Time
	Each                               time.Duration
	Text                               string // what it shows, for who does not see it
}

// A bar is a time in CAPTCHA mode.
type bar struct{ X, Width string }

const plotWidth, plotHeight = 960.0, 200.0

func newPlot(r Result) (p plot) {
	if len(r.Series) == 0 {
		return p
	}
	each := time.Minute
	if len(r.Series) > 1 {
		each = r.Series[1].At.Sub(r.Series[0].At)
	}
	p.From, p.To, p.Each = r.Series[0].At, r.Series[len(r.Series)-1].At.Add(each), each
	for _, b := range r.Series {
		p.High = max(p.High, b.Guesses, b.Logins)
	}
	p.Guesses = path(r.Series, p.High, func(b Bucket) int64 { return b.Guesses })
	p.Checked = path(r.Series, p.High, func(b Bucket) int64 { return b.Checked })
	p.Logins = path(r.Series, p.High, func(b Bucket) int64 { return b.Logins })
	p.Hindered = path(r.Series, p.High, func(b Bucket) int64 { return b.Hindered })
	wide := plotWidth / float64(len(r.Series))
	for i := 0; i < len(r.Series); i++ {
		from := i
		for i < len(r.Series) && r.Series[i].Mode {
			i++
		}
		if i > from {
			p.Mode = append(p.Mode, bar{coord(float64(from) * wide), coord(max(1, float64(i-from)*wide))})
		}
	}
	p.Text = fmt.Sprintf("At most %s wrong passwords or logins in %s. In all %s wrong passwords were looked at of %s, and %s of %s logins met something.",
		comma(p.High), spell(each), comma(r.Guesses.Checked), comma(r.Guesses.All), comma(r.Logins.Hindered), comma(r.Logins.All))
	return p
}

// path is an area from the axis up, a step a bucket.
func path(series []Bucket, high int64, of func(Bucket) int64) string {
	if high == 0 {
		return ""
	}
	var b strings.Builder
	wide := plotWidth / float64(len(series))
	b.WriteString("M0 " + coord(plotHeight))
	last := int64(0)
	for i, one := range series {
		n := of(one)
		if n == last {
			continue
		}
		x := coord(float64(i) * wide)
		fmt.Fprintf(&b, "H%sV%s", x, coord(plotHeight-float64(n)/float64(high)*plotHeight))
		last = n
	}
	b.WriteString("H" + coord(plotWidth) + "V" + coord(plotHeight) + "Z")
	return b.String()
}

func coord(v float64) string { return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0") }

// Spelled is how long a bucket is.
func (p plot) Spelled() string { return spell(p.Each) }
