package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"authguard/captchamode/challenge"
	"authguard/captchamode/challenge/remote"
	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/control"
	"authguard/internal/outbox"
	"authguard/internal/passwords"
	"authguard/internal/route"
	"authguard/web/client"
	"authguard/web/pages"
)

// Login is a login endpoint: page, form target and logout. One exists for users and one for administrators.
type Login struct {
	Guard *guard.Guard
	LoginUsers
	LoginEmails
	Edge        *Edge
	Integration string                             // the integration's name in events and metrics
	Hold        *atomic.Int64                      // longest wait of an early attempt on a timer (R15), in nanoseconds
	Secure      CookieSecurity                     // of device cookies
	Origin      string                             // the public origin of the login page; empty: the request's host
	Access      *atomic.Pointer[route.AccessRules] // rules of forward auth; nil: none
	Widget      *Widget                            // of an external CAPTCHA provider; nil: none
	Identity    *client.Identity                   // client fingerprints; nil: none
	Admin       bool                               // only administrators may sign in here
	Look        *Look                              // of the pages; nil: that of the admin console
	Log         *slog.Logger

	pages pages.LoginPages
}

// LoginUsers are the accounts that sign in, and their sessions.
type LoginUsers struct {
	Passwords *Passwords
	Sessions  *Sessions
	Directory string           // where the accounts are kept; empty: the site's directory
	Storage   Storage          // nil: sessions can always be written
	Control   *control.Control // for the pages at /account; nil: there are none
	Second    *Second          // MFA; nil: none
	Passkeys  *Passkeys        // nil: none
}

// LoginEmails are sent to account owners.
type LoginEmails struct {
	// Notices are emails about logins: with a code for right passwords that a step-up stopped and, with NotifyNewClient,
	// about those from unknown clients. nil: there are none.
	Notices         *outbox.Mailer
	NotifyNewClient bool
	// Resets sends links to reset a forgotten password, and Changes reports that it was reset; nil: there are none.
	Resets, Changes *outbox.Mailer
	Added           *outbox.Mailer // emails about new passkeys; nil: none
	Leaked          *outbox.Mailer // emails about logins with a leaked password; nil: none
	// AskCode sends a verification code to the account's owner, if the account exists. It must not block. nil: email is
	// not configured.
	AskCode func(guard.Code)
}

// Storage reports whether a login can be written (R27). Only a correct password writes a session: without Storage, a
// failed database would reveal which passwords are correct.
type Storage interface {
	// Failed returns the error of the last write, or nil. It does not block.
	Failed() (why error, since time.Time)
	// Prove makes a test write now.
	Prove(ctx context.Context) error
}

type try struct {
	echo.Context
	client   Client
	form     Form
	decision guard.Decision
	waiting  *Session // the session of a user who has passed the password check but not yet MFA; else nil
}

// A proof is what a try presents: a password or, with second, MFA or a verified passkey.
type proof struct {
	second, passkey bool

	tag    uint64 // of the password
	leaked bool   // the password is known from leaks
	// look reports whether the proof is correct, and for which account. For a fake failure its result is ignored.
	look  func(ctx context.Context, t *try, d *guard.Decision) (accounts.Login, bool, error)
	wrong func(t *try) error
}

func (l *Login) attempt(c echo.Context) (err error) {
	t := &try{Context: c, client: l.client(c)}
	t.form, err = ReadForm(c, "username", "password", "captcha_id", "captcha_answer", "captcha_work", "code", "next",
		l.token())
	if err != nil {
		return l.malformed(t, err)
	}
	t.form["captcha_answer"] = cmp.Or(t.form["captcha_answer"], t.form[l.token()])
	if why := noPassword(t.form["password"]); why != "" {
		// The guard rejects an invalid name and counts it (R11).
		if _, err := l.Guard.Normalise(t.form["username"]); err == nil {
			return l.invalid(t, Unusable(http.StatusBadRequest, why))
		}
	}
	return l.take(t, proof{tag: l.Guard.Fingerprint(t.form["password"]), leaked: l.Guard.Leaked(t.form["password"]),
		look: l.password, wrong: l.wrong})
}

