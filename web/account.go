package web

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"

	"github.com/labstack/echo/v4"

	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/audit"
	"authguard/internal/operation"
	"authguard/internal/outbox"
	"authguard/internal/sessions"
	"authguard/web/client"
	"authguard/web/pages"
)

// accountRoutes adds the pages of a user's own account. The link in an email about a login works without a session: its
// recipient may be unable to sign in.
func (l *Login) accountRoutes(e *echo.Echo) {
	e.GET("/account", l.own(l.accountPage))
	e.POST("/account/sessions/end", l.own(l.endSession))
	e.POST("/account/sessions/others", l.own(l.endOthers))
	e.POST("/account/forget", l.own(l.notAdmin(l.forget)))
	e.GET("/account/not-me", l.own(l.notAdmin(l.notMePage)))
	e.POST("/account/not-me", l.own(l.notAdmin(l.notMe)))
	e.GET("/account/password", l.signedIn(l.ownPassword(l.PasswordPage)))
	e.POST("/account/password", l.signedIn(l.ownPassword(l.ChangePassword)))
	if l.Passkeys != nil {
		l.ownPasskeyRoutes(e)
	}
	// https://w3c.github.io/webappsec-change-password-url/
	e.GET("/.well-known/change-password", func(c echo.Context) error {
		return c.Redirect(http.StatusSeeOther, l.toPassword(c, "/"))
	})
	if l.Notices != nil {
		e.GET("/login/not-me/:token", l.letterPage)
		e.POST("/login/not-me/:token", l.message)
	}
}

type ownHandler func(c echo.Context, s *Session) error

// signedIn calls h for signed-in users and redirects others to the login page.
func (l *Login) signedIn(h ownHandler) echo.HandlerFunc {
	return func(c echo.Context) error {
		session, err := l.Sessions.Get(c)
		switch {
		case err != nil:
			return err
		case session != nil && l.opensTo(session.Account):
			return h(c, session)
		}
		return signInFirst(c)
	}
}

// signInFirst answers a request without a session: 401 for JSON, otherwise a redirect to the login page.
func signInFirst(c echo.Context) error {
	if WantsJSON(c.Request()) {
		p := refusal(http.StatusUnauthorized, "problem.login")
		p.Type, p.Title, p.Login = LoginRequired, "Sign-in required", "/login"
		return p
	}
	to := "/login"
	if c.Request().Method == http.MethodGet {
		to += "?next=" + url.QueryEscape(baseOf(c.Request())+c.Request().URL.RequestURI())
	}
	return c.Redirect(http.StatusSeeOther, baseOf(c.Request())+to)
}

// own is signedIn for users who do not have to change a temporary password first.
func (l *Login) own(h ownHandler) echo.HandlerFunc {
	return l.signedIn(func(c echo.Context, s *Session) error {
		if s.held() {
			return c.Redirect(http.StatusSeeOther, l.toPassword(c, "/"))
		}
		return h(c, s)
	})
}

// notAdmin rejects administrators with 403: their known clients belong to the admin console, which requires more than a
// password.
func (l *Login) notAdmin(h ownHandler) ownHandler {
	return func(c echo.Context, s *Session) error {
		if s.Account.Role == accounts.Admin {
			return refusal(http.StatusForbidden, "account.administrator")
		}
		return h(c, s)
	}
}

// ownPassword gives 404 if another program keeps the password, and to administrators, who change theirs in the admin
// console.
func (l *Login) ownPassword(h ownHandler) ownHandler {
	return func(c echo.Context, s *Session) error {
		if !l.replaces() || s.Account.Role == accounts.Admin {
			return refusal(http.StatusNotFound, "problem.password-elsewhere")
		}
		return h(c, s)
	}
}

func (l *Login) replaces() bool {
	_, ours := l.Passwords.Source.(Upgrader)
	return ours
}

