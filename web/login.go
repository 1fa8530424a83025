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
	second      bool
	fingerprint uint64 // of a password
	// look reports whether it is right, and whose it is. Of a fake failure the answer does
	// not count.
	look func(ctx context.Context, t *try) (accounts.Login, bool, error)
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
	return l.take(t, proof{fingerprint: l.Guard.Fingerprint(t.form["password"]), look: l.password, wrong: l.wrong})
}

// take takes one attempt from the guard's decision to the answer.
func (l *Login) take(t *try, p proof) (err error) {
	ctx := t.Request().Context()
	t.decision, err = l.Guard.Begin(ctx, guard.Attempt{
		Account: t.form["username"], Address: t.client.Address, Devices: client.Devices(t.Request()),
		Solution:         challenge.Solve{ID: t.form["captcha_id"], Answer: t.form["captcha_answer"], Work: t.form["captcha_work"]},
		VerificationCode: t.form["code"], PasswordTag: p.fingerprint, Fingerprint: l.identity(t), Forwarded: t.client.Forwarded, Hold: time.Duration(l.Hold.Load()), Integration: l.Door,
		SendsCode: l.AskCode != nil,
	})
	switch {
	case err != nil:
		if !gone(t) {
			l.Log.Error("attempt could not be decided", "error", err)
		}
		return l.overloaded(t, time.Second)
	case !t.decision.Checks():
		return l.stopped(t)
	case l.failed() != nil:
		l.settle(t, guard.Abandoned)
		return l.overloaded(t, time.Second)
	}
	login, right, err := p.look(ctx, t)
	if !t.decision.Checks() { // taken back while it waited for its turn
		if !errors.Is(err, errRechecked) {
			l.Log.Error("attempt could not be withdrawn", "error", err)
		}
		return l.stopped(t)
	}
	right = right && l.opensTo(login) && !l.monitored(t, login) && (p.second || l.suffices(t, login))
	ok := right && !t.decision.Insufficient // a sprayed password (R28) and a fake failure are answered like a wrong one
	if err == nil && ok && !p.second && l.Second != nil {
		var asks bool
		if asks, err = l.Second.asks(ctx, login); asks {
			return l.askSecond(t, login)
		}
	}
	if err == nil {
		err = l.write(t, p, login, ok)
	}
	outcome := guard.OutcomeOf(right)
	if err != nil {
		outcome = guard.Abandoned
	}
	l.settle(t, outcome)
	switch {
	case err != nil:
		return l.overloaded(t, l.Unchecked(t, err))
	case !ok:
		l.Passwords.Hold(ctx, login)
		return p.wrong(t)
	case !p.second:
		l.Passwords.Upgrade(ctx, login, t.form["password"], l.Asker(&t.decision))
	}
	return l.welcome(t, login)
}

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
func (l *Login) password(ctx context.Context, t *try) (accounts.Login, bool, error) {
	return l.Passwords.Check(ctx, t.decision.Account, t.decision.Offered(t.form["password"]), l.Asker(&t.decision), func() error { return l.recheck(ctx, t) })
}

// suffices reports whether the right password is enough from where it comes. Somebody may
// have an account's password that its owner did not give them; it then
// needs a one-time code as well, which the owner gets. Without one the password looks
// wrong, as one that is sprayed does (R28). A known place is not enough: all were forgotten,
// and what is known again is of a login that was on its way, or of the thief's.
func (l *Login) suffices(t *try, login accounts.Login) bool {
	return !login.NeedsCode || t.decision.Passed
}

// Unchecked tells those who have to know that a password was not looked at, and
// returns after how long to try again.
func (l *Login) Unchecked(c echo.Context, why error) (retry time.Duration) {
	overload := new(passwords.Overload)
	switch {
	case errors.As(why, &overload):
		return overload.RetryAfter
	case gone(c):
		l.Guard.HangUp()
	default:
		l.Log.Error("password could not be checked", "error", why)
	}
	return time.Second
}

// gone reports whether the client has hung up: what fails then is no failure of
// ours, and nobody reads the answer.
func gone(c echo.Context) bool { return c.Request().Context().Err() != nil }

func (l *Login) settle(t *try, o guard.Outcome) {
	l.settleTicket(t.Request().Context(), t.decision.Ticket, o)
}

func (l *Login) settleTicket(ctx context.Context, ticket guard.Ticket, o guard.Outcome) {
	if err := l.Guard.Settle(ctx, ticket, o); err != nil && !errors.Is(err, guard.ErrInsufficient) {
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
func (l *Login) monitored(t *try, login accounts.Login) bool {
	return login.Role == accounts.Admin && !l.Admin && t.decision.Monitored()
}

// errRechecked ends the check of a password that may not be looked at after
// all.
var errRechecked = errors.New("web: the attempt has to solve a challenge first")

// recheck asks the guard again once the password's turn has come.
func (l *Login) recheck(ctx context.Context, t *try) error {
	err := l.Guard.Recheck(ctx, &t.decision)
	if err == nil && !t.decision.Checks() {
		err = errRechecked
	}
	return err
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
