package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
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
	"authguard/web/texts"
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
	// Directory is where its accounts are kept; see guard.Attempt.
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
	// look reports whether it is right, and whose it is. Where the guard pretends, the
	// answer does not count.
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
		Account: t.form["username"], Directory: l.Directory, Address: t.client.Address, Devices: client.Devices(t.Request()),
		Solve: challenge.Solve{ID: t.form["captcha_id"], Answer: t.form["captcha_answer"], Work: t.form["captcha_work"]},
		Pass:  t.form["code"], Fingerprint: p.fingerprint, Forwarded: t.client.Forwarded, Hold: time.Duration(l.Hold.Load()), Door: l.Door,
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
	right = right && l.opensTo(login) && !spared(t, login) && t.decision.Action == guard.Proceed && (p.second || l.suffices(t, login))
	ok := right && !t.decision.Insufficient // what is sprayed is answered like a wrong one (R28)
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
		return p.wrong(t)
	case !p.second:
		l.Passwords.Upgrade(ctx, login, t.form["password"], l.Asker(&t.decision))
	}
	return l.welcome(t, login)
}

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

// spared reports whether an administrator's attempt only went on because the policy is
// watched. The administration is not watched; without this, whoever wants an
// administrator's password would guess it at the public door. What is told apart nowhere
// tells nobody who is one.
func spared(t *try, login accounts.Login) bool {
	return login.Role == accounts.Admin && t.decision.Spared()
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
	a := passwords.Asker{Known: d.Privileged, Admin: l.Admin, Account: d.Account}
	a.Pair, a.Address, a.From = d.Ticket.Asker()
	return a
}

// Passwords checks passwords: looked up, bounded (R19), and alike for accounts
// that exist and those that do not (R12).
type Passwords struct {
	Source  accounts.Source
	Gate    *passwords.Gate
	Checker *passwords.Checker
	// Away, if set, is why the source cannot be asked just now, as far as that is
	// known; nil if it can.
	Away func() error
	// Unusable, if set, is told of an account whose hash cannot be checked, and why.
	// It must not block.
	Unusable func(account string, why error)
	Log      *slog.Logger
}

// An Upgrader is a Source whose hashes are ours to replace: accounts.Table.
type Upgrader interface {
	Upgrade(ctx context.Context, login accounts.Login, hash string) error
}

// Check reports whether the password is the account's. For an unknown or
// disabled account it does the same work and reports false. Once the password's
// turn in the queue has come, Check calls still, unless that is nil, and gives
// up with its error. Other errors are those of passwords.Possible, a
// *passwords.Overload, ctx's, and those of the source.
func (p *Passwords) Check(ctx context.Context, name, password string, who passwords.Asker, still func() error) (accounts.Login, bool, error) {
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
	login, _, err := p.Source.FindForLogin(ctx, name)
	if err != nil {
		return accounts.Login{}, false, fmt.Errorf("web: looking the account up: %w", err)
	}
	ok, err := p.Checker.Check(login.Password, password)
	if errors.Is(err, passwords.ErrHash) {
		p.Log.Error("stored password hash cannot be checked", "account", login.Account, "error", err)
		if p.Unusable != nil {
			p.Unusable(login.Account, err)
		}
		return login, false, nil
	}
	return login, ok, err
}

// upgradeWithin bounds what the first login after an import takes longer.
const upgradeWithin = 5 * time.Second

// Upgrade has the password of an account that has just logged in hashed anew, if its
// hash is of another kind than new ones or cheaper, and the source is ours. It takes
// a turn like any other check. Nothing that fails here is a failed login: the next
// one tries again. Call it for nobody else: what it takes tells that the password was
// right.
func (p *Passwords) Upgrade(ctx context.Context, login accounts.Login, password string, who passwords.Asker) {
	ours, ok := p.Source.(Upgrader)
	if !ok || !p.Checker.Outdated(login.Password.Hash) || passwords.PossibleNew(password) != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), upgradeWithin)
	defer cancel()
	if err := p.upgrade(ctx, ours, login, password, who); err != nil {
		p.Log.Warn("password hash could not be upgraded; the next login tries again", "account", login.Account, "error", err)
	}
}

