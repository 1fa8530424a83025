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

	"authguard/web"
)

// Integration is the integration name of the admin console's login in events, and of its sessions.
const Integration = "admin"

// Directory is where administrators' accounts are counted, separate from other integrations. Otherwise a user with an
// administrator's name could make their own client a known client of the administrator.
const Directory = "administration"

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
	e.POST("/mode", s.form(s.modeForm, "mode", "for", "reason"))
	e.POST("/unlock", s.form(s.unlockForm, "account", "address", "network", "reason"))
	e.POST("/block", s.blockForm)
	e.POST("/forget", s.form(s.forgetForm, "account", "address", "reason"))
	e.GET("/attacks", s.page(s.attacksPage))
	e.GET("/attacks/export", s.exported(s.attacks))
	e.GET("/attacks/:id", s.page(s.attackPage))
	e.GET("/attacks/:id/export", s.exported(s.attack))
	e.POST("/attacks/reset", s.page(s.resetAttackForm))
	e.GET("/policy", s.page(s.policyPage))
	e.POST("/policy", s.form(s.policyForm, "limit", "to", "for", "reason"))
	e.GET("/audit", s.page(s.auditPage))
	e.GET("/alerts", s.page(s.alertsPage))
	e.POST("/alerts/test", s.form(s.testAlertsForm))
	e.GET("/lookup", s.page(s.lookUpPage))
	e.POST("/pass", s.page(s.codeForm))
	e.POST("/lookup/list", s.listForm)
	e.POST("/lookup/allow", s.form(s.allowForm, "cidr", "reason"))
	e.POST("/lookup/sessions", s.form(s.endUserSessionsForm, "account", "reason"))
	e.GET("/lists", s.page(s.listsPage))
	e.POST("/lists/import", s.page(s.importForm))
	e.POST("/lists/prolong", s.form(s.prolongForm, "cidr", "for", "reason"))
	e.POST("/lists/remove", s.form(s.removeForm, "cidr", "for", "reason"))
	s.accountsRoutes(e)
	s.securityRoutes(e)
	s.administratorsRoutes(e)
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
