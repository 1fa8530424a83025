package doctest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var partPattern = regexp.MustCompile(`(?m)^#+ (.+)$|^<!-- generated -->\n(?:\n(?:[^#<\n].*\n)*)?`)

// Generated fails the test if a generated part of the page is not what part returns for its name. A part is the block,
// usually a table, after the line <!-- generated -->. Its name is the heading above. If part returns nothing, another test
// holds it. With REFERENCE=write, as make
// reference sets it, the page is written instead.
func Generated(t testing.TB, page string, part func(name string) string) {
	t.Helper()
	at := filepath.Join(Root(t), filepath.FromSlash(page))
	old, err := os.ReadFile(at)
	if err != nil {
		t.Fatal(err)
	}
	heading, parts := "", 0
	renewed := partPattern.ReplaceAllStringFunc(string(old), func(text string) string {
		if name := partPattern.FindStringSubmatch(text)[1]; name != "" {
			heading = name
			return text
		}
		made := part(heading)
		parts++
		if made == "" {
			return text
		}
		end := ""
		if strings.HasSuffix(text, "-->\n\n") { // nothing is generated yet
			end = "\n"
		}
		return "<!-- generated -->\n\n" + made + end
	})
	switch {
	case parts == 0:
		t.Errorf("%s has no generated part", page)
	case renewed == string(old):
	case os.Getenv("REFERENCE") == "write":
		if err := os.WriteFile(at, []byte(renewed), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s is out of date: run make reference", page)
	}
}

// Table is a table in Markdown, whose first row is the head.
func Table(rows ...[]string) string {
	var out strings.Builder
	for i, row := range rows {
		if row[0] == "" {
			out.WriteString("|") // otherwise the first pipe would be the table's edge, and the row would lose a cell
		}
		out.WriteString(strings.TrimRight(strings.ReplaceAll(strings.Join(row, " | "), "|  |", "| |"), " ") + "\n")
		if i == 0 {
			out.WriteString(strings.Repeat("---|", len(row)-1) + "---\n")
		}
	}
	return out.String()
}

// Escaped is text for a cell.
func Escaped(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

// Code is a text as code, or nothing.
func Code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}
