package admin

import (
	"cmp"
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"authguard/internal/control"
	"authguard/internal/tokens"
	"authguard/web"
	"authguard/web/pages"
)

func (s *Site) administratorsRoutes(e *echo.Echo) {
	e.GET("/administrators", s.page(s.administratorsPage))
	e.POST("/administrators/add", s.letIn(s.addForm, "username", "email", "reason"))
	e.POST("/administrators/password", s.letIn(s.passwordForm, "username", "reason"))
	e.POST("/administrators/mfa", s.letIn(s.resetForm, "username", "reason"))
	e.POST("/administrators/disable", s.letIn(s.disableForm(true), "username", "reason"))
	e.POST("/administrators/enable", s.letIn(s.disableForm(false), "username", "reason"))
	e.POST("/administrators/remove", s.letIn(s.removeRoleForm, "username", "reason"))
	e.POST("/administrators/sessions/end", s.form(s.endSessionsForm, "username", "id", "reason"))
	names := []string{"name", "in", "for", "reason"}
	for _, scope := range tokens.Scopes() {
		names = append(names, "scope_"+string(scope))
	}
	e.POST("/administrators/tokens/add", s.letIn(s.addTokenForm, names...))
	e.POST("/administrators/tokens/revoke", s.page(s.revokeForm))
}

func (s *Site) administratorsPage(c echo.Context, session *web.Session) error {
	around, err := s.chrome(c, session)
	if err != nil {
		return err
	}
	return s.showAdministrators(c, session, pages.AdministratorsView{Admin: around})
}

func (s *Site) showAdministrators(c echo.Context, session *web.Session, v pages.AdministratorsView) (err error) {
	ctx := c.Request().Context()
	if v.All, err = s.Control.Administrators(ctx); err != nil {
		return err
	}
	if v.Tokens, err = s.Control.Tokens(ctx); err != nil {
		return err
	}
	v.Fresh = s.fresh(session)
	page, err := pages.RenderAdministrators(v)
	return web.WritePage(c, http.StatusOK, page, err)
}

// A secretChange changes who can sign in. The response itself shows its secret, which must not be stored.
type secretChange func(c echo.Context, session *web.Session, f web.Form) (pages.Notice, pages.Secret, error)

// letIn carries out a secretChange if the administrator signed in recently.
func (s *Site) letIn(do secretChange, names ...string) echo.HandlerFunc {
	return s.page(func(c echo.Context, session *web.Session) error {
		f, err := readForm(c, session, names...)
		if err != nil {
			return err
		}
		if !s.fresh(session) {
			return s.outcome(c, session, f, pages.Notice{Bad: true, Text: "Nothing was changed. " + againWords}, nil)
		}
		notice, secret, err := do(c, session, f)
		if err != nil || secret.Text == "" {
			return s.outcome(c, session, f, notice, err)
		}
		v := pages.AdministratorsView{Admin: s.around(c, session, "/administrators"), Secret: secret}
		v.Notice = notice
		return s.showAdministrators(c, session, v)
	})
}

const oneTimeHint = "Give it only to its owner, who must choose a new password at the next sign-in."

func (s *Site) addForm(c echo.Context, session *web.Session,
	f web.Form) (n pages.Notice, secret pages.Secret, err error) {
	made, err := s.Control.AddAdministrator(c.Request().Context(), who(session), f["username"], f["email"], f["reason"])
	return n, pages.Secret{What: "Temporary password of", Name: made.Username, Text: made.Password, Hint: oneTimeHint}, err
}

func (s *Site) passwordForm(c echo.Context, session *web.Session,
	f web.Form) (n pages.Notice, secret pages.Secret, err error) {
	password, err := s.Control.ReplacePassword(c.Request().Context(), who(session), f["username"], f["reason"])
	return n, pages.Secret{What: "Temporary password of", Name: f["username"], Text: password, Hint: oneTimeHint}, err
}

func (s *Site) resetForm(c echo.Context, session *web.Session,
	f web.Form) (n pages.Notice, secret pages.Secret, err error) {
	_, err = s.Control.ResetFactors(c.Request().Context(), who(session), f["username"], f["reason"])
	return pages.Notice{Text: "MFA removed and sessions ended:", Subject: f["username"]}, secret, err
}

func (s *Site) disableForm(disable bool) secretChange {
	return func(c echo.Context, session *web.Session, f web.Form) (n pages.Notice, secret pages.Secret, err error) {
		ctx := c.Request().Context()
		if disable {
			return pages.Notice{Text: "Disabled and signed out:", Subject: f["username"]}, secret, s.Control.DisableFor(ctx,
				who(session), f["username"], f["reason"])
		}
		return pages.Notice{Text: "Enabled:", Subject: f["username"]}, secret, s.Control.EnableFor(ctx, who(session),
			f["username"], f["reason"])
	}
}

func (s *Site) removeRoleForm(c echo.Context, session *web.Session,
	f web.Form) (n pages.Notice, secret pages.Secret, err error) {
	err = s.Control.RemoveAdministrator(c.Request().Context(), who(session), f["username"], f["reason"])
	return pages.Notice{Text: "Admin role removed:", Subject: f["username"]}, secret, err
}

