package admin

import (
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"authguard/internal/control"
	"authguard/internal/mfa"
	"authguard/internal/sessions"
	"authguard/web"
)

// ownRoutes adds /api/security: an administrator's own sign-in settings. Only a session may use it, since it belongs to
// an administrator; the commands' socket has no account. Only a browser can add a passkey (WebAuthn); the password
// changes with POST /password.
func (s *Site) ownRoutes(e *echo.Echo) {
	add := func(route string, h ownQuestion) {
		method, path, _ := strings.Cut(route, " ")
		e.Add(method, "/api"+path,
			s.answering(func(c echo.Context) (any, error) { return h(c, c.Get(sessionKey).(*web.Session)) }), s.ownSession)
	}
	for _, o := range s.operations() {
		if o.Where == control.OwnAccount {
			add(o.Route, func(c echo.Context, session *web.Session) (any, error) {
				answer, err := s.operate(o)(c)
				if err == nil && o.Proves {
					err = s.Login.Sessions.Prove(session, true)
				}
				return answer, err
			})
		}
	}
	add("GET /security", s.ownSecurity)
	add("DELETE /security/sessions", s.dropSessions)
}

// An ownQuestion is a question about the administrator who sends it.
type ownQuestion func(c echo.Context, session *web.Session) (any, error)

const sessionKey = "authguard.admin.session"

// ownSession admits only administrators' sessions, even those that still have to set up MFA.
func (s *Site) ownSession(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if _, ok := bearer(c.Request()); ok {
			return web.Problem{
				Type: "scope", Title: "Not available to tokens", Status: http.StatusForbidden,
				Detail: "sign-in settings can only be changed by the signed-in administrator, with the session cookie",
			}
		}
		session, err := s.Login.Sessions.Get(c)
		if err != nil {
			return err
		}
		if err := admitted(c.Request(), session); err != nil {
			return err
		}
		c.Set(byKey, s.by(c, session))
		c.Set(sessionKey, session)
		c.Response().Header().Set(csrfHeader, session.CSRF)
		return next(c)
	}
}

type ownAnswer struct {
	Username string `json:"username"`
	mfa.Kept
	Sessions []ownSessionAnswer `json:"sessions"`
	Fresh    bool               `json:"fresh"` // recent sign-in, required for all changes except sessions
	Lacks    bool               `json:"mfa_required"`
}

type ownSessionAnswer struct {
	sessions.Session
	This bool `json:"this"`
}

func (s *Site) ownSecurity(c echo.Context, session *web.Session) (any, error) {
	ctx := c.Request().Context()
	has, err := s.Control.Accounts.MFA.Of(ctx, session.Account.ID)
	if err != nil {
		return nil, err
	}
	running, err := s.Control.Accounts.SessionsOf(ctx, session.Account.Account)
	if err != nil {
		return nil, err
	}
	answer := ownAnswer{Username: session.Account.Account, Kept: has, Fresh: s.fresh(session), Lacks: s.lacks(session)}
	for _, one := range running {
		answer.Sessions = append(answer.Sessions, ownSessionAnswer{one, one.ID == session.ID})
	}
	return answer, nil
}

// dropSessions is DELETE /api/security/sessions?id=. Without an id it ends all other sessions.
func (s *Site) dropSessions(c echo.Context, session *web.Session) (any, error) {
	ctx, name := c.Request().Context(), session.Account.Account
	if id := c.QueryParam("id"); id != "" {
		return done, s.Control.Accounts.EndSession(ctx, who(session), name, id)
	}
	n, err := s.Control.Accounts.EndSessions(ctx, who(session), name, Integration, session.ID)
	return map[string]any{"ok": true, "ended": n}, err
}
