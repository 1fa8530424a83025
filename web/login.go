package web

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"authguard/captchamode/challenge"
	"authguard/captchamode/challenge/remote"
	"authguard/guard"
	"authguard/internal/access"
	"authguard/internal/accounts"
	"authguard/internal/control"
	"authguard/internal/notices"
	"authguard/internal/passwords"
	"authguard/web/client"
	"authguard/web/pages"
)

// Login is a login door: the page, the form's target, and logging out. There
// is one for the public and one for administrators.
type Login struct {
	Guard     *guard.Guard
	Edge      *Edge
	Passwords *Passwords
	Sessions  *Sessions
	// Door names this door in events and metrics.
	Door string
	// Directory is where its accounts are kept, for what is done with them; empty: where
	// the site's are.
	Directory string
	// Hold is how long an attempt may be held until it is due (R15), in
	// nanoseconds.
	Hold   *atomic.Int64
	Secure CookieSecurity // of device cookies
	// Storage is where sessions are written; nil: they cannot fail to be.
	Storage Storage
	// Origin is where browsers find the login page; empty: at any host that they ask.
	Origin string
	// Access are the rules of forward-auth; nil: there are none.
	Access *atomic.Pointer[access.Rules]
	// Control keeps the accounts, for what their owners do with them at /account; nil:
	// there is no such page.
	Control *control.Control
	// Notices tell the owners of accounts of logins from new places; nil: nobody does.
	Notices *notices.Mailer
	// AskCode has a one-time code sent to the owner of an account, if there is
	// one, and never waits; nil: no mail is set up.
	AskCode func(guard.Pass)
	// Remote is the provider of challenges on the web; nil for none.
	Remote *remote.Provider
	// Identity is what clients are recognised by; nil: nothing.
	Identity *client.Identity
	// Admin says that only administrators may enter here.
	Admin bool
	// Second is what is asked for beside the password; nil: nothing.
	Second *Second
	// Look is of the pages; nil as for administrators.
	Look *Look
	Log  *slog.Logger

	pages pages.LoginPages
}

// Storage knows whether what a login writes can be written (R27). Only a right
// password has anything to write: without Storage, a database that cannot be written
// would tell right from wrong.
type Storage interface {
	// Failed is why it could not when that was last tried; nil if it could. It
	// does not wait.
	Failed() (why error, since time.Time)
	// Prove tries now.
	Prove(ctx context.Context) error
}

// A try is one attempt on its way from the request to the answer.
type try struct {
	echo.Context
	client   Client
	form     Form
	decision guard.Decision
	waiting  *Session // of who has shown the password and not yet a second factor; else nil
}

// A proof is what a try shows: a password or, with second, more than one.
type proof struct {
	second bool
	tag    uint64 // of a password
	// look reports whether it is right, and whose it is. Of a fake failure the answer does
	// not count.
	look func(ctx context.Context, t *try, d *guard.Decision) (accounts.Login, bool, error)
	// wrong answers for one that is not right.
	wrong func(t *try) error
}

// attempt is POST /login.
func (l *Login) attempt(c echo.Context) (err error) {
	t := &try{Context: c, client: l.Edge.Client(c.Request())}
	t.form, err = ReadForm(c, "username", "password", "captcha_id", "captcha_answer", "captcha_work", "code", "next", l.token())
	if err != nil {
		return l.malformed(t, err)
	}
	t.form["captcha_answer"] = cmp.Or(t.form["captcha_answer"], t.form[l.token()])
	if why := noPassword(t.form["password"]); why != "" {
		// A name that cannot be an account's is the guard's to refuse, and to
		// count (R11).
		if _, err := l.Guard.Normalise(t.form["username"]); err == nil {
			return l.invalid(t, Unusable(http.StatusBadRequest, why))
		}
	}
	return l.take(t, proof{tag: l.Guard.Fingerprint(t.form["password"]), look: l.password, wrong: l.wrong})
}

