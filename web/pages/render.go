package pages

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io"
)

//go:embed templates/*.html
var sources embed.FS

var templates = template.Must(template.New("pages").Funcs(template.FuncMap{
	"name":     newName,
	"moment":   newMoment,
	"duration": DurationWords,
	"count":    countWords,
	"comma":    comma,
	"rate":     rateWords,
	"swatch":   swatches,
	"pick":     pick,
}).ParseFS(sources, "templates/*.html"))

// render executes into memory first, so that an error in the middle of a page
// leaves the response untouched.
func render(w io.Writer, name string, view any) error {
	var page bytes.Buffer
	if err := templates.ExecuteTemplate(&page, name, view); err != nil {
		return fmt.Errorf("pages: render %s: %w", name, err)
	}
	if _, err := page.WriteTo(w); err != nil {
		return fmt.Errorf("pages: write %s: %w", name, err)
	}
	return nil
}

// pick is a table view with the kind of its rows, for the template that draws
// both tables.
func pick(view AdminView, kind string) subjectTable {
	t := subjectTable{Now: view.Now, CSRF: view.CSRF, Kind: kind, Rows: view.Accounts}
	if kind == "address" {
		t.Rows = view.Addresses
	}
	return t
}
