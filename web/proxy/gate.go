package proxy

import (
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
	"authguard/web/pages"
)

// A form is the login form that a user sent.
type form struct {
	route.Form
	sealed bool // it was in our page
}

// sealedField is the field of our page with the sealed form.
const sealedField = "authguard_form"

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
	v.code = strings.TrimSpace(fields.Get("code"))
	if v.sent.Form, err = v.proxy.forms.Open(fields.Get(sealedField), r.URL.EscapedPath()); err != nil {
		return web.Unusable(http.StatusBadRequest, "problem.waited")
	}
	v.sent.sealed = true
	return nil
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
		if view.Sealed == "" && p.Challenge != nil { // the login was no form: Basic, or in the URL
			view.Action, view.AskCode = v.proxy.Base+solvePath, v.guard.TakesCodes()
			return pages.RenderSolve(pages.SolveView{GateView: view, Route: v.route.Name})
		}
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
