// Package report shows figures side by side, with plots and tables behind them: for a
// terminal, and as one HTML page that loads nothing and runs nothing.
package report

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

// A Sheet is a whole report. Its texts may be strangers': they are shown as text.
type Sheet struct {
	Title string
	Lead  string // a sentence or two
	Notes []string
	// Names are the columns: what stands side by side.
	Names []string
	Rows  []Row
	// Foot says how to read columns and rows, in lines.
	Foot     string
	Sections []Section // one for each column, usually
}

// A Row is one figure of all columns. Spaces before its name set it in.
type Row struct {
	Name  string
	Cells []string
}

// A Section is what stands behind one column.
type Section struct {
	Name   string
	Plot   Plot // the zero Plot is none
	Dots   Dots // and so are the zero Dots
	Lines  []string
	Tables []Table
	Paste  string // lines for a configuration file
}

// A Table has as many cells in each row as names.
type Table struct {
	Name  string
	Heads []string
	Rows  [][]string
}

// Add adds a figure.
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

// Page writes the sheet as a page.
func (s *Sheet) Page(w io.Writer) error {
	t, err := template.New("page").Funcs(template.FuncMap{"quote": Quote}).Parse(page)
	if err != nil {
		return err
	}
	return t.Execute(w, s)
}

// Quote is a text of one line as a terminal may have it: what cannot be seen is written
// out.
func Quote(text string) string {
	if q := strconv.Quote(text); strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) }) ||
		strings.ContainsRune(text, '\uFFFD') {
		return q
	}
	return text
}

// Part is a number, and how much of another it is.
func Part(n, of int64) string {
	if of == 0 || n == 0 {
		return Comma(n)
	}
	return fmt.Sprintf("%s (%s %%)", Comma(n), strconv.FormatFloat(float64(n)*100/float64(of), 'g', 3, 64))
}

// Comma is a number as people read it.
func Comma(n int64) string { return humanize.Comma(n) }

// Moment is a time, in UTC.
func Moment(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }

// Spell is how long something took, in words.
func Spell(d time.Duration) string {
	if d <= 0 {
		return "none"
	}
	return guard.Spell(d)
}
