package web

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"authguard/captchamode/challenge"
	"authguard/web/pages"
	"authguard/web/static"
)

// A Public is everything on the public listener.
type Public struct {
	Login      *Login
	API        *API
	Challenges *challenge.Desk
	Site       pages.Site
	Origin     string // where browsers find us; empty: where the request says
	Log        *slog.Logger
}

// Handler returns the public listener's handler.
func (p *Public) Handler() http.Handler {
	e := NewEcho(p.Site, p.Log)
	e.GET("/", func(c echo.Context) error { return c.Redirect(http.StatusSeeOther, "/login") })
	p.Login.Routes(e)
	e.GET("/auth/verify", p.Login.verify)
	e.GET("/captcha/:file", Media(p.Challenges))
	p.API.Routes(e)
	return SameOrigin(e, p.Origin)
}

// SameOrigin refuses what a browser sends here from another site: nobody is
// logged in or out by a page that he only looked at. The origin is where
// browsers find us if a proxy in front does not pass the host on; it may be
// empty.
func SameOrigin(h http.Handler, origin string) http.Handler {
	protection := http.NewCrossOriginProtection()
	if origin != "" {
		_ = protection.AddTrustedOrigin(origin) // the configuration has checked its form
	}
	return protection.Handler(h)
}

// NewEcho returns an echo with what all our listeners share: headers, static
// files and errors that people can read.
func NewEcho(site pages.Site, log *slog.Logger) *echo.Echo {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.HTTPErrorHandler = errorHandler(site, log)
	e.Use(SecureHeaders, recovered(log))
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

// errorHandler answers errors as a page or as problem+json, without telling
// strangers what broke.
func errorHandler(site pages.Site, log *slog.Logger) echo.HTTPErrorHandler {
	return func(err error, c echo.Context) {
		if c.Response().Committed {
			return
		}
		status, detail := http.StatusInternalServerError, ""
		if errors.Is(err, ErrSessions) {
			status = http.StatusServiceUnavailable
			setRetryAfter(c.Response().Header(), time.Second)
		}
		if he := new(echo.HTTPError); errors.As(err, &he) {
			status = he.Code
			if text, ok := he.Message.(string); ok && text != http.StatusText(status) {
				detail = text
			}
		} else {
			log.Error("request failed", "path", c.Path(), "error", err)
		}
		var failed error
		if WantsJSON(c.Request()) {
			failed = WriteProblem(c, Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail})
		} else {
			failed = writePage(c, status, func(w io.Writer) error {
				return pages.RenderError(w, pages.ErrorView{Site: site, Status: status, Detail: detail})
			})
		}
		if failed != nil {
			log.Error("error page failed", "error", failed)
		}
	}
}
