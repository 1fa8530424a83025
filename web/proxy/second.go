package proxy

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"authguard/internal/route"
	"authguard/web"
)

// The form for a code does not name the account. So the proxy notes for which account a session gave the right
// password, and each code is an attempt at all accounts of its session. The app gets no session without a note,
// whatever its cookie is called: the bound on guesses would be that of the IP addresses.

// A passed is the accounts of a session: those whose password was right, and all that it has tried since, as typed. The
// app may have accepted a password that the proxy took for a wrong one.
type passed struct {
	accounts []string
	owner    string // the last one whose password was right, in lower case
	last     time.Time
}

const (
	mostPasses   = 100_000 // each needs a right password
	mostOwned    = 512     // of an account, so that its logins replace no other's; phpMyAdmin sets about seven at each
	mostSessions = 32      // that one login may add
	mostClaimed  = 128     // of an attempt
	mostGiven    = 10_000
	passLife     = 12 * time.Hour
	mostAccounts = 4 // of a session
)

// A session is a reading of a cookie that may identify one.
type session struct {
	name, id string
	key      uint64
	part     int // of the header
}

// sessions returns the sessions that a request may have.
func (r *Rivals) sessions(cookies []string, at *url.URL, everyName bool) (all []session, err error) {
	values, err := r.values(cookies, at, everyName, mostCookies)
	for _, one := range values {
		if one.mayBeSession() && !strings.Contains(one.name, "authguard_") {
			for _, id := range readings(one.value) {
				all = append(all, session{one.name, id, r.key(one.name, id), one.part})
				if chain, ok := r.chains.Get(all[len(all)-1].key); ok {
					chain.part = one.part
					all = append(all, chain)
				}
			}
		}
	}
	return all, err
}

// shortAreSet reports whether the short values in a part of a Cookie header have names of the app, which knows longer
// ones of none: another may be a session's that a client has made up.
func (r *Rivals) shortAreSet(part string) bool {
	all, err := r.values([]string{part}, new(url.URL), true, mostCookies)
	return err == nil && !slices.ContainsFunc(all, func(c cookie) bool {
		return !c.set && !mayIdentify(c.value) && !strings.Contains(c.name, "authguard_")
	})
}

// pass notes that sessions have passed the password of a login. They keep the accounts that they had: an app may still
// ask for the code of the first one.
func (r *Rivals) pass(login *rival, all []session, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	owner := login.account
	owned, _ := r.owned.Get(owner)
	for _, one := range all[:min(len(all), mostSessions)] {
		before, _ := r.passes.Get(one.key)
		r.passes.Add(one.key, passed{union(before.accounts, login.accounts...), owner, now})
		owned = append(slices.DeleteFunc(owned, func(key uint64) bool { return key == one.key }), one.key)
	}
	for ; len(owned) > mostOwned; owned = owned[1:] {
		if old, _ := r.passes.Peek(owned[0]); old.owner == owner {
			r.passes.Remove(owned[0])
		}
	}
	r.owned.Add(owner, slices.Clone(owned))
}

// tries enters a login until it leaves. It adds the accounts to the notes of its sessions, and to the logins under way
// there, whose notes come later. It returns the codes that the app is still checking for other accounts.
func (r *Rivals) tries(login *rival, accounts []string, all []session) (codes []*rival) {
	r.mu.Lock()
	defer r.mu.Unlock()
	login.accounts = union(nil, accounts...)
	for _, one := range all {
		if before, ok := r.passes.Get(one.key); ok {
			before.accounts = union(before.accounts, accounts...)
			r.passes.Add(one.key, before)
		}
		for _, other := range r.underWay[one.key] {
			if len(other.accounts) == 0 {
				codes = append(codes, other)
				continue
			}
			other.accounts = union(other.accounts, accounts...)
			login.accounts = union(login.accounts, other.accounts...)
		}
		r.begins(login, one)
	}
	return codes
}

func (r *Rivals) begins(attempt *rival, in session) {
	r.underWay[in.key] = append(r.underWay[in.key], attempt)
	attempt.entered = append(attempt.entered, in.key)
}

// checks enters a code until it leaves, and reports whether its sessions have no other accounts meanwhile.
func (r *Rivals) checks(code *rival, all []session, accounts []route.Credential, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range all {
		its, known := r.noteOf(one, now)
		if !known || slices.ContainsFunc(its.accounts, func(account string) bool {
			return !slices.ContainsFunc(accounts, func(c route.Credential) bool { return c.Account == account })
		}) {
			return false
		}
	}
	for _, one := range all {
		r.begins(code, one)
	}
	return true
}

// union returns the accounts with others; more than mostAccounts are as good as all.
func union(accounts []string, others ...string) []string {
	for _, another := range others {
		if len(accounts) <= mostAccounts && !slices.Contains(accounts, another) {
			accounts = append(slices.Clip(accounts), another)
		}
	}
	return accounts
}

