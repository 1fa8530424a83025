package proxy

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"authguard/captchamode/challenge"
	"authguard/guard"
	"authguard/internal/route"
	"authguard/web"
	"authguard/web/client"
)

type visit struct {
	proxy  *Proxy
	app    *app
	client web.Client

	// For guarded requests only:
	in     *http.Request // as received; the app's request lacks our cookies
	routes route.Table   // at the path
	route  *route.Route
	guard  *guard.Guard
	answers
	sent     form   // the client's form
	beside   []byte // the body beside a password in a header
	attempts []guard.Decision
	progress
	large  bool // the request is larger than a login
	script bool // the response gets our script, if it is a page
	proof  proof
	probe  *probe // not nil: a request of the proxy itself (probe.go)
}

// progress is how far a request has come.
type progress struct {
	reached atomic.Bool // the request has reached the app
	settled bool
	judged  func() // called once the response is judged; the rest of it may take long
}

// answers are what our own page sent with the form.
type answers struct {
	solution challenge.Solution
	code     string
}

type visitKey struct{}

func visitOf(ctx context.Context) *visit {
	v, _ := ctx.Value(visitKey{}).(*visit)
	return v
}

// guarded serves a request to a guarded path and returns true. For a request without a password it returns false, and
// the caller streams the request with the restored body.
func (v *visit) guarded(w http.ResponseWriter, r *http.Request, routes route.Table) bool {
	v.routes = routes
	if err := v.read(w, r, routes); err != nil {
		v.refuse(w, r, err)
		return true
	}
	if strings.HasPrefix(r.URL.EscapedPath(), "//") { // a link in our page would lead to another host
		v.refuse(w, r, &route.Refusal{Status: http.StatusBadRequest, Text: oddPath})
		return true
	}
	one, offer, err := routes.Find(r, v.sent.Body)
	if one != nil && v.large {
		err = tooLarge
	}
	if err != nil {
		v.route = one
		v.refuse(w, r, err)
		return true
	}
	if one == nil {
		return routes.Single() && v.otherForm(w, r)
	}
	v.route, v.guard = one, v.proxy.Guard(one.Name)
	if offer, err = v.ofCode(r, offer); err != nil {
		v.refuse(w, r, err)
		return true
	}
	v.attempt(w, r, offer)
	return true
}

// otherForm serves another form at a single path. It may sign in, like the code after a password.
func (v *visit) otherForm(w http.ResponseWriter, r *http.Request) bool {
	if r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions {
		return false
	}
	if leave, ok := v.enter(w, r, ""); ok {
		defer leave()
		v.send(w, r, v.app.Patience)
	}
	return true
}

// enter enters the request among its rivals until leave; if it cannot, it answers.
func (v *visit) enter(w http.ResponseWriter, r *http.Request, account string) (leave func(), ok bool) {
	keepCookies(r.Header, func(part string) bool { return v.proxy.rivals.onlyASCII([]string{part}, new(url.URL)) })
	one, err := v.proxy.rivals.enter(account, r.Header["Cookie"], r.URL)
	if err == nil && v.app.Routes.SecondFactor() {
		err = v.proxy.mayNote(r)
	}
	if err != nil {
		v.proxy.rivals.leave(one, false)
		v.settle(guard.Withdrawn)
		v.refuse(w, r, err)
		return nil, false
	}
	v.proof.rival = one
	return func() { v.proxy.rivals.leave(one, v.reached.Load()) }, true
}

// whose returns what tells an attempt apart from its rivals: the realm, the route, which may have user names of its
// own, and the account. The session of a code may have several accounts.
func (v *visit) whose(offer route.Offer) string {
	if v.route.SecondFactor() {
		return ""
	}
	return v.proxy.Base + " " + v.route.Name + " " + offer.Credentials[0].Account
}

