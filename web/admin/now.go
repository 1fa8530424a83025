package admin

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"authguard/captchamode"
	"authguard/internal/control"
	"authguard/internal/metrics"
	"authguard/web"
	"authguard/web/pages"
)

func (a *API) overview(c echo.Context) (any, error) {
	return a.of(c).Overview(c.Request().Context()), nil
}

// series is GET /api/series?span=quarter|hour|six-hours|day, in columns, oldest first.
func (a *API) series(c echo.Context) (any, error) {
	span := metrics.Span(cmp.Or(c.QueryParam("span"), string(metrics.LastHour)))
	all, err := a.of(c).Series(span)
	if err != nil {
		return nil, err
	}
	answer := seriesAnswer{Span: span, EverySeconds: int(all.Each / time.Second), Pressure: listed(all.FailureRate),
		Week: listed(all.Week)}
	for i, p := range all.Points {
		if i == 0 {
			answer.Start = p.Start
		}
		answer.Attempts, answer.Failures = append(answer.Attempts, p.Attempts), append(answer.Failures, p.Failures)
		answer.Logins = append(answer.Logins, p.Logins)
		answer.Shown, answer.Solved = append(answer.Shown, p.Shown), append(answer.Solved, p.Solved)
		answer.Refused, answer.Known = append(answer.Refused, p.Refused), append(answer.Known, p.Known)
	}
	return answer, nil
}

type seriesAnswer struct {
	Span         metrics.Span           `json:"span"`
	Start        time.Time              `json:"start"`
	EverySeconds int                    `json:"every_seconds"`
	Attempts     []int                  `json:"attempts"`
	Failures     []int                  `json:"failures"`
	Logins       []int                  `json:"logins"`
	Shown        []int                  `json:"challenges_shown"`
	Solved       []int                  `json:"challenges_solved"`
	Refused      []int                  `json:"blocked"`
	Known        []int                  `json:"known"`
	Pressure     []captchamode.Minute   `json:"failure_rate"` // of the whole site
	Week         []captchamode.Expected `json:"week"`         // from Monday 00:00 UTC
}

func (s *Site) nowPage(c echo.Context, session *web.Session) error {
	around, err := s.chrome(c, session)
	if err != nil {
		return err
	}
	view := s.now(c, around, s.of(c).Look)
	if view.Notice.Text == "" && c.QueryParam("password") == "changed" {
		view.Notice.Text = "Your password was changed. All your other sessions were ended."
	}
	page, err := pages.RenderNow(view)
	return web.WritePage(c, http.StatusOK, page, err)
}

func (s *Site) now(c echo.Context, around pages.Admin, look func(context.Context, metrics.Span) (control.Overview,
	metrics.Series)) pages.NowView {
	v := pages.NowView{Admin: around, Span: metrics.Span(c.QueryParam("span")), Preset: c.QueryParam("switch"),
		Show: c.QueryParam("show")}
	if v.Span.Long() == 0 {
		v.Span = metrics.LastHour
	}
	v.Overview, v.Series = look(c.Request().Context(), v.Span)
	v.Now = v.Overview.Now
	v.Path, v.Back = "/", v.Here()
	return v
}

func (a *API) mode(c echo.Context) (any, error) {
	return a.of(c).Overview(c.Request().Context()).State, nil
}
