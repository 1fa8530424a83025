package web

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/mfa"
	"authguard/internal/operation"
	"authguard/web/pages"
)

// Passkeys replace user name and password. A passkey is verified before anything is charged to its account: an attacker
// cannot guess it, but could have a stolen response charged to its owner. Other responses count against the IP address
// (R11), and look the same whether or not the account or the passkey exists (R12). Requests for a passkey are sealed and
// not stored, so asking exhausts nothing (R26).
type Passkeys struct {
	MFA *mfa.Table
	// Notify records an MFA event of an account.
	Notify func(ctx context.Context, account, what string)

	at mfa.Site // zero: the listener's own host
}

// PasskeysAt returns those of a public login at an origin; nil where they cannot work (mfa.SiteAt).
func PasskeysAt(origin string, p Passkeys) *Passkeys {
	var ok bool
	if p.at, ok = mfa.SiteAt(origin); !ok {
		return nil
	}
	return &p
}

// accepted converts the error of a check, and reports a cloned passkey.
func (p *Passkeys) accepted(ctx context.Context, who mfa.Owner, err error) (bool, error) {
	if errors.Is(err, mfa.ErrCloned) {
		p.Notify(ctx, who.Name, PasskeyCopied)
	}
	if errors.Is(err, mfa.ErrPasskey) || errors.Is(err, mfa.ErrCloned) {
		return false, nil
	}
	return err == nil, err
}

// A Site is the listener's host and origins for passkeys.
type Site struct {
	mfa.Site
	Elsewhere string // where passkeys work, if not here and if known
}

// Site returns false where passkeys cannot work (mfa.SiteAt). Only the names that Local accepts count: a forged Host
// header must not become an origin.
func (e *Edge) Site(r *http.Request) (s Site, ok bool) {
	name, port := hostName(r.Host), ""
	if _, given, err := net.SplitHostPort(r.Host); err == nil {
		port = ":" + given
	}
	s.Host = name
	s.Origins = []string{"https://" + name + port}
	switch {
	case name == "localhost":
		s.Origins = append(s.Origins, "http://"+name+port)
		return s, true
	case e.named(name):
		return s, true
	}
	if a, err := netip.ParseAddr(name); err == nil && a.IsLoopback() {
		s.Elsewhere = "http://localhost" + port
	}
	return s, false
}

func (e *Edge) named(name string) bool {
	set := e.hosts.Load()
	return set != nil && slices.ContainsFunc(*set, func(own string) bool { return strings.EqualFold(own, name) })
}

// site returns where passkeys work: at the origin of the public login, or at the admin console's own host.
func (l *Login) site(r *http.Request) (Site, bool) {
	if l.Passkeys.at.Host != "" {
		return Site{Site: l.Passkeys.at}, true
	}
	return l.Edge.Site(r)
}

func (l *Login) passkeyRoutes(e *echo.Echo) {
	e.POST("/login/passkey", l.passkey)
	e.POST("/login/passkey/ask", l.askAnyPasskey)
}

// askAnyPasskey is POST /login/passkey/ask. It lists no passkeys: the browser knows its own.
func (l *Login) askAnyPasskey(c echo.Context) error { return l.question(c, "") }

// passkey is POST /login/passkey: a passkey instead of name and password. It needs no challenge and no verification code.
func (l *Login) passkey(c echo.Context) (err error) {
	t := &try{Context: c, client: l.client(c)}
	if t.form, err = ReadForm(c, "assertion", "state", "next"); err != nil {
		return l.malformed(t, err)
	}
	login, proved, err := l.verified(t)
	switch {
	case errors.Is(err, mfa.ErrPasskey):
		return l.notPasskey(t)
	case err != nil:
		return l.overloaded(t, l.Unchecked(t, err))
	}
	t.form["username"] = login.Account
	take := func(ctx context.Context, _ *try, d *guard.Decision) (accounts.Login, bool, error) {
		if d.Action != guard.Proceed {
			return login, false, nil
		}
		ok, err := l.Passkeys.accepted(ctx, proved.Owner, l.Passkeys.MFA.Take(ctx, proved))
		if err == nil && !ok { // not the account's fault: see notPasskey
			l.settle(ctx, d, guard.Withdrawn)
		}
		return login, ok, err
	}
	return l.take(t, proof{second: true, passkey: true, look: take, wrong: l.notPasskey})
}

