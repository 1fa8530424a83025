package admin

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"authguard/internal/mfa"
	"authguard/internal/operation"
	"authguard/internal/sessions"
	"authguard/web"
)

// ownRoutes adds /api/security: an administrator's own sign-in settings. Only a session may use it, since it belongs to
// an administrator. With a token, an attacker could set up a TOTP app that outlives the token; the commands' socket has
// no account. Only a browser can add a passkey (WebAuthn); the password changes with POST /password.
func (s *Site) ownRoutes(e *echo.Echo) {
	add := func(method, path string, h ownQuestion) {
		e.Add(method, "/api/security"+path,
			s.answering(func(c echo.Context) (any, error) { return h(c, c.Get(sessionKey).(*web.Session)) }), s.ownSession)
	}
	add(http.MethodGet, "", s.ownSecurity)
	add(http.MethodPost, "/totp", s.fresher(s.beginTOTP))
	add(http.MethodPost, "/totp/confirm", s.fresher(s.confirmTOTP))
	add(http.MethodDelete, "/totp", s.fresher(s.removeTOTP))
	add(http.MethodPut, "/passkeys", s.fresher(s.renamePasskey))
	add(http.MethodDelete, "/passkeys", s.fresher(s.dropPasskey))
	add(http.MethodPost, "/recovery-codes", s.fresher(s.renewRecovery))
	add(http.MethodDelete, "/sessions", s.dropSessions)
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

// fresher requires a recent sign-in.
func (s *Site) fresher(h ownQuestion) ownQuestion {
	return func(c echo.Context, session *web.Session) (any, error) {
		if !s.fresh(session) {
			return nil, web.Problem{Type: operation.FreshRequired, Title: "Recent sign-in required",
				Status: http.StatusForbidden,
				Detail: operation.StaleSession}
		}
		return h(c, session)
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

// beginTOTP is POST /api/security/totp. It returns a secret that becomes valid when a code from it is confirmed.
func (s *Site) beginTOTP(c echo.Context, session *web.Session) (any, error) {
	return s.Control.Accounts.EnrolTOTP(c.Request().Context(), session.Account)
}

type otpQuestion struct {
	OTP string `json:"otp"`
}

// confirmTOTP is POST /api/security/totp/confirm. Only this response has the recovery codes of a first MFA method.
func (s *Site) confirmTOTP(c echo.Context, session *web.Session) (any, error) {
	return asking(func(c echo.Context, q otpQuestion) (any, error) {
		codes, err := s.Control.Accounts.ConfirmTOTP(c.Request().Context(), who(session), session.Account, q.OTP)
		if err == nil {
			err = s.Login.Sessions.Prove(session, true)
		}
		return map[string]any{"recovery_codes": listed(codes)}, err
	})(c)
}

func (s *Site) removeTOTP(c echo.Context, session *web.Session) (any, error) {
	return done, s.Control.Accounts.RemoveTOTP(c.Request().Context(), who(session), session.Account)
}

type passkeyQuestion struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

func (s *Site) renamePasskey(c echo.Context, session *web.Session) (any, error) {
	return asking(func(c echo.Context, q passkeyQuestion) (any, error) {
		return done, s.Control.Accounts.RenamePasskey(c.Request().Context(), who(session), session.Account, q.ID, q.Name)
	})(c)
}

func (s *Site) dropPasskey(c echo.Context, session *web.Session) (any, error) {
	return done, s.Control.Accounts.RemovePasskey(c.Request().Context(), who(session), session.Account, c.QueryParam("id"))
}

// renewRecovery is POST /api/security/recovery-codes. Only this response has the new codes.
func (s *Site) renewRecovery(c echo.Context, session *web.Session) (any, error) {
	codes, err := s.Control.Accounts.NewRecovery(c.Request().Context(), who(session), session.Account)
	return map[string]any{"recovery_codes": listed(codes)}, err
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