// noteOf returns the note of a session. It is not known if there is none, or if it has too many accounts to charge.
func (r *Rivals) noteOf(one session, now time.Time) (note passed, known bool) {
	if shared, _ := r.given.Get(one.key); shared {
		return passed{}, true
	}
	note, _ = r.passes.Get(one.key)
	return note, len(note.accounts) > 0 && len(note.accounts) <= mostAccounts && now.Sub(note.last) <= passLife
}

// gives notes values that the app sets for a client that has sent nothing of its own. One that it sets twice, such as
// the name of a server, is no session.
func (r *Rivals) gives(set []session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, one := range set {
		if !slices.ContainsFunc(set[:i], func(before session) bool { return before.key == one.key }) { // set twice at once
			r.given.Add(one.key, r.given.Contains(one.key))
		}
	}
}

// notes notes the account of a login that the app has answered with a right password. The session is a new one, or else
// the request's: of a cookie that the response sets, the client may have made up the value before.
func (v *visit) notes(answer *http.Response) {
	if !v.app.Routes.SecondFactor() {
		return
	}
	r := v.proxy.rivals
	set, _ := r.sessions(pairs(answer), new(url.URL), true)
	had, _ := r.sessions(v.in.Header["Cookie"], v.in.URL, true)
	known, _ := r.sessions(v.in.Header["Cookie"], v.in.URL, false)
	all := set
	for _, one := range slices.Concat(known, had) { // first those that the app sets
		if named(set, one.name) == 0 && named(had, one.name) == 1 {
			all = append(all, one)
		}
	}
	r.pass(v.proof.rival, all, v.proxy.Now())
}

// replaces notes that the values which an answer sets may be of the session that the request had: Laravel encrypts the
// same identifier anew for each answer, and accepts all of them. Their chain has notes of its own, so that an account
// tried with one value counts with all.
func (r *Rivals) replaces(had, set []session) {
	for _, one := range set {
		of := slices.DeleteFunc(slices.Clone(had), func(before session) bool { return before.name != one.name })
		if len(of) == 0 {
			continue
		}
		chain, ok := r.chains.Get(of[0].key)
		if !ok {
			chain = session{name: one.name, id: "chain " + of[0].id, key: r.key(one.name, "chain "+of[0].id)}
		}
		for _, each := range append(of, one) {
			r.chains.Add(each.key, chain)
		}
	}
}

func named(all []session, name string) int {
	parts := map[int]bool{}
	for _, one := range all {
		if one.name == name {
			parts[one.part] = true
		}
	}
	return len(parts)
}

// renews notes the new identifier of a session that has a note: each of its name in the request has one. Other cookies
// may have none, such as those of a script.
func (v *visit) renews(answer *http.Response) {
	if v.probe != nil || len(answer.Header["Set-Cookie"]) == 0 {
		return
	}
	r, now := v.proxy.rivals, v.proxy.Now()
	set, _ := r.sessions(pairs(answer), new(url.URL), true)
	if u := v.in.URL; v.in.Method == http.MethodGet && len(v.in.Header["Cookie"]) == 0 &&
		u.RawQuery == "" && !strings.Contains(u.EscapedPath(), ";") {
		r.gives(set)
	}
	if !v.app.Routes.SecondFactor() {
		return
	}
	had, err := r.sessions(v.in.Header["Cookie"], v.in.URL, false)
	r.replaces(had, set)
	set, _ = r.sessions(pairs(answer), new(url.URL), true)
	if err != nil {
		return
	}
	unknown := func(name string) bool { // and the request has no cookie of this name: the app may have read any
		return slices.ContainsFunc(had, func(one session) bool {
			_, known := r.noteOf(one, now)
			return !known && (one.name == name || named(had, name) == 0)
		})
	}
	set = slices.DeleteFunc(set, func(one session) bool { return unknown(one.name) })
	for _, one := range had {
		if note, known := r.noteOf(one, now); known && len(note.accounts) > 0 {
			r.pass(&rival{account: note.owner, accounts: note.accounts}, set, now)
		}
	}
}

func pairs(answer *http.Response) (all []string) {
	for _, line := range answer.Header["Set-Cookie"] {
		pair, _, _ := strings.Cut(line, ";")
		all = append(all, pair)
	}
	return all
}