// endSessionsForm ends one or all of an administrator's sessions. Being urgent, it requires no recent sign-in.
func (s *Site) endSessionsForm(ctx context.Context, _ *control.Control, who string,
	f web.Form) (n pages.Notice, err error) {
	if id := f["id"]; id != "" {
		return pages.Notice{Text: "Session ended:", Subject: f["username"]}, s.Control.EndSession(ctx, who, f["username"], id,
			f["reason"])
	}
	_, err = s.Control.EndSessions(ctx, who, f["username"], "", f["reason"])
	return pages.Notice{Text: "All sessions ended:", Subject: f["username"]}, err
}

// addTokenForm creates a token, for the decision API if no scope is ticked.
func (s *Site) addTokenForm(c echo.Context, session *web.Session,
	f web.Form) (n pages.Notice, secret pages.Secret, err error) {
	asked := tokens.Asked{Name: f["name"], Maker: session.Account.Account}
	for _, scope := range tokens.Scopes() {
		if f["scope_"+string(scope)] == "true" {
			asked.Scopes = append(asked.Scopes, scope)
		}
	}
	hint := "Back ends send it to the decision API: Authorization: Bearer TOKEN."
	if len(asked.Scopes) > 0 {
		hint = "Programs send it to /api: Authorization: Bearer TOKEN."
		asked.Confined = f["in"] != ""
		if asked.For, err = hold(f["for"]); err != nil {
			return n, secret, err
		}
	}
	to, err := s.named(f["in"])
	if err != nil {
		return n, secret, err
	}
	made, err := to.AddToken(c.Request().Context(), who(session), asked, f["reason"])
	return n, pages.Secret{What: "Token", Name: made.Name, Text: made.Text, Hint: hint}, err
}

// named returns the realm that a form names, the default one if it names none.
func (s *Site) named(realm string) (*control.Control, error) {
	if realm = cmp.Or(realm, s.Control.Realm()); realm == s.Control.Realm() {
		return s.Control, nil
	}
	if to := s.realm(realm); to != nil {
		return to, nil
	}
	return nil, web.Invalid("unknown realm %.60q", realm)
}

// revokeForm is POST /administrators/tokens/revoke. Being urgent, it requires no recent sign-in.
func (s *Site) revokeForm(c echo.Context, session *web.Session) error {
	f, err := readForm(c, session, "name", "in", "reason")
	if err != nil {
		return err
	}
	to, err := s.named(f["in"])
	if err == nil {
		err = to.RevokeToken(c.Request().Context(), who(session), f["name"], f["reason"])
	}
	return s.outcome(c, session, f, pages.Notice{Text: "Revoked:", Subject: f["name"]}, err)
}

// administrators is GET /api/administrators: all administrators and their ways to sign in.
func (a *API) administrators(c echo.Context) (any, error) {
	all, err := a.Control.Administrators(c.Request().Context())
	return map[string]any{"administrators": listed(all)}, err
}

type newAdministratorQuestion struct {
	Username string `json:"username"`
	Email    string `json:"email"`
	Reason   string `json:"reason"`
}

// addAdministrator is POST /api/administrators, also for a user. Only this response has the temporary password.
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

// removeAdministrator is DELETE /api/administrators?username=&reason=. The account remains as a user's.
func (a *API) removeAdministrator(c echo.Context) (any, error) {
	if err := mayChangeWhoSignsIn(c); err != nil {
		return nil, err
	}
	return done, a.Control.RemoveAdministrator(c.Request().Context(), sender(c), c.QueryParam("username"),
		c.QueryParam("reason"))
}

type aboutAdministrator struct {
	Username string `json:"username"`
	Reason   string `json:"reason"`
}

// replacePassword is POST /api/administrators/password. Only this response has the temporary password.
func (a *API) replacePassword(c echo.Context, q aboutAdministrator) (any, error) {
	if err := mayChangeWhoSignsIn(c); err != nil {
		return nil, err
	}
	password, err := a.Control.ReplacePassword(c.Request().Context(), sender(c), q.Username, q.Reason)
	return map[string]any{"username": q.Username, "password": password}, err
}

// resetFactors is POST /api/administrators/mfa. It removes all MFA methods of an administrator who has lost them.
func (a *API) resetFactors(c echo.Context, q aboutAdministrator) (any, error) {
	if err := mayChangeWhoSignsIn(c); err != nil {
		return nil, err
	}
	n, err := a.Control.ResetFactors(c.Request().Context(), sender(c), q.Username, q.Reason)
	return map[string]any{"ok": true, "removed": n}, err
}

func (a *API) sessions(c echo.Context) (any, error) {
	all, err := a.Control.SessionsOf(c.Request().Context(), c.QueryParam("username"))
	return map[string]any{"sessions": listed(all)}, err
}

// endSessions is DELETE /api/administrators/sessions?username=&id=&reason=. Without an id it ends all sessions.
func (a *API) endSessions(c echo.Context) (any, error) {
	ctx, name := c.Request().Context(), c.QueryParam("username")
	if name == "" {
		return nil, web.Invalid("username: missing")
	}
	if id := c.QueryParam("id"); id != "" {
		return done, a.Control.EndSession(ctx, sender(c), name, id, c.QueryParam("reason"))
	}
	n, err := a.Control.EndSessions(ctx, sender(c), name, "", c.QueryParam("reason"))
	return map[string]any{"ok": true, "ended": n}, err
}
