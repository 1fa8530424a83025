package proxy

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"authguard/captchamode/challenge"
	"authguard/guard"
	"authguard/internal/route"
	"authguard/web"
	"authguard/web/client"
	"authguard/web/pages"
)

// A form is the login form that a user sent.
type form struct {
	route.Form
	ours   bool // sent from our page
	sealed bool // and our page contained a sealed form
}

// Fields of our page.
const (
	sealedField = "authguard_form"
	nextField   = "authguard_next"
)

// unseal replaces our page's form by the login form that was sealed in it.
func (v *visit) unseal(r *http.Request) error {
	if !strings.Contains(string(v.sent.Body), sealedField+"=") || !strings.HasPrefix(v.sent.Type,
		"application/x-www-form-urlencoded") {
		return nil
	}
	fields, err := url.ParseQuery(string(v.sent.Body))
	if err != nil || len(fields[sealedField]) != 1 {
		return web.Unusable(http.StatusBadRequest, "problem.form")
	}
	answer := fields.Get(web.AnswerField(v.proxy.Widget.Load()))
	if answer == "" {
		answer = fields.Get("captcha_answer")
	}
	v.solution = challenge.Solution{ID: fields.Get("captcha_id"), Answer: answer, Work: fields.Get("captcha_work")}
	v.code, v.next = strings.TrimSpace(fields.Get("code")), fields.Get(nextField)
	v.sent = form{ours: true}
	text := fields.Get(sealedField)
	if text == "" {
		return nil
	}
	if v.sent.Form, err = v.proxy.forms.Open(text, r.URL.EscapedPath()); err != nil {
		return web.Unusable(http.StatusBadRequest, "problem.waited")
	}
	v.sent.sealed = true
	return nil
}

// solveCookie carries the solution of a challenge, solved before the app's form, to its attempt.
const solveCookie = "authguard_solve"

func (v *visit) solveCookie(value string, age int) *http.Cookie {
	return &http.Cookie{Name: solveCookie, Value: value, Path: "/", MaxAge: age, HttpOnly: true,
		SameSite: http.SameSiteLaxMode, Secure: v.proxy.Secure.Of(v.client)}
}

// keepSolution handles the page before the app's form: it stores the solution in a cookie and redirects to the
// requested page. The attempt checks the solution, since a check spends it (R17). A user who continues without a
// solution may be a known client.
func (v *visit) keepSolution(w http.ResponseWriter, r *http.Request) {
	text, err := json.Marshal(v.solution)
	if err != nil || len(text) > 2000 || !v.solution.Claimed() {
		text = nil
	}
	value := v.proxy.forms.Seal(route.Form{Body: text}, v.solvedBy())
	http.SetCookie(w, v.solveCookie(value, int(route.FormLives.Seconds())))
	web.SetHeaders(w.Header())
	next := web.LocalPath(v.next)
	if v.next == "" {
		next = r.URL.EscapedPath()
	}
	http.Redirect(w, r, next, http.StatusSeeOther)
}

// solvedBy is what the cookie is sealed for; a form is sealed for a path.
func (v *visit) solvedBy() string { return "solved by " + v.client.Address.String() }

// solved returns the solution in the cookie, and whether there is a valid cookie.
func (v *visit) solved(r *http.Request) (s challenge.Solution, ok bool) {
	cookie, err := r.Cookie(solveCookie)
	if err != nil {
		return s, false
	}
	kept, err := v.proxy.forms.Open(cookie.Value, v.solvedBy())
	if err == nil && len(kept.Body) > 0 {
		err = json.Unmarshal(kept.Body, &s)
	}
	return s, err == nil
}

// ahead shows a challenge before the app's login form, if CAPTCHA mode is on and the client has no device cookie. A
// provider's solution is too large for the cookie.
func (v *visit) ahead(w http.ResponseWriter, r *http.Request, routes route.Table) bool {
	page := routes.Page()
	if page == nil || r.Method != http.MethodGet || !wantsPage(r) ||
		web.AnswerField(v.proxy.Widget.Load()) != "captcha_answer" {
		return false
	}
	g := v.proxy.Guard(page.Name)
	if _, ok := v.solved(r); ok || !g.NeedsChallenge(v.client.Address) {
		return false
	}
	for _, device := range client.Devices(r) {
		if g.RecognisesDevice(device) {
			return false
		}
	}
	v.route, v.guard = page, g
	issued, err := g.Issue(
		r.Context(),
		guard.Attempt{Address: v.client.Address, Integration: v.integration()},
		guard.Decision{},
	)
	if err != nil {
		return false // the form does no harm: the attempt is stopped
	}
	p := web.Problem{Status: http.StatusOK, Challenge: &issued}
	v.gate(w, r, p, pages.GateView{Message: pages.Message{Kind: pages.ChallengeAhead, Why: pages.WhySite},
		Next: r.URL.RequestURI()})
	return true
}

// wantsPage reports whether a browser navigates to a page: not to an image, script or frame.
func wantsPage(r *http.Request) bool {
	to := r.Header.Get("Sec-Fetch-Dest")
	return !web.WantsJSON(r) && strings.Contains(r.Header.Get("Accept"), "text/html") && (to == "" || to == "document")
}

