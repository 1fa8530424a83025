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
	owner    string // the last of them, in lower case
	last     time.Time
}

const (
	mostPasses   = 100_000 // each needs a right password
	mostOwned    = 128     // of an account, so that its logins replace no other's
	mostSessions = 16      // that one login may add; browsers send fewer
	mostGiven    = 10_000
	passLife     = 12 * time.Hour
	mostAccounts = 4  // of a session in this time
	shortestPass = 16 // characters of an identifier that may be a session's
)

// A session is a cookie that may identify one. Its key is that of the value as the app has set it: another spelling has
// no note.
type session struct {
	name string
	key  uint64
}

// sessions returns the sessions that a request may have. It may not have many: one that the app reads may hide among
// others.
func (r *Rivals) sessions(cookies []string, at *url.URL) (all []session, err error) {
	values, err := r.values(cookies, at)
	for _, one := range values {
		s := session{one.name, r.key(one.name, strings.TrimSpace(one.value))}
		if !long(one.value) || strings.Contains(one.name, "authguard_") || slices.Contains(all, s) {
			continue
		}
		if all = append(all, s); len(all) > mostSessions {
			return nil, manyCookies
		}
	}
	return all, err
}

// pass notes that sessions have passed the password of an account. They keep the accounts that they had: an app may
// still ask for the code of the first one.
func (r *Rivals) pass(account string, all []session, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	owner := strings.ToLower(account)
	owned, _ := r.owned.Get(owner)
	for _, one := range all {
		accounts := r.accountsOf(one.key, now)
		if !slices.ContainsFunc(accounts, func(a string) bool { return strings.EqualFold(a, account) }) {
			accounts = append(slices.Clip(accounts), account)
		}
		r.passes.Add(one.key, passed{accounts[:min(len(accounts), mostAccounts+1)], owner, now})
		owned = append(slices.DeleteFunc(owned, func(key uint64) bool { return key == one.key }), one.key)
	}
	for ; len(owned) > mostOwned; owned = owned[1:] {
		if old, _ := r.passes.Peek(owned[0]); old.owner == owner {
			r.passes.Remove(owned[0])
		}
	}
	r.owned.Add(owner, slices.Clone(owned))
}

func (r *Rivals) accountsOf(key uint64, now time.Time) []string {
	one, _ := r.passes.Get(key)
	if now.Sub(one.last) > passLife {
		return nil
	}
	return one.accounts
}

// passed returns the accounts of sessions; none if there are too many. There are none, either, if a session has no note
// or two have one name: it is not known which of them the app reads.
func (r *Rivals) passed(all []session, now time.Time) (accounts []string) {
	for i, session := range all {
		noted := r.accountsOf(session.key, now)
		if len(noted) == 0 || named(all[:i], session.name) {
			return nil
		}
		if given, _ := r.given.Get(session.key); given.shared {
			continue
		}
		for _, one := range noted {
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

func named(all []session, name string) bool {
	return slices.ContainsFunc(all, func(s session) bool { return s.name == name })
}

// A gift is to whom the app has given a value: an account in lower case, or empty for a visitor. A value that it gives
// to several, such as the name of a server, is no session. Flask gives one value to all sessions of an account in the
// same second: that is one.
type gift struct {
	to     string
	shared bool
}

// gives notes the values that the app has set for a client that did not have them. An attacker chooses those that a
// client has.
func (r *Rivals) gives(to string, set, had []session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range set {
		if slices.Contains(had, one) {
			continue
		}
		before, ok := r.given.Get(one.key)
		switch {
		case ok && before.to == to:
			before.shared = before.shared || to == ""
		case !ok || before.to == "":
			before = gift{to: to}
		case to != "":
			before.shared = true
		}
		r.given.Add(one.key, before)
	}
}

// long reports whether a cookie may identify a session: a language or a time zone does not.
func long(value string) bool {
	escapes := func(c rune) bool { return unicode.IsDigit(c) || c == '\\' }
	return len(value) >= shortestPass && (strings.ContainsFunc(value, escapes) || longRun.MatchString(value))
}

var longRun = regexp.MustCompile(`[A-Za-z0-9]{16}`)

// notes notes the account of a login that the app has answered with a right password. The session is a new one, or else
// the request's: of a cookie that the response sets, the client may have made up the value before.
func (v *visit) notes(answer *http.Response) {
	if !v.app.Routes.SecondFactor() {
		return
	}
	had, set, err := v.sessions(answer)
	if err != nil {
		return
	}
	account, r := v.proof.offer.Credentials[0].Account, v.proxy.rivals
	all := set
	for i, one := range had {
		if !named(set, one.name) && !named(had[:i], one.name) && !named(had[i+1:], one.name) {
			all = append(slices.Clip(all), one)
		}
	}
	r.pass(account, all, v.proxy.Now())
	r.gives(strings.ToLower(account), set, had)
}

// renews notes the new identifier of a session that has passed the password.
func (v *visit) renews(answer *http.Response) {
	if v.probe != nil || len(answer.Header["Set-Cookie"]) == 0 || !v.app.Routes.SecondFactor() {
		return
	}
	had, set, err := v.sessions(answer)
	if err != nil {
		return
	}
	now, r := v.proxy.Now(), v.proxy.rivals
	accounts := r.passed(had, now)
	for _, account := range accounts {
		r.pass(account, set, now)
	}
	if v.route == nil {
		r.gives(strings.ToLower(strings.Join(accounts, "\n")), set, had)
	}
}

// sessions returns the sessions that the client had, and those that the app sets.
func (v *visit) sessions(answer *http.Response) (had, set []session, err error) {
	if had, err = v.proxy.rivals.sessions(v.in.Header["Cookie"], v.in.URL); err == nil {
		set, err = v.proxy.rivals.sessions(pairs(answer), new(url.URL))
	}
	return had, set, err
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
	all, err := v.proxy.rivals.sessions(r.Header["Cookie"], r.URL)
	if err != nil || !v.route.SecondFactor() {
		return offer, err
	}
	offer.Credentials = nil
	for _, account := range v.proxy.rivals.passed(all, v.proxy.Now()) {
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
