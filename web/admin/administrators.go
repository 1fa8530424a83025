package admin

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"authguard/web"
	"authguard/web/pages"
)

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
	if v.Tokens, err = s.Control.Accounts.Tokens.All(ctx); err != nil {
		return err
	}
	v.Fresh = s.fresh(session)
	page, err := pages.RenderAdministrators(v)
	return web.WritePage(c, http.StatusOK, page, err)
}

// administrators is GET /api/administrators: all administrators and their ways to sign in.
func (a *API) administrators(c echo.Context) (any, error) {
	all, err := a.Control.Administrators(c.Request().Context())
	return map[string]any{"administrators": listed(all)}, err
}

func (a *API) sessions(c echo.Context) (any, error) {
	all, err := a.Control.Accounts.SessionsOf(c.Request().Context(), c.QueryParam("username"))
	return map[string]any{"sessions": listed(all)}, err
}
