package simulate

import (
	"fmt"
	"slices"
	"time"

	"authguard/internal/replay"
)

const foot = `Rows: attackers' guesses, then users' logins with the right password.
  checked: guesses that reached the password check
  right guesses: guesses with the right password; let in: those that led to a login
  challenges shown to users, delayed, verification code required, users stopped: affected logins
  users stopped: blocked logins; longest kept out: from a user's first attempt to the login
  known clients: IP addresses and browsers from which that user has signed in before
For authguard an IP address of more than 200 users is a shared address and never a known client.`

// legend explains the columns, then the rows.
func legend(s *replay.Sheet) string {
	text := "Columns: one for each defense.\n"
	for i, name := range s.Names {
		about := "the limits of this file"
		if i == 0 {
			about = "the configured limits"
		}
		if n := slices.Index(Defenses(), name); n >= 0 {
			about = defenses[n].about
		}
		text += "  " + name + ": " + about + "\n"
	}
	return text + foot
}

// Sheet returns the report as a sheet.
func (r *Report) Sheet() *replay.Sheet {
	s := &replay.Sheet{Title: "Simulated: " + r.Scenario.Name, Lead: r.Scenario.About, Notes: r.Scenario.notes()}
	for i := range r.Results {
		s.Names = append(s.Names, r.Results[i].Name)
		s.Sections = append(s.Sections, replay.Section{Name: r.Results[i].Name, Charts: r.Results[i].charts()})
	}
	r.figures(s, "")
	s.Foot = legend(s)
	return s
}

// Overall returns one sheet for several scenarios under the same defenses.
func Overall(all []*Report) *replay.Sheet {
	s := &replay.Sheet{Title: "Simulated", Lead: fmt.Sprintf("%d scenarios.", len(all))}
	for _, result := range all[0].Results {
		s.Names = append(s.Names, result.Name)
	}
	for _, r := range all {
		s.Notes = append(s.Notes, r.Scenario.Name+": "+r.Scenario.About)
		short := &replay.Sheet{}
		r.figures(short, "  ")
		s.Add(r.Scenario.Name, make([]string, len(s.Names))...)
		for _, row := range short.Rows {
			switch row.Name {
			case "  let in", "  challenges shown to users", "  verification code required", "  users stopped",
				"  longest kept out":
				s.Rows = append(s.Rows, row)
			}
		}
		first := &r.Results[0]
		s.Sections = append(s.Sections, replay.Section{Name: r.Scenario.Name + ", " + first.Name,
			Charts: first.charts()})
	}
	together(s, all)
	s.Notes, s.Foot = append(s.Notes, outdone(all)...), legend(s)
	return s
}

func together(s *replay.Sheet, all []*Report) {
	sums := make([]Result, len(s.Names))
	for _, r := range all {
		for i, one := range r.Results {
			sums[i].Right += one.Right
			sums[i].Let += one.Let
			sums[i].Challenges += one.Challenges
			sums[i].WaysIn += one.WaysIn
			sums[i].Stopped += one.Stopped
		}
	}
	s.Add("all together", make([]string, len(s.Names))...)
	replay.Each(s, sums, "  right guesses", func(r *Result) string { return replay.Comma(r.Right) })
	replay.Each(s, sums, "  let in", func(r *Result) string { return replay.Comma(r.Let) })
	replay.Each(s, sums, "  challenges shown to users", func(r *Result) string { return replay.Comma(r.Challenges) })
	replay.Each(s, sums, "  verification code required", func(r *Result) string { return replay.Comma(r.WaysIn) })
	replay.Each(s, sums, "  users stopped", func(r *Result) string { return replay.Comma(r.Stopped) })
}

// outdone notes where another defense lets in fewer right guesses than the first, or stops fewer users.
func outdone(all []*Report) (notes []string) {
	for _, r := range all {
		first := &r.Results[0]
		for i := range r.Results[1:] {
			o := &r.Results[i+1]
			if o.Let < first.Let {
				notes = append(notes, fmt.Sprintf("%s: %s lets in fewer right guesses than %s: %d instead of %d.", r.Scenario.Name,
					o.Name, first.Name, o.Let, first.Let))
			}
			if o.Stopped < first.Stopped {
				notes = append(notes, fmt.Sprintf("%s: %s stops fewer users than %s: %d instead of %d.", r.Scenario.Name, o.Name,
					first.Name, o.Stopped, first.Stopped))
			}
		}
	}
	if len(notes) == 0 && len(all[0].Results) > 1 {
		notes = append(notes, fmt.Sprintf("In none of these scenarios does another defense let in fewer right guesses than "+
			"%s, or stop fewer users.", all[0].Results[0].Name))
	}
	return notes
}

func (r *Report) figures(s *replay.Sheet, in string) {
	add := func(name string, cell func(*Result) string) { replay.Each(s, r.Results, in+name, cell) }
	number := func(name string, of func(*Result) int) {
		add(name, func(p *Result) string { return replay.Comma(of(p)) })
	}
	part := func(name string, n, of func(*Result) int) {
		add(name, func(p *Result) string { return replay.Part(n(p), of(p)) })
	}
	guesses, logins := func(p *Result) int { return p.Guesses }, func(p *Result) int { return p.Logins }
	if len(r.Scenario.Attackers) > 0 {
		number("guesses", guesses)
		part("checked", func(p *Result) int { return p.Checked }, guesses)
		number("right guesses", func(p *Result) int { return p.Right })
		number("let in", func(p *Result) int { return p.Let })
		number("compromised accounts", func(p *Result) int { return p.Lost })
	}
	number("users' logins", logins)
	part("challenges shown to users", func(p *Result) int { return p.Challenges }, logins)
	part("  for known clients", func(p *Result) int { return p.KnownChallenged }, logins)
	part("delayed", func(p *Result) int { return p.Delayed }, logins)
	part("verification code required", func(p *Result) int { return p.WaysIn }, logins)
	part("users stopped", func(p *Result) int { return p.Stopped }, logins)
	part("  or verification code required, for known clients", func(p *Result) int { return p.KnownStopped }, logins)
	add("longest kept out", func(p *Result) string { return replay.Spell(p.LongestOut.Round(time.Second)) })
	add("CAPTCHA mode on", func(p *Result) string { return replay.Spell(p.ModeOn) })
}

func (s *Scenario) notes() []string {
	p := s.People
	return []string{fmt.Sprintf("%d days, %s users, %g logins a day each; seed %d.", s.Days, replay.Comma(p.Accounts),
		p.Logins, s.Seed)}
}

func (r *Result) charts() []replay.Chart {
	return replay.Charts(r.Series, fmt.Sprintf("%s of %s guesses were checked, and %s were let in; %s of %s logins were "+
		"affected.", replay.Comma(r.Checked), replay.Comma(r.Guesses), replay.Comma(r.Let), replay.Comma(r.People),
		replay.Comma(r.Logins)))
}
