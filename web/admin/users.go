package admin

import (
	"github.com/labstack/echo/v4"

	"authguard/internal/control"
)

// usersPage is the default number of accounts in an answer.
const usersPage = 200

// users is GET /api/users?find=&sort=&after=&limit=. "next" is the after of the following page.
func (a *API) users(c echo.Context) (any, error) {
	limit, err := number(c, "limit", usersPage)
	if err != nil {
		return nil, err
	}
	q := accountsQuery(c)
	q.Limit = int(limit)
	return a.of(c).AccountsOf(c.Request().Context(), q)
}

func accountsQuery(c echo.Context) control.AccountsQuery {
	return control.AccountsQuery{Find: c.QueryParam("find"), Sort: c.QueryParam("sort"),
		State: c.QueryParam("state"), After: c.QueryParam("after")}
}
