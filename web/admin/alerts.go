package admin

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"authguard/web"
	"authguard/web/pages"
)

// alerts is GET /api/alerts?before=&limit=.
func (a *API) alerts(c echo.Context) (any, error) {
	before, err := number(c, "before", 0)
	if err != nil {
		return nil, err
	}
	limit, err := number(c, "limit", 0)
	if err != nil {
		return nil, err
	}
	return a.of(c).Alerts(c.Request().Context(), before, int(min(limit, 1<<20)))
}

// alertsPage is GET /alerts?before=.
func (s *Site) alertsPage(c echo.Context, session *web.Session) error {
	before, err := number(c, "before", 0)
	if err != nil {
		return err
	}
	around, err := s.chrome(c, session)
	if err != nil {
		return err
	}
	all, err := s.of(c).Alerts(c.Request().Context(), before, 0)
	if err != nil {
		return err
	}
	page, err := pages.RenderAlerts(pages.AlertsView{Admin: around, Alerts: all, Older: before > 0})
	return web.WritePage(c, http.StatusOK, page, err)
}
