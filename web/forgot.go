package web

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"authguard/captchamode/challenge"
	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/operation"
	"authguard/internal/outbox"
	"authguard/internal/passwords"
	"authguard/web/pages"
)

// A user who has forgotten the password asks for an email at /login/forgot. Its link leads to /login/reset/TOKEN, where
// the user chooses a new password. Administrators get no such link: a mailbox must not replace their MFA.

func (l *Login) forgotRoutes(e *echo.Echo) {
	e.GET("/login/forgot", l.forgotPage)
	e.POST("/login/forgot", l.forgot)
	e.GET("/login/reset/:token", l.resetPage)
	e.POST("/login/reset/:token", l.reset)
}

// resetIntegration is the integration of requests for an email. They are counted like attempts without a name.
const resetIntegration = "password-reset"

func (l *Login) forgotPage(c echo.Context) error {
	view := pages.ForgotView{}
	ahead, err := l.aheadOf(c.Request(), l.client(c), resetIntegration)
	if err != nil {
		return err
	}
	if view.Challenge = l.shown(c, ahead); ahead != nil {
		view.Message = pages.Message{Kind: pages.ChallengeRequired, Why: pages.WhySite}
	}
	return l.showForgot(c, http.StatusOK, view)
}

func (l *Login) showForgot(c echo.Context, status int, view pages.ForgotView) error {
	view.Page = l.Look.Page(c.Response().Header(), c.Request())
	page, err := pages.RenderForgot(view)
	return WritePage(c, status, page, err)
}

// forgot is POST /login/forgot. The request is charged to the IP address like a failed attempt, with the same
// challenges and waits, whatever the name. The response comes before the account is looked up, so it reveals nothing
// (R12).
func (l *Login) forgot(c echo.Context) (err error) {
	t := &try{Context: c, client: l.client(c)}
	if t.form, err = ReadForm(c, "username", "captcha_id", "captcha_answer", "captcha_work", l.token()); err != nil {
		return l.malformed(t, err)
	}
	ask := l.asks(t, t.client, "")
	ask.Integration = resetIntegration
	ask.Solution = challenge.Solution{ID: t.form["captcha_id"],
		Answer: cmp.Or(t.form["captcha_answer"], t.form[l.token()]), Work: t.form["captcha_work"]}
	switch t.decision, err = l.Guard.Begin(c.Request().Context(), ask); {
	case err != nil: // not counted: else clients that hang up would have no limit
		p, m := Overloaded(l.Unchecked(c, err))
		p.Detail = ""
		return l.forgotAnswer(t, p, m)
	case !t.decision.Reasons.Has(guard.BadAccountName):
		return l.forgotStopped(t, ask)
	}
	asked, err := l.Guard.CodeFor(t.form["username"], t.client.Address)
	if err != nil {
		return l.forgotAnswer(t, Unusable(http.StatusBadRequest, "problem.no-name"), pages.Message{Kind: pages.InvalidInput})
	}
	l.Resets.Notify(l.notice(c, asked.Account))
	if WantsJSON(c.Request()) {
		return c.JSON(http.StatusAccepted, map[string]string{"username": t.form["username"]})
	}
	return l.showForgot(c, http.StatusAccepted, pages.ForgotView{Username: t.form["username"], Asked: true})
}

func (l *Login) forgotStopped(t *try, ask guard.Attempt) error {
	p, m := Stopped(&t.decision)
	p.Detail = ""
	if p.Type == ChallengeRequired {
		issued, err := l.Guard.Issue(t.Request().Context(), ask, t.decision)
		if err != nil {
			return err
		}
		p.Challenge = below(t.Request(), &issued)
	}
	return l.forgotAnswer(t, p, m)
}

