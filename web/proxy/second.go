package proxy

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"authguard/internal/route"
	"authguard/web"
)

// The form for a code does not name the account. So the proxy notes for which account a session gave the right
// password, and each code is an attempt at this account. A session without a note gets no code through: the bound on
// guesses would be that of the IP addresses.

// A passed is the accounts of a session whose password was right, as typed.
type passed struct {
	accounts []string
	last     time.Time
}

const (
	mostPasses   = 100_000 // each needs a right password
	passLife     = 12 * time.Hour
	mostAccounts = 4  // of a session in this time
	shortestPass = 16 // characters of an identifier that may be a session's
)

// pass notes that sessions have passed the password of an account. They keep the accounts that they had: an app may
// still ask for the code of the first one.
func (r *Rivals) pass(account string, keys []uint64, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, key := range keys {
		all := r.accountsOf(key, now)
		if !slices.ContainsFunc(all, func(one string) bool { return strings.EqualFold(one, account) }) {
			all = append(slices.Clip(all), account)
		}
		r.passes.Add(key, passed{all[:min(len(all), mostAccounts+1)], now})
	}
}

func (r *Rivals) accountsOf(key uint64, now time.Time) []string {
	one, _ := r.passes.Get(key)
	if now.Sub(one.last) > passLife {
		return nil
	}
	return one.accounts
}

// passed returns the accounts of sessions; none if there are too many.
func (r *Rivals) passed(keys []uint64, now time.Time) (accounts []string) {
	for _, key := range keys {
		for _, one := range r.accountsOf(key, now) {
			if !slices.ContainsFunc(accounts, func(a string) bool { return strings.EqualFold(a, one) }) {
				accounts = append(accounts, one)
			}
		}
	}
	if len(accounts) > mostAccounts {
		return nil
	}
	return accounts
}

// long reports whether a cookie may identify a session: a language or a time zone does not.
func long(value string) bool {
	return len(value) >= shortestPass && (strings.ContainsFunc(value, unicode.IsDigit) || longRun.MatchString(value))
}

var longRun = regexp.MustCompile(`[A-Za-z0-9]{16}`)

// notes notes the account of a login that the app has answered with a right password. The session is the request's, or
// a new one.
func (v *visit) notes(answer *http.Response) {
	if !v.app.Routes.SecondFactor() {
		return
	}
	cookies := slices.Concat(v.in.Header["Cookie"], pairs(answer))
	if keys, err := v.proxy.rivals.keys(cookies, v.in.URL, long); err == nil {
		v.proxy.rivals.pass(v.proof.offer.Credentials[0].Account, keys, v.proxy.Now())
	}
}

// renews notes the new identifier of a session that has passed the password.
func (v *visit) renews(answer *http.Response) {
	set := pairs(answer)
	if len(set) == 0 || !v.app.Routes.SecondFactor() {
		return
	}
	old, err := v.proxy.rivals.keys(answer.Request.Header["Cookie"], answer.Request.URL, long)
	keys, err2 := v.proxy.rivals.keys(set, new(url.URL), long)
	if err != nil || err2 != nil {
		return
	}
	now := v.proxy.Now()
	for _, account := range v.proxy.rivals.passed(old, now) {
		v.proxy.rivals.pass(account, keys, now)
	}
}

func pairs(answer *http.Response) (all []string) {
	for _, line := range answer.Header["Set-Cookie"] {
		pair, _, _ := strings.Cut(line, ";")
		all = append(all, pair)
	}
	return all
}

// ofCode returns the offer of a code, at the accounts whose password this session has passed.
func (v *visit) ofCode(r *http.Request, offer route.Offer) (route.Offer, error) {
	keys, err := v.proxy.rivals.keys(r.Header["Cookie"], r.URL, long)
	if err != nil {
		return offer, err
	}
	offer.Credentials = nil
	for _, account := range v.proxy.rivals.passed(keys, v.proxy.Now()) {
		offer.Credentials = append(offer.Credentials, route.Credential{Account: account})
	}
	if len(offer.Credentials) == 0 {
		return offer, web.Unusable(http.StatusForbidden, "problem.no-pass")
	}
	return offer, nil
}

// carries lets the solution of the password's challenge count for the code, too.
func (v *visit) carries() {
	if err := v.guard.SolvesNext(v.proof.ctx, v.attempts[0]); err != nil {
		v.proxy.Log.Error("the challenge of a login does not count for its code", "error", err)
	}
}
