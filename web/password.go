package web

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/labstack/echo/v4"

	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/control"
	"authguard/internal/passwords"
	"authguard/web/client"
	"authguard/web/pages"
)

// passwordPath is where somebody replaces their password.
func (l *Login) passwordPath() string {
	if l.Admin {
		return "/password"
	}
	return "/account/password"
}

// ChangeRequired is the type of the problem of whose password is good for choosing another
// one only.
const ChangeRequired = "password-change-required"

// mustChoose answers a login whose password is good for choosing another one only. It has
// a session, with which nothing but that can be done.
func (l *Login) mustChoose(t *try, next string) error {
	if WantsJSON(t.Request()) {
		return Problem{
			Type: ChangeRequired, Title: "Password change required", Status: http.StatusForbidden,
			Detail: "the password is correct but must be changed: send new_password to " + l.passwordPath() + ", with the cookies of this response",
		}.Write(t.Response())
	}
	return t.Redirect(http.StatusSeeOther, l.toPassword(t, next))
}

func (l *Login) toPassword(c echo.Context, next string) string {
	to := baseOf(c.Request()) + l.passwordPath()
	if next != "/" {
		to += "?next=" + url.QueryEscape(next)
	}
	return to
}

// held reports whether a session is good for choosing another password only.
func (s *Session) held() bool { return s != nil && s.Account.MustChange }

// PasswordPage is GET of the page on which a session's person replaces their password.
func (l *Login) PasswordPage(c echo.Context, session *Session) error {
	return l.showPassword(c, session, http.StatusOK, c.QueryParam("next"))
}

func (l *Login) showPassword(c echo.Context, session *Session, status int, next string, problems ...pages.PasswordProblem) error {
	view := pages.PasswordView{
		Page: l.Look.Page(c.Response().Header(), c.Request()), Admin: l.Admin, Action: baseOf(c.Request()) + l.passwordPath(), CSRF: session.CSRF,
		Username: session.Account.Account, OneTime: session.held(), JustTyped: l.justTyped(session), Problems: problems,
	}
	if next = l.next(next); next != "/" {
		view.Next = next
	}
	if WantsJSON(c.Request()) && len(problems) > 0 {
		return Unusable(status, problems[0].Key).Write(c.Response())
	}
	l.opens(c.Response().Header(), view.Next)
	page, err := pages.RenderPassword(view)
	return WritePage(c, status, page, err)
}

// freshFor is how long after signing in somebody may change who can sign in: a browser
// that was left open must not be enough to stay in for good.
const freshFor = 10 * time.Minute

// Fresh reports whether a session's person has just shown who they are.
func (l *Login) Fresh(session *Session) bool {
	return l.Sessions.Now().Sub(session.Proved) < freshFor
}

// justTyped reports whether the current password is one that was good for choosing
// another one only, and was typed a moment ago: nobody is asked for it twice.
func (l *Login) justTyped(session *Session) bool { return session.held() && l.Fresh(session) }

// ChangePassword is POST of that page. The new password is looked at first: what is wrong
// with it costs no attempt.
func (l *Login) ChangePassword(c echo.Context, session *Session) error {
	f, err := l.ownForm(c, session, "current_password", "new_password", "repeat_password", "next")
	if err != nil {
		return err
	}
	if _, sent := f["repeat_password"]; !sent && SentJSON(c.Request()) {
		f["repeat_password"] = f["new_password"] // a program does not mistype
	}
	if problems := newPasswordProblems(f); len(problems) > 0 {
		return l.showPassword(c, session, http.StatusUnprocessableEntity, f["next"], problems...)
	}
	var ticket *guard.Ticket
	var problem pages.PasswordProblem
	if l.justTyped(session) {
		ticket, problem, err = l.another(c, session, f["new_password"])
	} else {
		ticket, problem, err = l.current(c, session, f["current_password"])
	}
	if err != nil {
		return err
	}
	if problem != (pages.PasswordProblem{}) {
		return l.showPassword(c, session, http.StatusUnprocessableEntity, f["next"], problem)
	}
	return l.replacePassword(c, session, ticket, f["next"], func(ctx context.Context) error {
		return l.Control.ChoosePassword(ctx, l.who(session), session.Account.Account, f["new_password"], session.Account.Version)
	})
}

// ownForm reads the named fields of a form that carries the session's token. JSON needs
// none: no page of another site can send it unasked.
func (l *Login) ownForm(c echo.Context, s *Session, names ...string) (Form, error) {
	f, err := ReadForm(c, append(names, "csrf")...)
	if err == nil && !s.ValidCSRF(f["csrf"]) && !SentJSON(c.Request()) {
		err = refusal(http.StatusForbidden, "problem.old-form")
	}
	return f, err
}

func newPasswordProblems(f Form) (problems []pages.PasswordProblem) {
	switch err := accounts.CheckPassword(f["new_password"]); {
	case errors.Is(err, passwords.ErrTooLong):
		problems = append(problems, pages.NewTooLong)
	case errors.Is(err, passwords.ErrNUL):
		problems = append(problems, pages.NewHasNUL)
	case err != nil:
		problems = append(problems, pages.NewTooShort)
	case f["current_password"] != "" && f["new_password"] == f["current_password"]:
		problems = append(problems, pages.NewSame)
	}
	if f["new_password"] != f["repeat_password"] {
		problems = append(problems, pages.RepeatDiffers)
	}
	return problems
}

