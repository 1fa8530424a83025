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
	"authguard/internal/operation"
	"authguard/internal/passwords"
	"authguard/web/pages"
)

func (l *Login) passwordPath() string {
	if l.Admin {
		return "/password"
	}
	return "/account/password"
}

// ChangeRequired is the problem type for a temporary password, which must be changed first.
const ChangeRequired = "password-change-required"

// mustChoose answers a login with a temporary password. Its session can only change the password.
func (l *Login) mustChoose(t *try, next string) error {
	if WantsJSON(t.Request()) {
		return Problem{
			Type: ChangeRequired, Title: "Password change required", Status: http.StatusForbidden,
			Detail: "the password is correct but must be changed: send new_password to " + l.passwordPath() +
				", with the cookies of this response",
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

// held reports whether a session can only change the password.
func (s *Session) held() bool { return s != nil && s.Account.MustChange }

// PasswordPage is GET of the page on which users change their password.
func (l *Login) PasswordPage(c echo.Context, session *Session) error {
	return l.showPassword(c, session, http.StatusOK, c.QueryParam("next"))
}

func (l *Login) showPassword(c echo.Context, session *Session, status int, next string,
	problems ...pages.PasswordProblem) error {
	view := pages.PasswordView{
		Page: l.Look.Page(c.Response().Header(), c.Request()), Admin: l.Admin, Action: baseOf(c.Request()) + l.passwordPath(),
		CSRF:     session.CSRF,
		Username: session.Account.Account, OneTime: session.held(), JustTyped: l.justTyped(session), Problems: problems,
		Leaked: c.QueryParam("leaked") != "",
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

// freshFor is how long after the login a user may change credentials: an attacker at an unattended browser must not
// gain permanent access.
const freshFor = 10 * time.Minute

// Fresh reports whether the user of a session has just authenticated.
func (l *Login) Fresh(session *Session) bool {
	return l.Sessions.Now().Sub(session.Proved) < freshFor
}

// justTyped reports whether the current password is a temporary one that was entered a moment ago. The form does not
// ask for it again.
func (l *Login) justTyped(session *Session) bool { return session.held() && l.Fresh(session) }

// ChangePassword is POST of that page. The new password is validated first, so its errors cost no attempt.
func (l *Login) ChangePassword(c echo.Context, session *Session) error {
	f, err := l.ownForm(c, session, "current_password", "new_password", "repeat_password", "next")
	if err != nil {
		return err
	}
	if _, sent := f["repeat_password"]; !sent && SentJSON(c.Request()) {
		f["repeat_password"] = f["new_password"] // a program does not mistype
	}
	if problems := l.newPasswordProblems(f); len(problems) > 0 {
		return l.showPassword(c, session, http.StatusUnprocessableEntity, f["next"], problems...)
	}
	replace := func(ctx context.Context) error {
		return l.Control.Accounts.ChoosePassword(ctx, l.who(session), session.Account.Account, f["new_password"],
			session.Account.Version)
	}
	var done changed
	if l.justTyped(session) {
		done, err = l.another(c, session, f["new_password"], replace)
	} else {
		done, err = l.current(c, session, f["current_password"], replace)
	}
	if err == nil && done.problem != (pages.PasswordProblem{}) {
		return l.showPassword(c, session, http.StatusUnprocessableEntity, f["next"], done.problem)
	}
	return l.signInAgain(c, session, done.ticket, f["next"], err)
}

// ownForm reads a form's fields and checks the session's CSRF token. JSON needs none: no page of another site can send
// it without CORS.
func (l *Login) ownForm(c echo.Context, s *Session, names ...string) (Form, error) {
	f, err := ReadForm(c, append(names, "csrf")...)
	if err == nil && !s.ValidCSRF(f["csrf"]) && !SentJSON(c.Request()) {
		err = refusal(http.StatusForbidden, "problem.old-form")
	}
	return f, err
}

func (l *Login) newPasswordProblems(f Form) (problems []pages.PasswordProblem) {
	switch err := l.Control.Accounts.Accounts.CheckPassword(f["new_password"]); {
	case errors.Is(err, passwords.ErrTooLong):
		problems = append(problems, pages.NewTooLong)
	case errors.Is(err, passwords.ErrNUL):
		problems = append(problems, pages.NewHasNUL)
	case errors.Is(err, accounts.ErrLeaked):
		problems = append(problems, pages.NewLeaked)
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

// A changed is the result of a password change: the ticket of the successful attempt, or the problem.
type changed struct {
	ticket  guard.Ticket
	problem pages.PasswordProblem
}

// another changes a temporary password just after the login. The new one must differ, since the temporary one was
// printed or emailed. The attempt remembers the client, since the new password removes all known clients. If it is
// stopped, the client stays unknown.
func (l *Login) another(c echo.Context, session *Session, password string,
	replace func(context.Context) error) (done changed, err error) {
	check := func(ctx context.Context, d *guard.Decision) (right bool, err error) {
		_, same, err := l.Passwords.Check(ctx, session.Account.Account, password, l.Request(d), nil)
		if err != nil {
			l.settle(ctx, d, guard.Abandoned)
			return false, l.busyWithPasswords(c, err)
		}
		if same {
			done.problem = pages.NewSame
		}
		if same || d.Action != guard.Proceed {
			l.settle(ctx, d, guard.Withdrawn)
		}
		if same {
			return false, nil
		}
		return true, l.replaced(ctx, replace)
	}
	d, _, err := l.enter(c.Request().Context(), l.asks(c, l.client(c), session.Account.Account), check)
	if done.ticket = d.Ticket; err == nil && !d.Checks() {
		_, err = check(c.Request().Context(), &d)
	}
	return done, err
}

// current checks the current password like a login: an open session must not allow unlimited guesses.
func (l *Login) current(c echo.Context, session *Session, password string,
	replace func(context.Context) error) (done changed, err error) {
	if password == "" || passwords.Possible(password) != nil {
		return changed{problem: pages.CurrentWrong}, nil
	}
	name, ask := session.Account.Account, l.asks(c, l.client(c), session.Account.Account)
	ask.PasswordTag = l.Guard.Fingerprint(password)
	d, ok, err := l.enter(c.Request().Context(), ask, func(ctx context.Context, d *guard.Decision) (bool, error) {
		login, right, err := l.Passwords.Check(ctx, name, d.Offered(password), l.Request(d), nil)
		if err != nil {
			l.settle(ctx, d, guard.Abandoned)
			return false, l.busyWithPasswords(c, err)
		}
		if right = right && login.Account == name; right && !d.Insufficient {
			err = l.replaced(ctx, replace)
		}
		return right, err
	})
	switch done.ticket = d.Ticket; {
	case err != nil:
	case d.Action == guard.Challenge:
		err = refusal(http.StatusForbidden, "problem.password-challenge")
	case !d.Checks():
		p := refusal(http.StatusTooManyRequests, "problem.password-wait")
		p.RetryAfter, err = retryAfter(d.RetryAfter), p
	case !ok:
		done.problem = pages.CurrentWrong
	}
	return done, err
}

// replaced sets the new password before the attempt is settled: it removes all known clients, and the success then adds
// this one.
func (l *Login) replaced(ctx context.Context, replace func(context.Context) error) error {
	err := replace(context.WithoutCancel(ctx))
	if errors.Is(err, operation.ErrUnrecorded) {
		l.Log.Error("a new password is not in the audit log", "error", err)
		err = nil
	}
	return err
}

func (l *Login) busyWithPasswords(c echo.Context, err error) error {
	p := refusal(http.StatusServiceUnavailable, "problem.password-busy")
	p.RetryAfter = retryAfter(l.Unchecked(c, err))
	return p
}

func (l *Login) signInAgain(c echo.Context, session *Session, ticket guard.Ticket, next string, failed error) error {
	if errors.Is(failed, accounts.ErrUnknown) {
		return signInFirst(c)
	}
	if failed != nil {
		return failed
	}
	name := session.Account.Account
	login, found, err := l.Passwords.Source.FindForLogin(context.WithoutCancel(c.Request().Context()), name)
	if err != nil {
		return err
	}
	if !found {
		return c.Redirect(http.StatusSeeOther, baseOf(c.Request())+"/login")
	}
	from := l.client(c)
	if _, err := l.Sessions.start(c, from, login, session.Second); err != nil {
		return err
	}
	l.Remember(c, from, ticket)
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

func (l *Login) who(s *Session) string {
	if l.Admin {
		return "admin:" + s.Account.Account
	}
	return "user:" + s.Account.Account
}
