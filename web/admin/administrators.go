package admin

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"authguard/web"
)

// administrators is GET /api/administrators: who they are, and how they sign in.
func (a *API) administrators(c echo.Context) (any, error) {
	all, err := a.Control.Administrators(c.Request().Context())
	return map[string]any{"administrators": listed(all)}, err
}

type newAdministratorQuestion struct {
	Username string `json:"username"`
	Email    string `json:"email"`
	Reason   string `json:"reason"`
}

// addAdministrator is POST /api/administrators: another one, or a user who becomes one. The
// one-time password is told this once.
func (a *API) addAdministrator(c echo.Context, q newAdministratorQuestion) (any, error) {
	if err := mayChangeWhoSignsIn(c); err != nil {
		return nil, err
	}
	made, err := a.Control.AddAdministrator(c.Request().Context(), sender(c), q.Username, q.Email, q.Reason)
	if err != nil {
		return nil, err
	}
	return nil, c.JSON(http.StatusCreated, made)
}

// removeAdministrator is DELETE /api/administrators?username=&reason=: the account stays,
// as a user's.
func (a *API) removeAdministrator(c echo.Context) (any, error) {
	if err := mayChangeWhoSignsIn(c); err != nil {
		return nil, err
	}
	return done, a.Control.RemoveAdministrator(c.Request().Context(), sender(c), c.QueryParam("username"), c.QueryParam("reason"))
}

type aboutAdministrator struct {
	Username string `json:"username"`
	Reason   string `json:"reason"`
}

// replacePassword is POST /api/administrators/password: a one-time password for who has
// forgotten theirs, told this once.
func (a *API) replacePassword(c echo.Context, q aboutAdministrator) (any, error) {
	if err := mayChangeWhoSignsIn(c); err != nil {
		return nil, err
	}
	password, err := a.Control.ReplacePassword(c.Request().Context(), sender(c), q.Username, q.Reason)
	return map[string]any{"username": q.Username, "password": password}, err
}

// resetFactors is POST /api/administrators/second-factor: it removes all second factors of
// an administrator who has lost them.
func (a *API) resetFactors(c echo.Context, q aboutAdministrator) (any, error) {
	if err := mayChangeWhoSignsIn(c); err != nil {
		return nil, err
	}
	n, err := a.Control.ResetFactors(c.Request().Context(), sender(c), q.Username, q.Reason)
	return map[string]any{"ok": true, "removed": n}, err
}

// sessions is GET /api/administrators/sessions?username=.
func (a *API) sessions(c echo.Context) (any, error) {
	all, err := a.Control.SessionsOf(c.Request().Context(), c.QueryParam("username"))
	return map[string]any{"sessions": listed(all)}, err
}

// endSessions is DELETE /api/administrators/sessions?username=&id=&reason=; without an id
// it ends all of them.
func (a *API) endSessions(c echo.Context) (any, error) {
	ctx, name := c.Request().Context(), c.QueryParam("username")
	if name == "" {
		return nil, web.Invalid("username: say whose sessions")
	}
	if id := c.QueryParam("id"); id != "" {
		return done, a.Control.EndSession(ctx, sender(c), name, id, c.QueryParam("reason"))
	}
	n, err := a.Control.EndSessions(ctx, sender(c), name, "", c.QueryParam("reason"))
	return map[string]any{"ok": true, "ended": n}, err
}