// another is for who has just signed in with a password that is good for nothing else: the
// new one must not be that, which was printed or mailed, into who knows which log. The
// ticket is of an attempt by which the place is remembered once the new password has all
// places forgotten; nil if there is no room for it.
func (l *Login) another(c echo.Context, session *Session, password string) (ticket *guard.Ticket, why pages.PasswordProblem, err error) {
	d, err := l.begin(c, session, 0)
	if err != nil {
		return nil, why, err
	}
	ctx := c.Request().Context()
	_, same, err := l.Passwords.Check(ctx, session.Account.Account, password, l.Asker(&d), nil)
	switch {
	case err == nil && !same && d.Action == guard.Proceed:
		return &d.Ticket, why, nil
	case err == nil && d.Checks():
		l.settleTicket(ctx, d.Ticket, guard.Withdrawn)
	case d.Checks():
		l.settleTicket(ctx, d.Ticket, guard.Abandoned)
	}
	if err != nil {
		return nil, why, l.busyWithPasswords(c, err)
	}
	if same {
		return nil, pages.NewSame, nil
	}
	return nil, why, nil
}

// current checks the current password like any login: an open session must not
// be a place to guess without limit. A right one leaves its attempt to be settled; a
// wrong one leaves none.
func (l *Login) current(c echo.Context, session *Session, password string) (ticket *guard.Ticket, why pages.PasswordProblem, err error) {
	if password == "" || passwords.Possible(password) != nil {
		return nil, pages.CurrentWrong, nil
	}
	ctx, name := c.Request().Context(), session.Account.Account
	d, err := l.begin(c, session, l.Guard.Fingerprint(password))
	switch {
	case err != nil:
		return nil, why, err
	case d.Action == guard.Challenge:
		return nil, why, refusal(http.StatusForbidden, "problem.password-challenge")
	case !d.Checks():
		p := refusal(http.StatusTooManyRequests, "problem.password-wait")
		p.RetryAfter = retryAfter(d.RetryAfter)
		return nil, why, p
	}
	login, right, err := l.Passwords.Check(ctx, name, d.Offered(password), l.Asker(&d), nil)
	switch {
	case err != nil:
		l.settleTicket(ctx, d.Ticket, guard.Abandoned)
		return nil, why, l.busyWithPasswords(c, err)
	case !right || login.Account != name:
		l.settleTicket(ctx, d.Ticket, guard.Failed)
		return nil, pages.CurrentWrong, nil
	case d.Insufficient: // the guard makes a failure of it
		l.settleTicket(ctx, d.Ticket, guard.Succeeded)
		return nil, pages.CurrentWrong, nil
	}
	return &d.Ticket, why, nil
}

func (l *Login) busyWithPasswords(c echo.Context, err error) error {
	p := refusal(http.StatusServiceUnavailable, "problem.password-busy")
	p.RetryAfter = retryAfter(l.Unchecked(c, err))
	return p
}

// begin is an attempt of the session's person.
func (l *Login) begin(c echo.Context, session *Session, fingerprint uint64) (guard.Decision, error) {
	from := l.Edge.Client(c.Request())
	return l.Guard.Begin(c.Request().Context(), guard.Attempt{
		Account: session.Account.Account, Address: from.Address, Devices: client.Devices(c.Request()),
		PasswordTag: fingerprint, Fingerprint: l.identity(c), Forwarded: from.Forwarded, Integration: l.Door,
	})
}

// replacePassword sets the new password and starts a session with it. The
// attempt is settled only after that: the new password forgets all places and
// cookies, and the success remembers where its owner is, and the browser. Of a session
// that ended while its request was read nothing is left, and no place is remembered.
func (l *Login) replacePassword(c echo.Context, session *Session, ticket *guard.Ticket, next string, replace func(context.Context) error) error {
	ctx, name := context.WithoutCancel(c.Request().Context()), session.Account.Account
	set, outcome := replace(ctx), guard.Succeeded
	if errors.Is(set, control.ErrUnrecorded) {
		l.Log.Error("a new password is not in the audit log", "error", set)
		set = nil
	}
	if set != nil {
		outcome = guard.Abandoned
	}
	if ticket != nil {
		l.settleTicket(ctx, *ticket, outcome)
	}
	if errors.Is(set, accounts.ErrUnknown) {
		return signInFirst(c)
	}
	if set != nil {
		return set
	}
	login, found, err := l.Passwords.Source.FindForLogin(ctx, name)
	if err != nil {
		return err
	}
	if !found {
		return c.Redirect(http.StatusSeeOther, baseOf(c.Request())+"/login")
	}
	from := l.Edge.Client(c.Request())
	if _, err := l.Sessions.start(c, from, login, session.Second); err != nil {
		return err
	}
	if ticket != nil {
		l.Remember(c, from, *ticket)
	}
	switch next = l.next(next); {
	case WantsJSON(c.Request()):
		return c.JSON(http.StatusOK, map[string]string{"account": name, "next": next})
	case l.Admin:
		next = "/?password=changed"
	case next == "/":
		next = baseOf(c.Request()) + "/account?done=password"
	}
	return c.Redirect(http.StatusSeeOther, next)
}

// who is how the audit log names a session's person.
func (l *Login) who(s *Session) string {
	if l.Admin {
		return "admin:" + s.Account.Account
	}
	return "user:" + s.Account.Account
}
