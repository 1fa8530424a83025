// Package static holds the style sheet, the scripts and the icon of the pages,
// embedded. Serve [Files] under /static/ with the Content-Security-Policy that
// package pages names.
package static

import "embed"

// Files has every asset at its root: authguard.css, login.js and so on.
//
//go:embed *.css *.js *.svg
var Files embed.FS
