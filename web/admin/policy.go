package admin

import (
	"github.com/labstack/echo/v4"

	"authguard/internal/policy"
	"authguard/web"
)

// policy is GET /api/policy.
func (a *API) policy(c echo.Context) (any, error) {
	return a.of(c).Policy(c.Request().Context())
}

type policyQuestion struct {
	Ladder string `json:"ladder"`
	To     string `json:"to"`
	For    string `json:"for"`
	Reason string `json:"reason"`
}

// setPolicy is PUT /api/policy. Without
// "for" it holds until it is taken back. The answer is the policy as it is then.
func (a *API) setPolicy(c echo.Context, q policyQuestion) (any, error) {
	hold, err := hold(q.For)
	if err != nil {
		return nil, err
	}
	if q.Ladder == "" {
		return nil, web.Invalid("say which ladder, or %q for the whole policy", policy.Whole)
	}
	if err := a.of(c).SwitchPolicy(c.Request().Context(), sender(c), q.Ladder, q.To, hold, q.Reason); err != nil {
		return nil, err
	}
	return a.policy(c)
}