func (p *Passwords) upgrade(ctx context.Context, ours Upgrader, login accounts.Login, password string, who passwords.Asker) error {
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

// viaCode is the way in that is left to strangers (R29).
const viaCode = "Where an account is closed to new places, a one-time code lets you in: send it as code; /login/code says how to get one."

// wrong is 401. While the site asks everybody for a challenge the next one
// comes along.
func (l *Login) wrong(t *try) (err error) {
	p := Problem{Type: WrongCredentials, Title: "Wrong user name or password", Status: http.StatusUnauthorized}
	p.Detail = "From a new place the password alone may not be enough. " + viaCode // whether it was is told to nobody (R28)
	if p.Challenge, err = l.ahead(t.Request(), t.client); err != nil {
		return err
	}
	return l.answer(t, p, pages.Message{Kind: pages.WrongCredentials})
}

// stopped answers what the guard did not let through.
func (l *Login) stopped(t *try) error {
	if t.decision.Reasons.Has(guard.BadAccountName) {
		return l.invalid(t, Unusable(http.StatusBadRequest, whyNoName(t.form["username"])))
	}
	p, m := Stopped(&t.decision)
	if p.Type == ChallengeRequired {
		return l.challenge(t, p, m)
	}
	return l.answer(t, p, m)
}

// Stopped is what a decision that stops an attempt is answered with, as a problem and
// on a page; a challenge that is required is to be issued. Whether one has to wait or
// is refused looks the same.
func Stopped(d *guard.Decision) (Problem, pages.Message) {
	switch {
	case d.Action == guard.Challenge && d.Reasons.Has(guard.ChallengeFailed) && d.Solve.Reason == challenge.Unchecked:
		return Overloaded(time.Second) // it may have been right
	case d.Action == guard.Challenge:
		m := pages.Message{Kind: pages.ChallengeRequired, Why: whyChallenge(d)}
		if d.Reasons.Has(guard.ChallengeFailed) && m.Why != pages.WhyElsewhere && m.Why != pages.WhyWork {
			m.Kind = pages.ChallengeFailed
		}
		return Problem{Type: ChallengeRequired, Title: "Solve the challenge and try again", Status: http.StatusForbidden, Detail: unseen}, m
	}
	kind := pages.SlowDown
	switch {
	case d.Reasons.Has(guard.TooManyPictures):
		kind = pages.PicturesWait
	case d.Reasons.Has(guard.BlockedByAdmin):
		kind = pages.Blocked // a person must know that waiting is of no use
	}
	p := Problem{Type: SlowDown, Title: "Too many tries: wait before the next one", Status: http.StatusTooManyRequests, Detail: unseen + " " + viaCode}
	return later(p, kind, d.RetryAfter)
}

const unseen = "The password was not looked at."

// Overloaded is 503.
func Overloaded(after time.Duration) (Problem, pages.Message) {
	p := Problem{Type: OverloadedProblem, Title: "Too much to do right now: try again shortly", Status: http.StatusServiceUnavailable, Detail: unseen}
	return later(p, pages.Overloaded, after)
}

// later asks to come back after some time.
func later(p Problem, kind pages.MessageKind, after time.Duration) (Problem, pages.Message) {
	p.RetryAfter = retryAfter(after)
	return p, pages.Message{Kind: kind, RetryAfter: after, RetryAt: time.Now().Add(after)}
}

// challenge is 403 with a challenge.
func (l *Login) challenge(t *try, p Problem, m pages.Message) error {
	issued, err := l.Guard.Issue(t.Request().Context(), guard.Attempt{Account: t.form["username"], Directory: l.Directory, Address: t.client.Address, Door: l.Door}, t.decision)
	if err != nil {
		return err
	}
	p.Challenge = below(t.Request(), &issued)
	return l.answer(t, p, m)
}

// whyNoName is the key of the text that says what to do about a name that is none.
func whyNoName(typed string) string {
	if strings.TrimSpace(typed) == "" {
		return "problem.no-name"
	}
	return "problem.odd-name"
}

func whyChallenge(d *guard.Decision) pages.ChallengeWhy {
	switch {
	case d.Reasons.Has(guard.WorkNeeded):
		return pages.WhyWork
	case d.Solve.Reason == challenge.Elsewhere || d.Solve.Reason == challenge.TooLittle:
		return pages.WhyElsewhere
	}
	for _, r := range d.Reasons {
		switch {
		case r.Cause == guard.ModeOn:
			return pages.WhySite
		case r.Subject == guard.OnAccount:
			return pages.WhyAccount
		case r.Subject == guard.OnAddress || r.Subject == guard.OnNetwork:
			return pages.WhyNetwork
		}
	}
	return pages.WhyUnusual
}

func (l *Login) overloaded(t *try, after time.Duration) error {
	p, m := Overloaded(after)
	return l.answer(t, p, m)
}

// malformed answers a request that cannot be read as a form. If the form itself is
// what is wrong (400), it counts for the address like an attempt without a name
// (R11).
func (l *Login) malformed(t *try, err error) error {
	var p Problem
	if !errors.As(err, &p) {
		return err
	}
	if p.Status == http.StatusBadRequest {
		t.decision, err = l.Guard.Begin(t.Request().Context(), guard.Attempt{Address: t.client.Address, Forwarded: t.client.Forwarded, Door: l.Door})
		if err == nil && t.decision.Action != guard.Proceed && !t.decision.Reasons.Has(guard.BadAccountName) {
			return l.stopped(t)
		}
	}
	return l.invalid(t, p)
}

func (l *Login) invalid(t *try, p Problem) error {
	return l.answer(t, p, pages.Message{Kind: pages.InvalidInput})
}

// answer is a problem as JSON, or as the page with a message.
func (l *Login) answer(t *try, p Problem, m pages.Message) error {
	if m.CodeFailed = t.decision.Reasons.Has(guard.PassFailed); m.CodeFailed {
		p.Detail = strings.TrimSpace(p.Detail + " " + texts.English().Say("message.code-failed"))
	}
	return answer(t, p, func() ([]byte, error) {
		view := l.view(t, t.form["next"])
		if m.Kind == pages.InvalidInput {
			m.Detail = p.Words(view.Page)
		}
		view.Message, view.Challenge = m, l.shown(t, p.Challenge)
		if t.waiting != nil {
			return l.drawSecond(t, view)
		}
		view.Username = t.form["username"]
		return l.draw(t, view)
	})
}

// widget is the provider whose widget this door shows; nil if it shows none.
// Administrators see the picture: no script of others runs where they type their
// passwords.
func (l *Login) widget() *remote.Provider {
	if l.Admin {
		return nil
	}
	return l.Remote
}

func (l *Login) token() string { return AnswerField(l.widget()) }

func (l *Login) shown(to echo.Context, c *challenge.Challenge) pages.Challenge {
	return Shown(to.Response().Header(), c, l.widget())
}

// AnswerField is the field into which a provider's widget puts its token, or that of
// the picture's digits for nil and for a provider that is not used.
func AnswerField(widget *remote.Provider) string {
	const digits = "captcha_answer"
	if widget == nil {
		return digits
	}
	service, _ := widget.Service()
	return cmp.Or(service.Field, digits)
}

// Shown is a challenge as a page shows it; zero for nil. If that is a provider's
// widget, the Content-Security-Policy among the page's headers lets the provider
// through.
func Shown(h http.Header, c *challenge.Challenge, widget *remote.Provider) (view pages.Challenge) {
	if c == nil {
		return view
	}
	view = pages.Challenge{ID: c.ID, Kind: pages.ChallengeImage, Image: c.Image, Audio: c.Audio}
	if c.PoW != nil {
		var b strings.Builder
		if err := json.NewEncoder(&b).Encode(c.PoW); err == nil {
			view.Kind, view.PoWJSON = pages.ChallengeKind(c.Kind), b.String()
		}
	}
	if r := c.Remote; r != nil && AnswerField(widget) == r.Field {
		view.Kind, view.Service, view.Script, view.Class = pages.ChallengeRemote, r.Service, r.Script, r.Class
		view.SiteKey, view.Action, view.Bound = r.SiteKey, r.Action, r.Data
		service, _ := widget.Service()
		h.Set("Content-Security-Policy", policyFor(service))
	}
	return view
}
