package admin

import (
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"authguard/internal/operation"
	"authguard/web"
	"authguard/web/pages"
)

// accountsPage is GET /accounts?find=&sort=&after=.
func (s *Site) accountsPage(c echo.Context, session *web.Session) error {
	around, err := s.chrome(c, session)
	if err != nil {
		return err
	}
	return s.showAccounts(c, http.StatusOK, pages.AccountsView{Admin: around})
}

func (s *Site) showAccounts(c echo.Context, status int, v pages.AccountsView) (err error) {
	v.Query = accountsQuery(c)
	if v.Accounts, err = s.of(c).AccountsOf(c.Request().Context(), v.Query); errors.Is(err, operation.ErrAsked) {
		return problemOf(err)
	} else if err != nil {
		return err
	}
	page, err := pages.RenderAccounts(v)
	return web.WritePage(c, status, page, err)
}
