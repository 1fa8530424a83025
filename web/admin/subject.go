package admin

import (
	"github.com/labstack/echo/v4"

	"authguard/guard"
	"authguard/internal/operation"
)

// explain is GET /api/explain?account=&address=; with &event=&subject= it explains the limits of an event.
func (a *API) explain(c echo.Context) (any, error) {
	from, err := operation.AddressOf(c.QueryParam("address"))
	if err != nil {
		return nil, err
	}
	ctx, account := c.Request().Context(), c.QueryParam("account")
	if event := c.QueryParam("event"); event != "" {
		return a.of(c).Limits.ExplainEvent(ctx, event, guard.Subjects{Account: account, Address: from,
			Subject: c.QueryParam("subject")})
	}
	return a.of(c).Explain(ctx, account, from)
}