// read reads a body that may contain a password. A body too large for a form is streamed where it cannot be a login.
func (v *visit) read(w http.ResponseWriter, r *http.Request, routes route.Table) error {
	limit := v.app.MaxBody
	switch {
	case r.Body == nil || r.Body == http.NoBody:
		return nil
	case !routes.MayRead() && 0 < r.ContentLength && r.ContentLength <= limit:
		var err error
		if v.beside, err = io.ReadAll(r.Body); err == nil {
			r.Body = io.NopCloser(bytes.NewReader(v.beside))
			return nil
		}
		return web.Unusable(http.StatusBadRequest, "problem.body")
	case !routes.MayRead():
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, limit+1))
	if err == nil && int64(len(body)) > limit && bytes.HasPrefix(body, []byte(sealedField+"=")) {
		limit = route.SealedSize(limit) // a form that was not too large before it was sealed
		var rest []byte
		rest, err = io.ReadAll(io.LimitReader(r.Body, limit+1-int64(len(body))))
		body = append(body, rest...)
	}
	if err != nil {
		return web.Unusable(http.StatusBadRequest, "problem.body") // the client has hung up
	}
	if v.large = int64(len(body)) > limit; v.large {
		if routes.Single() {
			return tooLarge
		}
		// A login is small; an upload is scanned as it streams.
		all := io.MultiReader(bytes.NewReader(body), r.Body)
		r.Body = struct {
			io.Reader
			io.Closer
		}{routes.Watch(r, all), r.Body}
		return nil
	}
	v.sent.Form = route.Form{Type: r.Header.Get("Content-Type"), Body: body}
	if err := v.unseal(r); err != nil {
		return err
	}
	v.sent.restore(r)
	return nil
}

var tooLarge = &route.Refusal{Status: http.StatusRequestEntityTooLarge, Text: "This form is too large."}

func (f *form) restore(r *http.Request) {
	f.Restore(r)
	if f.sealed {
		r.Header.Set("Content-Type", f.Type)
	}
}

// attempt begins an attempt for each credential, one inside the other, and forwards the request if all of them may be
// checked.
func (v *visit) attempt(w http.ResponseWriter, r *http.Request, offer route.Offer) {
	at := len(v.attempts)
	if at == len(offer.Credentials) {
		v.forward(w, r, offer)
		return
	}
	c := offer.Credentials[at]
	a := v.asks(r, c)
	if at == 0 {
		v.in = r
		if !v.route.Basic() && fromScript(r) {
			v.proxy.scripted.Store(true)
		}
		v.presented(r)
		if v.code == "" {
			v.code = v.proxy.codeFor(v.guard, a)
		}
		a.Solution, a.VerificationCode = v.solution, v.code // one solution, one attempt (R17)
	}
	next := func(_ context.Context, d *guard.Decision) (bool, error) {
		v.attempts = append(v.attempts, *d)
		v.attempt(w, r, offer)
		return false, nil
	}
	d, _, err := v.guard.Login(r.Context(), a, next)
	if at == 0 && err == nil && !d.Checks() && a.VerificationCode == "" {
		if a.Solution, err = v.guard.SolvedAhead(r.Context(), a, d); a.Solution.Claimed() && err == nil {
			d, _, err = v.guard.Login(r.Context(), a, next)
		}
	}
	if !d.Checks() {
		v.settle(guard.Abandoned)
		v.stopped(w, r, c, d, err)
	}
}

// forward forwards the request. Its attempts are settled before the response reaches the client.
func (v *visit) forward(w http.ResponseWriter, r *http.Request, offer route.Offer) {
	leave, ok := v.enter(w, r, v.whose(offer))
	if !ok {
		return
	}
	defer leave()
	if !v.decides(w, r, offer) {
		return
	}
	v.proof.offer = offer
	if err := v.tries(offer); err != nil {
		v.settle(guard.Withdrawn)
		v.refuse(w, r, err)
		return
	}
	if slices.ContainsFunc(v.attempts, func(d guard.Decision) bool { return d.Insufficient }) {
		if offer.Credentials[0].Password == "" { // a code cannot be replaced
			v.settle(guard.Failed)
			v.stopped(w, r, offer.Credentials[0], guard.Decision{Action: guard.Block, RetryAfter: time.Minute}, nil)
			return
		}
		v.proof.offer.Spoil = nil
		// A sprayed password (R28) and a fake failure are answered like a wrong one.
		v.sent.Body = offer.Spoil(r, v.sent.Body, route.Credential{Password: rand.Text()})
		v.sent.restore(r)
	}
	v.send(w, r, v.app.Timeout)
}

