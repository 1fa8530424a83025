package mw

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"authguard/captchamode/challenge"
	"authguard/guard"
	"authguard/internal/route"
	"authguard/web/client"
)

type attempt struct {
	*endpoint
	client   client.Client
	request  *http.Request
	sent     route.Form         // the client's form
	sealed   bool               // the form came back with our page
	solution challenge.Solution // sent with the form
	code     string
	account  string
	beside   string // see route.Route.Beside
	decision guard.Decision

	mu     sync.Mutex // the handler may use another goroutine
	ended  bool
	note   string
	device func(http.Header) // sets the device cookie; nil: none
	sentAt int               // the status of the response; 0: none yet

	abandoned bool
	owed      string // the verification code to send; empty: none
}

func (d *endpoint) serve(w http.ResponseWriter, r *http.Request, login http.Handler) {
	if d.media(w, r) {
		return
	}
	a := &attempt{endpoint: d, client: d.client(r), request: r}
	if err := d.sameSite.Check(r); err != nil {
		a.answer(w, invalid(http.StatusForbidden, "The form was sent from another site."))
		return
	}
	offer, err := a.read(w, r)
	switch {
	case err != nil:
		a.malformed(w, err)
	case len(offer.Credentials) == 0:
		login.ServeHTTP(w, r) // no password
	default:
		a.begin(w, r, offer, login)
	}
}

// read finds account name and password, and restores the body.
func (a *attempt) read(w http.ResponseWriter, r *http.Request) (offer route.Offer, err error) {
	if r.Body != nil && r.Body != http.NoBody {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, route.SealedSize(a.body)))
		if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
			return offer, errTooLarge
		} else if err != nil {
			return offer, &route.Refusal{Status: http.StatusBadRequest, Text: "The request could not be read."}
		}
		a.sent = route.Form{Type: r.Header.Get("Content-Type"), Body: body}
		if err := a.unseal(r); err != nil {
			return offer, err
		}
		if int64(len(a.sent.Body)) > a.body {
			return offer, errTooLarge
		}
		a.sent.Restore(r)
	}
	if !a.sealed {
		h := r.Header
		a.code = h.Get("Authguard-Code")
		a.solution = challenge.Solution{ID: h.Get("Authguard-Captcha-Id"), Answer: h.Get("Authguard-Captcha-Answer"),
			Work: h.Get("Authguard-Captcha-Work")}
	}
	at, offer, err := a.routes.Find(r, a.sent.Body)
	if len(offer.Credentials) > 0 {
		a.beside = at.Beside(r, a.sent.Body)
	}
	return offer, err
}

var errTooLarge = &route.Refusal{Status: http.StatusRequestEntityTooLarge, Text: "This form is too large."}

// Fields of our page.
const (
	sealedField = "authguard_form"
	answerField = "captcha_answer"
	idField     = "captcha_id"
	workField   = "captcha_work"
	codeField   = "code"
)

// unseal replaces our page's form by the login form that was sealed in it.
func (a *attempt) unseal(r *http.Request) error {
	if !strings.HasPrefix(string(a.sent.Body), sealedField+"=") || !strings.HasPrefix(a.sent.Type,
		"application/x-www-form-urlencoded") {
		return nil
	}
	fields, err := url.ParseQuery(string(a.sent.Body))
	if err == nil && len(fields[sealedField]) == 1 {
		a.sent, err = a.forms.Open(fields.Get(sealedField), r.URL.EscapedPath())
	}
	if err != nil || len(a.sent.Body) == 0 {
		return &route.Refusal{Status: http.StatusBadRequest,
			Text: "The form has expired. Go back, fill it in again and send it."}
	}
	a.sealed, a.code = true, strings.TrimSpace(fields.Get(codeField))
	a.solution = challenge.Solution{ID: fields.Get(idField), Answer: fields.Get(answerField), Work: fields.Get(workField)}
	r.Header.Set("Content-Type", a.sent.Type)
	return nil
}

