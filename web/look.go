package web

import (
	"net/http"
	"sync/atomic"

	"authguard/web/pages"
)

// A Look is how the pages for the public look and speak at present, and where our
// own paths are. Pages of a nil Look, or before Set, are in English and authguard's
// own, as the administration's are.
type Look struct {
	now  *atomic.Pointer[pages.Look]
	base string
}

// NewLook returns a look that Set is yet to be called of.
func NewLook() *Look { return &Look{now: new(atomic.Pointer[pages.Look])} }

// Below is the same look where our paths begin with base.
func (l *Look) Below(base string) *Look {
	if l == nil {
		l = NewLook()
	}
	return &Look{now: l.now, base: base}
}

// Set puts a look in force, also for what Below returned.
func (l *Look) Set(look *pages.Look) { l.now.Store(look) }

// Page is what a page has for whoever sent the request. The answer's headers say
// which language it is in, and that another browser may get another.
func (l *Look) Page(h http.Header, r *http.Request) (page pages.Page) {
	if l != nil {
		if now := l.now.Load(); now != nil {
			page = now.For(r.Header.Get("Accept-Language"))
			h.Add("Vary", "Accept-Language")
		}
		page.Base = l.base
	}
	h.Set("Content-Language", page.Lang())
	return page
}
