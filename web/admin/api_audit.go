package admin

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"authguard/internal/audit"
)

type auditAnswer struct {
	ID       int64     `json:"id"`
	At       time.Time `json:"at"`
	Kind     string    `json:"kind"`
	Decision string    `json:"decision,omitempty"`
	Account  string    `json:"account,omitempty"`
	Address  string    `json:"address,omitempty"`
	Reasons  string    `json:"reasons,omitempty"`
	Count    int64     `json:"count"`
	Who      string    `json:"who,omitempty"`
	Detail   string    `json:"detail,omitempty"`
}

// recent is GET /api/audit?account=&address=&kind=&since=&before=&limit=, newest
// first. An account is found by any of its names.
func (a *API) recent(c echo.Context) error {
	filter, err := a.filter(c)
	if err != nil {
		return err
	}
	rows, err := a.Audit.Recent(c.Request().Context(), filter)
	if err != nil {
		return err
	}
	answers := make([]auditAnswer, 0, len(rows))
	for _, r := range rows {
		answers = append(answers, auditAnswer{
			ID: r.ID, At: r.At, Kind: r.Kind, Decision: r.Decision, Account: r.Account, Address: r.Address,
			Reasons: r.Reasons, Count: r.Count, Who: r.Who, Detail: r.Detail,
		})
	}
	return c.JSON(http.StatusOK, map[string]any{"audit": answers})
}

func (a *API) filter(c echo.Context) (f audit.Filter, err error) {
	f.Kind = c.QueryParam("kind")
	if name := c.QueryParam("account"); name != "" {
		if f.Account, err = a.Control.Canonical(name); err != nil {
			return f, err
		}
	}
	if f.Address, err = address(c.QueryParam("address")); err != nil {
		return f, err
	}
	if text := c.QueryParam("since"); text != "" {
		if f.Since, err = time.Parse(time.RFC3339, text); err != nil {
			return f, bad("since: write a time such as 2026-03-01T12:00:00Z")
		}
	}
	limit, err := number(c, "limit", audit.DefaultLimit)
	if err != nil {
		return f, err
	}
	f.Limit = int(min(limit, audit.MaxLimit))
	if c.QueryParam("before") != "" {
		f.Before, err = number(c, "before", 0)
	}
	return f, err
}