func (v *visit) asks(r *http.Request, c route.Credential) guard.Attempt {
	a := guard.Attempt{
		Account: c.Account, Address: v.client.Address, Devices: client.Devices(r), Forwarded: v.client.Forwarded,
		Fingerprint: v.guard.Identity(v.proxy.Identity.Of(r)),
		Hold:        time.Duration(v.proxy.Hold.Load()), Integration: v.integration(),
	}
	if c.Password != "" {
		a.PasswordTag, a.PasswordLeaked = v.guard.Fingerprint(c.Password), v.guard.Leaked(c.Password)
		a.BesideTag = v.guard.Beside(c.Password, v.route.Beside(r, slices.Concat(v.sent.Body, v.beside)))
	}
	return a
}

// integration returns the route's name as an integration, for events and metrics.
func (v *visit) integration() string { return integration(v.route.Name) }

func integration(route string) string { return "proxy/" + route }

// send forwards the request and judges the response. A client that hangs up has still guessed, or signed in, so the
// proxy waits for the app's response, up to the time limit.
func (v *visit) send(w http.ResponseWriter, r *http.Request, limit time.Duration) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.Context()))
	defer cancel(nil)
	late := time.AfterFunc(limit, func() { cancel(context.DeadlineExceeded) })
	defer late.Stop()
	v.proof.ctx, v.proof.late = ctx, late
	v.judged = func() { // the rest is a stream or download, and ends with its client
		late.Stop()
		context.AfterFunc(r.Context(), func() { cancel(context.Canceled) })
	}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { v.reached.Store(true) }})
	v.app.stream(w, r.WithContext(ctx))
}

// answered judges the app's response to a guarded request before any of it reaches the client.
func answered(answer *http.Response) error {
	v := visitOf(answer.Request.Context())
	v.sealCookies(answer.Header)
	v.proxy.rivals.sets(answer.Header["Set-Cookie"])
	v.proxy.rivals.judge(v.proof.rival, true)
	v.renews(answer)
	switch {
	case v.probe != nil:
		return v.probe.answered(v, answer)
	case v.route == nil && v.judged != nil: // another form
		v.judged()
		return nil
	case v.route == nil:
		v.proxy.rivals.redirects(v.in, answer)
		if v.script {
			return v.insert(answer)
		}
		return nil
	}
	a := route.Answer{Status: answer.StatusCode, Header: answer.Header, Whole: true, Own: v.in.URL.EscapedPath()}
	if v.route.NeedsBody() {
		if err := v.peek(answer, &a); err != nil {
			return err
		}
	}
	v.proof.asksCode = v.route.AsksCode(a)
	outcome := [...]guard.Outcome{route.Failed: guard.Failed, route.Succeeded: guard.Succeeded,
		route.Abandoned: guard.Abandoned}[v.route.Judge(a)]
	switch {
	case outcome == guard.Abandoned && !((answer.StatusCode/100 != 5 || v.away()) && v.staysFree()):
		outcome = guard.Failed
	case outcome != guard.Succeeded:
	case v.proof.basis == route.Unclear && v.unknown(): // else the answer would tell a right password for free
		outcome = guard.Failed
	case v.proof.basis != route.OnPassword:
		outcome = guard.Withdrawn
	case len(v.attempts) > 1: // the success may be that of another account in the same request
		outcome = guard.Failed
	case v.route.Blank(v.proof.offer), v.route.Echoes(v.in, v.sent.Body), v.route.Continues(v.in, v.sent.Body),
		!v.proves(answer): // it may have been checked
		outcome = guard.Failed
		if v.proof.otherCause && v.staysFree() {
			outcome = guard.Withdrawn
		}
	case !v.route.SecondFactor():
		v.notes(answer)
		if v.proof.asksCode && !v.route.Sibling { // the code makes the client known
			outcome = guard.Withdrawn
			v.carries()
		}
	}
	if outcome == guard.Succeeded && v.route.Sibling {
		outcome = guard.Withdrawn
	}
	v.settle(outcome)
	v.judged()
	if outcome == guard.Succeeded && v.route.StartsSession() {
		v.proxy.rivals.signsIn(v.in, answer)
	}
	if outcome == guard.Succeeded && !v.shared(answer) {
		for _, d := range v.attempts {
			device, tag, ttl := v.guard.Device(d.Ticket)
			client.SetDevice(answer.Header, v.in, tag, device, ttl, v.proxy.Secure.Of(v.client))
		}
	}
	return nil
}

