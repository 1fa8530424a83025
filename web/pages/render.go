package pages

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"html/template"
	"io"
)

//go:embed templates/*.html
var sources embed.FS

var templates = template.Must(template.New("pages").Funcs(template.FuncMap{
	"name":   newName,
	"moment": newMoment,
	"next":   nextWords,
	"count":  countWords,
	"comma":  comma,
	"rate":   rateWords,
	"mode":   modeWords,
	"swatch": swatches,
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

// Site is what every page shows around its content. The zero Site is called
// "authguard" and takes its files from /static.
type Site struct {
	// Name is what people know the site by.
	Name string
	// Assets is the URL path under which web/static is served, without a
	// slash at the end. Change it where an app behind the proxy owns /static.
	Assets string
}

// Title is the site's name, never empty.
func (s Site) Title() string { return cmp.Or(s.Name, "authguard") }

// Asset is the path of one static file.
func (s Site) Asset(file string) string { return cmp.Or(s.Assets, "/static") + "/" + file }

// frame is what the templates "top" and "bottom" need.
type frame struct {
	Site   Site
	Title  string
	Script string
	PoW    bool
	Wide   bool
}
