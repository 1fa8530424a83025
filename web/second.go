package web

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/mfa"
	"authguard/web/pages"
)

// Second is MFA: it requires a code or a passkey after the correct password. A passkey alone replaces both (Passkeys).
//
// An attacker can guess a code of six digits. Each code is therefore an attempt of its own, charged before it is
// checked (R1), under the limits of account, IP address and pair. The attempt with the correct password is withdrawn
// and adds no known client; the second attempt does.
type Second struct {
	Passkeys
	// Waiting holds the sessions of users who have yet to pass MFA. They grant no access.
	Waiting *Sessions
}

// Events for Passkeys.Notify.
const (
	RecoveryUsed  = "recovery-code-used"
	PasskeyCopied = "passkey-cloned"
)

// SecondLifetime is how long a login waits for MFA after the correct password.
const SecondLifetime = 5 * time.Minute

func (s *Second) asks(ctx context.Context, login accounts.Login) (bool, error) {
	has, err := s.MFA.Of(ctx, login.ID)
	return has.Any(), err
}

func (l *Login) secondRoutes(e *echo.Echo) {
	e.GET("/login/second", l.secondPage)
	e.POST("/login/second", l.second)
	e.POST("/login/second/ask", l.askPasskey)
}

// waits starts the wait for MFA and withdraws the attempt. Its solved challenge counts for the code, too. It writes as
// much as a login and as a wrong password do (R27).
func (l *Login) waits(t *try, d *guard.Decision, login accounts.Login) error {
	t.SetRequest(t.Request().WithContext(context.WithoutCancel(t.Request().Context())))
	waiting, err := l.Second.Waiting.start(t, t.client, login, false)
	if err != nil {
		return err
	}
	t.waiting = waiting
	if err := l.Guard.SolvesNext(t.Request().Context(), *d); err != nil {
		l.Log.Error("the challenge of a login does not count for its code", "error", err)
	}
	l.settle(t.Request().Context(), d, guard.Withdrawn)
	return errSecond
}

func (l *Login) askSecond(t *try, login accounts.Login) error {
	l.Passwords.Upgrade(t.Request().Context(), login, t.form["password"], l.Request(&t.decision))
	l.Log.Info("the password was correct; MFA is required", "account", login.Account, "address", t.client.Address)
	next := l.next(t.form["next"])
	switch {
	case WantsJSON(t.Request()):
		return Problem{
			Type: "mfa-required", Title: "MFA required", Status: http.StatusUnauthorized,
			Detail: "send the code as otp to /login/second, with the cookies of this response",
		}.Write(t.Response())
	case t.decision.CodeValid: // the page carries the verification code, which is needed again
		page, err := l.drawSecond(t, l.view(t, next))
		return WritePage(t, http.StatusOK, page, err)
	case next != "/":
		return t.Redirect(http.StatusSeeOther, "/login/second?next="+url.QueryEscape(next))
	}
	return t.Redirect(http.StatusSeeOther, "/login/second")
}

func (l *Login) secondPage(c echo.Context) (err error) {
	t := &try{Context: c, client: l.client(c), form: Form{}}
	if t.waiting, err = l.Second.Waiting.Get(c); err != nil {
		return err
	}
	if t.waiting == nil {
		return c.Redirect(http.StatusSeeOther, "/login")
	}
	view := l.view(c, c.QueryParam("next"))
	if c.QueryParams().Has("challenge") { // another image: at first, the password's challenge counts for the code, too
		ahead, err := l.ahead(c.Request(), t.client)
		if err != nil {
			return err
		}
		view.Challenge = l.shown(c, ahead)
	}
	page, err := l.drawSecond(t, view)
	return WritePage(c, http.StatusOK, page, err)
}

func (l *Login) drawSecond(t *try, view pages.LoginView) ([]byte, error) {
	has, err := l.Second.MFA.Of(t.Request().Context(), t.waiting.Account.ID)
	if err != nil {
		return nil, err
	}
	v := pages.SecondView{LoginView: view, CSRF: t.waiting.CSRF, Code: t.form["code"], App: has.TOTP != nil,
		Recovery: has.Recovery > 0}
	v.Username = t.waiting.Account.Account
	at, _ := l.site(t.Request())
	for _, one := range has.Passkeys {
		if !one.Cloned.IsZero() {
			continue
		}
		if one.Host == at.Host {
			v.Passkey = true
		} else {
			v.PasskeyHost = one.Host
		}
	}
	return pages.RenderSecond(v)
}

