package web

import (
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"

	"authguard/internal/accounts"
)

// accountRoutes adds what people do with their own accounts.
func (l *Login) accountRoutes(e *echo.Echo) {
	e.GET("/account/password", l.own(l.ownPassword(l.PasswordPage)))
	e.POST("/account/password", l.own(l.ownPassword(l.ChangePassword)))
}

// An ownHandler answers the person of a session.
type ownHandler func(c echo.Context, s *Session) error

// own lets in who is signed in, and sends others to the login page.
func (l *Login) own(h ownHandler) echo.HandlerFunc {
	return func(c echo.Context) error {
		session, err := l.Sessions.Get(c)
		switch {
		case err != nil:
			return err
		case session != nil && l.opensTo(session.Account):
			return h(c, session)
		case WantsJSON(c.Request()):
			p := refusal(http.StatusUnauthorized, "problem.login")
			p.Type, p.Title, p.Login = LoginRequired, "Sign in first", "/login"
			return p
		}
		to := "/login"
		if c.Request().Method == http.MethodGet {
			to += "?next=" + url.QueryEscape(baseOf(c.Request())+c.Request().URL.RequestURI())
		}
		return c.Redirect(http.StatusSeeOther, baseOf(c.Request())+to)
	}
}

// ownPassword is for those whose password is replaced here: not where another program
// keeps it, and not administrators, who show more than the password first.
func (l *Login) ownPassword(h ownHandler) ownHandler {
	return func(c echo.Context, s *Session) error {
		if !l.replaces(s) {
			return refusal(http.StatusNotFound, "problem.password-elsewhere")
		}
		return h(c, s)
	}
}

func (l *Login) replaces(s *Session) bool {
	_, ours := l.Passwords.Source.(Upgrader)
	return ours && s.Account.Role != accounts.Admin
}
