package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"authguard/captchamode/challenge"
	"authguard/captchamode/challenge/remote"
	"authguard/guard"
	"authguard/web/client"
	"authguard/web/pages"
	"authguard/web/texts"
)

// A Problem is an error response (RFC 9457). Type is a bare word from the API contract. Handlers return a Problem as
// their error; the client gets JSON or a page, as it prefers.
type Problem struct {
	Type       string               `json:"type"`
	Title      string               `json:"title"`
	Status     int                  `json:"status"`
	Detail     string               `json:"detail,omitempty"`
	Challenge  *challenge.Challenge `json:"challenge,omitempty"`
	RetryAfter int                  `json:"retry_after,omitempty"` // in whole seconds, as in the header
	Login      string               `json:"login,omitempty"`       // the login page that leads back to the requested page
	Solve      string               `json:"solve,omitempty"`       // the page on which to solve a challenge
	Code       string               `json:"code,omitempty"`        // the verification code to send to the account's owner
	CodeSent   *bool                `json:"code_sent,omitempty"`   // the owner was sent one lately

	key    string // of Detail's text, which is its English; empty: not translated
	values []string
}

// Types of problems.
const (
	WrongCredentials  = "wrong-credentials"
	ChallengeRequired = "challenge-required"
	SlowDown          = "slow-down"
	OverloadedProblem = "overloaded"
	InvalidRequest    = "invalid-request"
	BadAccount        = "bad-account"
)

// Error returns the detail or, without one, the title.
func (p Problem) Error() string {
	if p.Detail == "" {
		return p.Title
	}
	return p.Detail
}

// Invalid is the problem of an invalid request (400) from a program or an administrator. It is not translated.
func Invalid(format string, args ...any) Problem {
	return Problem{Type: InvalidRequest, Title: "Invalid request", Status: http.StatusBadRequest,
		Detail: fmt.Sprintf(format, args...)}
}

// Unusable is the problem of an invalid request from a user: key and values are for package texts.
func Unusable(status int, key string, values ...string) Problem {
	p := refusal(status, key, values...)
	p.Type, p.Title = InvalidRequest, "Invalid request"
	return p
}

// refusal is a problem with the title of its status and a translated detail.
func refusal(status int, key string, values ...string) Problem {
	return Problem{
		Type: "about:blank", Title: http.StatusText(status), Status: status,
		Detail: texts.English().Say(key, values...), key: key, values: values,
	}
}

// Words returns the detail in the language of a page; empty if it exists in English only and the page is in another
// language.
func (p Problem) Words(page pages.Page) string {
	switch {
	case p.key != "":
		return page.T(p.key, p.values...)
	case page.Lang() == texts.English().Tag():
		return p.Detail
	}
	return ""
}

// Write sends the problem as problem+json.
func (p Problem) Write(w http.ResponseWriter) error {
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(p); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_, err := w.Write(b.Bytes())
	return err
}

// problemOf converts an error to a response that reveals no internals. The caller logs the error unless known.
func problemOf(err error) (p Problem, known bool) {
	p = Problem{Type: "about:blank", Status: http.StatusInternalServerError}
	he := new(echo.HTTPError)
	switch {
	case errors.As(err, &p):
		return p, true
	case errors.As(err, &he):
		p.Status, known = he.Code, true
		if text, ok := he.Message.(string); ok && text != http.StatusText(he.Code) {
			p.Detail = text
		}
	case errors.Is(err, ErrSessions):
		p.Status, p.RetryAfter = http.StatusServiceUnavailable, 1
	}
	p.Title = http.StatusText(p.Status)
	return p, known
}

func errorHandler(look *Look, log *slog.Logger) echo.HTTPErrorHandler {
	return func(err error, c echo.Context) {
		if c.Response().Committed {
			return
		}
		p, known := problemOf(err)
		if !known && !gone(c) {
			log.Error("request failed", "path", c.Path(), "error", err)
		}
		failed := answer(c, p, func() ([]byte, error) {
			page := look.Page(c.Response().Header(), c.Request())
			return pages.RenderError(pages.ErrorView{Page: page, Status: p.Status, Detail: p.Words(page)})
		})
		if failed != nil {
			log.Error("error page failed", "error", failed)
		}
	}
}

