package web

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"authguard/captchamode/challenge"
	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/passwords"
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
	// Directory is where its accounts are kept; see guard.Attempt.
	Directory string
	// Allowed says which accounts may enter here; nil: all. Others look
	// unknown.
	Allowed func(accounts.Login) bool
	// Hold is how long an attempt may be held until it is due (R15).
	Hold func() time.Duration
	// Secure says whether a client's cookies are for TLS only.
	Secure func(Client) bool
	Site   pages.Site
	Admin  bool
	Log    *slog.Logger
}

// Routes adds the door's paths.
func (l *Login) Routes(e *echo.Echo) {
	e.GET("/login", l.page)
	e.POST("/login", l.attempt)
	e.POST("/logout", l.leave)
}

// page is GET /login. While CAPTCHA mode is on the challenge is in it, unless
// the browser has a device cookie: then nothing is asked before the account is
// known.
func (l *Login) page(c echo.Context) error {
	client := l.Edge.Client(c.Request())
	view := l.view(c.QueryParam("next"), "")
	session, err := l.Sessions.Get(c)
	if err != nil { // whoever has no session can try to log in all the same
		l.Log.Error("the login page does not know whether somebody is logged in", "error", err)
	}
	if session != nil {
		view.SignedInAs = session.Account.Account
		return l.show(c, http.StatusOK, view)
	}
	if c.QueryParam("signed-out") != "" {
		view.Message.Kind = pages.SignedOut
	}
	if l.Guard.NeedsChallenge(client.Address) && !l.recognised(c.Request()) {
		challenge, err := l.Guard.Issue(c.Request().Context(), client.Address, false)
		if err != nil {
			return err
		}
		view.Challenge = shown(&challenge)
		if view.Message.Kind == pages.NoMessage {
			view.Message = pages.Message{Kind: pages.ChallengeAhead, Why: pages.WhySite}
		}
	}
	return l.show(c, http.StatusOK, view)
}

func (l *Login) recognised(r *http.Request) bool {
	for _, cookie := range devices(r) {
		if l.Guard.RecognisesDevice(cookie) {
			return true
		}
	}
	return false
}

func (l *Login) view(next, username string) pages.LoginView {
	view := pages.LoginView{Site: l.Site, Admin: l.Admin, Username: username}
	if next = localPath(next); next != "/" {
		view.Next = next
	}
	return view
}

func (l *Login) show(c echo.Context, status int, view pages.LoginView) error {
	return writePage(c, status, func(w io.Writer) error { return pages.RenderLogin(w, view) })
}

// leave is POST /logout.
func (l *Login) leave(c echo.Context) error {
	if err := l.Sessions.End(c, l.Edge.Client(c.Request())); err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, "/login?signed-out=1")
}

// attempt is POST /login, from the request to the answer.
func (l *Login) attempt(c echo.Context) error {
	r := c.Request()
	client := l.Edge.Client(r)
	f, err := readForm(c.Response(), r, "username", "password", "captcha_id", "captcha_answer", "next")
	if err != nil {
		return l.malformed(c, client, err)
	}
	a := guard.Attempt{
		Account: f["username"], Directory: l.Directory, Address: client.Address, Devices: devices(r),
		Solve:     challenge.Solve{ID: f["captcha_id"], Answer: f["captcha_answer"]},
		Forwarded: client.Forwarded, Hold: l.Hold(), Door: l.Door,
	}
	if why := unusable(f["password"]); why != "" && strings.TrimSpace(f["username"]) != "" {
		return l.invalid(c, http.StatusBadRequest, f, why)
	}
	d, err := l.Guard.Begin(r.Context(), a)
	if err != nil {
		l.Log.Error("attempt could not be decided", "error", err)
		return l.overloaded(c, f, time.Second)
	}
	if d.Action != guard.Proceed {
		return l.stopped(c, client, f, &d)
	}
	return l.check(c, client, f, &d)
}

// unusable says why a password cannot be anybody's.
func unusable(password string) string {
	switch {
	case password == "":
		return "Type your password."
	case len(password) > passwords.MaxBytes:
		return "Passwords here have at most 72 bytes. What you typed is longer, so it cannot be the password."
	}
	return ""
}

// errRechecked ends the check of a password that may not be looked at after
// all.
var errRechecked = errors.New("web: the attempt has to solve a challenge first")

// check looks at the password and settles.
func (l *Login) check(c echo.Context, client Client, f form, d *guard.Decision) error {
	ctx := c.Request().Context()
	login, ok, err := l.compare(ctx, f, d)
	if d.Action != guard.Proceed {
		if !errors.Is(err, errRechecked) {
			l.Log.Error("attempt could not be withdrawn", "error", err)
		}
		return l.stopped(c, client, f, d)
	}
	outcome := guard.OutcomeOf(ok)
	if err != nil {
		outcome = guard.Abandoned
	}
	if err := l.Guard.Settle(ctx, d.Ticket, outcome); err != nil {
		l.Log.Error("attempt could not be settled", "outcome", outcome, "error", err)
	}
	overload := new(passwords.Overload)
	switch {
	case errors.As(err, &overload):
		l.Guard.Shed(client.Address)
		return l.overloaded(c, f, overload.RetryAfter)
	case err != nil:
		l.Log.Error("password could not be checked", "error", err)
		return l.overloaded(c, f, time.Second)
	case !ok:
		return l.wrong(c, client, f)
	}
	if err := l.Sessions.Start(c, client, login); err != nil {
		return err
	}
	device, tag := l.Guard.Device(d.Ticket)
	setDevice(c, tag, device, l.Guard.Policy().Places.TTL, l.Secure(client))
	return l.welcome(c, f, login)
}