func (l *Login) accountPage(c echo.Context, s *Session) (err error) {
	from := l.client(c)
	v := pages.AccountView{
		Page: l.Look.Page(c.Response().Header(), c.Request()), CSRF: s.CSRF, Username: s.Account.Account, This: s.ID,
		Here:     from.Address.Unmap(),
		Password: l.replaces(), Administrator: s.Account.Role == accounts.Admin, Done: c.QueryParam("done"),
	}
	v.Own, err = l.Control.Own(c.Request().Context(), l.Sessions.Integration, l.Directory, guard.Attempt{
		Account: s.Account.Account, Address: from.Address, Devices: client.Devices(c.Request()),
	})
	if err != nil {
		return err
	}
	if l.Passkeys != nil && !v.Administrator {
		has, err := l.Control.Accounts.MFA.Of(c.Request().Context(), s.Account.ID)
		if err != nil {
			return err
		}
		v.PasskeysHere, v.Kept = true, has.Passkeys
	}
	page, err := pages.RenderAccount(v)
	return WritePage(c, http.StatusOK, page, err)
}

// done redirects to the account page with a message. An operation that is missing from the audit log has taken effect
// all the same.
func (l *Login) done(c echo.Context, what string, err error) error {
	if errors.Is(err, operation.ErrUnrecorded) {
		l.Log.Error("a user's operation is not in the audit log", "what", what, "error", err)
	} else if err != nil && !errors.Is(err, sessions.ErrUnknown) {
		return err
	}
	return c.Redirect(http.StatusSeeOther, baseOf(c.Request())+"/account?done="+what)
}

// endSession is POST /account/sessions/end. Like endOthers and forget, it needs no password: users do it in a hurry. An
// attacker with the session cannot lock out a user who has the password.
func (l *Login) endSession(c echo.Context, s *Session) error {
	f, err := l.ownForm(c, s, "id")
	if err != nil {
		return err
	}
	if f["id"] == s.ID {
		return l.leave(c)
	}
	return l.done(c, "ended", l.Control.Accounts.EndSession(c.Request().Context(), l.who(s), s.Account.Account, f["id"]))
}

func (l *Login) endOthers(c echo.Context, s *Session) error {
	if _, err := l.ownForm(c, s); err != nil {
		return err
	}
	_, err := l.Control.Accounts.EndSessions(c.Request().Context(), l.who(s), s.Account.Account, l.Sessions.Integration, s.ID)
	return l.done(c, "others", err)
}

// forget is POST /account/forget: it removes one known client or, without an address, all of them and all devices.
func (l *Login) forget(c echo.Context, s *Session) error {
	f, err := l.ownForm(c, s, "address")
	if err != nil {
		return err
	}
	var address netip.Addr
	done := "places"
	if f["address"] != "" {
		if address, err = netip.ParseAddr(f["address"]); err != nil {
			return Unusable(http.StatusBadRequest, "problem.form")
		}
		done = "place"
	}
	return l.done(
		c,
		done,
		l.Control.Accounts.RemoveOwnClients(c.Request().Context(), l.who(s), l.Directory, s.Account.Account, address),
	)
}

// notMePage is GET /account/not-me?login=ID: it explains the effect before the user confirms.
func (l *Login) notMePage(c echo.Context, s *Session) error {
	row, ok, err := l.ownLogin(c, s, c.QueryParam("login"))
	if err != nil {
		return err
	}
	if !ok {
		return c.Redirect(http.StatusSeeOther, baseOf(c.Request())+"/account")
	}
	return l.showNotMe(c, s, row, http.StatusOK)
}

func (l *Login) ownLogin(c echo.Context, s *Session, id string) (row audit.Row, ok bool, err error) {
	n, err := strconv.ParseInt(id, 10, 64)
	if err != nil {
		return row, false, nil
	}
	return l.Control.OwnLogin(c.Request().Context(), l.Directory, s.Account.Account, n)
}

func (l *Login) showNotMe(c echo.Context, s *Session, row audit.Row, status int,
	problems ...pages.PasswordProblem) error {
	v := pages.NotMe(l.Look.Page(c.Response().Header(), c.Request()), s.Account.Account, row.Address, "", row.At)
	v.Action, v.CSRF, v.ID = baseOf(c.Request())+"/account/not-me", s.CSRF, strconv.FormatInt(row.ID, 10)
	v.Ours, v.Form, v.Problems = l.replaces(), l.replaces(), problems
	page, err := pages.RenderNotMe(v)
	return WritePage(c, status, page, err)
}

