package admin

import (
	"cmp"
	"net/http"
	"net/netip"
	"strings"

	"github.com/labstack/echo/v4"

	"authguard/guard"
	"authguard/internal/control"
	"authguard/internal/operation"
	"authguard/web"
	"authguard/web/pages"
)

func (a *API) lookUpAll(c echo.Context) (any, error) {
	if network, ok := networkOf(c.QueryParam("address")); ok {
		if c.QueryParam("account") != "" {
			return nil, web.Invalid("address: combine an account with a single IP address, not with a network")
		}
		return a.of(c).LookUpNetwork(c.Request().Context(), network)
	}
	from, err := operation.AddressOf(c.QueryParam("address"))
	if err != nil {
		return nil, err
	}
	return a.of(c).LookUp(c.Request().Context(), c.QueryParam("account"), from)
}

// lookUpPage is GET /lookup?account=&address=, or ?q= for either.
func (s *Site) lookUpPage(c echo.Context, session *web.Session) error {
	around, err := s.chrome(c, session)
	if err != nil {
		return err
	}
	l := s.lookUp(c, asksAbout(c))
	if c.QueryParam("q") != "" && l.Result != nil && l.Missing() {
		found, err := s.of(c).AccountsOf(c.Request().Context(), control.AccountsQuery{Find: l.Account, Limit: 1})
		if err == nil && len(found.All) > 0 && found.Kept == l.Result.Account.Kept {
			return c.Redirect(http.StatusSeeOther, pages.AccountsView{Admin: around,
				Query: control.AccountsQuery{Find: l.Account}}.Link("", ""))
		}
	}
	return showLookUp(c, pages.LookUpView{Admin: around, LookUp: l})
}

func showLookUp(c echo.Context, v pages.LookUpView) error {
	page, err := pages.RenderLookUp(v)
	return web.WritePage(c, http.StatusOK, page, err)
}

// asksAbout returns the account and IP address of a request; q is an address or network if it parses as one.
func asksAbout(c echo.Context) (l pages.LookUp) {
	l.Account, l.Address = strings.TrimSpace(c.QueryParam("account")), strings.TrimSpace(c.QueryParam("address"))
	q := strings.TrimSpace(c.QueryParam("q"))
	_, network := networkOf(q)
	if _, err := netip.ParseAddr(q); err == nil || network {
		l.Address = cmp.Or(l.Address, q)
	} else {
		l.Account = cmp.Or(l.Account, q)
	}
	return l
}

// lookUp answers the query; without an account and an IP address it returns l unchanged.
func (s *Site) lookUp(c echo.Context, l pages.LookUp) pages.LookUp {
	if l.Account == "" && l.Address == "" {
		return l
	}
	network, isNetwork := networkOf(l.Address)
	from, err := operation.AddressOf(l.Address)
	switch {
	case isNetwork && l.Account != "":
		err = web.Invalid("an account can be combined with a single IP address, not with a network: leave one of them out")
	case isNetwork:
		l.Network, err = s.of(c).LookUpNetwork(c.Request().Context(), network)
	case err == nil:
		l.Result, err = s.of(c).LookUp(c.Request().Context(), l.Account, from)
	}
	if err == nil && l.Result != nil {
		err = s.about(c, &l)
	}
	if err != nil {
		p := problemOf(err)
		l.Result, l.Network, l.Problem = nil, nil, pages.Sentence(p.Detail)
		if p.Status >= http.StatusInternalServerError {
			s.Log.Error("look-up failed", "error", err)
			l.Problem = "The look-up failed. See the server's log."
		}
	}
	return l
}

// about adds the users of the IP address, or the account itself.
func (s *Site) about(c echo.Context, l *pages.LookUp) (err error) {
	ctx, e := c.Request().Context(), l.Result.Explanation
	if e.Account != "" {
		l.Person, err = s.of(c).Person(ctx, e.Account)
		return err
	}
	affected, err := s.of(c).Affected(ctx, guard.OneAddress(e.Address))
	l.Affected = &affected
	return err
}

// networkOf parses a range of more than one address. 203.0.113.9/32 is not one.
func networkOf(text string) (netip.Prefix, bool) {
	p, err := netip.ParsePrefix(strings.TrimSpace(text))
	return p.Masked(), err == nil && !p.IsSingleIP()
}