// begin begins the attempt and calls the handler if the password may be checked.
func (a *attempt) begin(w http.ResponseWriter, r *http.Request, offer route.Offer, login http.Handler) {
	one := offer.Credentials[0]
	a.account = one.Account
	ask := a.asks()
	ask.Solution, ask.VerificationCode = a.solution, a.code
	if one.Password != "" {
		ask.PasswordTag, ask.PasswordLeaked = a.guard.Fingerprint(one.Password), a.guard.Leaked(one.Password)
		ask.BesideTag = a.guard.Beside(one.Password, a.beside)
	}
	d, _, err := a.guard.Login(r.Context(), ask, func(_ context.Context, d *guard.Decision) (bool, error) {
		a.decision = *d
		a.check(w, r, offer, login)
		return false, nil
	})
	switch a.decision = d; {
	case err != nil && !d.Checks():
		if r.Context().Err() == nil {
			a.log.Error("attempt could not be decided", "error", err)
		}
		a.answer(w, overloaded())
	case !d.Checks():
		a.stopped(w)
	}
}

var errSignedIn = &route.Refusal{
	Status: http.StatusConflict, Text: "You are already signed in. Sign out first, and then sign in again. The password " +
		"was not checked.",
}

func (a *attempt) asks() guard.Attempt {
	return guard.Attempt{
		Account: a.account, Address: a.client.Address, Devices: client.Devices(a.request),
		Forwarded: a.client.Forwarded, Hold: a.hold, Integration: a.name,
		Fingerprint: a.guard.Identity(a.identity(a.request)), WantsCode: a.onCode != nil,
	}
}

// asksForCode reports whether the client is asked for a verification code if the login does not succeed: after wrong
// passwords, too, and those that are not known from leaks.
func (a *attempt) asksForCode() bool {
	return a.onCode != nil && a.decision.Action == guard.Proceed && (a.decision.Insufficient || a.decision.MayNeedCode)
}

func (a *attempt) succeeded() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.device != nil
}

type attemptKey struct{}

// check lets the handler check the password. The response is judged if the handler returns without reporting an
// outcome.
func (a *attempt) check(w http.ResponseWriter, r *http.Request, offer route.Offer, login http.Handler) {
	if a.decision.Insufficient && !a.asksForCode() { // the handler finds a sprayed password (R28) wrong
		a.sent.Body = offer.Spoil(r, a.sent.Body,
			route.Credential{Password: guard.Decoy(offer.Credentials[0].Password)})
		if len(a.sent.Body) > 0 {
			a.sent.Restore(r)
		}
	}
	if a.signedIn != nil && a.signedIn(r) { // checked last: another request may have signed in meanwhile
		_ = a.end(guard.Withdrawn)
		a.account = ""
		a.malformed(w, errSignedIn)
		return
	}
	outcome := guard.Failed
	defer func() { _ = a.end(outcome) }() // also after a panic, which goes on
	answer := newWriter(w, a)
	login.ServeHTTP(answer, r.WithContext(context.WithValue(r.Context(), attemptKey{}, a)))
	switch {
	case answer.hijacked:
	case a.status() == 0: // the context ended, or another middleware writes the error that the handler returned
		a.addDevice(answer.Header())
		answer.withhold()
	default:
		outcome = a.says(a.status(), answer.Header())
	}
	if a.asksForCode() && !a.succeeded() {
		_ = a.end(outcome)
		a.codeRequired(w)
	}
}

// codeRequired answers right and wrong passwords alike, and then sends the code that is owed after a right one.
func (a *attempt) codeRequired(w http.ResponseWriter) {
	a.mu.Lock()
	code, abandoned := a.owed, a.abandoned
	a.mu.Unlock()
	if abandoned {
		a.answer(w, overloaded())
		return
	}
	f := problem("code-required", "Wrong user name or password, or a verification code is required", http.StatusForbidden,
		"code")
	f.Detail = "If the password was right, the account's owner was sent a verification code, at most one in ten minutes."
	a.answer(w, f)
	if code != "" {
		go a.onCode(context.WithoutCancel(a.request.Context()), a.decision.Account, code)
	}
}

// notified is the default judge of a response when the handler reports no outcome.
func notified(status int, _ http.Header) guard.Outcome {
	switch status {
	case http.StatusBadGateway, http.StatusServiceUnavailable:
		return guard.Abandoned
	}
	return guard.Failed
}

// says judges the handler's response. A CORS handler answers OPTIONS whatever the Authorization header contains.
func (a *attempt) says(status int, h http.Header) guard.Outcome {
	o := a.judge(status, h)
	if o == guard.Succeeded && a.request.Method == http.MethodOptions {
		return guard.Withdrawn
	}
	return o
}

