package admin

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/control"
	"authguard/internal/passwords"
	"authguard/web"
	"authguard/web/pages"
)

// passwordPage is GET /password.
func (d Deps) passwordPage(c echo.Context, s *web.Session) error {
	return d.showPassword(c, s, http.StatusOK)
}

func (d Deps) showPassword(c echo.Context, s *web.Session, status int, problems ...pages.PasswordProblem) error {
	view := pages.PasswordView{
		Site: d.Site, CSRF: s.CSRF, Username: s.Account.Account, OneTime: s.Account.MustChange, Problems: problems,
	}
	return show(c, status, func(w io.Writer) error { return pages.RenderPassword(w, view) })
}

// changePassword is POST /password. The new password is looked at first: what
// is wrong with it costs no attempt.
func (d Deps) changePassword(c echo.Context, s *web.Session) error {
	f, err := readFields(c, s, "current_password", "new_password", "repeat_password")
	if err != nil {
		return err
	}
	if problems := newPasswordProblems(f); len(problems) > 0 {
		return d.showPassword(c, s, http.StatusUnprocessableEntity, problems...)
	}
	ticket, right, err := d.current(c, s, f["current_password"])
	if err != nil {
		return err
	}
	if !right {
		return d.showPassword(c, s, http.StatusUnprocessableEntity, pages.CurrentWrong)
	}
	return d.setPassword(c, s, ticket, f["new_password"])
}

func newPasswordProblems(f fields) (problems []pages.PasswordProblem) {
	switch err := accounts.CheckPassword(f["new_password"]); {
	case errors.Is(err, passwords.ErrTooLong):
		problems = append(problems, pages.NewTooLong)
	case err != nil:
		problems = append(problems, pages.NewTooShort)
	case f["new_password"] == f["current_password"]:
		problems = append(problems, pages.NewSame)
	}
	if f["new_password"] != f["repeat_password"] {
		problems = append(problems, pages.RepeatDiffers)
	}
	return problems
}

// current checks the current password like any login: whoever finds an open
// session must not be able to guess here without limit. A right one leaves its
// attempt to be settled.
func (d Deps) current(c echo.Context, s *web.Session, password string) (guard.Ticket, bool, error) {
	if password == "" || len(password) > passwords.MaxBytes {
		return guard.Ticket{}, false, nil
	}
	ctx := c.Request().Context()
	client := d.Edge.Client(c.Request())
	decision, err := d.Guard.Begin(ctx, guard.Attempt{
		Account: s.Account.Account, Directory: Directory, Address: client.Address, Forwarded: client.Forwarded, Door: Door,
	})
	if err != nil {
		return guard.Ticket{}, false, err
	}
	if decision.Action != guard.Proceed {
		return guard.Ticket{}, false, stopped(&decision)
	}
	login, right, err := d.Passwords.Check(ctx, s.Account.Account, password, decision.Privileged, nil)
	right = right && err == nil && login.Account == s.Account.Account
	switch {
	case err != nil:
		d.settle(ctx, decision.Ticket, guard.Abandoned)
		return guard.Ticket{}, false, d.unchecked(client, err)
	case !right:
		d.settle(ctx, decision.Ticket, guard.Failed)
		return guard.Ticket{}, false, nil
	}
	return decision.Ticket, true, nil
}

// stopped is why the current password was not even looked at.
func stopped(d *guard.Decision) error {
	if d.Action == guard.Challenge {
		return echo.NewHTTPError(http.StatusForbidden,
			"A CAPTCHA is needed first. Sign out and sign in again, where you can solve it, and change the password then.")
	}
	return echo.NewHTTPError(http.StatusTooManyRequests,
		"There were too many wrong passwords. Try again in "+pages.DurationWords(max(d.RetryAfter, time.Second))+". The password is as it was.")
}

func (d Deps) unchecked(client web.Client, err error) error {
	if errors.Is(err, passwords.ErrOverloaded) {
		d.Guard.Shed(client.Address)
		return echo.NewHTTPError(http.StatusServiceUnavailable, "Too many passwords are being checked right now. Try again in a moment. The password is as it was.")
	}
	return err
}

func (d Deps) settle(ctx context.Context, t guard.Ticket, o guard.Outcome) {
	if err := d.Guard.Settle(ctx, t, o); err != nil {
		d.Log.Error("attempt could not be settled", "outcome", o, "error", err)
	}
}

// setPassword sets the new password and starts a session with it. The attempt
// is settled only after that: the new password forgets all places, and the
// success remembers the one where its owner is.
func (d Deps) setPassword(c echo.Context, s *web.Session, ticket guard.Ticket, password string) error {
	ctx := context.WithoutCancel(c.Request().Context())
	set := d.Control.SetPassword(ctx, who(s), s.Account.Account, password, false)
	d.settle(ctx, ticket, guard.Succeeded)
	if errors.Is(set, control.ErrUnrecorded) {
		d.Log.Error("administration failed", "path", c.Path(), "error", set)
	} else if set != nil {
		return set
	}
	login, found, err := d.Accounts.FindForLogin(ctx, s.Account.Account)
	if err != nil {
		return err
	}
	if !found {
		return c.Redirect(http.StatusSeeOther, "/login")
	}
	if err := d.Sessions.Start(c, d.Edge.Client(c.Request()), login); err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, "/?password=changed")
}
