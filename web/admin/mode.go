package admin

import (
	"cmp"
	"context"
	"encoding/json"
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

// overviewPage is GET /, with ?account= and ?address= also the look-up.
func (s *Site) overviewPage(c echo.Context, session *web.Session) error {
	view := s.view(c, session)
	view.LookUp = s.lookUp(c)
	notice, err := s.Login.Sessions.Pop(session, noticeKey)
	if err != nil {
		return err
	}
	if notice != "" {
		if err := json.Unmarshal([]byte(notice), &view.Notice); err != nil {
			return err
		}
	} else if c.QueryParam("password") == "changed" {
		view.Notice.Text = "Your password is changed. Every other session of yours has ended."
	}
	page, err := pages.RenderAdmin(view)
	return web.WritePage(c, http.StatusOK, page, err)
}

// fragment is GET /fragment: the part of the overview that changes by itself.
func (s *Site) fragment(c echo.Context, session *web.Session) error {
	part, err := pages.RenderLive(s.view(c, session))
	return web.WritePage(c, http.StatusOK, part, err)
}

func (s *Site) view(c echo.Context, session *web.Session) pages.AdminView {
	return pages.AdminView{CSRF: session.CSRF, User: session.Account.Account, Overview: s.of(c).Overview(c.Request().Context()),
		Realm: s.of(c).Realm(), Realms: s.realmNames()}
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
