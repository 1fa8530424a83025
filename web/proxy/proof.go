package proxy

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"authguard/guard"
	"authguard/internal/route"
)

// A proof is what a successful attempt must show before its client becomes known.
type proof struct {
	basis route.Basis
	asked bool // a probe has reached the app
	offer route.Offer
	ctx   context.Context // for probes after the attempt
	late  *time.Timer     // cancels ctx
	rival *rival
	// asksCode: the app asks for a code now, so the visitor is not signed in yet.
	asksCode bool
	note     string // why the proof failed, for the audit log
	// otherCause: a page that polled, a magic link, or a form that renewed the session may have caused the success. The
	// attempt makes no client known.
	otherCause bool
}

// proves reports whether the password caused the success. Meanwhile no other account may have signed in with the
// attempt's cookies, and the same request must fail with a made-up password and with a made-up account. Known clients
// need no proof. The response waits.
func (v *visit) proves(answer *http.Response) bool {
	if !v.unknown() {
		return true
	}
	p := &v.proof
	p.late.Reset(v.app.Timeout)
	if p.offer.Spoil != nil {
		again := v.in.Clone(p.ctx)
		if !v.route.Renews(v.in) {
			onlyReplaced(again.Header, answer)
		}
		if basis, err := v.route.Proves(again, v.sent.Body, p.offer, v.ask); err != nil || basis != route.OnPassword {
			p.note = "answered as a success, but so is a made-up password or account"
			return false
		}
		// The made-up password may have failed for a CSRF token, or for a token that is valid once.
		attempt := v.plain(p.ctx)
		if !v.proof.asksCode && !v.route.SignsIn(attempt, with(attempt, answer.Cookies()), v.sent.Body, p.offer, v.ask) {
			p.note = "answered as a success, but the visitor is not signed in, or another password is a success in this session"
			return false
		}
	}
	if p.rival != nil && v.proxy.rivals.won(p.ctx, p.rival) {
		p.note = "answered as a success, but another account may have signed in with the same cookie at the same time"
		return false
	}
	switch {
	case p.rival != nil && v.proxy.rivals.polled(p.rival):
		p.note = "answered as a success, but the app has redirected another request with the same cookie at the same time"
	case v.route.MayRenew(v.in):
		p.note = "answered as a success, but it may only have renewed the client's own session"
	default:
		return true
	}
	p.otherCause = true
	return false
}

// plain returns the client's request without what the app must not believe.
func (v *visit) plain(ctx context.Context) *http.Request {
	plain := v.in.Clone(ctx)
	withoutClaims(plain.Header)
	withoutOurs(plain.Header)
	return plain
}

// with returns a request with the cookies that a response sets.
func with(r *http.Request, set []*http.Cookie) *http.Request {
	next := r.Clone(r.Context())
	for _, c := range set {
		keepCookies(next.Header, func(part string) bool { return !strings.HasPrefix(strings.TrimSpace(part), c.Name+"=") })
		next.AddCookie(&http.Cookie{Name: c.Name, Value: c.Value})
	}
	return next
}

// unknown reports whether the client is unknown to one of the accounts.
func (v *visit) unknown() bool {
	return slices.ContainsFunc(v.attempts, func(d guard.Decision) bool { return !d.Known })
}

// onlyReplaced keeps the cookies that the response replaces. Any other may be the new session, which a wrong password
// may end.
func onlyReplaced(h http.Header, answer *http.Response) {
	replaced := func(part string) bool {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		return slices.ContainsFunc(answer.Cookies(), func(c *http.Cookie) bool {
			return route.CookieName(c.Name) == route.CookieName(name) && c.Value != strings.Trim(value, `"`)
		})
	}
	keepCookies(h, replaced)
}
