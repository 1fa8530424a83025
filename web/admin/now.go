package admin

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"authguard/captchamode"
	"authguard/guard"
	"authguard/internal/control"
	"authguard/internal/lists"
	"authguard/web"
	"authguard/web/pages"
)

func (a *API) overview(c echo.Context) (any, error) {
	return a.of(c).Overview(c.Request().Context()), nil
}

// series is GET /api/series?span=hour|day, in columns, oldest first.
func (a *API) series(c echo.Context) (any, error) {
	span := control.Span(cmp.Or(c.QueryParam("span"), string(control.LastHour)))
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
	Span         control.Span           `json:"span"`
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

func (s *Site) now(c echo.Context, around pages.Admin, look func(context.Context, control.Span) (control.Overview,
	control.Series)) pages.NowView {
	v := pages.NowView{Admin: around, Span: control.LastHour}
	if c.QueryParam("span") == string(control.LastDay) {
		v.Span = control.LastDay
	}
	v.Overview, v.Series = look(c.Request().Context(), v.Span)
	v.Now = v.Overview.Now
	v.Path, v.Back = "/", v.Here()
	return v
}

// blockForm is POST /block. Administrators cannot block their own IP address.
func (s *Site) blockForm(c echo.Context) error {
	own := s.Login.Edge.Client(c.Request()).Address
	return s.form(func(ctx context.Context, to *control.Control, who string, f web.Form) (n pages.Notice, err error) {
		request, err := (&listQuestion{CIDR: f["cidr"], Verdict: lists.Block, For: f["for"], Note: cmp.Or(f["note"],
			f["reason"])}).request()
		switch {
		case err != nil:
			return n, err
		case request.Prefix.Contains(own):
			return n, web.Invalid("%s contains your own IP address, %s: you would lock yourself out", request.Prefix, own)
		}
		entry, err := to.List(ctx, who, request)
		n = pages.Notice{Text: "Blocked permanently:", Subject: entry.Prefix.String()}
		if !entry.ExpiresAt.IsZero() {
			n.Text = "Blocked until " + entry.ExpiresAt.In(to.Now().Location()).Format("2 Jan 2006 15:04") + ":"
		}
		return n, err
	}, "cidr", "for", "note", "reason")(c)
}

func (a *API) mode(c echo.Context) (any, error) {
	return a.of(c).Overview(c.Request().Context()).State, nil
}

type modeQuestion struct {
	Mode   string `json:"mode"`
	For    string `json:"for"`
	Reason string `json:"reason"`
}

// setMode is PUT /api/mode. "for" is a duration such as 2h, two hours by default. The answer is the new mode.
func (a *API) setMode(c echo.Context, q modeQuestion) (any, error) {
	if q.Reason == "" && (q.Mode == "on" || q.Mode == "off") {
		return nil, web.Invalid("reason: missing (recorded in the audit log)")
	}
	if _, err := switchMode(c.Request().Context(), a.of(c), sender(c), q.Mode, q.For, q.Reason); err != nil {
		return nil, err
	}
	return a.mode(c)
}

func (s *Site) modeForm(ctx context.Context, to *control.Control, who string, f web.Form) (pages.Notice, error) {
	done, err := switchMode(ctx, to, who, f["mode"], f["for"], f["reason"])
	return pages.Notice{Text: done}, err
}

// switchMode changes CAPTCHA mode and describes the outcome.
func switchMode(ctx context.Context, to *control.Control, who, mode, how, reason string) (done string, err error) {
	hold, err := hold(how)
	if err != nil {
		return "", err
	}
	switch mode {
	case "clear":
		return "CAPTCHA mode was reset. If the attack continues, it turns on again.", to.Clear(ctx, who, reason)
	case "auto":
		return "CAPTCHA mode is automatic again.", to.Release(ctx, who, reason)
	case "on", "off":
		hold = cmp.Or(hold, control.DefaultForce)
		return "CAPTCHA mode is forced " + mode + " for " + guard.Spell(hold) + ".",
			to.Force(ctx, who, captchamode.Forced(mode), hold, reason)
	}
	return "", web.Invalid("mode: must be on, off, auto or clear, not %.20q", mode)
}