func (l *Login) forgotAnswer(t *try, p Problem, m pages.Message) error {
	m.Client = t.client.Address.String()
	return answer(t, p, func() ([]byte, error) {
		view := pages.ForgotView{Username: t.form["username"]}
		view.Page, view.Challenge = l.Look.Page(t.Response().Header(), t.Request()), l.shown(t, p.Challenge)
		if view.Message = m; m.Kind == pages.InvalidInput {
			view.Message.Detail = p.Words(view.Page)
		}
		return pages.RenderForgot(view)
	})
}

// ofReset returns the request of a valid link. The referrer policy keeps the token from other pages.
func (l *Login) ofReset(c echo.Context) (asked outbox.Notice, err error) {
	c.Response().Header().Set("Referrer-Policy", "no-referrer")
	asked, err = l.Resets.Of(c.Request().Context(), c.Param("token"))
	if errors.Is(err, outbox.ErrLink) || errors.Is(err, accounts.ErrUnknown) {
		err = refusal(http.StatusNotFound, "problem.reset")
	}
	return asked, err
}

// resetPage is GET /login/reset/TOKEN. It changes nothing: mail scanners open the links of an email.
func (l *Login) resetPage(c echo.Context) error {
	asked, err := l.ofReset(c)
	if err != nil {
		return err
	}
	return l.showReset(c, asked, http.StatusOK)
}

func (l *Login) showReset(c echo.Context, asked outbox.Notice, status int, problems ...pages.PasswordProblem) error {
	if WantsJSON(c.Request()) && len(problems) > 0 {
		return Unusable(status, problems[0].Key).Write(c.Response())
	}
	page, err := pages.RenderPassword(pages.PasswordView{
		Page:   l.Look.Page(c.Response().Header(), c.Request()),
		Action: baseOf(c.Request()) + "/login/reset/" + c.Param("token"), Username: asked.Account, Reset: true,
		Problems: problems,
	})
	return WritePage(c, status, page, err)
}

// reset is POST /login/reset/TOKEN. The token also protects the form against CSRF. All sessions end and all known
// clients are removed (R14). The user then signs in like an unknown client.
func (l *Login) reset(c echo.Context) error {
	asked, err := l.ofReset(c)
	if err != nil {
		return err
	}
	f, err := ReadForm(c, "new_password", "repeat_password")
	if err != nil {
		return err
	}
	if _, sent := f["repeat_password"]; !sent && SentJSON(c.Request()) {
		f["repeat_password"] = f["new_password"]
	}
	if problems := l.newPasswordProblems(f); len(problems) > 0 {
		return l.showReset(c, asked, http.StatusUnprocessableEntity, problems...)
	}
	switch err := l.replace(c, asked, f["new_password"]); {
	case errors.Is(err, accounts.ErrUnknown): // another request was faster
		return refusal(http.StatusNotFound, "problem.reset")
	case err != nil:
		return err
	}
	if l.Changes != nil {
		l.Changes.Notify(l.notice(c, asked.Account))
	}
	if WantsJSON(c.Request()) {
		return c.JSON(http.StatusOK, map[string]string{"account": asked.Account})
	}
	return c.Redirect(http.StatusSeeOther, baseOf(c.Request())+"/login?reset=1")
}

// replace sets the password. Its hash costs as much as a password check, so it waits in the queue like one (R19).
func (l *Login) replace(c echo.Context, asked outbox.Notice, password string) error {
	from := l.client(c)
	by, err := l.Guard.CodeFor(asked.Account, from.Address)
	if err != nil {
		return err
	}
	leave, err := l.Passwords.Gate.Enter(c.Request().Context(), passwords.Request{Account: asked.Account,
		Address: by.Address, From: from.Address})
	if err != nil {
		return l.busyWithPasswords(c, err)
	}
	defer leave()
	err = l.Control.Accounts.ResetPassword(context.WithoutCancel(c.Request().Context()), asked.Account, password, asked.Version,
		from.Address)
	if errors.Is(err, operation.ErrUnrecorded) {
		l.Log.Error("a new password is not in the audit log", "error", err)
		return nil
	}
	return err
}
