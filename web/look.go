package web

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"authguard/guard"
	"authguard/internal/outbox"
	"authguard/internal/times"
	"authguard/web/pages"
	"authguard/web/static"
)

// A Look is the current appearance and language of the public pages, and the prefix of our paths. A nil Look, or one
// before Set, gives authguard's own pages in English.
type Look struct {
	now  *atomic.Pointer[pages.Look]
	base string
}

// NewLook returns a Look without appearance; call Set.
func NewLook() *Look { return &Look{now: new(atomic.Pointer[pages.Look])} }

// Below returns the same look for paths with the prefix base.
func (l *Look) Below(base string) *Look {
	if l == nil {
		l = NewLook()
	}
	return &Look{now: l.now, base: base}
}

// Set replaces the look, also for all that Below returned.
func (l *Look) Set(look *pages.Look) { l.now.Store(look) }

// Page returns the common data of a page for a request, and sets the Content-Language and Vary headers.
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

// Email returns the email about a login, by its purpose, in the language with this tag. Its link leads to origin; there
// is none without an origin. The attacker controls the User-Agent: it is reduced to one short line (R23).
func (l *Look) Email(purpose outbox.Purpose, language, origin string, of outbox.Notice,
	token string) (subject, text string) {
	page, key := l.in(language), "mail"
	about := func(key string) string {
		return page.T(key, "account", pages.Plain(of.Account), "site", page.Site())
	}
	where := strings.TrimRight("    "+times.Text(of.At.UTC())+"\n    "+of.Address+"\n    "+pages.BrowserName(of.Agent), " \n")
	few := page.T("mail.few", "n", strconv.Itoa(outbox.MostADay))
	var parts []string
	switch purpose {
	case outbox.AboutReset:
		key = "mail.reset"
		parts = []string{about(key), "    " + origin + "/login/reset/" + token,
			page.T("mail.reset.ignore", "address", of.Address), few}
	case outbox.AboutPasswordChange:
		key = "mail.changed"
		parts = []string{about(key), where, page.T("mail.changed.not-me")}
	case outbox.AboutLeakedPassword:
		key = "mail.leaked"
		parts = []string{about(key), where, page.T("mail.leaked.what")}
	case outbox.AboutPasskey:
		key = "mail.passkey"
		parts = []string{about(key), where, page.T("mail.was-me"), page.T("mail.passkey.not-me")}
	default:
		if of.Stopped {
			key = "mail.stopped"
		}
		parts = []string{about(key + ".somebody"), where, page.T(key + ".was-me")}
		if of.Stopped {
			parts = append(parts, "    "+guard.SpellCode(of.Code))
		}
		if origin != "" {
			parts = append(parts, page.T(key+".not-me"), "    "+origin+"/login/not-me/"+token)
		}
		parts = append(parts, few)
	}
	return page.T(key + ".subject"), strings.Join(parts, "\n\n") + "\n"
}

// in returns the common data of a text in the language with this tag.
func (l *Look) in(language string) (page pages.Page) {
	if now := l.now.Load(); now != nil {
		page = now.For(language)
	}
	return page
}

// static is GET and HEAD /static/{file}: a file of the look or of all looks. Browsers see changes within five minutes.
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
	h.Add("Vary", "Accept-Encoding")
	if small, ok := static.Compressed(name); ok && AcceptsGzip(c.Request()) {
		h.Set("Content-Encoding", "gzip")
		h.Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
		h.Set("Content-Length", strconv.Itoa(len(small)))
		c.Response().WriteHeader(http.StatusOK)
		if c.Request().Method != http.MethodHead {
			_, _ = c.Response().Write(small)
		}
		return nil
	}
	http.ServeFileFS(c.Response(), c.Request(), static.Files, name)
	return nil
}

// AcceptsGzip reports whether a response may be compressed. Only responses without a secret are: one with a CSRF token
// and text of an attacker would reveal the token by its size (BREACH).
func AcceptsGzip(r *http.Request) bool {
	for part := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, quality, _ := strings.Cut(strings.TrimSpace(part), ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") && strings.TrimSpace(quality) != "q=0" {
			return true
		}
	}
	return false
}
