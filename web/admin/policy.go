package admin

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"authguard/internal/control"
	"authguard/internal/policy"
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
		To: c.QueryParam("to"), Fresh: s.fresh(session)})
	return web.WritePage(c, http.StatusOK, page, err)
}

// tryPage is GET /policy/try?limit=: the form for other numbers.
func (s *Site) tryPage(c echo.Context, session *web.Session) error {
	around, err := s.chrome(c, session)
	if err != nil {
		return err
	}
	return s.showTry(c, session, pages.TryView{Admin: around}, c.QueryParam("limit"))
}

// tryForm is POST /policy/try. It changes nothing: the POST keeps other sites from starting a replay. The replay ends if
// the client disconnects.
func (s *Site) tryForm(c echo.Context, session *web.Session) error {
	sent, err := readForm(c, session, "limit", "limits")
	if err != nil {
		return err
	}
	v := pages.TryView{Admin: s.around(c, session, c.Path()), Limits: sent["limits"]}
	v.Back = pages.TryAt(sent["limit"], s.of(c).Realm())
	_ = http.NewResponseController(c.Response()).SetWriteDeadline(time.Now().Add(control.TriedWithin + writeWithin))
	v.Trial, err = s.of(c).TryLimits(c.Request().Context(), sent["limit"], v.Limits)
	if err != nil {
		p := problemOf(err)
		if p.Status >= http.StatusInternalServerError {
			return err
		}
		v.Problem, v.Trial = p.Detail, nil // may begin with the setting's name
	} else if v.Trial.Refused != nil {
		v.Refused = pages.Sentence(words(v.Trial.Refused))
	}
	return s.showTry(c, session, v, sent["limit"])
}

func (s *Site) showTry(c echo.Context, session *web.Session, v pages.TryView, limitSet string) error {
	found, err := s.of(c).Limits.View(c.Request().Context())
	if err != nil {
		return err
	}
	i := slices.IndexFunc(found.LimitSets, func(l policy.LimitSet) bool { return l.Name == limitSet && l.Configured != "" })
	if i < 0 {
		return web.Invalid("unknown limit %.60q, or one that only the configuration can change", limitSet)
	}
	v.Set, v.Fresh = found.LimitSets[i], s.fresh(session)
	v.Limits = cmp.Or(v.Limits, v.Set.Numbers())
	status := http.StatusOK
	if v.Problem != "" {
		status = http.StatusBadRequest
	}
	page, err := pages.RenderTry(v)
	return web.WritePage(c, status, page, err)
}