// take takes one attempt from the request to the answer.
func (l *Login) take(t *try, p proof) (err error) {
	var login accounts.Login
	ask := l.asks(t, t.client, t.form["username"])
	ask.Solution = challenge.Solve{ID: t.form["captcha_id"], Answer: t.form["captcha_answer"], Work: t.form["captcha_work"]}
	ask.VerificationCode, ask.SendsCode = t.form["code"], l.AskCode != nil
	ask.PasswordTag, ask.Hold = p.tag, time.Duration(l.Hold.Load())
	var ok bool
	t.decision, ok, err = l.enter(t.Request().Context(), ask, func(ctx context.Context, d *guard.Decision) (right bool, err error) {
		login, right, err = l.check(ctx, t, d, p)
		return right, err
	})
	switch {
	case errors.Is(err, errSecond):
		return l.askSecond(t, login)
	case !t.decision.Checks() && err == nil:
		return l.stopped(t)
	case err != nil:
		return l.overloaded(t, l.Unchecked(t, err))
	case !ok:
		l.Passwords.Hold(t.Request().Context(), login)
		return p.wrong(t)
	case !p.second:
		l.Passwords.Upgrade(t.Request().Context(), login, t.form["password"], l.Asker(&t.decision))
	}
	return l.welcome(t, login)
}

// enter is Guard.Login. A success that cannot be settled counts as a failure, and signs in all
// the same: only a right password has something to write (R27).
func (l *Login) enter(ctx context.Context, ask guard.Attempt, verify func(context.Context, *guard.Decision) (bool, error)) (guard.Decision, bool, error) {
	d, ok, err := l.Guard.Login(ctx, ask, verify)
	if ok && err != nil {
		l.Log.Error("attempt could not be settled", "outcome", guard.Succeeded, "error", err)
		err = nil
	}
	return d, ok, err
}

// asks is the attempt that a request makes to sign in to an account.
func (l *Login) asks(c echo.Context, from Client, account string) guard.Attempt {
	return guard.Attempt{
		Account: account, Address: from.Address, Devices: client.Devices(c.Request()), Fingerprint: l.identity(c),
		Forwarded: from.Forwarded, Integration: l.Door,
	}
}

// check looks at what a try shows, and writes what is to be written before the attempt is
// settled. Without that nothing was checked, also for a client that has hung up in the queue.
func (l *Login) check(ctx context.Context, t *try, d *guard.Decision, p proof) (login accounts.Login, right bool, err error) {
	defer func() {
		if err != nil {
			l.settle(ctx, d, guard.Abandoned)
		}
	}()
	if why := l.failed(); why != nil {
		return login, false, errStorage
	}
	if login, right, err = p.look(ctx, t, d); err != nil {
		return login, false, err
	}
	right = right && l.opensTo(login) && !l.monitored(d, login) && (p.second || l.suffices(d, login))
	ok := right && !d.Insufficient // a sprayed password (R28) and a fake failure are answered like a wrong one
	if ok && !p.second && l.Second != nil {
		if asks, err := l.Second.asks(ctx, login); err != nil || asks {
			return login, false, cmp.Or(err, l.waits(t, d, login))
		}
	}
	return login, right, l.write(t, p, login, ok)
}

var (
	errStorage = errors.New("web: the database failed when it was last written")
	errSecond  = errors.New("web: the password was right, and MFA is required")
)

// identity is what the guard recognises a client by.
func (l *Login) identity(c echo.Context) uint32 { return l.Guard.Identity(l.Identity.Of(c.Request())) }

// failed is why nobody can be let in just now, as far as that is known.
func (l *Login) failed() (why error) {
	if l.Storage != nil {
		why, _ = l.Storage.Failed()
	}
	return why
}

// noPassword is the key of the text that says why a password cannot be
// anybody's; empty if it can.
func noPassword(password string) string {
	switch err := passwords.Possible(password); {
	case password == "":
		return "problem.no-password"
	case errors.Is(err, passwords.ErrTooLong):
		return "problem.long-password"
	case err != nil:
		return "problem.nul-password"
	}
	return ""
}

// password looks at the password of an attempt, or at a decoy.
func (l *Login) password(ctx context.Context, t *try, d *guard.Decision) (accounts.Login, bool, error) {
	again := func() error { return l.Guard.Recheck(ctx, d) }
	return l.Passwords.Check(ctx, d.Account, d.Offered(t.form["password"]), l.Asker(d), again)
}

