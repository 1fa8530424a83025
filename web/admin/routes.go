// Package admin is the admin console: its pages, its JSON API, and the socket through which commands reach a running
// server.
//
// It shows what package control knows and uses it for every change. Package web does the login and logout.
package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"authguard/internal/accounts"
	"authguard/internal/control"
	"authguard/web"
)

// The integration of the admin console, and the directory of administrators.
const (
	Integration = accounts.Integration
	Directory   = accounts.Directory
)

// A Site is the admin listener. All fields are required.
type Site struct {
	*API
	// Login is the admin console's own, with Admin set.
	Login   *web.Login
	Metrics http.Handler
	// SecondRequired reports whether every administrator needs MFA.
	SecondRequired func() bool
	// Ready returns why the server cannot decide logins, or nil.
	Ready func(ctx context.Context) error
	// Streams are those of GET /live. End them when the server stops.
	Streams *Streams
}

// Routes adds all paths of the admin console. Health and metrics require no login, everything else an administrator.
// With a temporary password only /password opens.
func (s *Site) Routes(e *echo.Echo) {
	s.Login.Routes(e)
	e.GET("/healthz", func(c echo.Context) error { return c.String(http.StatusOK, "ok\n") })
	e.GET("/readyz", s.ready)
	e.GET("/metrics", echo.WrapHandler(s.Metrics))

	e.GET("/", s.page(s.nowPage))
	e.GET("/live", s.live)
	e.GET("/attacks", s.page(s.attacksPage))
	e.GET("/attacks/export", s.exported(s.attacks))
	e.GET("/attacks/:id", s.page(s.attackPage))
	e.GET("/attacks/:id/export", s.exported(s.attack))
	e.GET("/policy", s.page(s.policyPage))
	e.GET("/policy/try", s.page(s.tryPage))
	e.POST("/policy/try", s.page(s.tryForm))
	e.GET("/audit", s.page(s.auditPage))
	e.GET("/alerts", s.page(s.alertsPage))
	e.GET("/lookup", s.page(s.lookUpPage))
	e.GET("/act", s.page(s.actPage))
	e.GET("/lists", s.page(s.listsPage))
	e.POST("/lists/import", s.page(s.importForm))
	e.GET("/accounts", s.page(s.accountsPage))
	e.GET("/administrators", s.page(s.administratorsPage))
	for _, o := range s.operations() {
		handler := s.form
		if o.Where == control.OwnAccount {
			handler = s.ownForm
		}
		for _, form := range o.Forms {
			e.POST(form.Path, handler(o, form))
		}
	}
	s.securityRoutes(e)
	e.GET("/password", s.signedIn(s.Login.PasswordPage))
	e.POST("/password", s.signedIn(s.Login.ChangePassword))

	s.ownRoutes(e)
	s.API.Routes(e, s.apiSession)
}

// readyWithin limits the readiness check, because load balancers give up soon.
const readyWithin = 2 * time.Second

// ready is GET /readyz: 200 if logins can be decided, else 503 with the reason.
func (s *Site) ready(c echo.Context) error {
	ctx, cancel := context.WithTimeout(c.Request().Context(), readyWithin)
	defer cancel()
	if err := s.Ready(ctx); err != nil {
		return web.Problem{
			Type: "not-ready", Title: "Not ready", Status: http.StatusServiceUnavailable, Detail: words(err),
		}.Write(c.Response())
	}
	return c.String(http.StatusOK, "ready\n")
}
