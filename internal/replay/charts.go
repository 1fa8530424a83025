package replay

import (
	"html/template"
	"time"

	"authguard/internal/times"
)

// Chart is a plot of a page.
type Chart struct {
	Legend   []Legend
	Caption  string
	SVG      template.HTML
	From, To string // ends of the time axis; empty: none
}

// Legend is the name of the shapes of one class.
type Legend struct{ Class, Name string }

// Charts draws the counts of a series, and how near the failure rate came to the threshold of CAPTCHA mode. The text
// describes the counts.
func Charts(all []Bucket, text string) []Chart {
	if len(all) == 0 {
		return nil
	}
	each := time.Minute
	if len(all) > 1 {
		each = all[1].At.Sub(all[0].At)
	}
	var values [6][]float64
	modes, high, rate := make([]string, len(all)), int64(0), 0.0
	for i, b := range all {
		for n, v := range []float64{float64(b.Guesses), float64(b.Checked), float64(b.Logins), float64(b.Hindered),
			float64(b.Nearest.Pressure), b.Threshold} {
			values[n] = append(values[n], v)
		}
		if b.Mode {
			modes[i] = "mode"
		}
		high, rate = max(high, b.Guesses, b.Logins), max(rate, float64(b.Nearest.Pressure), 1.1*b.Threshold)
	}
	counts := newPlot(200, float64(high), modes)
	counts.Area("guess", values[0])
	counts.Area("checked", values[1])
	counts.Area("login", values[2])
	counts.Area("met", values[3])
	charts := []Chart{{
		Legend: []Legend{{"guess", "wrong passwords"}, {"checked", "checked"}, {"login", "logins"}, {"met", "affected"},
			{"mode", "CAPTCHA mode"}},
		Caption: "highest: " + Comma(high) + " in " + Spell(each), SVG: counts.SVG("", "", text, ""),
	}}
	if rate > 0 {
		near := newPlot(100, rate, modes)
		near.Area("checked", values[4])
		near.Path("login", "", near.Steps(values[5])...)
		charts = append(charts, Chart{
			Legend: []Legend{{"checked", "failure rate, in the minute closest to the threshold"},
				{"login", "threshold of CAPTCHA mode"}},
			Caption: "highest: " + Comma(int64(rate+.5)) + " a minute",
			SVG:     near.SVG("", "", "How close the failure rate came to the threshold of CAPTCHA mode", ""),
		})
	}
	last := &charts[len(charts)-1]
	last.From, last.To = times.Text(all[0].At.UTC()), times.Text(all[0].At.Add(each*time.Duration(len(all))).UTC())
	return charts
}

func newPlot(height, high float64, modes []string) *Plot {
	p := NewPlot(960, height)
	p.High, p.Stretch = high, true
	p.Spans(modes, func(mode string, x, width float64) { p.Rect(mode, "", x, 0, max(1, width), height) })
	return p
}
