// Package web holds the public doors: the login endpoint with its sessions,
// the forward-auth check, the challenges' pictures and sounds, and the
// decision API. Each door turns a request into a guard.Attempt and the
// decision into an answer; nothing is decided here.
//
// Follow a POST /login through login.go: the client's address is found
// (address.go), the form is read (request.go), the guard begins the attempt, the
// password is checked, the guard settles, a session starts (session.go). What
// goes wrong is answered in answer.go.
package web

import (
	"log/slog"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"authguard/captchamode/challenge"
	"authguard/web/static"
)

// A Public is everything on the public listener.
type Public struct {
	Login      *Login
	API        *API
	Challenges *challenge.Desk
	Origin     string // where browsers find us; empty: the request's own host
	Log        *slog.Logger
}

// Handler returns the public listener's handler.
func (p *Public) Handler() http.Handler {
	e := NewEcho(p.Origin, p.Log)
	e.GET("/", func(c echo.Context) error { return c.Redirect(http.StatusSeeOther, "/login") })
	p.Login.Routes(e)
	e.GET("/auth/verify", p.Login.verify)
	e.GET("/captcha/:file", Media(p.Challenges))
	p.API.Routes(e)
	return e
}

// NewEcho returns an echo with what all our listeners share: headers, static
// files, errors that people can read, and a refusal of what a browser sends
// from another site. The origin is where browsers find us if a proxy in front
// does not pass the host on; it may be empty.
func NewEcho(origin string, log *slog.Logger) *echo.Echo {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.HTTPErrorHandler = errorHandler(log)
	e.Use(secureHeaders, recovered(log), sameOrigin(origin))
	files := http.StripPrefix("/static/", http.FileServerFS(static.Files))
	e.GET("/static/*", func(c echo.Context) error {
		if strings.HasSuffix(c.Request().URL.Path, "/") {
			return echo.ErrNotFound // no list of the files
		}
		c.Response().Header().Set("Cache-Control", "max-age=300")
		files.ServeHTTP(c.Response(), c.Request())
		return nil
	})
	return e
}

// policy lets pages load nothing but our own files, and nobody frame them.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; media-src 'self'; " +
	"connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// secureHeaders sets what every answer carries.
func secureHeaders(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		h := c.Response().Header()
		h["Content-Security-Policy"] = []string{policy}
		h["X-Content-Type-Options"] = []string{"nosniff"}
		h["X-Frame-Options"] = []string{"DENY"}
		h["Referrer-Policy"] = []string{"same-origin"}
		h["Cross-Origin-Opener-Policy"] = []string{"same-origin"}
		h["Cache-Control"] = []string{"no-store"}
		return next(c)
	}
}

// sameOrigin refuses forms and JSON that a page of another site sends: nobody
// is logged in or out by a page that they only looked at.
func sameOrigin(origin string) echo.MiddlewareFunc {
	protection := http.NewCrossOriginProtection()
	if origin != "" {
		_ = protection.AddTrustedOrigin(origin) // the configuration has checked its form
	}
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if protection.Check(c.Request()) != nil {
				return echo.NewHTTPError(http.StatusForbidden, "The request came from another site. Nothing was changed.")
			}
			return next(c)
		}
	}
}

// recovered turns a panic of a handler into an error.
func recovered(log *slog.Logger) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) (err error) {
			defer func() {
				if r := recover(); r != nil {
					if r == http.ErrAbortHandler {
						panic(r)
					}
					log.Error("handler panicked", "path", c.Path(), "panic", r)
					err = echo.NewHTTPError(http.StatusInternalServerError)
				}
			}()
			return next(c)
		}
	}
}