// ofCode returns the offer of a code, at the accounts of the request's sessions, and leaves only these in the request.
func (v *visit) ofCode(r *http.Request, offer route.Offer) (route.Offer, error) {
	if !v.route.SecondFactor() {
		return offer, nil
	}
	var accounts []string
	every, err := v.proxy.rivals.sessions(r.Header["Cookie"], r.URL, true)
	if err != nil {
		return offer, err
	}
	others, err := v.proxy.claim(slices.DeleteFunc(every, func(one session) bool { // the app gets no other one
		_, known := v.proxy.rivals.noteOf(one, v.proxy.Now())
		return !known
	}))
	if err != nil {
		return offer, err
	}
	known := func(cookies []string, at *url.URL) bool {
		all, err := v.proxy.rivals.sessions(cookies, at, true)
		for _, one := range all {
			note, known := v.proxy.rivals.noteOf(one, v.proxy.Now())
			if !known || others[one.key] {
				return false
			}
			accounts = union(accounts, note.accounts...)
		}
		return err == nil
	}
	keepCookies(r.Header, func(part string) bool {
		return known([]string{part}, new(url.URL)) && v.proxy.rivals.shortAreSet(part)
	})
	offer.Credentials = nil
	if !known(nil, r.URL) || len(accounts) == 0 || len(accounts) > mostAccounts {
		return offer, web.Unusable(http.StatusForbidden, "problem.no-pass")
	}
	for _, account := range accounts {
		offer.Credentials = append(offer.Credentials, route.Credential{Account: account})
	}
	return offer, nil
}

// mayNote returns an error for a request with more sessions than tries compares. The app must not have checked a made-up
// password before.
func (p *Proxy) mayNote(r *http.Request) error {
	all, err := p.rivals.sessions(r.Header["Cookie"], r.URL, true)
	if err == nil && p.Claims != nil && len(all) > mostClaimed {
		return manyCookies
	}
	return err
}

// tries notes the accounts of an attempt before the app gets it. The app gets it after all codes of the session that
// were sent before.
func (v *visit) tries(offer route.Offer) error {
	if !v.app.Routes.SecondFactor() {
		return nil
	}
	r := v.proxy.rivals
	all, err := r.sessions(v.in.Header["Cookie"], v.in.URL, true)
	switch {
	case err != nil:
		return err
	case v.route.SecondFactor() && !r.checks(v.proof.rival, all, offer.Credentials, v.proxy.Now()):
		return web.Unusable(http.StatusForbidden, "problem.no-pass")
	case v.route.SecondFactor():
		return nil
	}
	if _, err := v.proxy.claim(all); err != nil {
		return err
	}
	var accounts []string
	for _, c := range offer.Credentials {
		name, err := v.guard.Normalise(c.Account)
		if err != nil {
			return err
		}
		accounts = append(accounts, name)
	}
	for _, code := range r.tries(v.proof.rival, accounts, all) {
		select {
		case <-code.judged:
		case <-v.in.Context().Done():
			return web.Unusable(http.StatusBadRequest, "problem.body")
		}
	}
	return nil
}

const (
	claimWithin = 250 * time.Millisecond // all claims of a request, if Redis does not answer
	longAway    = 10 * time.Second
)

// claim claims sessions for this node, and returns the keys of those in which another node has had an attempt: notes
// are of one node. Without Redis, each node believes itself. Claims that fail in part, or before Redis has been away
// for longAway, are an error: an attacker may have sent many, or used a pause of Redis.
func (p *Proxy) claim(all []session) (others map[uint64]bool, err error) {
	switch {
	case p.Claims == nil:
		return nil, nil
	case len(all) > mostClaimed:
		return nil, manyCookies
	}
	ctx, cancel := context.WithTimeout(context.Background(), claimWithin)
	defer cancel()
	var mu sync.Mutex
	var done sync.WaitGroup
	failed, others := 0, map[uint64]bool{}
	for _, one := range all {
		done.Go(func() {
			elsewhere, err := p.elsewhere(ctx, one)
			mu.Lock()
			defer mu.Unlock()
			if others[one.key] = elsewhere; err != nil {
				failed++
			}
		})
	}
	done.Wait()
	if failed > 0 && (failed < len(all) || p.Away() < longAway) {
		return nil, &route.Refusal{Status: http.StatusServiceUnavailable, Text: "Try again in a moment."}
	}
	return others, nil
}

func (p *Proxy) elsewhere(ctx context.Context, one session) (bool, error) {
	if shared, _ := p.rivals.given.Get(one.key); shared {
		return false, nil
	}
	id := func(what string) [16]byte {
		mac := hmac.New(sha256.New, p.Secret)
		fmt.Fprintf(mac, "session %s\x00%s=%s", what, one.name, strings.ToLower(one.id))
		return [16]byte(mac.Sum(nil))
	}
	until, several := p.Now().Add(passLife), p.Now().Add(60*passLife)
	here, err := p.Claims.Spend(ctx, id(p.rivals.node), until)
	if here && err == nil {
		var first bool
		if first, err = p.Claims.Spend(ctx, id(""), until); !first && err == nil {
			_, err = p.Claims.Spend(ctx, id("several"), several)
		}
	}
	if err != nil {
		if here { // the next attempt claims it again
			_, _ = p.Claims.Take(context.WithoutCancel(ctx), id(p.rivals.node))
		}
		return false, err
	}
	return p.Claims.Seen(ctx, id("several"), several)
}

// carries lets the solution of the password's challenge count for the code, too.
func (v *visit) carries() {
	if err := v.guard.SolvesNext(v.proof.ctx, v.attempts[0]); err != nil {
		v.proxy.Log.Error("the challenge of a login does not count for its code", "error", err)
	}
}
