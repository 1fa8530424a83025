package admin

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"

	"github.com/labstack/echo/v4"

	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/lists"
	"authguard/internal/operation"
	"authguard/web"
	"authguard/web/pages"
)

// actPage is GET /act?what=&cidr=&account=&address=&back=: the dialog before a change. It changes nothing.
func (s *Site) actPage(c echo.Context, session *web.Session) error {
	around, err := s.chrome(c, session)
	if err != nil {
		return err
	}
	get := func(name string) string { return strings.TrimSpace(c.QueryParam(name)) }
	around.Back = s.back(c, web.Form{"back": get("back")})
	v := pages.ActView{Admin: around, What: get("what"), CIDR: get("cidr"), Account: get("account"),
		Address: get("address"), Client: s.Login.Edge.Client(c.Request()).Address}
	if !pages.ActKnown(v.What) {
		v.What = pages.ActBlock
	}
	if err := s.preview(c, &v); err != nil {
		p := problemOf(err)
		if p.Status >= http.StatusInternalServerError {
			return err
		}
		v.Problem = pages.Sentence(p.Detail)
	}
	page, err := pages.RenderAct(v)
	return web.WritePage(c, http.StatusOK, page, err)
}

// preview adds the affected accounts and counters.
func (s *Site) preview(c echo.Context, v *pages.ActView) error {
	ctx, to := c.Request().Context(), s.of(c)
	address, err := operation.AddressOf(v.Address)
	if err == nil && v.CIDR == "" && address.IsValid() {
		v.CIDR = guard.OneAddress(address).String()
	}
	if err == nil && v.CIDR != "" {
		var r netip.Prefix
		if r, err = lists.ParsePrefix(v.CIDR); err != nil {
			return fmt.Errorf("%w: %w", operation.ErrAsked, err)
		}
		v.CIDR = r.String()
		v.Affected, err = to.Affected(ctx, r)
	}
	if err != nil || v.What != pages.ActUnlock || v.Account == "" && !v.Affected.Range.IsValid() {
		return err
	}
	if v.Account == "" {
		address = v.Affected.Range.Addr()
	}
	e, err := to.Explain(ctx, v.Account, address)
	if err != nil {
		return err
	}
	for _, line := range e.Lines {
		own := v.Field().Name == "network" && v.Account == ""
		if (line.Used > 0 || line.Full) && (line.Subject == guard.OnNetwork) == own {
			v.Counters = append(v.Counters, pages.Sentence(line.String()))
		}
	}
	if v.Account != "" {
		standing, err := to.Accounts.Standing(ctx, e.Account)
		v.Missing = standing.State == accounts.NoAccount
		return err
	}
	return nil
}
