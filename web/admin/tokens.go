package admin

import (
	"net/http"

	"github.com/labstack/echo/v4"
)

// tokens is GET /api/tokens: those of all realms that were made by command.
func (a *API) tokens(c echo.Context) (any, error) {
	all, err := a.of(c).Tokens(c.Request().Context())
	return map[string]any{"tokens": listed(all)}, err
}

type tokenQuestion struct {
	Name string `json:"name"`
}

// addToken is POST /api/tokens: a token of the realm, told this once.
func (a *API) addToken(c echo.Context, q tokenQuestion) (any, error) {
	made, err := a.of(c).AddToken(c.Request().Context(), sender(c), q.Name)
	if err != nil {
		return nil, err
	}
	return nil, c.JSON(http.StatusCreated, made)
}

// revokeToken is DELETE /api/tokens?name=.
func (a *API) revokeToken(c echo.Context) (any, error) {
	return done, a.of(c).RevokeToken(c.Request().Context(), sender(c), c.QueryParam("name"))
}
