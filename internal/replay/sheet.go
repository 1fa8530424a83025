package replay

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"

	"authguard/guard"
)

// Sheet is a report. Its texts may contain user input, which is always escaped.
type Sheet struct {
	Title string
	Lead  string // one or two sentences
	Notes []string
	// Names are the columns.
	Names []string
	Rows  []Row
	// Foot explains columns and rows, in lines.
	Foot     string
	Sections []Section // usually one per column
}

// Row is one figure of all columns. Leading spaces in its name indent it.
type Row struct {
	Name  string
	Cells []string
}

// Section is the details of one column.
type Section struct {
	Name   string
	Plot   Plot // zero: none
	Dots   Dots // zero: none
	Lines  []string
	Tables []Table
	Paste  string // lines for a configuration file
}

// Table has as many cells per row as Heads.
type Table struct {
	Name  string
	Heads []string
	Rows  [][]string
}

// Add adds a row.
func (s *Sheet) Add(name string, cells ...string) { s.Rows = append(s.Rows, Row{name, cells}) }

// Text writes the sheet for a terminal, without its plots.
func (s *Sheet) Text(to io.Writer) error {
	w := &writer{to: to}
	w.line("%s", Quote(s.Lead))
	for _, note := range s.Notes {
		w.line("%s", Quote(note))
	}
	w.line("")
	t := tabwriter.NewWriter(w, 0, 8, 3, ' ', 0)
	for _, name := range s.Names {
		fmt.Fprintf(t, "\t%s", Quote(name))
	}
	fmt.Fprintln(t)
	for _, row := range s.Rows {
		fmt.Fprintf(t, "%s\t%s\n", row.Name, strings.Join(row.Cells, "\t"))
	}
	_ = t.Flush() // w keeps the error
	w.line("\n%s", s.Foot)
	for i := range s.Sections {
		w.section(&s.Sections[i])
	}
	return w.err
}

type writer struct {
	to  io.Writer
	err error
}

func (w *writer) Write(b []byte) (int, error) {
	if w.err == nil {
		_, w.err = w.to.Write(b)
	}
	return len(b), w.err
}

func (w *writer) line(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }

func (w *writer) section(s *Section) {
	if len(s.Lines)+len(s.Tables)+len(s.Paste) == 0 {
		return
	}
	w.line("\n%s", Quote(s.Name))
	for _, line := range s.Lines {
		w.line("  %s", Quote(line))
	}
	if s.Paste != "" {
		w.line("\n%s", s.Paste)
	}
	for _, table := range s.Tables {
		w.line("  %s", table.Name)
		t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
		for _, row := range slices.Concat([][]string{table.Heads}, table.Rows) {
			fmt.Fprint(t, "  ")
			for _, cell := range row {
				fmt.Fprintf(t, "  %s\t", Quote(cell))
			}
			fmt.Fprintln(t)
		}
		_ = t.Flush()
	}
}

//go:embed page.html
var page string

// Page writes the sheet as an HTML page.
func (s *Sheet) Page(w io.Writer) error {
	t, err := template.New("page").Funcs(template.FuncMap{"quote": Quote}).Parse(page)
	if err != nil {
		return err
	}
	return t.Execute(w, s)
}

// Quote makes one line of text safe for a terminal: it quotes text with nonprinting characters.
func Quote(text string) string {
	if q := strconv.Quote(text); strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) }) ||
		strings.ContainsRune(text, '\uFFFD') {
		return q
	}
	return text
}

// Part formats a number and its share of another.
func Part(n, of int64) string {
	if of == 0 || n == 0 {
		return Comma(n)
	}
	return fmt.Sprintf("%s (%s %%)", Comma(n), strconv.FormatFloat(float64(n)*100/float64(of), 'g', 3, 64))
}

// Comma formats a number with thousands separators.
func Comma(n int64) string { return humanize.Comma(n) }

// Moment formats a time in UTC.
func Moment(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }

// Spell formats a duration in words.
func Spell(d time.Duration) string {
	if d <= 0 {
		return "none"
	}
	return guard.Spell(d)
}
