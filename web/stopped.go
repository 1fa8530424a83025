package web

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"authguard/captchamode/challenge"
	"authguard/captchamode/challenge/remote"
	"authguard/guard"
	"authguard/web/pages"
	"authguard/web/texts"
)

// viaCode describes the verification code, with which unknown clients can still sign in (R29).
const viaCode = "On a new device you may need a verification code: send it as code. See /login/code."

// wrong is 401, with the next challenge while CAPTCHA mode is on.
func (l *Login) wrong(t *try) (err error) {
	p := Problem{Type: WrongCredentials, Title: "Wrong user name or password", Status: http.StatusUnauthorized}
	p.Detail = "The password alone may not be enough. " + viaCode // no response reveals whether it was (R28)
	if p.Challenge, err = l.ahead(t.Request(), t.client); err != nil {
		return err
	}
	return l.answer(t, p, pages.Message{Kind: pages.WrongCredentials})
}

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

// Stopped converts a decision that stops an attempt to a problem and a page message. The caller issues a required
// challenge. Delay and block look the same to the client.
func Stopped(d *guard.Decision) (Problem, pages.Message) {
	switch {
	case d.Action == guard.Challenge && d.Reasons.Has(guard.ChallengeFailed) && d.Solve.Reason == challenge.Unchecked:
		return Overloaded(time.Second) // the solution may have been correct
	case d.Action == guard.Challenge:
		m := pages.Message{Kind: pages.ChallengeRequired, Why: whyChallenge(d)}
		if d.Reasons.Has(guard.ChallengeFailed) && m.Why != pages.WhyElsewhere && m.Why != pages.WhyWork {
			m.Kind = pages.ChallengeFailed
		}
		return Problem{Type: ChallengeRequired, Title: "Solve the challenge and try again", Status: http.StatusForbidden,
			Detail: unseen}, m
	}
	kind := pages.SlowDown
	switch {
	case d.Reasons.Has(guard.TooManyPictures):
		kind = pages.PicturesWait
	case d.Reasons.Has(guard.BlockedByAdmin):
		kind = pages.Blocked // the user must know that waiting does not help
	}
	p := Problem{Type: SlowDown, Title: "Too many attempts: wait before the next one", Status: http.StatusTooManyRequests,
		Detail: unseen + " " + viaCode}
	return later(p, kind, d.RetryAfter)
}

const unseen = "The password was not checked."

// Overloaded is 503.
func Overloaded(after time.Duration) (Problem, pages.Message) {
	p := Problem{Type: OverloadedProblem, Title: "The server is busy: try again shortly",
		Status: http.StatusServiceUnavailable, Detail: unseen}
	return later(p, pages.Overloaded, after)
}

func later(p Problem, kind pages.MessageKind, after time.Duration) (Problem, pages.Message) {
	p.RetryAfter = retryAfter(after)
	return p, pages.Message{Kind: kind, RetryAfter: after, RetryAt: time.Now().Add(after)}
}

func (l *Login) challenge(t *try, p Problem, m pages.Message) error {
	issued, err := l.Guard.Issue(t.Request().Context(), guard.Attempt{Account: t.form["username"],
		Address: t.client.Address, Integration: l.Door}, t.decision)
	if err != nil {
		return err
	}
	p.Challenge = below(t.Request(), &issued)
	return l.answer(t, p, m)
}

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

// malformed answers a request that cannot be read as a form. An invalid form (400) counts against the IP address, like
// an attempt without a name (R11).
func (l *Login) malformed(t *try, err error) error {
	var p Problem
	if !errors.As(err, &p) {
		return err
	}
	if p.Status == http.StatusBadRequest && l.unreadable(t) {
		return l.stopped(t)
	}
	return l.invalid(t, p)
}

// unreadable counts a request without a name, and reports whether a limit stops it.
func (l *Login) unreadable(t *try) (stopped bool) {
	t.decision, stopped = l.Guard.Unreadable(t.Request().Context(), l.asks(t, t.client, ""))
	return stopped
}

func (l *Login) invalid(t *try, p Problem) error {
	return l.answer(t, p, pages.Message{Kind: pages.InvalidInput})
}

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

// widget returns the provider whose widget is shown, or nil. The admin console shows the image CAPTCHA instead: no
// third-party script runs where administrators type their passwords.
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

// AnswerField is the form field of a provider's token, or of the CAPTCHA's digits if widget is nil or its provider is
// not in use.
func AnswerField(widget *remote.Provider) string {
	const digits = "captcha_answer"
	if widget == nil {
		return digits
	}
	service, _ := widget.Service()
	return cmp.Or(service.Field, digits)
}

// Shown is a challenge in the form that pages need; zero for nil. For a provider's widget it sets a
// Content-Security-Policy in h that allows the provider.
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
