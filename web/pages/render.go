// Package pages draws the pages of authguard: sign-in, change of password, the admin console with its plots, and
// errors.
//
// The package is view code only: a handler fills a view struct and calls its Render function. It does no I/O and reads
// no clock; the current time is a field of the view. A page is drawn whole or not at all.
//
// Pages work without JavaScript and under
//
//	default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:;
//	media-src 'self'; connect-src 'self'; form-action 'self';
//	frame-ancestors 'none'; base-uri 'none'
//
// so they have no inline script, no inline style and no style attribute. This is why the package draws the plots
// itself: the available chart library writes a style attribute on every shape.
//
// Attackers choose account names, addresses and reasons. html/template escapes them; the pages isolate them from the
// surrounding text, truncate long ones and show invisible characters as code points.
package pages

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"time"

	"authguard/internal/events"
	"authguard/internal/times"
)

//go:embed templates/*.html
var sources embed.FS

var templates = template.Must(template.New("pages").Funcs(template.FuncMap{
	"name":     newName,
	"line":     newLine,
	"moment":   newMoment,
	"timed":    timed,
	"day":      times.Day,
	"date":     times.Date,
	"after":    func(now time.Time, d time.Duration) moment { return newMoment(now, now.Add(d)) },
	"next":     nextWords,
	"count":    events.Count,
	"about":    events.About,
	"comma":    comma,
	"comma64":  func(n int64) string { return comma(int(n)) },
	"rate":     rateWords,
	"total":    total,
	"mode":     modeWords,
	"limitSet": LimitSetTitle,
}).ParseFS(sources, "templates/*.html"))

func render(name string, view any) ([]byte, error) {
	var page bytes.Buffer
	if err := templates.ExecuteTemplate(&page, name, view); err != nil {
		return nil, fmt.Errorf("pages: render %s: %w", name, err)
	}
	return page.Bytes(), nil
}

// frame is the data of the templates "top" and "bottom".
type frame struct {
	Page
	Title   string
	Script  string
	PoW     bool
	Remote  bool
	Passkey bool
	Wide    bool
	Times   bool // times outside of wide pages
}
