package admin

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/labstack/echo/v4"

	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/control"
	"authguard/web"
	"authguard/web/pages"
)

// Door names the administration's login in events, and its sessions.
const Door = "admin"

// Directory is where administrators' accounts are counted, apart from those of
// the other doors: a user of the site who is called like an administrator must
// not vouch for the administrator's place.
const Directory = "administration"

// Deps are what the administration's listener is made of. All but Site are
// required.
type Deps struct {
	API      *API
	Control  *control.Control
	Guard    *guard.Guard
	Accounts *accounts.Table
	// Sessions are those of the administration's login.
	Sessions *web.Sessions
	// Passwords check the current password of whoever changes his.
	Passwords *web.Passwords
	Edge      *web.Edge
	Site      pages.Site
	Metrics   http.Handler
	// Ready says why the server cannot do its work; nil if it can.
	Ready func(ctx context.Context) error
	Log   *slog.Logger
}

// Routes adds all paths of the administration but /login and /logout. Health
// and metrics ask for no login; everything else is for administrators, and for
// those whose password is a one-time password only /password.
func Routes(e *echo.Echo, d Deps) {
	e.GET("/healthz", healthy)
	e.GET("/readyz", d.ready)
	e.GET("/metrics", echo.WrapHandler(d.Metrics))

	e.GET("/", d.page(d.overview))
	e.GET("/fragment", d.page(d.fragment))
	e.POST("/mode", d.form(d.switchMode, "mode", "for", "reason"))
	e.POST("/unlock", d.form(d.unlock, "account", "address"))
	e.POST("/forget", d.form(d.forget, "account", "address"))
	e.GET("/password", d.signedIn(d.passwordPage))
	e.POST("/password", d.signedIn(d.changePassword))

	d.API.Routes(e.Group("/api", d.apiSession))
}
