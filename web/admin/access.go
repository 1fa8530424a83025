package admin

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"

	"authguard/internal/accounts"
	"authguard/internal/operation"
	"authguard/web"
	"authguard/web/pages"
)

// A handler answers a request of a signed-in administrator.
type handler func(c echo.Context, s *web.Session) error

// csrfHeader carries the session's CSRF token. Every response of the API has it.
const csrfHeader = "X-CSRF-Token"

// signedIn admits administrators and redirects other clients to the login page.
func (s *Site) signedIn(h handler) echo.HandlerFunc {
	return func(c echo.Context) error {
		session, err := s.Login.Sessions.Get(c)
		switch {
		case err != nil:
			return err
		case session == nil:
			return c.Redirect(http.StatusSeeOther, loginPath(c.Request()))
		case session.Account.Role != accounts.Admin:
			return echo.NewHTTPError(http.StatusForbidden,
				"This is not an administrator's account. Sign out and sign in with one.")
		}
		return h(c, session)
	}
}

// loginPath returns to the requested URL after the login if it was a page.
func loginPath(r *http.Request) string {
	if r.Method != http.MethodGet {
		return "/login"
	}
	return "/login?next=" + url.QueryEscape(r.URL.RequestURI())
}

// page is own, but redirects an administrator who lacks required MFA to its setup.
func (s *Site) page(h handler) echo.HandlerFunc {
	return s.own(func(c echo.Context, session *web.Session) error {
		if s.lacks(session) {
			return c.Redirect(http.StatusSeeOther, "/security")
		}
		return h(c, session)
	})
}

// own is signedIn for the administrator's own settings. A temporary password must be replaced first.
func (s *Site) own(h handler) echo.HandlerFunc {
	return s.signedIn(func(c echo.Context, session *web.Session) error {
		if session.Account.MustChange {
			return c.Redirect(http.StatusSeeOther, "/password")
		}
		if err := s.choose(c); err != nil {
			return err
		}
		return h(c, session)
	})
}

func (s *Site) lacks(session *web.Session) bool { return s.SecondRequired() && !session.Second }

func (s *Site) fresh(session *web.Session) bool { return s.Login.Fresh(session) }

// apiSession admits API requests with an administrator's session cookie or a token.
func (s *Site) apiSession(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if token, ok := bearer(c.Request()); ok {
			err := s.byToken(c, token)
			if errors.As(err, new(operation.Refused)) {
				return problemOf(err) // of other errors, a client without a valid token gets no details
			} else if err != nil {
				return err
			}
			return next(c)
		}
		session, err := s.Login.Sessions.Get(c)
		if err != nil {
			return err
		}
		if err := admitted(c.Request(), session); err != nil {
			return err
		}
		if s.lacks(session) {
			return web.Problem{
				Type: "mfa-required", Title: "MFA required", Status: http.StatusForbidden,
				Detail: "set up MFA at /security first (admin.mfa: required)",
			}
		}
		c.Set(byKey, s.by(c, session))
		c.Response().Header().Set(csrfHeader, session.CSRF)
		return next(c)
	}
}

// admitted returns nil if the API answers the request, else the reason. A change needs the CSRF token, JSON or DELETE.
// A form cannot send these; to another origin, a browser sends them only after a preflight. Cookies do not separate
// ports of one host, so the login page on another port counts as this site; web.NewEcho has checked the origin.
func admitted(r *http.Request, s *web.Session) error {
	safe := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch {
	case s == nil:
		return web.Problem{
			Type: "unauthorized", Title: "Sign-in required", Status: http.StatusUnauthorized,
			Detail: "sign in at /login first, or use the commands on the server itself",
		}
	case s.Account.Role != accounts.Admin:
		return web.Problem{Type: "forbidden", Title: "Not an administrator's account", Status: http.StatusForbidden}
	case s.Account.MustChange:
		return web.Problem{
			Type: web.ChangeRequired, Title: "Password change required", Status: http.StatusForbidden,
			Detail: "replace the temporary password at /password",
		}
	case !safe && !s.ValidCSRF(r.Header.Get(csrfHeader)) && r.Method != http.MethodDelete && !web.SentJSON(r):
		return web.Problem{
			Type: "csrf", Title: "Cross-site request rejected", Status: http.StatusForbidden,
			Detail: "send the header " + csrfHeader +
				" with the value from any response of the API, or send JSON from this site",
		}
	}
	return nil
}

func who(s *web.Session) string { return "admin:" + s.Account.Account }

// readForm reads the named fields of a form and checks its CSRF token.
func readForm(c echo.Context, s *web.Session, names ...string) (web.Form, error) {
	f, err := web.ReadForm(c, append(names, "csrf", "back")...)
	if err != nil {
		return nil, err
	}
	if !s.ValidCSRF(f["csrf"]) {
		return nil, echo.NewHTTPError(http.StatusForbidden,
			"This form belongs to an earlier sign-in. Nothing was changed. Go back, reload the page and try again.")
	}
	return f, nil
}

// outcome shows the outcome of a form once, on the page with the form.
func (s *Site) outcome(c echo.Context, session *web.Session, f web.Form, notice pages.Notice, err error) error {
	if err != nil {
		if notice, err = s.failed(c, err); err != nil {
			return err
		}
	}
	if err := s.note(session, notice); err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, s.back(c, f))
}

// note stores a notice for the session's next page.
func (s *Site) note(session *web.Session, n pages.Notice) error {
	text, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return s.Login.Sessions.Put(session, noticeKey, string(text))
}

// back returns the page with the form, or the overview if the form names none or another site (CWE-601).
func (s *Site) back(c echo.Context, f web.Form) string {
	if to := web.LocalPath(f["back"]); to != "/" {
		return to
	}
	return pages.At("/", s.of(c).Realm())
}

const noticeKey = "notice"

// chrome returns the common parts of a GET page, and takes the notice for it out of the session.
func (s *Site) chrome(c echo.Context, session *web.Session) (a pages.Admin, err error) {
	a = s.around(c, session, c.Path())
	a.Back = c.Request().URL.RequestURI()
	if a.Open, err = s.of(c).OpenAccounts(c.Request().Context()); err != nil {
		s.Log.Error("possibly compromised accounts could not be counted", "error", err)
	}
	notice, err := s.Login.Sessions.Pop(session, noticeKey)
	if err == nil && notice != "" {
		err = json.Unmarshal([]byte(notice), &a.Notice)
	}
	return a, err
}

func (s *Site) around(c echo.Context, session *web.Session, path string) pages.Admin {
	of := s.of(c)
	return pages.Admin{
		CSRF: session.CSRF, Path: path, Back: pages.At(path, of.Realm()), Realm: of.Realm(), Realms: s.realmNames(),
		User: session.Account.Account, Now: of.Now(),
	}
}

// failed turns an error that the administrator can correct into a notice.
func (s *Site) failed(c echo.Context, err error) (pages.Notice, error) {
	p := problemOf(err)
	switch {
	case errors.Is(err, operation.ErrUnrecorded):
		s.Log.Error("admin console failed", "path", c.Path(), "error", err)
		return pages.Notice{Bad: true,
			Text: "The change was made, but could not be recorded in the audit log. See the server's log."}, nil
	case p.Status >= http.StatusInternalServerError:
		return pages.Notice{}, err
	}
	text := pages.Sentence(p.Detail)
	if c.Request().Method != http.MethodGet {
		text = "Nothing was changed. " + text
	}
	return pages.Notice{Bad: true, Text: text}, nil
}
