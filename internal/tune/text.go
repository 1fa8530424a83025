package tune

import (
	"fmt"
	"math"
	"strconv"

	"authguard/internal/report"
)

// Sheet is what was found, for people.
func (f *Found) Sheet() *report.Sheet {
	s := &report.Sheet{
		Title: "Limits that were found", Names: []string{f.Base.Name, "found"}, Lead: f.lead(),
		Notes: []string{fmt.Sprintf("%d limits were tried, each number at a quarter, half, twice and four times what it was, one after the other.", f.Tried)},
		Foot:  "Try what was found on monitor, and on another log, before it is enforced: limits that fit one log best fit the next one less.",
	}
	both := func(name string, cell func(*Limits) string) { s.Add(name, cell(&f.Base), cell(&f.Best)) }
	both("guesses that got through", func(l *Limits) string { return through(l.Through) })
	both("logins that met something", func(l *Limits) string { return report.Part(l.Met, l.Logins) })
	both("kept out", func(l *Limits) string { return report.Comma(l.KeptOut) })
	s.Sections = []report.Section{{Name: "To paste", Paste: f.Best.Text}, {Name: "What less friction costs", Dots: f.dots(), Tables: []report.Table{f.table()}}}
	return s
}

func (f *Found) lead() string {
	allowed := fmt.Sprintf("at most %s %% of people's logins may meet something", strconv.FormatFloat(f.Friction*100, 'g', 3, 64))
	switch {
	case f.Best.Friction() > f.Friction:
		return "No limits were found with as little friction as asked for (" + allowed + "). These have the least."
	case f.Best.Text == f.Base.Text:
		return "Nothing was found that is better than the limits that there are, where " + allowed + "."
	}
	return "These let the fewest guesses through of all that were tried, where " + allowed + "."
}

func (f *Found) dots() report.Dots {
	var x, y []float64
	var class, name []string
	for _, l := range f.Frontier {
		kind := "other"
		switch l.Text {
		case f.Best.Text:
			kind = "best"
		case f.Base.Text:
			kind = "base"
		}
		x, y = append(x, float64(l.Met)), append(y, l.Through)
		class, name = append(class, kind), append(name, through(l.Through)+" got through, "+report.Part(l.Met, l.Logins)+" met something")
	}
	spell := func(x, y float64) (string, string) { return report.Comma(int64(x)), through(y) }
	return report.NewDots("logins that met something", "guesses that got through", x, y, class, name, spell, "The fewer logins meet something, the more guesses get through.")
}

// table is the frontier in numbers.
func (f *Found) table() report.Table {
	t := report.Table{Name: "the best of what was tried", Heads: []string{"guesses that got through", "logins that met something", ""}}
	for _, l := range f.Frontier {
		mark := ""
		if l.Text == f.Best.Text {
			mark = "found"
		}
		t.Rows = append(t.Rows, []string{through(l.Through), report.Part(l.Met, l.Logins), mark})
	}
	return t
}

func through(v float64) string { return strconv.FormatFloat(math.Round(v*1e6)/1e6, 'f', -1, 64) }
