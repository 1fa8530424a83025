package replay

import (
	"bufio"
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
	Charts []Chart // for the page
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

// Each adds a row with a cell for each result.
func Each[R any](s *Sheet, all []R, name string, cell func(*R) string) {
	var cells []string
	for i := range all {
		cells = append(cells, cell(&all[i]))
	}
	s.Add(name, cells...)
}

// Text writes the sheet for a terminal, without its charts.
func (s *Sheet) Text(to io.Writer) error {
	w := bufio.NewWriter(to) // keeps the first error
	for _, line := range append([]string{s.Lead}, s.Notes...) {
		fmt.Fprintln(w, Quote(line))
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 8, 3, ' ', 0)
	for _, name := range s.Names {
		fmt.Fprintf(t, "\t%s", Quote(name))
	}
	fmt.Fprintln(t)
	for _, row := range s.Rows {
		fmt.Fprintf(t, "%s\t%s\n", row.Name, strings.Join(row.Cells, "\t"))
	}
	_ = t.Flush()
	fmt.Fprintf(w, "\n%s\n", s.Foot)
	for i := range s.Sections {
		s.Sections[i].text(w)
	}
	return w.Flush()
}

func (s *Section) text(w io.Writer) {
	if len(s.Lines)+len(s.Tables)+len(s.Paste) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s\n", Quote(s.Name))
	for _, line := range s.Lines {
		fmt.Fprintf(w, "  %s\n", Quote(line))
	}
	if s.Paste != "" {
		fmt.Fprintf(w, "\n%s\n", s.Paste)
	}
	for _, table := range s.Tables {
		fmt.Fprintf(w, "  %s\n", table.Name)
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
func Part[N int | int64](n, of N) string {
	if of == 0 || n == 0 {
		return Comma(n)
	}
	return fmt.Sprintf("%s (%s %%)", Comma(n), strconv.FormatFloat(float64(n)*100/float64(of), 'g', 3, 64))
}

// Comma formats a number with thousands separators.
func Comma[N int | int64](n N) string { return humanize.Comma(int64(n)) }

// Spell formats a duration in words.
func Spell(d time.Duration) string {
	if d <= 0 {
		return "none"
	}
	return guard.Spell(d)
}
