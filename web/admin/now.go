package admin

import (
	"cmp"
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"authguard/captchamode"
	"authguard/guard"
	"authguard/internal/control"
	"authguard/web"
	"authguard/web/pages"
)

// overview is GET /api/overview.
func (a *API) overview(c echo.Context) (any, error) {
	return a.of(c).Overview(c.Request().Context()), nil
}

// nowPage is GET /.
func (s *Site) nowPage(c echo.Context, session *web.Session) error {
	around, err := s.chrome(c, session)
	if err != nil {
		return err
	}
	view := s.now(c, around)
	if view.Notice.Text == "" && c.QueryParam("password") == "changed" {
		view.Notice.Text = "Your password is changed. Every other session of yours has ended."
	}
	page, err := pages.RenderNow(view)
	return web.WritePage(c, http.StatusOK, page, err)
}

// fragment is GET /fragment: the part of the page that changes by itself.
func (s *Site) fragment(c echo.Context, session *web.Session) error {
	part, err := pages.RenderLive(s.now(c, s.around(c, session, "/")))
	return web.WritePage(c, http.StatusOK, part, err)
}

func (s *Site) now(c echo.Context, around pages.Admin) pages.NowView {
	v := pages.NowView{Admin: around, Overview: s.of(c).Overview(c.Request().Context())}
	v.Now, v.Back = v.Overview.Now, v.At("/")
	return v
}

// mode is GET /api/mode.
func (a *API) mode(c echo.Context) (any, error) {
	return a.of(c).Overview(c.Request().Context()).State, nil
}

type modeQuestion struct {
	Mode   string `json:"mode"`
	For    string `json:"for"`
	Reason string `json:"reason"`
}

// setMode is PUT /api/mode. "for" is a duration such as 2h; without one it is
// two hours. The answer is the mode as it is then.
func (a *API) setMode(c echo.Context, q modeQuestion) (any, error) {
	if q.Reason == "" && (q.Mode == "on" || q.Mode == "off") {
		return nil, web.Invalid("say why in the field reason: whoever finds the mode forced later needs to know")
	}
	if _, err := switchMode(c.Request().Context(), a.of(c), sender(c), q.Mode, q.For, q.Reason); err != nil {
		return nil, err
	}
	return a.mode(c)
}

// modeForm is POST /mode.
func (s *Site) modeForm(ctx context.Context, to *control.Control, who string, f web.Form) (pages.Notice, error) {
	done, err := switchMode(ctx, to, who, f["mode"], f["for"], f["reason"])
	return pages.Notice{Text: done}, err
}

// switchMode does what was asked of CAPTCHA mode, and says so.
func switchMode(ctx context.Context, to *control.Control, who, mode, how, reason string) (done string, err error) {
	hold, err := hold(how)
	if err != nil {
		return "", err
	}
	switch mode {
	case "clear":
		return "The pressure is cleared. An attack that goes on is noticed again.", to.Clear(ctx, who, reason)
	case "auto":
		return "CAPTCHA mode is automatic again.", to.Release(ctx, who, reason)
	case "on", "off":
		hold = cmp.Or(hold, control.DefaultForce)
		return "CAPTCHA mode is switched " + mode + " for " + guard.Spell(hold) + ".", to.Force(ctx, who, captchamode.Word(mode), hold, reason)
	}
	return "", web.Invalid("mode: say on, off, auto or clear, not %.20q", mode)
}
