// Package pages draws every page that a person sees: sign-in, change of
// password, the administrator's overview with its plot, and plain errors.
//
// It is view code only. A handler fills a view struct and calls its Render
// function; the package asks nobody anything and reads no clock: the moment that
// counts as now is a field of the view. A page is drawn whole or not at all.
//
// Pages work without JavaScript and under
//
//	default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:;
//	media-src 'self'; connect-src 'self'; form-action 'self';
//	frame-ancestors 'none'; base-uri 'none'
//
// so they have no inline script, no inline style and no style attribute, not
// even in the SVG. That is why the plot is drawn here: the charting library at
// hand writes a style attribute on every shape.
//
// Account names, addresses and reasons are typed by strangers. They are escaped
// by html/template, isolated from the text around them, cut where they are
// long, and their invisible characters are shown by number.
package pages

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"time"
)

//go:embed templates/*.html
var sources embed.FS

var templates = template.Must(template.New("pages").Funcs(template.FuncMap{
	"name":    newName,
	"line":    newLine,
	"moment":  newMoment,
	"after":   func(now time.Time, d time.Duration) moment { return newMoment(now, now.Add(d)) },
	"next":    nextWords,
	"count":   countWords,
	"comma":   comma,
	"comma64": func(n int64) string { return comma(int(n)) },
	"rate":    rateWords,
	"total":   total,
	"mode":    modeWords,
	"ladder":  LadderTitle,
	"xy":      coord,
}).ParseFS(sources, "templates/*.html"))

// render draws a whole page, or none.
func render(name string, view any) ([]byte, error) {
	var page bytes.Buffer
	if err := templates.ExecuteTemplate(&page, name, view); err != nil {
		return nil, fmt.Errorf("pages: render %s: %w", name, err)
	}
	return page.Bytes(), nil
}

// frame is what the templates "top" and "bottom" need.
type frame struct {
	Page
	Title   string
	Script  string
	PoW     bool
	Remote  bool
	Passkey bool
	Wide    bool
}