func (l *Login) take(t *try, p proof) (err error) {
	var login accounts.Login
	ask := l.asks(t, t.client, t.form["username"])
	ask.Solution = challenge.Solution{ID: t.form["captcha_id"], Answer: t.form["captcha_answer"],
		Work: t.form["captcha_work"]}
	ask.VerificationCode, ask.SendsCode = t.form["code"], l.AskCode != nil
	ask.Passkey, ask.PasswordTag, ask.Hold = p.passkey, p.tag, time.Duration(l.Hold.Load())
	ask.PasswordLeaked = p.leaked
	ctx, check := t.Request().Context(), func(ctx context.Context, d *guard.Decision) (right bool, err error) {
		login, right, err = l.check(ctx, t, d, p)
		return right, err
	}
	var ok bool
	if t.decision, ok, err = l.enter(ctx, ask, check); p.second && err == nil && !t.decision.Checks() {
		if ask.Solution, err = l.Guard.SolvedAhead(ctx, ask, t.decision); ask.Solution.Claimed() && err == nil {
			t.decision, ok, err = l.enter(ctx, ask, check)
		}
	}
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
		l.Passwords.Upgrade(t.Request().Context(), login, t.form["password"], l.Request(&t.decision))
	}
	return l.welcome(t, login)
}

// enter is Guard.Login, also with the challenge of a page that did not know the account yet. A success that cannot be
// settled counts as a failure, but still signs in: only a correct password has anything to write (R27).
func (l *Login) enter(ctx context.Context, ask guard.Attempt, verify func(context.Context, *guard.Decision) (bool,
	error)) (guard.Decision, bool, error) {
	d, ok, err := l.Guard.Login(ctx, ask, verify)
	if err == nil && !d.Checks() {
		if ask.Solution, err = l.Guard.Rebind(ctx, ask, &d); err == nil && ask.Solution.Claimed() {
			d, ok, err = l.Guard.Login(ctx, ask, verify)
		}
	}
	if ok && err != nil {
		l.Log.Error("attempt could not be settled", "outcome", guard.Succeeded, "error", err)
		err = nil
	}
	return d, ok, err
}

func (l *Login) asks(c echo.Context, from Client, account string) guard.Attempt {
	if usual, err := l.Guard.Normalise(account); err == nil { // accounts are looked up by it
		account = usual
	}
	return guard.Attempt{
		Account: account, Address: from.Address, Devices: client.Devices(c.Request()), Fingerprint: l.identity(c),
		Forwarded: from.Forwarded, Integration: l.Integration,
	}
}

