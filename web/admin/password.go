package admin

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/control"
	"authguard/internal/passwords"
	"authguard/web"
	"authguard/web/client"
	"authguard/web/pages"
)

// passwordPage is GET /password.
func (s *Site) passwordPage(c echo.Context, session *web.Session) error {
	return s.showPassword(c, session, http.StatusOK)
}

func (s *Site) showPassword(c echo.Context, session *web.Session, status int, problems ...pages.PasswordProblem) error {
	view := pages.PasswordView{
		CSRF: session.CSRF, Username: session.Account.Account, OneTime: session.Account.MustChange, JustTyped: s.justTyped(session), Problems: problems,
	}
	page, err := pages.RenderPassword(view)
	return web.WritePage(c, status, page, err)
}

// justTyped reports whether the current password is one that was good for choosing
// another one only, and was typed a moment ago: nobody is asked for it twice.
func (s *Site) justTyped(session *web.Session) bool {
	return session.Account.MustChange && s.fresh(session)
}

// changePassword is POST /password. The new password is looked at first: what
// is wrong with it costs no attempt.
func (s *Site) changePassword(c echo.Context, session *web.Session) error {
	f, err := readForm(c, session, "current_password", "new_password", "repeat_password")
	if err != nil {
		return err
	}
	if problems := newPasswordProblems(f); len(problems) > 0 {
		return s.showPassword(c, session, http.StatusUnprocessableEntity, problems...)
	}
	var ticket *guard.Ticket
	if s.justTyped(session) {
		same, err := s.Login.Passwords.Checker.Check(session.Account.Password, f["new_password"])
		if err != nil {
			return err
		}
		if same { // it was printed, into who knows which log
			return s.showPassword(c, session, http.StatusUnprocessableEntity, pages.NewSame)
		}
		ticket = s.here(c, session)
	} else {
		if ticket, err = s.current(c, session, f["current_password"]); err != nil {
			return err
		}
		if ticket == nil {
			return s.showPassword(c, session, http.StatusUnprocessableEntity, pages.CurrentWrong)
		}
	}
	return s.replacePassword(c, session, ticket, f["new_password"])
}

func newPasswordProblems(f web.Form) (problems []pages.PasswordProblem) {
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

// current checks the current password like any login: an open session must not
// be a place to guess without limit. A right one leaves its attempt to be settled; a
// wrong one leaves none.
func (s *Site) current(c echo.Context, session *web.Session, password string) (*guard.Ticket, error) {
	if password == "" || passwords.Possible(password) != nil {
		return nil, nil
	}
	ctx, name := c.Request().Context(), session.Account.Account
	d, err := s.begin(c, session, s.Login.Guard.Fingerprint(password))
	switch {
	case err != nil:
		return nil, err
	case d.Action == guard.Challenge:
		return nil, echo.NewHTTPError(http.StatusForbidden,
			"A CAPTCHA is needed first. Sign out and sign in again, where you can solve it, and change the password then.")
	case !d.Checks():
		return nil, echo.NewHTTPError(http.StatusTooManyRequests,
			"There were too many wrong passwords. Try again in "+guard.Spell(max(d.RetryAfter, time.Second))+". The password is as it was.")
	}
	login, right, err := s.Login.Passwords.Check(ctx, name, d.Offered(password), s.Login.Asker(&d), nil)
	switch {
	case err != nil:
		s.settle(ctx, d.Ticket, guard.Abandoned)
		s.Login.Unchecked(c, err)
		return nil, echo.NewHTTPError(http.StatusServiceUnavailable, "The current password cannot be checked right now. Try again in a moment. The password is as it was.")
	case !right || login.Account != name || d.Action != guard.Proceed:
		s.settle(ctx, d.Ticket, guard.Failed)
		return nil, nil
	case d.Insufficient: // the guard makes a failure of it
		s.settle(ctx, d.Ticket, guard.Succeeded)
		return nil, nil
	}
	return &d.Ticket, nil
}

// begin is an attempt of the session's person.
func (s *Site) begin(c echo.Context, session *web.Session, fingerprint uint64) (guard.Decision, error) {
	from := s.Login.Edge.Client(c.Request())
	return s.Login.Guard.Begin(c.Request().Context(), guard.Attempt{
		Account: session.Account.Account, Directory: Directory, Address: from.Address, Devices: client.Devices(c.Request()),
		Fingerprint: fingerprint, Forwarded: from.Forwarded, Door: Door,
	})
}

// here is an attempt of who has just signed in, by which the place is remembered once the
// new password has all places forgotten; nil if there is no room for it.
func (s *Site) here(c echo.Context, session *web.Session) *guard.Ticket {
	d, err := s.begin(c, session, 0)
	if err != nil || d.Action != guard.Proceed {
		return nil
	}
	return &d.Ticket
}

func (s *Site) settle(ctx context.Context, t guard.Ticket, o guard.Outcome) {
	if err := s.Login.Guard.Settle(ctx, t, o); err != nil && !errors.Is(err, guard.ErrInsufficient) {
		s.Log.Error("attempt could not be settled", "outcome", o, "error", err)
	}
}

// replacePassword sets the new password and starts a session with it. The
// attempt is settled only after that: the new password forgets all places and
// cookies, and the success remembers where its owner is, and the browser.
func (s *Site) replacePassword(c echo.Context, session *web.Session, ticket *guard.Ticket, password string) error {
	ctx, name := context.WithoutCancel(c.Request().Context()), session.Account.Account
	set := s.Control.SetPassword(ctx, who(session), name, password, false)
	if ticket != nil {
		s.settle(ctx, *ticket, guard.Succeeded)
	}
	if errors.Is(set, control.ErrUnrecorded) {
		s.Log.Error("administration failed", "path", c.Path(), "error", set)
	} else if set != nil {
		return set
	}
	login, found, err := s.Login.Passwords.Source.FindForLogin(ctx, name)
	if err != nil {
		return err
	}
	if !found {
		return c.Redirect(http.StatusSeeOther, "/login")
	}
	client := s.Login.Edge.Client(c.Request())
	start := s.Login.Sessions.Start
	if session.Second {
		start = s.Login.Sessions.StartProved
	}
	if err := start(c, client, login); err != nil {
		return err
	}
	if ticket != nil {
		s.Login.Remember(c, client, *ticket)
	}
	return c.Redirect(http.StatusSeeOther, "/?password=changed")
}
