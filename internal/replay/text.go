package replay

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"authguard/internal/times"
)

// Sheet returns the report as a sheet.
func (r *Report) Sheet() *Sheet {
	s := &Sheet{Title: "What these limits would have done", Lead: r.summary(), Notes: r.notes(), Foot: foot}
	for i := range r.Policies {
		s.Names = append(s.Names, r.Policies[i].Name)
		s.Sections = append(s.Sections, r.Policies[i].section())
	}
	r.figures(s)
	return s
}

const foot = `Columns: one for each policy.
  wrong passwords checked: guesses that reached the password check; the others were challenged, delayed or blocked
  corrected typos: the same account logged in from the same IP address within a day
  affected: logins that were challenged, delayed or blocked, themselves or their typos before
  kept out: logins that got in later, or not at all
Every right password counts as a user's, including stolen ones: check the most affected users.`

func (r *Report) figures(s *Sheet) {
	add := func(name string, cell func(*Result) string) { Each(s, r.Policies, name, cell) }
	guesses := func(name string, of func(*Guesses) int64) {
		add(name, func(p *Result) string { return Part(of(&p.Guesses), p.Guesses.All) })
	}
	logins := func(name string, of func(*Logins) int64) {
		add(name, func(p *Result) string { return Part(of(&p.Logins), p.Logins.All) })
	}
	guesses("wrong passwords checked", func(g *Guesses) int64 { return g.Checked })
	guesses("  corrected typos", func(g *Guesses) int64 { return g.Slips })
	guesses("  challenged", func(g *Guesses) int64 { return g.Stopped[challenged] })
	guesses("  delayed", func(g *Guesses) int64 { return g.Stopped[delayed] })
	guesses("  blocked", func(g *Guesses) int64 { return g.Stopped[refused] })
	add("logins", func(p *Result) string { return Comma(p.Logins.All) })
	logins("  from known clients", func(l *Logins) int64 { return l.Known })
	logins("  affected", func(l *Logins) int64 { return l.Hindered })
	logins("    challenged", func(l *Logins) int64 { return l.Met[challenged] })
	logins("    delayed", func(l *Logins) int64 { return l.Met[delayed] })
	logins("    blocked", func(l *Logins) int64 { return l.Met[refused] })
	logins("  kept out", func(l *Logins) int64 { return l.KeptOut })
	add("  longest delay", func(p *Result) string { return Spell(p.Logins.LongestWait) })
	add("affected users", func(p *Result) string { return Comma(p.Logins.People) })
	add("CAPTCHA mode", func(p *Result) string {
		if len(p.Mode) == 0 {
			return "never"
		}
		return fmt.Sprintf("%d×, %s in total", len(p.Mode), Spell(p.ModeOn))
	})
}

func (r *Report) summary() string {
	l := r.Log
	text := fmt.Sprintf("%s attempts from %s to %s: %s logins, %s wrong passwords",
		Comma(l.Attempts), times.Text(l.From.UTC()), times.Text(l.To.UTC()), Comma(l.Succeeded),
		Comma(l.Failed))
	if l.Stopped > 0 {
		text += fmt.Sprintf(", %s without a password check", Comma(l.Stopped))
	}
	if l.Named > 0 {
		text += fmt.Sprintf("; %s accounts", about(r.Accounts))
	}
	return text + fmt.Sprintf(", %s IP addresses.", about(r.Addresses))
}

func (r *Report) notes() (notes []string) {
	l := r.Log
	notes = append(notes, fmt.Sprintf("%s lines: %s unrelated, %s unreadable.", Comma(l.Lines),
		Comma(l.Others), Comma(l.Bad)))
	for _, bad := range l.First {
		notes = append(notes, fmt.Sprintf("%s:%d: %s: %s", bad.Path, bad.Line, bad.Why, strconv.Quote(bad.Text)))
	}
	if l.Year != 0 {
		notes = append(notes, fmt.Sprintf("Lines have no year: the first line's year is assumed to be %d; set another with "+
			"--year.", l.Year))
	}
	if l.Named == 0 {
		notes = append(notes, "The log has no accounts: limits per account are not tested, and every IP address with a "+
			"successful login counts as a known client.")
	}
	if l.Late > 0 {
		notes = append(notes, fmt.Sprintf("%s attempts are out of order, by at most %s.", Comma(l.Late),
			Spell(l.Latest)))
	}
	if slices.ContainsFunc(r.Policies, func(p Result) bool { return p.Bounded }) {
		notes = append(notes, "There are too many account and IP pairs in a day to keep: some users' typos count as an "+
			"attacker's.")
	}
	if slices.ContainsFunc(r.Policies, func(p Result) bool { return p.Logins.People >= mostPeople }) {
		notes = append(notes, fmt.Sprintf("Affected users are counted up to %s.", Comma(mostPeople)))
	}
	return notes
}

// mostSpans is the number of CAPTCHA mode periods shown; the JSON has all.
const mostSpans = 10

func (r *Result) section() Section {
	s := Section{Name: r.Name, Charts: Charts(r.Series, fmt.Sprintf(
		"%s of %s wrong passwords were checked, and %s of %s logins were affected.", Comma(r.Guesses.Checked),
		Comma(r.Guesses.All), Comma(r.Logins.Hindered), Comma(r.Logins.All)))}
	for _, m := range r.Mode[:min(len(r.Mode), mostSpans)] {
		s.Lines = append(s.Lines, m.String())
	}
	if len(r.Through) > 0 {
		t := Table{Name: "most wrong passwords checked", Heads: []string{"type", "name", "at least"}}
		for _, one := range r.Through {
			t.Rows = append(t.Rows, []string{one.Kind, one.Name, Comma(one.Checked)})
		}
		s.Tables = append(s.Tables, t)
	}
	if len(r.Hindered) > 0 {
		t := Table{Name: "most affected users", Heads: []string{"login (UTC)", "account", "IP address", "effects"}}
		for _, c := range r.Hindered {
			t.Rows = append(t.Rows, []string{times.Text(c.At.UTC()), cmp.Or(c.Account, "–"), c.Address, c.met()})
		}
		s.Tables = append(s.Tables, t)
	}
	return s
}

func (c Case) met() string {
	var parts []string
	for _, m := range []struct {
		n    int
		word string
	}{{c.Challenged, "challenged"}, {c.Delayed, "delayed"}, {c.Refused, "blocked"}} {
		if m.n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d×", m.word, m.n))
		}
	}
	text := strings.Join(parts, ", ")
	if took := c.At.Sub(c.Since); took > 0 {
		text += ", in " + Spell(took)
	}
	if c.Waited > 0 {
		text += ", delayed by " + Spell(c.Waited)
	}
	if c.KeptOut {
		text += ", kept out"
	}
	return text
}

// String says when CAPTCHA mode was on.
func (s Span) String() string {
	to := "the end of the log"
	if !s.To.IsZero() {
		to = times.Text(s.To.UTC())
	}
	return fmt.Sprintf("CAPTCHA mode from %s to %s, at a failure rate of %d a minute", times.Text(s.From.UTC()), to,
		s.Pressure)
}

func about(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return "about " + Comma(n)
}