// check checks the proof and writes the session before the attempt is settled. After an error nothing was checked, so
// the attempt is abandoned, even if the client hung up in the queue.
func (l *Login) check(ctx context.Context, t *try, d *guard.Decision,
	p proof) (login accounts.Login, right bool, err error) {
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
	correct := right && l.opensTo(login) && !l.monitored(d, login)
	right = correct && (p.second || l.suffices(d, login))
	ok := right && !d.Insufficient // a step-up (R32), a sprayed password and a fake failure are answered like a wrong one
	if correct && !ok && l.sendsCodes() && d.Reasons.Has(guard.StepUpNeeded) {
		stopped := l.notice(t, login.Account)
		stopped.Stopped = true
		l.Notices.Notify(stopped)
	}
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

func (l *Login) identity(c echo.Context) uint32 { return l.Guard.Identity(l.Identity.Of(c.Request())) }

// failed returns why sessions cannot be written, as far as known, or nil.
func (l *Login) failed() (why error) {
	if l.Storage != nil {
		why, _ = l.Storage.Failed()
	}
	return why
}

// noPassword returns the text key for an impossible password; empty if the password is possible.
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

// password checks the password of an attempt, or a decoy.
func (l *Login) password(ctx context.Context, t *try, d *guard.Decision) (accounts.Login, bool, error) {
	again := func() error { return l.Guard.Recheck(ctx, d) }
	return l.Passwords.Check(ctx, d.Account, d.Offered(t.form["password"]), l.Request(d), again)
}

// suffices reports whether the correct password is enough. An account with a possibly compromised password also needs a
// verification code. Without one, the password looks wrong, as a sprayed one does (R28). Known clients do not help
// here: they were all removed, and a new one may be the attacker's.
func (l *Login) suffices(d *guard.Decision, login accounts.Login) bool {
	return !login.NeedsCode || d.CodeValid
}

// Unchecked logs why an attempt was not decided or checked, and returns the delay before the next try.
func (l *Login) Unchecked(c echo.Context, why error) (retry time.Duration) {
	overload := new(passwords.Overload)
	switch {
	case errors.As(why, &overload):
		return overload.RetryAfter
	case !gone(c) && !errors.Is(why, errStorage): // errStorage is logged where it occurs
		l.Log.Error("password could not be checked", "error", why)
	}
	return time.Second
}

// gone reports whether the client has hung up: errors then are not the server's failures, and no client reads the
// response.
func gone(c echo.Context) bool { return c.Request().Context().Err() != nil }

// settle settles an attempt, if it has a ticket, and logs errors.
func (l *Login) settle(ctx context.Context, d *guard.Decision, o guard.Outcome) {
	if !d.Checks() {
		return
	}
	if err := l.Guard.Settle(ctx, d.Ticket, o); err != nil && !errors.Is(err, guard.ErrSettled) {
		l.Log.Error("attempt could not be settled", "outcome", o, "error", err)
	}
}

// write starts the session after a correct proof, and ends the one that waited for MFA. After a wrong proof it writes
// as much (Storage.Prove). Otherwise 401 instead of 503 from a failing database would reveal that the other password
// was correct (R27). Neither write ends with the request: an attacker who hangs up has still guessed.
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

// SignIn starts a session without a password and redirects to the start page. Only authguard demo has a link to it.
func (l *Login) SignIn(c echo.Context, account string) error {
	login, found, err := l.Passwords.Source.FindForLogin(c.Request().Context(), account)
	if err == nil && !found {
		err = echo.ErrNotFound
	}
	if err == nil {
		_, err = l.Sessions.start(c, l.client(c), login, false)
	}
	if err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, "/")
}

// opensTo reports whether an account may sign in here; otherwise it looks unknown. An administrator's temporary
// password works in the admin console only, which asks for a new one at once.
func (l *Login) opensTo(login accounts.Login) bool {
	administrator := login.Role == accounts.Admin
	return administrator == l.Admin || administrator && !login.MustChange
}

// monitored reports whether only monitoring let an administrator's attempt pass at the public login. The admin console
// enforces its limits, so an attacker would guess an administrator's password here instead. The response equals that to
// a wrong password, so it does not reveal administrators.
func (l *Login) monitored(d *guard.Decision, login accounts.Login) bool {
	return login.Role == accounts.Admin && !l.Admin && d.Monitored()
}

func (l *Login) welcome(t *try, login accounts.Login) error {
	if l.NotifyNewClient && !t.decision.Known {
		l.Notices.Notify(l.notice(t, login.Account))
	}
	next := l.next(t.form["next"])
	if login.MustChange && !l.Admin {
		return l.mustChoose(t, next)
	}
	l.Remember(t, t.client, t.decision.Ticket)
	leaked := t.decision.PasswordLeaked && l.Guard.Policy().StepUp.Leaked
	if leaked && l.Leaked != nil {
		l.Leaked.Notify(l.notice(t, login.Account))
	}
	switch {
	case WantsJSON(t.Request()):
		answer := map[string]any{"account": login.Account, "next": next}
		if leaked {
			answer["password_leaked"] = true
		}
		return t.JSON(http.StatusOK, answer)
	case leaked && l.replaces() && login.Role != accounts.Admin:
		next = baseOf(t.Request()) + l.passwordPath() + "?" + url.Values{"leaked": {"1"}, "next": {next}}.Encode()
	}
	return t.Redirect(http.StatusSeeOther, next)
}

