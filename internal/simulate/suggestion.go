package simulate

import (
	"cmp"
	"fmt"
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
  attackers' logins: in scenarios; logs do not tell them
  checked guesses: in logs wrong passwords that were checked and are not corrected typos
  affected logins: users' logins that were challenged, delayed or blocked, or needed a verification code
  kept out: logins that got in later, or not at all
Test the suggestion on another log and in monitoring mode before you enforce it: limits that fit one log
best fit the next one less.`,
	}
	both := func(name string, cell func(*Limits) string) { replay.Each(s, []Limits{f.Base, f.Best}, name, cell) }
	both("attackers' logins", func(l *Limits) string { return replay.Comma(l.Let) })
	both("checked guesses", func(l *Limits) string { return replay.Comma(l.Checked) })
	both("affected logins", func(l *Limits) string { return replay.Part(l.Met, l.Logins) })
	both("kept out", func(l *Limits) string { return replay.Comma(l.KeptOut) })
	s.Sections = []replay.Section{{Name: "Configuration", Paste: f.Best.Text}, {Name: "Friction and security",
		Charts: []replay.Chart{f.chart()}, Tables: []replay.Table{f.table()}}}
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

// chart shows what less friction costs.
func (f *Found) chart() replay.Chart {
	p := replay.NewPlot(960, 300)
	p.Left, p.Right, p.Top, p.Bottom = 10, 950, 10, 290
	most := int64(0)
	for _, l := range f.Frontier {
		most, p.High = max(most, l.Met), max(p.High, l.through())
	}
	x := func(l Limits) float64 { return p.X(float64(l.Met) / max(1, float64(most))) }
	var line []any
	for i, l := range f.Frontier {
		if line = append(line, "H", x(l), "V", p.Y(l.through())); i == 0 {
			line = []any{"M", x(l), p.Y(l.through())}
		}
	}
	p.Path("login", "", line...)
	for _, l := range f.Frontier {
		class := map[Score]string{f.Base.Score: "base", f.Best.Score: "best"}
		p.Circle(cmp.Or(class[l.Score], "other"), l.words()+", "+replay.Part(l.Met, l.Logins)+" affected",
			x(l), p.Y(l.through()), 7)
	}
	return replay.Chart{
		Caption: fmt.Sprintf("up: attackers' logins and checked guesses · to the right: affected logins, to %s",
			replay.Comma(most)),
		SVG: p.SVG("dots", "", "The fewer logins are affected, the more guesses get through.", ""),
	}
}

func (f *Found) table() replay.Table {
	t := replay.Table{Name: "the best tested limits",
		Heads: []string{"attackers' logins", "checked guesses", "affected logins", "limits"}}
	limits := map[Score]string{f.Base.Score: "present", f.Best.Score: "suggested"} // others may score the same
	for _, l := range f.Frontier {
		t.Rows = append(t.Rows, []string{replay.Comma(l.Let), replay.Comma(l.Checked), replay.Part(l.Met, l.Logins),
			cmp.Or(limits[l.Score], "other")})
	}
	return t
}

// through is the height of a dot: a checked guess weighs a millionth of a login.
func (s Score) through() float64 { return float64(s.Let) + float64(s.Checked)/1e6 }

func (s Score) words() string {
	return replay.Comma(s.Let) + " logins of attackers, " + replay.Comma(s.Checked) + " checked guesses"
}