func answer(c echo.Context, p Problem, draw func() ([]byte, error)) error {
	if p.RetryAfter > 0 {
		c.Response().Header().Set("Retry-After", strconv.Itoa(p.RetryAfter))
	}
	if WantsJSON(c.Request()) {
		return p.Write(c.Response())
	}
	page, err := draw()
	return WritePage(c, p.Status, page, err)
}

func retryAfter(d time.Duration) int { return max(1, int(math.Ceil(d.Seconds()))) }

// WritePage sends a page, unless err is set.
func WritePage(c echo.Context, status int, page []byte, err error) error {
	if err != nil {
		return err
	}
	c.Response().Header().Set("Content-Length", strconv.Itoa(len(page))) // one piece, not chunks
	return c.HTMLBlob(status, page)
}

// viaCode describes the verification code, with which unknown clients can still sign in (R29).
const viaCode = "On a new device you may need a verification code: send it as code. See /login/code."

// wrong is 401, with the next challenge while CAPTCHA mode is on.
func (l *Login) wrong(t *try) (err error) {
	p := Problem{Type: WrongCredentials, Title: "Wrong user name or password", Status: http.StatusUnauthorized}
	p.Detail = "The password alone may not be enough. " + viaCode // no response reveals whether it was (R28)
	if p.Challenge, err = l.ahead(t.Request(), t.client); err != nil {
		return err
	}
	m := pages.Message{Kind: pages.WrongCredentials}
	if m.CodeSent = l.sendsCodes() && t.decision.MayNeedCode; m.CodeSent {
		p.Detail = "If the password was right, the account's owner has been emailed a verification code (at most one in ten " +
			"minutes, five a day). " + viaCode
	}
	return l.answer(t, p, m)
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
	case d.Action == guard.Challenge && d.Reasons.Has(guard.ChallengeFailed) && d.Verdict.Reason == challenge.Unchecked:
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
		Address: t.client.Address, Integration: l.Integration}, t.decision)
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
	case d.Verdict.Reason == challenge.Elsewhere || d.Verdict.Reason == challenge.TooLittle:
		return pages.WhyElsewhere
	}
	for _, r := range d.Reasons {
		switch {
		case r.Cause == guard.ModeOn || r.Cause == guard.StepUpNeeded:
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
	if m.CodeFailed = t.decision.Reasons.Has(guard.CodeFailed); m.CodeFailed {
		p.Detail = strings.TrimSpace(p.Detail + " " + texts.English().Say("message.code-failed"))
	}
	m.Client = t.client.Address.String()
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

func (l *Login) shown(to echo.Context, c *challenge.Challenge) pages.Challenge {
	return Shown(to.Response().Header(), c, l.widget())
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

// ahead returns the challenge that CAPTCHA mode requires; nil otherwise. A browser with a device cookie gets none
// before it names its account, which may need none.
func (l *Login) ahead(r *http.Request, from Client) (*challenge.Challenge, error) {
	return l.aheadOf(r, from, l.Integration)
}

func (l *Login) aheadOf(r *http.Request, from Client, integration string) (*challenge.Challenge, error) {
	if !l.Guard.NeedsChallenge(from.Address) {
		return nil, nil
	}
	for _, device := range client.Devices(r) {
		if l.Guard.RecognisesDevice(device) {
			return nil, nil
		}
	}
	issued, err := l.Guard.Issue(
		r.Context(),
		guard.Attempt{Address: from.Address, Integration: integration},
		guard.Decision{},
	)
	if errors.Is(err, guard.ErrChallenges) {
		return nil, nil // the form does no harm: the attempt is stopped
	}
	return below(r, &issued), err
}

func below(r *http.Request, c *challenge.Challenge) *challenge.Challenge {
	for _, path := range []*string{&c.Image, &c.Audio} {
		if *path != "" {
			*path = baseOf(r) + *path
		}
	}
	return c
}

func (l *Login) view(c echo.Context, next string) pages.LoginView {
	view := pages.LoginView{Page: l.Look.Page(c.Response().Header(), c.Request()), Admin: l.Admin,
		Resets: l.Resets != nil}
	if l.Passkeys != nil {
		site, ok := l.site(c.Request())
		view.Passkeys, view.PasskeysAt = ok, site.Elsewhere
	}
	if next = l.next(next); next != "/" {
		view.Next = next
	}
	return view
}

// draw renders the login page. Its form may lead to another host of the site.
func (l *Login) draw(c echo.Context, view pages.LoginView) ([]byte, error) {
	l.opens(c.Response().Header(), view.Next)
	return l.pages.Render(view)
}
