package admin

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"

	"authguard/internal/accounts"
	"authguard/internal/control"
	"authguard/internal/mfa"
	"authguard/internal/operation"
	"authguard/web"
	"authguard/web/pages"
)

func (s *Site) securityRoutes(e *echo.Echo) {
	e.GET("/security", s.own(s.securityPage))
	e.POST("/security/again", s.own(s.signInAgain))
	e.POST("/security/passkeys/ask", s.own(s.askNewPasskey))
	e.POST("/security/passkeys", s.mine(s.addPasskey, "assertion", "state", "name"))
	e.POST("/security/sessions/end", s.own(s.endSession))
	e.POST("/security/sessions/others", s.own(s.endOthers))
}

// securityPage is GET /security. With ?setup=app it shows the secret of an unconfirmed TOTP app.
func (s *Site) securityPage(c echo.Context, session *web.Session) error {
	around, err := s.chrome(c, session)
	if err != nil {
		return err
	}
	v := pages.SecurityView{Admin: around}
	if c.QueryParam("setup") == "app" && s.fresh(session) {
		v.App, err = s.Control.Accounts.EnrollingTOTP(c.Request().Context(), session.Account)
		if err != nil && !errors.Is(err, mfa.ErrUnknown) {
			return err
		}
	}
	return s.showSecurity(c, session, v)
}

func (s *Site) showSecurity(c echo.Context, session *web.Session, v pages.SecurityView) (err error) {
	ctx := c.Request().Context()
	if v.Kept, err = s.Control.Accounts.MFA.Of(ctx, session.Account.ID); err != nil {
		return err
	}
	running, err := s.Control.Accounts.SessionsOf(ctx, session.Account.Account)
	if err != nil {
		return err
	}
	for _, one := range running {
		v.Sessions = append(v.Sessions, pages.OwnSession{Session: one, This: one.ID == session.ID})
	}
	v.Fresh, v.Lacks = s.fresh(session), s.lacks(session)
	at, ok := s.Login.Edge.Site(c.Request())
	v.PasskeysHere, v.PasskeysAt = ok, at.Elsewhere
	status := http.StatusOK
	if v.AppWrong {
		status = http.StatusUnprocessableEntity
	}
	page, err := pages.RenderSecurity(v)
	return web.WritePage(c, status, page, err)
}

// An ownChange changes how the administrator signs in. It returns the notice, and codes that only this response shows.
type ownChange func(c echo.Context, session *web.Session, f web.Form) (say string, codes []string, err error)

// mine carries out an ownChange after a recent sign-in.
func (s *Site) mine(do ownChange, names ...string) echo.HandlerFunc {
	return s.own(func(c echo.Context, session *web.Session) error {
		f, err := readForm(c, session, names...)
		if err != nil {
			return err
		}
		if !s.fresh(session) {
			return s.say(c, session, pages.Notice{Bad: true, Text: "Nothing was changed. " + operation.StaleSession})
		}
		text, codes, err := do(c, session, f)
		if errors.Is(err, mfa.ErrCode) {
			return s.wrongCode(c, session)
		}
		notice := pages.Notice{Text: text}
		if err != nil {
			if notice, err = s.failed(c, err); err != nil {
				return err
			}
		}
		if len(codes) > 0 {
			v := pages.SecurityView{Admin: s.around(c, session, "/security"), Codes: codes}
			v.Notice = notice
			return s.showSecurity(c, session, v)
		}
		if notice.Text == "" { // an app that still needs its code
			return c.Redirect(http.StatusSeeOther, "/security?setup=app")
		}
		return s.say(c, session, notice)
	})
}