func (v *visit) stopped(w http.ResponseWriter, r *http.Request, c route.Credential, d guard.Decision, err error) {
	if d.Reasons.Has(guard.BadAccountName) {
		v.invalid(w, r, web.Unusable(http.StatusBadRequest, "problem.bad-name"))
		return
	}
	p, m := web.Stopped(&d)
	if err != nil {
		p, m = web.Overloaded(time.Second)
		if r.Context().Err() == nil {
			v.proxy.Log.Error("attempt could not be decided", "error", err)
		}
	}
	switch p.Type {
	case web.ChallengeRequired:
		issued, err := v.guard.Issue(r.Context(), guard.Attempt{Account: c.Account, Address: v.client.Address,
			Integration: v.integration()}, d)
		if err != nil {
			p, m = web.Overloaded(time.Second)
			break
		}
		p.Challenge, p.Solve = &issued, v.solveAt(r)
		p.Detail = "The password was not checked. Solve a challenge at " + p.Solve + " and sign in again. A program sends " +
			"the solution in the headers Authguard-Captcha-Id, Authguard-Captcha-Answer and, for a proof of work, " +
			"Authguard-Captcha-Work."
	case web.SlowDown:
		p.Solve = v.solveAt(r)
		p.Detail = "The password was not checked. On a new device you may need a verification code: send it in the header " +
			"Authguard-Code. See " + v.proxy.Base + "/login/code."
	}
	m.CodeFailed, m.Client = d.Reasons.Has(guard.CodeFailed), v.client.Address.String()
	v.gate(w, r, p, pages.GateView{Message: m, Account: c.Account, AskCode: true, Sealed: v.sealed(r)})
}

func (v *visit) sealed(r *http.Request) string {
	if len(v.sent.Body) == 0 {
		return ""
	}
	return v.proxy.forms.Seal(v.sent.Form, r.URL.EscapedPath())
}

// gate sends a problem, or our page with the same content.
func (v *visit) gate(w http.ResponseWriter, r *http.Request, p web.Problem, view pages.GateView) {
	web.SetHeaders(w.Header())
	if p.Challenge != nil {
		v.proxy.below(p.Challenge)
	}
	view.Action = r.URL.RequestURI()
	view.Challenge = web.Shown(w.Header(), p.Challenge, v.proxy.Widget.Load())
	v.answer(w, r, p, func() ([]byte, error) {
		view.Page = v.proxy.Look.Page(w.Header(), r)
		return pages.RenderGate(view)
	})
}

func (v *visit) answer(w http.ResponseWriter, r *http.Request, p web.Problem, draw func() ([]byte, error)) {
	if p.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(p.RetryAfter))
	}
	if p.Status >= http.StatusBadRequest && (web.WantsJSON(r) || !strings.Contains(r.Header.Get("Accept"), "html")) {
		_ = p.Write(w)
		return
	}
	page, err := draw()
	if err != nil {
		v.proxy.Log.Error("a page could not be rendered", "error", err)
		http.Error(w, p.Title, p.Status)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(page)))
	w.WriteHeader(p.Status)
	_, _ = w.Write(page)
}

// refuse answers a request that must not reach the app. At a route it counts against the IP address, like an attempt
// without a name (R11).
func (v *visit) refuse(w http.ResponseWriter, r *http.Request, err error) {
	p, refusal := web.Unusable(http.StatusBadRequest, "problem.body"), new(route.Refusal)
	if !errors.As(err, &p) && errors.As(err, &refusal) {
		p = web.Invalid("%s", refusal.Text)
		p.Status = refusal.Status
	}
	rest := v.route == nil || p.Status != http.StatusBadRequest // part of the body may be unread
	if v.route == nil && len(v.routes) > 0 && refusal.Text != "" {
		v.route = v.routes[0]
	}
	if v.route != nil {
		v.guard = v.proxy.Guard(v.route.Name)
		if d, stopped := v.guard.Unreadable(r.Context(), v.asks(r, route.Credential{})); stopped {
			v.stopped(w, r, route.Credential{}, d, nil)
			return
		}
	}
	if rest {
		w.Header().Set("Connection", "close")
	}
	v.invalid(w, r, p)
}

func (v *visit) invalid(w http.ResponseWriter, r *http.Request, p web.Problem) {
	web.SetHeaders(w.Header())
	v.answer(w, r, p, func() ([]byte, error) {
		page := v.proxy.Look.Page(w.Header(), r)
		return pages.RenderError(pages.ErrorView{Page: page, Status: p.Status, Detail: p.Words(page)})
	})
}

func (v *visit) down(w http.ResponseWriter, r *http.Request, why error) {
	web.SetHeaders(w.Header())
	p := web.Problem{Type: "about:blank", Title: "The app behind this proxy is not responding",
		Status: http.StatusBadGateway, RetryAfter: 5}
	if late(why) {
		p.Status = http.StatusGatewayTimeout
	}
	view := pages.DownView{Status: p.Status}
	if r.Method == http.MethodGet {
		view.Retry = web.LocalPath(r.URL.RequestURI()) // //elsewhere would be another host
	}
	v.answer(w, r, p, func() ([]byte, error) {
		view.Page = v.proxy.Look.Page(w.Header(), r)
		return pages.RenderDown(view)
	})
}

func late(err error) bool {
	timeout, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err)
	return ok && timeout.Timeout()
}
