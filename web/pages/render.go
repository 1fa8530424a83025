package pages

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
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
	"xy":     coord,
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
	Title  string
	Script string
	PoW    bool
	Wide   bool
}