// ownForm is an operation of the table on the administrator's own page.
func (s *Site) ownForm(o control.Operation, form control.Form) echo.HandlerFunc {
	return s.mine(func(c echo.Context, session *web.Session, f web.Form) (string, []string, error) {
		q := o.Request()
		fill(q, func(name string) string { return f[name] })
		change, err := s.Control.Operate(c.Request().Context(), o, s.by(c, session), q)
		if err == nil && o.Proves {
			err = s.Login.Sessions.Prove(session, true)
		}
		var codes accounts.RecoveryCodes
		if change != nil { // also if it could not be recorded
			codes, _ = change.Answer.(accounts.RecoveryCodes)
		}
		return form.Notice, codes.Codes, err
	}, namesOf(o.Request())...)
}

// wrongCode shows the setup of the app again, with the same secret: a new one would leave an entry in the app that never
// works.
func (s *Site) wrongCode(c echo.Context, session *web.Session) (err error) {
	v := pages.SecurityView{Admin: s.around(c, session, "/security"), AppWrong: true}
	if v.App, err = s.Control.Accounts.EnrollingTOTP(c.Request().Context(), session.Account); err != nil {
		return err
	}
	return s.showSecurity(c, session, v)
}

// say shows a notice on the page.
func (s *Site) say(c echo.Context, session *web.Session, n pages.Notice) error {
	if err := s.note(session, n); err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, "/security")
}

// signInAgain is POST /security/again. It ends the session and returns here after a full login.
func (s *Site) signInAgain(c echo.Context, session *web.Session) error {
	f, err := readForm(c, session)
	if err != nil {
		return err
	}
	if err := s.Login.Sessions.End(c, s.Login.Edge.Client(c.Request())); err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, "/login?next="+url.QueryEscape(web.LocalPath(f["back"])))
}

// askNewPasskey is POST /security/passkeys/ask. It returns the WebAuthn options.
func (s *Site) askNewPasskey(c echo.Context, session *web.Session) error {
	if _, err := readForm(c, session); err != nil {
		return err
	}
	at, ok := s.Login.Edge.Site(c.Request())
	switch {
	case !s.fresh(session):
		return web.Problem{Type: operation.FreshRequired, Title: "Recent sign-in required", Status: http.StatusForbidden,
			Detail: operation.StaleSession}
	case !ok:
		return web.Invalid("passkeys require a domain name: open the admin console by a name in admin.urls or as localhost")
	}
	q, err := s.Control.Accounts.AskNewPasskey(c.Request().Context(), at.Site, session.Account)
	if err != nil {
		return problemOf(err)
	}
	return c.JSON(http.StatusOK, q)
}

func (s *Site) addPasskey(c echo.Context, session *web.Session, f web.Form) (string, []string, error) {
	at, _ := s.Login.Edge.Site(c.Request())
	codes, err := s.Control.Accounts.AddPasskey(c.Request().Context(), who(session), at.Site, session.Account, f["name"],
		f["state"], []byte(f["assertion"]))
	if err == nil {
		err = s.Login.Sessions.Prove(session, true)
	}
	return "The passkey was added. You can sign in with it, with or without your password.", codes, err
}

// endSession is POST /security/sessions/end. Being urgent, it requires no recent sign-in.
func (s *Site) endSession(c echo.Context, session *web.Session) error {
	f, err := readForm(c, session, "id")
	if err != nil {
		return err
	}
	notice := pages.Notice{Text: "The session was ended."}
	if err := s.Control.Accounts.EndSession(c.Request().Context(), who(session), session.Account.Account, f["id"]); err != nil {
		if notice, err = s.failed(c, err); err != nil {
			return err
		}
	}
	if f["id"] == session.ID {
		return c.Redirect(http.StatusSeeOther, "/login?signed-out=1")
	}
	return s.say(c, session, notice)
}

func (s *Site) endOthers(c echo.Context, session *web.Session) error {
	if _, err := readForm(c, session); err != nil {
		return err
	}
	if _, err := s.Control.Accounts.EndSessions(c.Request().Context(), who(session), session.Account.Account,
		Integration, session.ID); err != nil {
		return err
	}
	return s.say(c, session, pages.Notice{Text: "All your other sessions were ended."})
}