// notMe is POST /account/not-me. It asks for the current password, through the guard: otherwise an attacker with a
// stolen session could lock out the user. The new password is set in the same step, so an attacker with the old one
// cannot sign in between. If another program keeps the password, all sessions end instead, including this one, which
// may be the attacker's.
func (l *Login) notMe(c echo.Context, s *Session) error {
	f, err := l.ownForm(c, s, "login", "current_password", "new_password", "repeat_password")
	if err != nil {
		return err
	}
	row, ok, err := l.ownLogin(c, s, f["login"])
	if err != nil {
		return err
	}
	if !ok {
		return c.Redirect(http.StatusSeeOther, baseOf(c.Request())+"/account")
	}
	what := "reported by the owner, " + accounts.LoginWords(row.At, row.Address)
	if !l.replaces() {
		denial := accounts.Denial{Who: l.who(s), Directory: l.Directory, Account: s.Account.Account, What: what}
		if err := l.Control.Accounts.NotMe(c.Request().Context(), denial); err != nil && !errors.Is(err, operation.ErrUnrecorded) {
			return err
		}
		return l.showDone(c, s.Account.Account)
	}
	if problems := l.newPasswordProblems(f); len(problems) > 0 {
		return l.showNotMe(c, s, row, http.StatusUnprocessableEntity, problems...)
	}
	done, err := l.current(c, s, f["current_password"], func(ctx context.Context) error {
		return l.Control.Accounts.NotMe(ctx, accounts.Denial{
			Who: l.who(s), Directory: l.Directory, Account: s.Account.Account, Password: f["new_password"],
			Version: s.Account.Version, What: what,
		})
	})
	if err == nil && done.problem != (pages.PasswordProblem{}) {
		return l.showNotMe(c, s, row, http.StatusUnprocessableEntity, done.problem)
	}
	return l.signInAgain(c, s, done.ticket, baseOf(c.Request())+"/account?done=not-me", err)
}

func (l *Login) showDone(c echo.Context, account string) error {
	v := pages.NotMeView{Page: l.Look.Page(c.Response().Header(), c.Request()), Username: account, Ours: l.replaces(),
		Done: true}
	page, err := pages.RenderNotMe(v)
	return WritePage(c, http.StatusOK, page, err)
}

// ofMessage returns the login that an email's link is about. The token is in the path, since few mail programs send
// forms. It grants no access and works once. The referrer policy keeps it from other pages.
func (l *Login) ofMessage(c echo.Context) (told outbox.Notice, err error) {
	c.Response().Header().Set("Referrer-Policy", "no-referrer")
	told, err = l.Notices.Of(c.Request().Context(), c.Param("token"))
	if errors.Is(err, outbox.ErrLink) {
		err = refusal(http.StatusNotFound, "problem.letter")
	}
	return told, err
}

// letterPage is GET /login/not-me/TOKEN. It changes nothing: mail scanners open the links of an email.
func (l *Login) letterPage(c echo.Context) error {
	told, err := l.ofMessage(c)
	if err != nil {
		return err
	}
	v := pages.NotMe(l.Look.Page(c.Response().Header(), c.Request()), told.Account, told.Address, told.Agent, told.At)
	v.Action, v.Ours = baseOf(c.Request())+"/login/not-me/"+c.Param("token"), l.replaces()
	page, err := pages.RenderNotMe(v)
	return WritePage(c, http.StatusOK, page, err)
}

// message is POST /login/not-me/TOKEN. The token also protects the form against CSRF.
func (l *Login) message(c echo.Context) error {
	told, err := l.ofMessage(c)
	if err != nil {
		return err
	}
	ctx := context.WithoutCancel(c.Request().Context())
	err = l.Notices.Use(ctx, c.Param("token"), func(told outbox.Notice) error {
		err := l.Control.Accounts.NotMe(ctx, accounts.Denial{
			Who: "user:" + told.Account, Directory: told.Directory, Account: told.Account,
			What: "reported through the email's link, " + accounts.LoginWords(told.At, told.Address),
		})
		if errors.Is(err, operation.ErrUnrecorded) {
			return nil
		}
		return err
	})
	if errors.Is(err, outbox.ErrLink) {
		return refusal(http.StatusNotFound, "problem.letter")
	}
	if err != nil {
		return err
	}
	return l.showDone(c, told.Account)
}
