package admin

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"authguard/internal/control"

	"authguard/internal/policy"
	"authguard/web"
	"authguard/web/pages"
)

func (a *API) policy(c echo.Context) (any, error) {
	return a.of(c).Policy(c.Request().Context())
}

type policyQuestion struct {
	LimitSet string `json:"limit"`
	To       string `json:"to"`
	For      string `json:"for"`
	Reason   string `json:"reason"`
}

// setPolicy is PUT /api/policy. Without "for" the change is permanent. The answer is the new policy.
func (a *API) setPolicy(c echo.Context, q policyQuestion) (any, error) {
	hold, err := hold(q.For)
	if err != nil {
		return nil, err
	}
	if q.LimitSet == "" {
		return nil, web.Invalid("limit: missing; send the name of a limit, or %q for all limits", policy.Whole)
	}
	if err := a.of(c).SwitchPolicy(c.Request().Context(), sender(c), q.LimitSet, q.To, hold, q.Reason); err != nil {
		return nil, err
	}
	return a.policy(c)
}

// policyPage is GET /policy?switch=&to=. With them it shows the effect of the switch and asks for confirmation.
func (s *Site) policyPage(c echo.Context, session *web.Session) error {
	around, err := s.chrome(c, session)
	if err != nil {
		return err
	}
	found, err := s.of(c).Policy(c.Request().Context())
	if err != nil {
		return err
	}
	page, err := pages.RenderPolicy(pages.PolicyView{Admin: around, Policy: found, Switch: c.QueryParam("switch"),
		To: c.QueryParam("to")})
	return web.WritePage(c, http.StatusOK, page, err)
}

func (s *Site) policyForm(ctx context.Context, to *control.Control, who string, f web.Form) (pages.Notice, error) {
	hold, err := hold(f["for"])
	if err != nil {
		return pages.Notice{}, err
	}
	done := map[string]string{control.ToWatch: "In monitoring mode on all nodes within a second:",
		control.ToEnforce: "Enforced on all nodes within a second:", control.ToFile: "Configured value restored:"}
	return pages.Notice{Text: done[f["to"]], Subject: pages.LimitSetTitle(f["limit"])},
		to.SwitchPolicy(ctx, who, f["limit"], f["to"], hold, f["reason"])
}