// second is POST /login/second: a TOTP code, a recovery code or a passkey's assertion.
func (l *Login) second(c echo.Context) (err error) {
	t := &try{Context: c, client: l.client(c)}
	if t.waiting, err = l.Second.Waiting.Get(c); err != nil {
		return err
	}
	if t.waiting == nil {
		if WantsJSON(c.Request()) {
			return Problem{Type: "unauthorized", Title: "Password required first", Status: http.StatusUnauthorized,
				Detail: "send user name and password to /login"}
		}
		return c.Redirect(http.StatusSeeOther, "/login")
	}
	if t.form, err = ReadForm(c, "otp", "assertion", "state", "csrf", "captcha_id", "captcha_answer", "captcha_work",
		"code", "next"); err != nil {
		return err
	}
	if !SentJSON(c.Request()) && !t.waiting.ValidCSRF(t.form["csrf"]) {
		return c.Redirect(http.StatusSeeOther, "/login/second")
	}
	t.form["username"] = t.waiting.Account.Account
	if strings.TrimSpace(t.form["otp"]) == "" && t.form["assertion"] == "" {
		return l.invalid(t, Unusable(http.StatusBadRequest, "problem.no-second"))
	}
	who := mfa.Owner{ID: t.waiting.Account.ID, Name: t.waiting.Account.Account}
	return l.prove(t, func(ctx context.Context) (bool, error) {
		if t.form["assertion"] != "" {
			return l.proves(t, who)
		}
		ok, recovery, err := l.Second.MFA.Check(ctx, who.ID, strings.TrimSpace(t.form["otp"]))
		if ok && recovery {
			l.Second.Notify(ctx, who.Name, RecoveryUsed)
		}
		return ok, err
	})
}

// proves reports whether an assertion is by a passkey of who, for a WebAuthn challenge issued to this account.
func (l *Login) proves(t *try, who mfa.Owner) (bool, error) {
	at, ok := l.site(t.Request())
	if !ok {
		return false, nil
	}
	ctx := t.Request().Context()
	return l.Second.accepted(ctx, who, l.Second.MFA.CheckPasskey(ctx, at.Site, who, who.ID, t.form["state"],
		[]byte(t.form["assertion"])))
}

// noteSecond is the note of a failed MFA attempt: the client has the password.
const noteSecond = "wrong MFA code; the password was correct"

// prove is one attempt with an MFA code. It has no password tag: the same code again is another guess (R28 is about
// passwords).
func (l *Login) prove(t *try, right func(context.Context) (bool, error)) error {
	look := func(ctx context.Context, t *try, d *guard.Decision) (login accounts.Login, ok bool, err error) {
		if d.Action == guard.Proceed {
			ok, err = right(ctx)
		}
		if err == nil && ok {
			login, ok, err = l.letIn(ctx, t.form["username"])
		}
		if err == nil && !ok {
			d.Ticket.Note = noteSecond
		}
		return login, ok, err
	}
	return l.take(t, proof{second: true, look: look, wrong: func(t *try) error { return l.unproved(t, pages.SecondWrong) }})
}

// letIn reads the account again: it may have been disabled since.
func (l *Login) letIn(ctx context.Context, name string) (accounts.Login, bool, error) {
	login, found, err := l.Passwords.Source.FindForLogin(ctx, name)
	if err != nil {
		return login, false, fmt.Errorf("web: looking the account up: %w", err)
	}
	return login, found && login.Password.Usable, nil
}

func (l *Login) unproved(t *try, kind pages.MessageKind) (err error) {
	p := Problem{Type: WrongCredentials, Title: "Wrong code or passkey", Status: http.StatusUnauthorized}
	if p.Challenge, err = l.ahead(t.Request(), t.client); err != nil {
		return err
	}
	return l.answer(t, p, pages.Message{Kind: kind})
}

// askPasskey is POST /login/second/ask: the WebAuthn options for the account's passkeys.
func (l *Login) askPasskey(c echo.Context) error {
	waiting, err := l.Second.Waiting.Get(c)
	if err != nil {
		return err
	}
	if waiting == nil {
		return Problem{Type: "unauthorized", Title: "Password required first", Status: http.StatusUnauthorized}
	}
	return l.question(c, waiting.Account.ID)
}

func (l *Login) question(c echo.Context, account string) error {
	at, ok := l.site(c.Request())
	if !ok {
		return Invalid("passkeys require a domain name with TLS, or localhost: open the admin console by a name in " +
			"admin.urls or as localhost")
	}
	q, err := l.Passkeys.MFA.AskProof(c.Request().Context(), at.Site, account)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, q)
}
