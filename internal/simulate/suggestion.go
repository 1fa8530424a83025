package simulate

import (
	"fmt"
	"math"
	"strconv"

	"authguard/internal/replay"
)

// Sheet returns the result as a sheet.
func (f *Found) Sheet() *replay.Sheet {
	s := &replay.Sheet{
		Title: "Suggested limits", Names: []string{f.Base.Name, "suggested"}, Lead: f.lead(),
		Notes: []string{fmt.Sprintf("%d combinations of limits were tested: each number at a quarter, half, twice and four "+
			"times its value, one after the other.", f.Tried)},
		Foot: `Columns: the present limits and the suggested ones.
  guesses that got through: in logs wrong passwords that were checked and are not corrected typos;
    in scenarios attackers' logins, and a millionth of each checked guess
  affected logins: users' logins that were challenged, delayed or blocked
  kept out: logins that got in later, or not at all
Test the suggestion on another log and in monitoring mode before you enforce it: limits that fit one log
best fit the next one less.`,
	}
	both := func(name string, cell func(*Limits) string) { s.Add(name, cell(&f.Base), cell(&f.Best)) }
	both("guesses that got through", func(l *Limits) string { return through(l.Through) })
	both("affected logins", func(l *Limits) string { return replay.Part(l.Met, l.Logins) })
	both("kept out", func(l *Limits) string { return replay.Comma(l.KeptOut) })
	s.Sections = []replay.Section{{Name: "Configuration", Paste: f.Best.Text}, {Name: "Friction and security",
		Dots: f.dots(), Tables: []replay.Table{f.table()}}}
	return s
}

func (f *Found) lead() string {
	allowed := fmt.Sprintf("at most %s %% of users' logins may be affected", strconv.FormatFloat(f.Friction*100, 'g', 3,
		64))
	switch {
	case f.Best.Friction() > f.Friction:
		return "No tested limits have as little friction as requested (" + allowed + "). These have the least."
	case f.Best.Text == f.Base.Text:
		return "No tested limits are better than the present ones, where " + allowed + "."
	}
	return "These let through the fewest guesses of all tested limits, where " + allowed + "."
}

func (f *Found) dots() replay.Dots {
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
		class, name = append(class, kind), append(name, through(l.Through)+" got through, "+replay.Part(l.Met, l.Logins)+
			" affected")
	}
	spell := func(x, y float64) (string, string) { return replay.Comma(int64(x)), through(y) }
	return replay.NewDots("affected logins", "guesses that got through", x, y, class, name, spell,
		"The fewer logins are affected, the more guesses get through.")
}

func (f *Found) table() replay.Table {
	t := replay.Table{Name: "the best tested limits", Heads: []string{"guesses that got through", "affected logins", ""}}
	for _, l := range f.Frontier {
		mark := ""
		if l.Text == f.Best.Text {
			mark = "suggested"
		}
		t.Rows = append(t.Rows, []string{through(l.Through), replay.Part(l.Met, l.Logins), mark})
	}
	return t
}

func through(v float64) string { return strconv.FormatFloat(math.Round(v*1e6)/1e6, 'f', -1, 64) }