// sendsCodes reports whether a right password that is not enough sends its owner a code.
func (l *Login) sendsCodes() bool { return l.AskCode != nil && l.Notices != nil }

// notice is what the owner of an account is notified of: this request.
func (l *Login) notice(c echo.Context, account string) outbox.Notice {
	agent := c.Request().UserAgent()
	return outbox.Notice{Directory: l.Directory, Account: account, Address: l.client(c).Address.String(),
		Agent: agent[:min(len(agent), maxAgent)], At: l.Sessions.Now()}
}

// Remember sets a device cookie for the account of a ticket that was settled as succeeded.
func (l *Login) Remember(c echo.Context, from Client, ticket guard.Ticket) {
	device, tag, ttl := l.Guard.Device(ticket)
	client.SetDevice(c.Response().Header(), c.Request(), tag, device, ttl, l.Secure.Of(from))
}

// Request describes an attempt to the password check queue.
func (l *Login) Request(d *guard.Decision) passwords.Request {
	a := passwords.Request{Known: d.Known, Admin: l.Admin, Fake: d.Action == guard.FakeFailure, Account: d.Account}
	a.Pair, a.Address, a.From = d.Ticket.Client()
	return a
}

func (l *Login) token() string { return AnswerField(l.widget()) }

// widget returns the provider whose widget is shown, or nil. The admin console shows the image CAPTCHA instead: no
// third-party script runs where administrators type their passwords.
func (l *Login) widget() *remote.Provider {
	if l.Admin || l.Widget == nil {
		return nil
	}
	return l.Widget.Load()
}

// A Widget is the external CAPTCHA provider that is configured now; the zero Widget is none.
type Widget = atomic.Pointer[remote.Provider]

// AnswerField is the form field of a provider's token, or of the CAPTCHA's digits if widget is nil.
func AnswerField(widget *remote.Provider) string {
	const digits = "captcha_answer"
	if widget == nil {
		return digits
	}
	service, _ := widget.Service()
	return cmp.Or(service.Field, digits)
}

// next returns the target after the login: a local path, or a URL at the origin or at a host of the session's domain,
// with the origin's scheme and port. Any other target becomes "/" (open redirect).
func (l *Login) next(next string) string {
	scheme, host, uri := cutURL(next)
	own, origin, _ := cutURL(l.Origin)
	if host == "" || l.Origin == "" || scheme != own || !strings.HasPrefix(next, own+"://") {
		return LocalPath(next)
	}
	if LocalPath(uri) != uri || !plainHost(host) || portOf(host) != portOf(origin) || !l.isOrigin(host) &&
		!l.within(hostName(host)) {
		return "/"
	}
	return next
}

// Passwords checks passwords with bounded concurrency (R19) and with the same work for existing and unknown accounts
// (R12).
type Passwords struct {
	Source  accounts.Source
	Gate    *passwords.Queue
	Checker *passwords.Checker
	// Away, if set, returns why the source is unavailable, as far as known, or nil.
	Away func() error
	// Normalise is package guard's. If set, no password is checked for an account with another canonical name than the
	// counted one. nil: the names are authguard's own, which it has in memory.
	Normalise func(string) (string, error)
	// Unusable, if set, is called for an account whose hash cannot be checked. It must not block.
	Unusable func(account string, why error)
	Log      *slog.Logger
}

// An Upgrader is a Source whose hashes authguard may replace: accounts.Table.
type Upgrader interface {
	Upgrade(ctx context.Context, login accounts.Login, hash string) error
}

