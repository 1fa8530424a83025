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
	"authguard/internal/notices"
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

// Email returns the email about a login, by its purpose. Its link leads to origin; there is none without an origin.
func (l *Look) Email(of notices.Purpose, language, origin string, about notices.Login, token string) (subject,
	text string) {
	link := ""
	switch of {
	case notices.Reset:
		return l.ResetMessage(language, about, origin+"/login/reset/"+token)
	case notices.PasswordChanged:
		return l.ResetDoneMessage(language, about)
	case notices.PasskeyAdded:
		return l.PasskeyMessage(language, about)
	case notices.PasswordLeaked:
		return l.LeakedMessage(language, about)
	}
	if origin != "" {
		link = origin + "/login/not-me/" + token
	}
	return l.Message(language, about, link)
}

// Message returns the email about a login from an unknown client, in the language with this tag. link reports the login
// as not the user's own; it may be empty. The attacker controls the User-Agent: it is reduced to one short line (R23).
func (l *Look) Message(language string, login notices.Login, link string) (subject, text string) {
	page, of := l.in(language), "mail."
	if login.Stopped {
		of = "mail.stopped."
	}
	parts := []string{
		page.T(of+"somebody", "account", pages.Plain(login.Account), "site", page.Site()),
		where(login),
		page.T(of + "was-me"),
	}
	if login.Stopped {
		parts = append(parts, "    "+guard.SpellCode(login.Code))
	}
	if link != "" {
		parts = append(parts, page.T(of+"not-me"), "    "+link)
	}
	parts = append(parts, page.T("mail.few", "n", strconv.Itoa(notices.MostADay)))
	return page.T(of + "subject"), strings.Join(parts, "\n\n") + "\n"
}

// ResetMessage returns the email with a link to reset a forgotten password.
func (l *Look) ResetMessage(language string, asked notices.Login, link string) (subject, text string) {
	page := l.in(language)
	parts := []string{
		page.T("mail.reset", "account", pages.Plain(asked.Account), "site", page.Site()), "    " + link,
		page.T("mail.reset.ignore", "address", asked.Address), page.T("mail.few", "n", strconv.Itoa(notices.MostADay)),
	}
	return page.T("mail.reset.subject"), strings.Join(parts, "\n\n") + "\n"
}

// ResetDoneMessage returns the email after a reset.
func (l *Look) ResetDoneMessage(language string, done notices.Login) (subject, text string) {
	page := l.in(language)
	parts := []string{
		page.T("mail.changed", "account", pages.Plain(done.Account), "site", page.Site()),
		where(done),
		page.T("mail.changed.not-me"),
	}
	return page.T("mail.changed.subject"), strings.Join(parts, "\n\n") + "\n"
}

// LeakedMessage returns the email about a login with a password that is known from leaks.
func (l *Look) LeakedMessage(language string, login notices.Login) (subject, text string) {
	page := l.in(language)
	parts := []string{
		page.T("mail.leaked", "account", pages.Plain(login.Account), "site", page.Site()), where(login),
		page.T("mail.leaked.what"),
	}
	return page.T("mail.leaked.subject"), strings.Join(parts, "\n\n") + "\n"
}

// where is when and from where a login or change was.
func where(l notices.Login) string {
	return strings.TrimRight("    "+times.Text(l.At.UTC())+"\n    "+l.Address+"\n    "+pages.BrowserName(l.Agent), " \n")
}

// PasskeyMessage returns the email about a new passkey.
func (l *Look) PasskeyMessage(language string, added notices.Login) (subject, text string) {
	page := l.in(language)
	parts := []string{
		page.T("mail.passkey", "account", pages.Plain(added.Account), "site", page.Site()),
		where(added),
		page.T("mail.was-me"), page.T("mail.passkey.not-me"),
	}
	return page.T("mail.passkey.subject"), strings.Join(parts, "\n\n") + "\n"
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