// answered runs when the status is known and before it is sent. An attempt that has succeeded by then gets its device
// cookie; any other outcome can wait until the handler returns.
func (a *attempt) answered(status int, h http.Header) {
	a.mu.Lock()
	first := a.sentAt == 0
	if first {
		a.sentAt = status
	}
	a.mu.Unlock()
	if !first {
		return
	}
	if a.says(status, h) == guard.Succeeded {
		_ = a.end(guard.Succeeded)
	}
	a.addDevice(h)
}

func (a *attempt) addDevice(h http.Header) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.device != nil {
		a.device(h)
	}
}

func (a *attempt) status() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sentAt
}

// end settles the attempt, once. If the client has hung up, an abandoned check counts as failed: the attacker has
// guessed (R1).
func (a *attempt) end(o guard.Outcome) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return guard.ErrSettled
	}
	a.ended = true
	ctx := a.request.Context()
	if o == guard.Abandoned && errors.Is(ctx.Err(), context.Canceled) {
		o = guard.Failed
	}
	a.abandoned = o == guard.Abandoned
	ticket := a.decision.Ticket
	ticket.Note = a.note
	err := a.guard.Settle(ctx, ticket, o)
	if required := new(guard.CodeRequired); errors.As(err, &required) {
		a.owed = required.Code
	} else if err != nil && !errors.Is(err, guard.ErrInsufficient) {
		a.log.Error("attempt could not be settled", "outcome", o, "error", err)
	}
	if err == nil && o == guard.Succeeded {
		cookie, tag, ttl := a.guard.Device(ticket)
		a.device = func(h http.Header) { client.SetDevice(h, a.request, tag, cookie, ttl, a.client.Secure) }
	}
	return err
}

func attemptOf(r *http.Request) *attempt {
	a, _ := r.Context().Value(attemptKey{}).(*attempt)
	return a
}

// ErrUnprotected means that the request did not pass through Protect, or contained no password.
var ErrUnprotected = errors.New("mw: this request did not come through a handler made by Protect")

// Succeeded reports that the password was correct and the user is signed in; call it before the response begins. The
// client becomes a known client, and the response gets the device cookie (R14). On an error do not sign the user in.
// The errors are:
//
//   - [guard.ErrSettled]: another outcome was reported before.
//   - [guard.ErrInsufficient]: the password is not enough (R28, R32). The handler has received a different one and finds
//     it wrong, or, with OnVerificationCode, its response is discarded.
//   - [ErrUnprotected].
//   - Any other error is the store's: answer 503.
func Succeeded(r *http.Request) error { return say(r, guard.Succeeded) }

// Failed reports that the password was wrong. This is also the default.
func Failed(r *http.Request) { _ = say(r, guard.Failed) }

// Abandoned reports that the password was not checked, because a database failed or the server is overloaded. Nothing
// is charged (R27). Answer correct and wrong passwords alike then; otherwise an attacker guesses for free.
func Abandoned(r *http.Request) { _ = say(r, guard.Abandoned) }

func say(r *http.Request, o guard.Outcome) error {
	a := attemptOf(r)
	if a == nil {
		return ErrUnprotected
	}
	return a.end(o)
}

// Note adds a text to the attempt's event for the audit log: guard.Event.Note. The last one before the attempt is
// settled counts.
func Note(r *http.Request, text string) {
	if a := attemptOf(r); a != nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.note = text
	}
}

// Decision returns the guard's decision on the request's attempt, with the normalized account name and whether the
// client is known. ok is false for a request without an attempt.
func Decision(r *http.Request) (d guard.Decision, ok bool) {
	a := attemptOf(r)
	if a == nil {
		return d, false
	}
	return a.decision, true
}

func (d *endpoint) media(w http.ResponseWriter, r *http.Request) bool {
	name, ext, ok := strings.Cut(r.URL.Query().Get(mediaField), ".")
	if !ok {
		return false
	}
	setHeaders(w.Header(), "")
	m, err := d.guard.Picture(r.Context(), name, ext)
	switch {
	case errors.Is(err, challenge.ErrGone):
		http.Error(w, "This challenge has expired.", http.StatusNotFound)
	case err != nil:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "The server is busy: try again shortly.", http.StatusServiceUnavailable)
	default:
		w.Header().Set("Content-Type", m.Type)
		_, _ = w.Write(m.Body)
	}
	return true
}

const mediaField = "authguard_media"

const retryLater = time.Second
