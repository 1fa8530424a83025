package mw

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"authguard/captchamode/challenge"
	"authguard/guard"
	"authguard/internal/route"
	"authguard/web/client"
)

// A Refusal describes why a request did not reach the handler, as problem+json (RFC 9457) and for custom pages. The
// password was not checked, except with code-required.
type Refusal struct {
	// Type is "challenge-required" (403), "code-required" (403, see OnVerificationCode), "slow-down" (429), "overloaded"
	// (503) or "invalid-request" (400, 403, 405, 409, 413, 415).
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	// Challenge must be solved if Type is challenge-required. Image and Audio are paths of this handler. The client
	// repeats the login with the solution in the headers Authguard-Captcha-Id, Authguard-Captcha-Answer (the digits) and
	// Authguard-Captcha-Work. Alternatively it sends a form with Form in the first field, authguard_form, and captcha_id,
	// captcha_answer and captcha_work.
	Challenge *challenge.Challenge `json:"challenge,omitempty"`
	// Seconds is the delay, as in the header Retry-After; 0: unknown.
	Seconds int `json:"retry_after,omitempty"`
	// Form is the sealed form of the client (see Challenge), valid for half an hour on any node with the same secret.
	// Empty: there was no form.
	Form string `json:"-"`
	// Decision is the guard's; zero if it was not asked.
	Decision guard.Decision `json:"-"`

	of   *attempt
	says string // part of the text keys on the page
}

func problem(kind, title string, status int, says string) *Refusal {
	return &Refusal{Type: kind, Title: title, Status: status, Detail: "The password was not checked.", says: says}
}

func invalid(status int, detail string) *Refusal {
	f := problem("invalid-request", "Invalid request", status, "invalid")
	f.Detail = detail
	return f
}

func overloaded() *Refusal {
	f := problem("overloaded", "The server is busy: try again shortly", http.StatusServiceUnavailable, "busy")
	return f.after(retryLater)
}

func (f *Refusal) after(wait time.Duration) *Refusal {
	f.Seconds = max(1, int(math.Ceil(wait.Seconds())))
	return f
}

func (a *attempt) answer(w http.ResponseWriter, f *Refusal) {
	f.of, f.Decision = a, a.decision
	if len(a.sent.Body) > 0 && f.Type != "invalid-request" {
		f.Form = a.forms.Seal(a.sent, a.request.URL.EscapedPath())
	}
	if f.Seconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(f.Seconds))
	}
	a.refuse(w, a.request, f)
}

// malformed answers a request that two parsers could read differently. It counts against the IP address, like an
// attempt without a name (R11).
func (a *attempt) malformed(w http.ResponseWriter, why error) {
	f, refusal := invalid(http.StatusBadRequest, "The request could not be read."), new(route.Refusal)
	if errors.As(why, &refusal) {
		f = invalid(refusal.Status, refusal.Text)
	}
	if d, stopped := a.guard.Unreadable(a.request.Context(), a.asks()); stopped {
		a.decision = d
		a.stopped(w)
		return
	}
	a.answer(w, f)
}

// stopped answers an attempt that the guard stopped. Delay and block look the same to the client.
func (a *attempt) stopped(w http.ResponseWriter) {
	d := &a.decision
	switch {
	case d.Reasons.Has(guard.BadAccountName):
		a.answer(w, invalid(http.StatusBadRequest, "The account name is missing, too long, or contains invalid characters."))
	case d.Action == guard.Challenge && d.Reasons.Has(guard.ChallengeFailed) && d.Verdict.Reason == challenge.Unchecked:
		a.answer(w, overloaded()) // the solution may have been correct
	case d.Action == guard.Challenge:
		a.challenge(w)
	case d.Reasons.Has(guard.BlockedByAdmin):
		a.answer(w, problem("slow-down", tooMany, http.StatusTooManyRequests, "blocked").after(d.RetryAfter))
	case d.Reasons.Has(guard.TooManyPictures):
		a.answer(w, problem("slow-down", tooMany, http.StatusTooManyRequests, "pictures").after(d.RetryAfter))
	default:
		a.answer(w, problem("slow-down", tooMany, http.StatusTooManyRequests, "slow").after(d.RetryAfter))
	}
}

const tooMany = "Too many attempts: wait before the next one"

func (a *attempt) challenge(w http.ResponseWriter) {
	issued, err := a.guard.Issue(a.request.Context(), a.asks(), a.decision)
	if err != nil {
		a.log.Error("a challenge could not be created", "error", err)
		a.answer(w, overloaded())
		return
	}
	for ext, path := range map[string]*string{"png": &issued.Image, "wav": &issued.Audio} {
		if *path != "" {
			*path = a.mediaPath(issued.ID + "." + ext)
		}
	}
	f := problem("challenge-required", "Solve the challenge and try again", http.StatusForbidden, "required")
	switch reason := a.decision.Verdict.Reason; {
	case reason == challenge.Elsewhere, reason == challenge.TooLittle, a.decision.Reasons.Has(guard.WorkNeeded):
	case a.decision.Reasons.Has(guard.ChallengeFailed):
		f.says = "failed"
	}
	f.Challenge = &issued
	a.answer(w, f)
}

// mediaPath is the URL of a challenge's media: this handler, at the path that the client has requested, which a router
// may have changed.
func (a *attempt) mediaPath(name string) string {
	path := a.request.URL.EscapedPath()
	if u, err := url.ParseRequestURI(a.request.RequestURI); err == nil {
		path = u.EscapedPath()
	}
	return path + "?" + mediaField + "=" + name
}

// Write sends mw's own response: a page, or problem+json if the client does not accept HTML.
func (f *Refusal) Write(w http.ResponseWriter, r *http.Request) {
	if client.WantsJSON(r) || !wantsHTML(r) {
		setHeaders(w.Header(), "")
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(f.Status)
		_ = json.NewEncoder(w).Encode(f)
		return
	}
	page, policy, err := f.page(r)
	if err != nil {
		f.of.log.Error("a page could not be rendered", "error", err)
		http.Error(w, f.Title, f.Status)
		return
	}
	setHeaders(w.Header(), policy)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(page)))
	w.WriteHeader(f.Status)
	_, _ = w.Write(page)
}
