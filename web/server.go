// Package web holds the public doors: the login endpoint with its sessions,
// the forward-auth check, the challenges' pictures and sounds, and the
// decision API. Each door turns a request into a guard.Attempt and the
// decision into an answer; nothing is decided here.
//
// Follow a POST /login through login.go: the client's address is found
// (address.go), the request is read (request.go), the guard begins the attempt, the
// password is checked, the guard settles, a session starts (session.go). What
// goes wrong is answered there too, as JSON or as a page (answer.go).
package web

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"authguard/captchamode/challenge"
	"authguard/internal/control"
)

// A Public is everything on the public listener.
type Public struct {
	Login      *Login
	API        *API
	Challenges *challenge.Desk
	Probes     *control.Probes // of doctor; nil: there are none
	Origin     string          // where browsers find us; empty: the request's own host
	Look       *Look
	Log        *slog.Logger
	// Timed is told of every answer; see the function Timed. Nil: nobody is.
	Timed func(r *http.Request, route string, status int, took time.Duration)
}

// Handler returns the public listener's handler.
func (p *Public) Handler() http.Handler { return alsoBelow(p.routes()) }

func (p *Public) routes() *echo.Echo {
	e := NewEcho(p.Origin, p.Look, p.Log)
	e.Pre(p.Login.Edge.probes(p.Probes))
	if p.Timed != nil {
		e.Use(Timed(p.Timed))
	}
	e.GET("/", func(c echo.Context) error { return c.Redirect(http.StatusSeeOther, baseOf(c.Request())+"/login") })
	p.Login.Routes(e)
	p.Login.forwardRoutes(e)
	Media(e, p.Challenges)
	p.API.Routes(e)
	return e
}

// NewEcho returns an echo with what all our listeners share: headers, static
// files, errors that people can read, and a refusal of what a browser sends
// from another site. The origin is where browsers find us if a proxy in front
// does not pass the host on; it may be empty.
func NewEcho(origin string, look *Look, log *slog.Logger) *echo.Echo {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.HTTPErrorHandler = errorHandler(look, log)
	e.Use(secureHeaders, recovered(log), sameOrigin(origin))
	file(e, "/static/:file", look.static)
	return e
}

// file adds a path that is only read. HEAD is answered like GET, without the body
// (RFC 9110, section 9.3.2): echo does not do so by itself.
func file(e *echo.Echo, path string, h echo.HandlerFunc) {
	e.GET(path, h)
	e.HEAD(path, h)
}