func (l *Login) compare(ctx context.Context, f form, d *guard.Decision) (accounts.Login, bool, error) {
	login, ok, err := l.Passwords.Check(ctx, d.Account, f["password"], d.Privileged, func() error {
		err := l.Guard.Recheck(ctx, d)
		if err == nil && d.Action != guard.Proceed {
			err = errRechecked
		}
		return err
	})
	return login, ok && (l.Allowed == nil || l.Allowed(login)), err
}

func (l *Login) welcome(c echo.Context, f form, login accounts.Login) error {
	next := localPath(f["next"])
	if WantsJSON(c.Request()) {
		return c.JSON(http.StatusOK, map[string]string{"account": login.Account, "next": next})
	}
	return c.Redirect(http.StatusSeeOther, next)
}

// wrong is 401. While the site asks everybody for a challenge the next one
// comes along.
func (l *Login) wrong(c echo.Context, client Client, f form) error {
	p := Problem{Type: WrongCredentials, Title: "Wrong user name or password", Status: http.StatusUnauthorized}
	view := l.view(f["next"], f["username"])
	view.Message.Kind = pages.WrongCredentials
	if l.Guard.NeedsChallenge(client.Address) && !l.recognised(c.Request()) {
		challenge, err := l.Guard.Issue(c.Request().Context(), client.Address, false)
		if err != nil {
			return err
		}
		p.Challenge, view.Challenge = &challenge, shown(&challenge)
	}
	return l.answer(c, p, view)
}

// stopped answers what the guard did not let through.
func (l *Login) stopped(c echo.Context, client Client, f form, d *guard.Decision) error {
	switch {
	case d.Reasons.Has(guard.BadAccountName):
		return l.invalid(c, http.StatusBadRequest, f, "Type your user name.")
	case d.Action == guard.Challenge:
		return l.challenge(c, client, f, d)
	}
	return l.slowDown(c, f, d.RetryAfter)
}

// challenge is 403 with a challenge.
func (l *Login) challenge(c echo.Context, client Client, f form, d *guard.Decision) error {
	challenge, err := l.Guard.Issue(c.Request().Context(), client.Address, d.Counted)
	if err != nil {
		return err
	}
	p := Problem{
		Type: ChallengeRequired, Title: "Solve the challenge and try again", Status: http.StatusForbidden,
		Detail: "The password was not looked at.", Challenge: &challenge,
	}
	view := l.view(f["next"], f["username"])
	view.Message = pages.Message{Kind: pages.ChallengeRequired, Why: whyChallenge(d)}
	if d.Reasons.Has(guard.ChallengeFailed) {
		view.Message.Kind = pages.ChallengeFailed
	}
	view.Challenge = shown(&challenge)
	return l.answer(c, p, view)
}

func whyChallenge(d *guard.Decision) pages.ChallengeWhy {
	for _, r := range d.Reasons.All() {
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

// slowDown is 429. Whether one has to wait or is refused looks the same.
func (l *Login) slowDown(c echo.Context, f form, after time.Duration) error {
	p := Problem{
		Type: SlowDown, Title: "Too many tries: wait before the next one", Status: http.StatusTooManyRequests,
		Detail: "The password was not looked at.", RetryAfter: setRetryAfter(c.Response().Header(), after),
	}
	return l.answer(c, p, l.waiting(f, pages.SlowDown, after))
}

// overloaded is 503.
func (l *Login) overloaded(c echo.Context, f form, after time.Duration) error {
	p := Problem{
		Type: OverloadedProblem, Title: "Too much to do right now: try again shortly", Status: http.StatusServiceUnavailable,
		Detail: "The password was not looked at.", RetryAfter: setRetryAfter(c.Response().Header(), after),
	}
	return l.answer(c, p, l.waiting(f, pages.Overloaded, after))
}

func (l *Login) waiting(f form, kind pages.MessageKind, after time.Duration) pages.LoginView {
	view := l.view(f["next"], f["username"])
	view.Message = pages.Message{Kind: kind, RetryAfter: after, RetryAt: time.Now().Add(after)}
	return view
}

// malformed answers a request that is no form. It counts for the address like
// an attempt without a name (R11).
func (l *Login) malformed(c echo.Context, client Client, err error) error {
	bad := new(badRequest)
	if !errors.As(err, &bad) {
		return err
	}
	if bad.status == http.StatusBadRequest {
		d, err := l.Guard.Begin(c.Request().Context(), guard.Attempt{Address: client.Address, Forwarded: client.Forwarded, Door: l.Door})
		if err == nil && d.Action != guard.Proceed && !d.Reasons.Has(guard.BadAccountName) {
			return l.stopped(c, client, form{}, &d)
		}
	}
	return l.invalid(c, bad.status, form{}, bad.text)
}

func (l *Login) invalid(c echo.Context, status int, f form, detail string) error {
	p := Problem{Type: InvalidRequest, Title: "The request cannot be used", Status: status, Detail: detail}
	view := l.view(f["next"], f["username"])
	view.Message = pages.Message{Kind: pages.InvalidInput, Detail: detail}
	return l.answer(c, p, view)
}

func (l *Login) answer(c echo.Context, p Problem, view pages.LoginView) error {
	if WantsJSON(c.Request()) {
		return WriteProblem(c, p)
	}
	return l.show(c, p.Status, view)
}

// shown is a challenge as the page shows it.
func shown(c *challenge.Challenge) *pages.Challenge {
	view := &pages.Challenge{ID: c.ID, Kind: pages.ChallengeImage, Image: c.Image, Audio: c.Audio}
	if c.PoW != nil {
		var b strings.Builder
		if err := json.NewEncoder(&b).Encode(c.PoW); err == nil {
			view.Kind, view.PoWJSON = pages.ChallengePoW, b.String()
		}
	}
	return view
}
