// Package static holds the style sheet, the scripts and the icon of the pages,
// embedded. Serve [Files] under /static/ with the Content-Security-Policy that
// package pages names.
package static

import (
	"bytes"
	"compress/gzip"
	"embed"
	"io/fs"
	"sync"
)

// Files has every asset at its root: authguard.css, login.js and so on.
//
//go:embed *.css *.js *.svg
var Files embed.FS

var compressed = sync.OnceValue(func() map[string][]byte {
	all := map[string][]byte{}
	names, _ := fs.Glob(Files, "*")
	for _, name := range names {
		text, _ := Files.ReadFile(name)
		var small bytes.Buffer
		w := gzip.NewWriter(&small)
		_, _ = w.Write(text)
		_ = w.Close()
		all[name] = small.Bytes()
	}
	return all
})

// Compressed returns a file as gzip, and whether it exists. The files are public and constant, so that their size
// reveals nothing.
func Compressed(name string) (small []byte, ok bool) {
	small, ok = compressed()[name]
	return small, ok
}
