package admin

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"authguard/web"
	"authguard/web/pages"
)

func (a *API) policy(c echo.Context) (any, error) {
	return a.of(c).Limits.View(c.Request().Context())
}

// policyPage is GET /policy?switch=&to=. With them it shows the effect of the switch and asks for confirmation.
func (s *Site) policyPage(c echo.Context, session *web.Session) error {
	around, err := s.chrome(c, session)
	if err != nil {
		return err
	}
	found, err := s.of(c).Limits.View(c.Request().Context())
	if err != nil {
		return err
	}
	page, err := pages.RenderPolicy(pages.PolicyView{Admin: around, Policy: found, Switch: c.QueryParam("switch"),
		To: c.QueryParam("to")})
	return web.WritePage(c, http.StatusOK, page, err)
}
