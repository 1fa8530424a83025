package trial

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"

	"authguard/guard"
)

// A Row is one figure of all policies.
type Row struct {
	Name  string
	Cells []string
}

// Rows are the figures that stand side by side.
func (r *Report) Rows() []Row {
	rows := []Row{}
	add := func(name string, cell func(*Result) string) {
		row := Row{Name: name}
		for i := range r.Policies {
			row.Cells = append(row.Cells, cell(&r.Policies[i]))
		}
		rows = append(rows, row)
	}
	count := func(of func(*Result) int64, all func(*Result) int64) func(*Result) string {
		return func(p *Result) string { return part(of(p), all(p)) }
	}
	guesses := func(p *Result) int64 { return p.Guesses.All }
	logins := func(p *Result) int64 { return p.Logins.All }
	add("wrong passwords looked at", count(func(p *Result) int64 { return p.Guesses.Checked }, guesses))
	add("  of people, who mended them", count(func(p *Result) int64 { return p.Guesses.Slips }, guesses))
	add("  challenged", count(func(p *Result) int64 { return p.Guesses.Stopped[challenged] }, guesses))
	add("  told to wait", count(func(p *Result) int64 { return p.Guesses.Stopped[delayed] }, guesses))
	add("  refused", count(func(p *Result) int64 { return p.Guesses.Stopped[refused] }, guesses))
	add("logins", func(p *Result) string { return comma(p.Logins.All) })
	add("  from known places", count(func(p *Result) int64 { return p.Logins.Known }, logins))
	add("  that met something", count(func(p *Result) int64 { return p.Logins.Hindered }, logins))
	add("    a challenge", count(func(p *Result) int64 { return p.Logins.Met[challenged] }, logins))
	add("    a wait", count(func(p *Result) int64 { return p.Logins.Met[delayed] }, logins))
	add("    a refusal", count(func(p *Result) int64 { return p.Logins.Met[refused] }, logins))
	add("  kept out", count(func(p *Result) int64 { return p.Logins.KeptOut }, logins))
	add("  longest wait", func(p *Result) string { return spell(p.Logins.LongestWait) })
	add("people who met something", func(p *Result) string { return comma(p.Logins.People) })
	add("CAPTCHA mode", func(p *Result) string {
		if len(p.Mode) == 0 {
			return "never"
		}
		return fmt.Sprintf("%d×, %s in all", len(p.Mode), spell(p.ModeOn))
	})
	return rows
}

// Text writes the report for a terminal.
func (r *Report) Text(to io.Writer) error {
	p := &printer{w: to}
	p.line("%s", r.Summary())
	for _, note := range r.Notes() {
		p.line("%s", note)
	}
	for _, bad := range r.Log.First {
		p.line("  %s:%d: %s: %.80q", bad.Path, bad.Line, bad.Why, bad.Text)
	}
	p.line("")
	t := tabwriter.NewWriter(p, 0, 8, 3, ' ', 0)
	for _, policy := range r.Policies {
		fmt.Fprintf(t, "\t%s", quote(policy.Name))
	}
	fmt.Fprintln(t)
	for _, row := range r.Rows() {
		fmt.Fprintf(t, "%s\t%s\n", row.Name, strings.Join(row.Cells, "\t"))
	}
	_ = t.Flush() // p keeps the error
	for i := range r.Policies {
		p.policy(&r.Policies[i])
	}
	return p.err
}

// Summary says in a sentence what the log is.
func (r *Report) Summary() string {
	l := r.Log
	text := fmt.Sprintf("%s attempts from %s to %s: %s logins, %s wrong passwords", comma(l.Attempts), moment(l.From), moment(l.To), comma(l.Succeeded), comma(l.Failed))
	if l.Stopped > 0 {
		text += fmt.Sprintf(", %s that nobody looked at", comma(l.Stopped))
	}
	if l.Named > 0 {
		text += fmt.Sprintf("; %s accounts", about(r.Accounts))
	}
	return text + fmt.Sprintf(", %s addresses.", about(r.Addresses))
}

// Notes are what to know before believing it.
func (r *Report) Notes() (notes []string) {
	l := r.Log
	notes = append(notes, fmt.Sprintf("%s lines: %s of other things, %s that cannot be read.", comma(l.Lines), comma(l.Others), comma(l.Bad)))
	if l.Named == 0 {
		notes = append(notes, "The log names no accounts: limits per account were not tried, and an address that somebody logged in from stands for a known place.")
	}
	if l.Late > 0 {
		notes = append(notes, fmt.Sprintf("%s attempts stand after a later one, by %s at most.", comma(l.Late), spell(l.Latest)))
	}
	if slices.ContainsFunc(r.Policies, func(p Result) bool { return p.Bounded }) {
		notes = append(notes, "There are more pairs of account and address in a day than are kept: some people's wrong passwords count as an attacker's.")
	}
	return notes
}

type printer struct {
	w   io.Writer
	err error
}

func (p *printer) Write(b []byte) (int, error) {
	if p.err == nil {
		_, p.err = p.w.Write(b)
	}
	return len(b), p.err
}

func (p *printer) line(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// policy writes what stands behind the figures.
func (p *printer) policy(r *Result) {
	p.line("\n%s", quote(r.Name))
	for _, m := range r.FirstSpans() {
		p.line("  CAPTCHA mode %s", m)
	}
	if len(r.Through) > 0 {
		p.line("  most wrong passwords looked at")
		for _, t := range r.Through {
			p.line("    %-8s %-40s %s", t.Kind, quote(t.Name), comma(t.Checked))
		}
	}
	if len(r.Hindered) > 0 {
		p.line("  people who met most")
		for _, c := range r.Hindered {
			p.line("    %s %-24s %s: %s", moment(c.At), quote(cmp.Or(c.Account, "somebody")), c.Address, c.Met())
		}
	}
}

// Met says what somebody met.
func (c Case) Met() string {
	var parts []string
	for _, m := range []struct {
		n    int
		word string
	}{{c.Challenged, "challenged"}, {c.Delayed, "told to wait"}, {c.Refused, "refused"}} {
		if m.n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d×", m.word, m.n))
		}
	}
	text := strings.Join(parts, ", ")
	if took := c.At.Sub(c.Since); took > 0 {
		text += ", in " + spell(took)
	}
	if c.Waited > 0 {
		text += ", waited " + spell(c.Waited)
	}
	if c.KeptOut {
		text += ", kept out"
	}
	return text
}

// FirstSpans are the first ten times in CAPTCHA mode: all are in the JSON.
func (r Result) FirstSpans() []Span { return r.Mode[:min(len(r.Mode), 10)] }

// String says when it was.
func (s Span) String() string {
	to := "the end of the log"
	if !s.To.IsZero() {
		to = moment(s.To)
	}
	return fmt.Sprintf("from %s to %s, at %d failures a minute", moment(s.From), to, s.Pressure)
}

func part(n, of int64) string {
	if of == 0 || n == 0 {
		return comma(n)
	}
	return fmt.Sprintf("%s (%s %%)", comma(n), strconv.FormatFloat(float64(n)*100/float64(of), 'g', 3, 64))
}

func comma(n int64) string { return humanize.Comma(n) }

func about(n int) string {
	if n < 1000 {
		return strconv.Itoa(n)
	}
	return "about " + humanize.Comma(int64(n))
}

func moment(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }

func spell(d time.Duration) string {
	if d <= 0 {
		return "none"
	}
	return guard.Spell(d)
}

// quote is a stranger's text as a terminal may have it.
func quote(text string) string {
	if q := strconv.Quote(text); q[1:len(q)-1] != text {
		return q
	}
	return text
}
