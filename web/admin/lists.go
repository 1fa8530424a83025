package admin

import (
	"github.com/labstack/echo/v4"

	"authguard/guard"
	"authguard/internal/lists"
	"authguard/web"
)

// lists is GET /api/lists?find=&verdict=&soon=true: the entries, and the IP lists from files.
func (a *API) lists(c echo.Context) (any, error) {
	q, err := listQuery(c)
	if err != nil {
		return nil, err
	}
	return a.of(c).Lists.Listed(c.Request().Context(), q)
}

func listQuery(c echo.Context) (q lists.Query, err error) {
	q = lists.Query{Find: c.QueryParam("find"), Verdict: lists.Verdict(c.QueryParam("verdict")),
		Soon: c.QueryParam("soon") == "true"}
	if q.Verdict != "" && q.Verdict != lists.Allow && q.Verdict != lists.Block {
		err = web.Invalid("verdict: must be allow or block, not %.20q", q.Verdict)
	}
	return q, err
}

// edge is GET /api/edge?verdict=blocked|allowed&limited=&everything=: the ranges for an upstream firewall or proxy.
func (a *API) edge(c echo.Context) (any, error) {
	verdict, ok := map[string]guard.Verdict{"blocked": guard.Blocked, "allowed": guard.Allowed}[c.QueryParam("verdict")]
	if !ok {
		return nil, web.Invalid("verdict: must be blocked or allowed, not %.20q", c.QueryParam("verdict"))
	}
	return a.of(c).Edge(c.Request().Context(), verdict, c.QueryParam("limited") == "true",
		c.QueryParam("everything") == "true")
}
