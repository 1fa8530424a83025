// Package web holds the public integrations: login endpoint with sessions, forward auth, challenge media and decision
// API. Each turns a request into a guard.Attempt and the guard's decision into a response; package guard decides.
//
// A [Listener] rejects ambiguous requests. A POST /login runs through login.go: find the client's IP address
// (address.go), read the request (request.go), begin the attempt, check the password, settle, start a session
// (session.go). Errors become JSON or a page (answer.go).
package web

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"authguard/captchamode/challenge"
	"authguard/internal/control"
)

// A Public is the public listener.
type Public struct {
	Login      *Login
	API        *API
	Challenges *challenge.Issuer
	Probes     *control.Probes // of doctor; nil: none
	Origin     string          // the public origin; empty: the request's host
	Look       *Look
	Log        *slog.Logger
	// Timed is called for every response; see the function Timed. nil: off.
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
	Script(e, p.Look)
	p.API.Routes(e)
	return e
}

// NewEcho returns an echo with the parts that all listeners share: headers, static files, error pages and CSRF
// protection. The origin is needed if a proxy in front does not pass the host on; else it may be empty.
func NewEcho(origin string, look *Look, log *slog.Logger) *echo.Echo {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.HTTPErrorHandler = errorHandler(look, log)
	e.Use(secureHeaders, recovered(log), sameOrigin(origin))
	file(e, "/static/:file", look.static)
	return e
}

// file adds a read-only path. echo does not answer HEAD like GET by itself (RFC 9110, section 9.3.2).
func file(e *echo.Echo, path string, h echo.HandlerFunc) {
	e.GET(path, h)
	e.HEAD(path, h)
}