// suffices reports whether the right password is enough from where it comes. Somebody may
// have an account's password that its owner did not give them; it then
// needs a one-time code as well, which the owner gets. Without one the password looks
// wrong, as one that is sprayed does (R28). A known place is not enough: all were forgotten,
// and what is known again is of a login that was on its way, or of the thief's.
func (l *Login) suffices(d *guard.Decision, login accounts.Login) bool {
	return !login.NeedsCode || d.Passed
}

// Unchecked logs why an attempt could not be decided or its password not checked, and
// returns after how long to try again.
func (l *Login) Unchecked(c echo.Context, why error) (retry time.Duration) {
	overload := new(passwords.Overload)
	switch {
	case errors.As(why, &overload):
		return overload.RetryAfter
	case !gone(c) && !errors.Is(why, errStorage): // which is reported when it fails
		l.Log.Error("password could not be checked", "error", why)
	}
	return time.Second
}

// gone reports whether the client has hung up: what fails then is no failure of
// ours, and nobody reads the answer.
func gone(c echo.Context) bool { return c.Request().Context().Err() != nil }

// settle settles an attempt, if there is one, before its answer is known to the guard.
func (l *Login) settle(ctx context.Context, d *guard.Decision, o guard.Outcome) {
	if !d.Checks() {
		return
	}
	if err := l.Guard.Settle(ctx, d.Ticket, o); err != nil && !errors.Is(err, guard.ErrSettled) {
		l.Log.Error("attempt could not be settled", "outcome", o, "error", err)
	}
}

// write starts the session of what was right, and ends that of who waited. For what was
// wrong it writes as much for nobody, so that a database that fails between two looks at
// it answers both alike: who hears 401 instead of 503 would know that the other was right
// (R27). Neither ends with the request: a client that hangs up has still guessed.
func (l *Login) write(t *try, p proof, login accounts.Login, ok bool) error {
	ctx := context.WithoutCancel(t.Request().Context())
	if !ok {
		if l.Storage != nil {
			return l.Storage.Prove(ctx)
		}
		return nil
	}
	t.SetRequest(t.Request().WithContext(ctx))
	if _, err := l.Sessions.start(t, t.client, login, p.second); err != nil || t.waiting == nil {
		return err
	}
	return l.Second.Waiting.End(t, t.client)
}

// opensTo reports whether an account may enter here; if not, it looks unknown. A
// one-time password of an administrator opens the administration only, which
// asks for another one at once.
func (l *Login) opensTo(login accounts.Login) bool {
	administrator := login.Role == accounts.Admin
	return administrator == l.Admin || administrator && !login.MustChange
}

// monitored reports whether an administrator's attempt at the public login only went on
// because a limit is monitored. The administration's own are enforced: an attacker would
// guess an administrator's password here otherwise. The answer is that to a wrong password,
// so it does not show who is an administrator.
func (l *Login) monitored(d *guard.Decision, login accounts.Login) bool {
	return login.Role == accounts.Admin && !l.Admin && d.Monitored()
}

func (l *Login) welcome(t *try, login accounts.Login) error {
	if l.Notices != nil && !t.decision.Privileged {
		agent := t.Request().UserAgent()
		l.Notices.Tell(notices.Login{
			Directory: l.Directory, Account: login.Account, Address: t.client.Address.String(), Agent: agent[:min(len(agent), maxAgent)], At: l.Sessions.Now(),
		})
	}
	next := l.next(t.form["next"])
	if login.MustChange && !l.Admin {
		return l.mustChoose(t, next)
	}
	l.Remember(t, t.client, t.decision.Ticket)
	if WantsJSON(t.Request()) {
		return t.JSON(http.StatusOK, map[string]string{"account": login.Account, "next": next})
	}
	return t.Redirect(http.StatusSeeOther, next)
}

// Remember gives the browser a device cookie for the account of a ticket that was
// settled as succeeded.
func (l *Login) Remember(c echo.Context, from Client, ticket guard.Ticket) {
	device, tag, ttl := l.Guard.Device(ticket)
	client.SetDevice(c.Response().Header(), c.Request(), tag, device, ttl, l.Secure.Of(from))
}

// Asker is who wants the password of an attempt checked here.
func (l *Login) Asker(d *guard.Decision) passwords.Asker {
	a := passwords.Asker{Known: d.Privileged, Admin: l.Admin, Fake: d.Action == guard.FakeFailure, Account: d.Account}
	a.Pair, a.Address, a.From = d.Ticket.Asker()
	return a
}