// away reports whether the app is down for anonymous clients, too. That question has its own time limit.
func (v *visit) away() bool {
	v.proof.late.Reset(v.app.Timeout)
	return v.route.Away(v.in.WithContext(v.proof.ctx), v.ask)
}

// staysFree reports whether an attempt whose password seems unchecked stays uncharged: three per account in an hour. A
// gateway may answer every GET like this, or mark its servers as failed because of what the client sent. An app may
// check a password before it answers with its lockout (django-axes).
func (v *visit) staysFree() bool {
	free, now := true, v.proxy.Now()
	for _, d := range v.attempts {
		one, ok := v.proxy.outages.Get(d.Account)
		if !ok && v.proxy.outages.Len() == mostOutages {
			if _, oldest, _ := v.proxy.outages.GetOldest(); now.Sub(oldest.since) <= time.Hour {
				free = false
				continue
			}
		}
		if now.Sub(one.since) > time.Hour {
			one = outage{since: now}
		}
		one.attempts++
		v.proxy.outages.Add(d.Account, one)
		free = free && one.attempts <= mostFree
	}
	return free
}

// An outage counts an account's uncharged attempts.
type outage struct {
	since    time.Time
	attempts int
}

const (
	mostFree    = 3
	mostOutages = 10_000 // accounts in an hour; attempts at further ones are charged, since names cost nothing
)

// shared reports whether caches may store the response for everyone (RFC 9111, 3 and 3.5): it must not contain a device
// cookie. Without one of these directives no cache stores the response to a request with a password.
func (v *visit) shared(answer *http.Response) bool {
	control := strings.ToLower(strings.Join(answer.Header.Values("Cache-Control"), ","))
	has := func(directive string) bool { return strings.Contains(control, directive) }
	return !has("no-store") && !has("private") &&
		(has("public") || has("s-maxage") || has("must-revalidate") && v.in.Header.Get("Authorization") != "")
}

// maxJudged is how much of a response body is judged, in bytes.
const maxJudged = 1 << 20

// peek reads the beginning of the response body and puts it back.
func (v *visit) peek(answer *http.Response, a *route.Answer) (err error) {
	a.Body, err = io.ReadAll(io.LimitReader(answer.Body, maxJudged+1))
	if err != nil {
		return err
	}
	a.Whole = len(a.Body) <= maxJudged && answer.Header.Get("Content-Encoding") == ""
	answer.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(a.Body), answer.Body), answer.Body}
	return nil
}

// failed answers for an app that does not respond. A request that never reached the app is not charged. One that
// reached it is: its password may have been checked, and an app that delays wrong passwords must not make guesses free.
func failed(w http.ResponseWriter, r *http.Request, err error) {
	v := visitOf(r.Context())
	if v.probe != nil {
		v.probe.err = err
		return
	}
	outcome := guard.Failed
	if !v.reached.Load() {
		outcome = guard.Abandoned
	}
	v.settle(outcome)
	if refusal, ok := errors.AsType[*route.Refusal](err); ok { // found while streaming the body
		v.refuse(w, r, refusal)
		return
	}
	if r.Context().Err() == nil || v.route != nil {
		v.proxy.Log.Error("the app behind the proxy does not respond", "upstream", v.app.Upstream.Redacted(), "error", err)
	}
	v.down(w, r, err)
}

func (v *visit) settle(o guard.Outcome) {
	if v.settled {
		return
	}
	v.settled = true
	for _, d := range v.attempts {
		d.Ticket.Note = v.proof.note
		if err := v.guard.Settle(context.Background(), d.Ticket, o); err != nil && !errors.Is(err, guard.ErrInsufficient) {
			v.proxy.Log.Error("attempt could not be settled", "outcome", o, "error", err)
		}
	}
}

// presented reads the solution and the verification code from our page, or from a script's headers.
func (v *visit) presented(r *http.Request) {
	if v.sent.sealed {
		return
	}
	h := r.Header
	v.code = h.Get("Authguard-Code")
	v.solution = challenge.Solution{ID: h.Get("Authguard-Captcha-Id"), Answer: h.Get("Authguard-Captcha-Answer"),
		Work: h.Get("Authguard-Captcha-Work")}
}
