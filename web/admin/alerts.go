package admin

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"authguard/internal/control"
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

// testAlerts is POST /api/alerts/test. It sends a test message to each channel and returns the outcomes.
func (a *API) testAlerts(c echo.Context, _ struct{}) (any, error) {
	found, err := a.of(c).TestAlerts(c.Request().Context(), sender(c))
	return map[string]any{"channels": listed(found)}, err
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

func (s *Site) testAlertsForm(ctx context.Context, to *control.Control, who string, _ web.Form) (pages.Notice, error) {
	found, err := to.TestAlerts(ctx, who)
	if err != nil {
		return pages.Notice{}, err
	}
	var bad []string
	for _, one := range found {
		if one.Problem != "" {
			bad = append(bad, fmt.Sprintf("%s: %s", one.Channel, words(fmt.Errorf("%s", one.Problem))))
		}
	}
	switch {
	case len(found) == 0:
		return pages.Notice{Bad: true, Text: "No alert channel configured. Add one in alerts.to."}, nil
	case len(bad) > 0:
		return pages.Notice{Bad: true, Text: "The test message could not be sent to " + strings.Join(bad, "; ") + "."}, nil
	}
	return pages.Notice{Text: "A test message was sent to every channel. Check that it has arrived."}, nil
}
