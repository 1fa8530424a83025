package web

import (
	"net/http"

	"github.com/labstack/echo/v4"
)

// verify is GET /auth/verify: 200 with the account's name for a request with a
// session, 401 otherwise. It is what nginx's auth_request and the forward_auth
// of Caddy and Traefik ask.
func (l *Login) verify(c echo.Context) error {
	session, err := l.Sessions.Get(c)
	if err != nil {
		return err
	}
	if session == nil {
		return c.NoContent(http.StatusUnauthorized)
	}
	c.Response().Header().Set("Remote-User", session.Account.Account)
	return c.NoContent(http.StatusOK)
}
