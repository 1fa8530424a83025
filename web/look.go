package web

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"authguard/internal/notices"
	"authguard/web/pages"
	"authguard/web/static"
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
		page.Base = cmp.Or(l.base, baseOf(r))
	}
	h.Set("Content-Language", page.Lang())
	return page
}

// Letter is what the owner of an account is told of a login from a new place, in a language
// by its tag; link says that it was not theirs. What strangers send, their browser's name,
// is one line of few characters here (R23).
func (l *Look) Letter(language string, told notices.Login, link string) (subject, text string) {
	page := pages.Page{}
	if now := l.now.Load(); now != nil {
		page = now.For(language)
	}
	parts := []string{
		page.T("mail.somebody", "account", pages.Plain(told.Account), "site", page.Site()),
		strings.TrimRight("    "+told.At.UTC().Format("2006-01-02 15:04 MST")+"\n    "+told.Address+"\n    "+pages.BrowserName(told.Agent), " \n"),
		page.T("mail.was-me"), page.T("mail.not-me"), "    " + link, page.T("mail.few", "n", strconv.Itoa(notices.MostADay)),
	}
	return page.T("mail.subject"), strings.Join(parts, "\n\n") + "\n"
}

// static is GET and HEAD /static/{file}: a file of the look, or one that all looks have. A
// changed one is seen within five minutes.
func (l *Look) static(c echo.Context) error {
	name := c.Param("file")
	h := c.Response().Header()
	h.Set("Cache-Control", "max-age=300")
	if l != nil && l.now.Load() != nil {
		if own, ok := l.now.Load().Asset(name); ok {
			if own.Policy != "" {
				h.Set("Content-Security-Policy", own.Policy)
			}
			h.Set("Content-Type", own.Type)
			h.Set("ETag", fmt.Sprintf(`"%x"`, sha256.Sum256(own.Body)))
			http.ServeContent(c.Response(), c.Request(), "", time.Time{}, bytes.NewReader(own.Body))
			return nil
		}
	}
	http.ServeFileFS(c.Response(), c.Request(), static.Files, name)
	return nil
}