// Check reports whether the password is the account's. For an unknown or disabled account it does the same work and
// reports false; see Hold. After the wait in the queue it calls still, unless nil, and returns that error. Other errors
// come from passwords.Possible, ctx, the source, or are a *passwords.Overload.
func (p *Passwords) Check(ctx context.Context, name, password string, who passwords.Request,
	still func() error) (accounts.Login, bool, error) {
	if err := passwords.Possible(password); err != nil {
		return accounts.Login{}, false, err
	}
	if p.Away != nil {
		if err := p.Away(); err != nil {
			return accounts.Login{}, false, fmt.Errorf("web: looking the account up: %w", err)
		}
	}
	leave, err := p.Gate.Enter(ctx, who)
	if err != nil {
		return accounts.Login{}, false, err
	}
	defer leave()
	if still != nil {
		if err := still(); err != nil {
			return accounts.Login{}, false, err
		}
	}
	if itself, is := p.Source.(accounts.Verifier); is {
		login, ok, err := itself.Verify(ctx, name, password)
		if err != nil {
			err = fmt.Errorf("web: having the password checked: %w", err)
		}
		return login, ok, err
	}
	login, found, err := p.Source.FindForLogin(ctx, name)
	if err == nil && found && !p.counted(login, name) {
		err = accounts.ErrNotCounted
	}
	if err != nil {
		return accounts.Login{}, false, fmt.Errorf("web: looking the account up: %w", err)
	}
	ok, err := p.Checker.Check(&login.Password, password)
	if errors.Is(err, passwords.ErrHash) {
		p.Log.Error("stored password hash cannot be checked", "account", login.Account, "error", err)
		if p.Unusable != nil {
			p.Unusable(login.Account, err)
		}
		return login, false, nil
	}
	return login, ok, err
}

// counted reports whether the name is the account's canonical one.
func (p *Passwords) counted(login accounts.Login, name string) bool {
	if p.Normalise == nil || login.Account == name {
		return true
	}
	usual, err := p.Normalise(login.Account)
	return err == nil && usual == name
}

// Hold waits until the response to a wrong password is due, the same time after every check, or until the client has
// gone. Call it after the attempt is settled and has left the queue: held responses do not use up its concurrency.
// Their number is that of the checks in these few seconds.
func (p *Passwords) Hold(ctx context.Context, checked accounts.Login) {
	p.Checker.Hold(ctx, checked.Password)
}

// upgradeWithin bounds the extra time of the first login after an import.
const upgradeWithin = 5 * time.Second

// Upgrade rehashes the password of an account that has just logged in, if its hash is of another kind than new ones, or
// cheaper. The source must be an Upgrader. It waits in the queue like a check. Errors are logged, and the next login
// tries again. Call it for correct passwords only: its duration reveals that the password was correct.
func (p *Passwords) Upgrade(ctx context.Context, login accounts.Login, password string, who passwords.Request) {
	ours, ok := p.Source.(Upgrader)
	if !ok || !p.Checker.Outdated(&login.Password) || passwords.PossibleNew(password) != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), upgradeWithin)
	defer cancel()
	if err := p.upgrade(ctx, ours, login, password, who); err != nil {
		p.Log.Warn("password hash could not be upgraded; the next login tries again", "account", login.Account, "error", err)
	}
}

func (p *Passwords) upgrade(ctx context.Context, ours Upgrader, login accounts.Login, password string,
	who passwords.Request) error {
	leave, err := p.Gate.Enter(ctx, who)
	if err != nil {
		return err
	}
	defer leave()
	now, _, err := p.Source.FindForLogin(ctx, login.Account)
	if err != nil || now.Password.Hash != login.Password.Hash {
		return err // another login of the account was faster
	}
	hash, err := p.Checker.Hash(password)
	if err != nil {
		return err
	}
	return ours.Upgrade(ctx, login, hash)
}
