package admin

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"

	"authguard/internal/accounts"
	"authguard/web"
)

// A handler answers a request of an administrator.
type handler func(c echo.Context, s *web.Session) error

// csrfHeader is how programs send the session's token. Every answer of the API
// has it.
const csrfHeader = "X-CSRF-Token"

// maxForm is the largest form that is read, in bytes.
const maxForm = 16 << 10

// signedIn lets administrators in and sends others to the login page.
func (d Deps) signedIn(h handler) echo.HandlerFunc {
	return func(c echo.Context) error {
		session, err := d.Sessions.Get(c)
		switch {
		case err != nil:
			return err
		case session == nil:
			return c.Redirect(http.StatusSeeOther, loginPath(c.Request()))
		case session.Account.Role != accounts.Admin:
			return echo.NewHTTPError(http.StatusForbidden, "This account is no administrator's. Sign out and sign in with one that is.")
		}
		return h(c, session)
	}
}

// loginPath leads back to what was asked for, if that was a page.
func loginPath(r *http.Request) string {
	if r.Method != http.MethodGet || r.URL.Path == "/fragment" {
		return "/login"
	}
	return "/login?next=" + url.QueryEscape(r.URL.RequestURI())
}

// page is signedIn for those who have chosen their own password.
func (d Deps) page(h handler) echo.HandlerFunc {
	return d.signedIn(func(c echo.Context, s *web.Session) error {
		if s.Account.MustChange {
			return c.Redirect(http.StatusSeeOther, "/password")
		}
		return h(c, s)
	})
}

// apiSession lets the programs of administrators in: a browser's own pages, or
// whatever carries a session's cookie.
func (d Deps) apiSession(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		session, err := d.Sessions.Get(c)
		if err != nil {
			d.Log.Error("session could not be looked up", "error", err)
			return web.WriteProblem(c, web.Problem{Type: "failed", Title: "Something broke in the server", Status: http.StatusInternalServerError})
		}
		if p := d.refusal(c.Request(), session); p.Status != 0 {
			return web.WriteProblem(c, p)
		}
		SetWho(c, who(session))
		c.Response().Header().Set(csrfHeader, session.CSRF)
		return unrouted(c, next(c))
	}
}

// refusal is why the API does not answer; zero if it does.
func (d Deps) refusal(r *http.Request, s *web.Session) web.Problem {
	switch {
	case s == nil:
		return web.Problem{
			Type: "unauthorized", Title: "This needs a login", Status: http.StatusUnauthorized,
			Detail: "sign in at /login first, or use the commands on the server itself",
		}
	case s.Account.Role != accounts.Admin:
		return web.Problem{Type: "forbidden", Title: "This account is no administrator's", Status: http.StatusForbidden}
	case s.Account.MustChange:
		return web.Problem{
			Type: "password-change-required", Title: "Choose your own password first", Status: http.StatusForbidden,
			Detail: "replace the one-time password at /password",
		}
	case !safe(r.Method) && !s.ValidCSRF(r.Header.Get(csrfHeader)) && !ownJSON(r):
		return web.Problem{
			Type: "csrf", Title: "The request may come from another site", Status: http.StatusForbidden,
			Detail: "send the header " + csrfHeader + " with the value that every answer of the API has, or JSON from this site",
		}
	}
	return web.Problem{}
}

func safe(method string) bool { return method == http.MethodGet || method == http.MethodHead }

// ownJSON reports whether a request is JSON, or a DELETE, that no other site's
// page has sent. The login page may be the same host at another port: to
// cookies that is this site, to Sec-Fetch-Site and Origin it is not. A browser
// so old that it sends neither asks (preflight) before it sends JSON elsewhere.
func ownJSON(r *http.Request) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if r.Method != http.MethodDelete && (err != nil || kind != "application/json") {
		return false
	}
	return http.NewCrossOriginProtection().Check(r) == nil
}

// unrouted answers what is no path of the API like the API does.
func unrouted(c echo.Context, err error) error {
	if he := new(echo.HTTPError); errors.As(err, &he) && !c.Response().Committed {
		return web.WriteProblem(c, web.Problem{Type: "about:blank", Title: http.StatusText(he.Code), Status: he.Code})
	}
	return err
}

// who is a session's person on record.
func who(s *web.Session) string { return "admin:" + s.Account.Account }

// fields are a form's, each once.
type fields map[string]string

// readFields reads the named fields of a form that carries the session's token.
func readFields(c echo.Context, s *web.Session, names ...string) (fields, error) {
	r := c.Request()
	r.Body = http.MaxBytesReader(c.Response(), r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		return nil, echo.NewHTTPError(http.StatusBadRequest, "The form could not be read. Nothing was changed. Go back and try again.")
	}
	if !s.ValidCSRF(r.PostForm.Get("csrf")) {
		return nil, echo.NewHTTPError(http.StatusForbidden, "This form belongs to an older login. Nothing was changed. Go back, reload the page and try again.")
	}
	f := make(fields, len(names))
	for _, name := range names {
		values := r.PostForm[name]
		if len(values) > 1 {
			return nil, echo.NewHTTPError(http.StatusBadRequest, fmt.Sprintf("The field %s came twice. Nothing was changed.", name))
		}
		if len(values) == 1 {
			f[name] = values[0]
		}
	}
	return f, nil
}