// verified returns the account of a valid response. The error is mfa.ErrPasskey if it may not sign in here: a user's
// passkey opens no admin console, an administrator's nothing else, and neither another realm at the same host. A user
// whose account may be compromised needs the verification code.
func (l *Login) verified(t *try) (login accounts.Login, p mfa.Proof, err error) {
	at, ok := l.site(t.Request())
	if !ok {
		return login, p, mfa.ErrPasskey
	}
	ctx := t.Request().Context()
	if p, err = l.Passkeys.MFA.Verify(ctx, at.Site, t.form["state"], []byte(t.form["assertion"])); err != nil {
		return login, p, err
	}
	login, ok, err = l.letIn(ctx, p.Name)
	if err == nil && !(ok && login.ID == p.ID && (login.Role == accounts.Admin) == l.Admin && (l.Admin || !login.NeedsCode)) {
		err = mfa.ErrPasskey
	}
	return login, p, err
}

// notPasskey answers a response that proves nothing. It counts against the IP address, like an attempt without a name.
// No challenge would help: the user needs another passkey, or the password.
func (l *Login) notPasskey(t *try) error {
	t.form["username"] = "" // a stolen response must not reveal it
	if t.decision.Action != guard.FakeFailure && l.unreadable(t) && t.decision.Action != guard.Challenge {
		return l.stopped(t)
	}
	return l.unproved(t, pages.PasskeyWrong)
}

func (l *Login) ownPasskeyRoutes(e *echo.Echo) {
	e.POST("/account/passkeys/ask", l.own(l.notAdmin(l.askNewPasskey)))
	e.POST("/account/passkeys", l.own(l.notAdmin(l.addPasskey)))
	e.POST("/account/passkeys/remove", l.own(l.notAdmin(l.removePasskey)))
}

// askNewPasskey is POST /account/passkeys/ask: the WebAuthn options, after the current password. An attacker with a
// stolen session must not gain permanent access.
func (l *Login) askNewPasskey(c echo.Context, s *Session) error {
	f, err := l.ownForm(c, s, "current_password")
	if err != nil {
		return err
	}
	at, _ := l.site(c.Request())
	var q mfa.Question
	done, err := l.current(c, s, f["current_password"], func(ctx context.Context) (err error) {
		q, err = l.Control.Accounts.AskNewPasskey(ctx, at.Site, s.Account)
		return err
	})
	switch {
	case errors.Is(err, mfa.ErrMost):
		return Unusable(http.StatusUnprocessableEntity, "problem.passkeys")
	case err != nil:
		return err
	case done.problem != (pages.PasswordProblem{}):
		return Unusable(http.StatusUnprocessableEntity, done.problem.Key)
	}
	return c.JSON(http.StatusOK, q)
}

// addPasskey is POST /account/passkeys. The state proves that the password was asked for.
func (l *Login) addPasskey(c echo.Context, s *Session) error {
	f, err := l.ownForm(c, s, "assertion", "state", "name")
	if err != nil {
		return err
	}
	at, _ := l.site(c.Request())
	_, err = l.Control.Accounts.AddPasskey(context.WithoutCancel(c.Request().Context()), l.who(s), at.Site, s.Account, f["name"],
		f["state"], []byte(f["assertion"]))
	if errors.Is(err, mfa.ErrPasskey) {
		return Unusable(http.StatusUnprocessableEntity, "problem.passkey")
	}
	if l.Added != nil && (err == nil || errors.Is(err, operation.ErrUnrecorded)) {
		l.Added.Notify(l.notice(c, s.Account.Account))
	}
	return l.done(c, "passkey", err)
}

// removePasskey is POST /account/passkeys/remove. Like endSession, it needs no password.
func (l *Login) removePasskey(c echo.Context, s *Session) error {
	f, err := l.ownForm(c, s, "id")
	if err != nil {
		return err
	}
	err = l.Control.Accounts.RemovePasskey(c.Request().Context(), l.who(s), s.Account, f["id"])
	if errors.Is(err, mfa.ErrUnknown) {
		err = nil // another tab was faster
	}
	return l.done(c, "passkey-removed", err)
}
