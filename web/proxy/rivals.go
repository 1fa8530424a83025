package proxy

import (
	"context"
	"crypto/rand"
	"hash/maphash"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"

	"authguard/internal/route"
)

// Rivals are concurrent requests in one session that may sign in: attempts, other forms at a single path, such as that of
// an MFA code, and all that the app redirects. Many apps keep the session's identifier at a login. An attacker could sign
// in with the same cookie between probe and attempt, which makes the attempt look like a success. The app's answer does
// not show whether the attacker is signed in. Only requests on the same node are detected. Realms may share an app, so
// their proxies share the rivals.
type Rivals struct {
	seed maphash.Seed
	node string // of this process

	mu    sync.Mutex
	names map[string]bool // of the cookies that the app sets; true: it has set a value that may identify a session
	known bool            // one of them may identify a session
	// cookieless: a client without cookies has signed in, and the app has set none. Its sessions do not use cookies.
	cookieless bool
	session    map[uint64][]*rival
	// underWay is the attempts that the app is checking, by the key of their session in the notes.
	underWay map[uint64][]*rival
	passes   *lru.Cache[uint64, passed]   // by the key of the session
	owned    *lru.Cache[string, []uint64] // sessions by account, the oldest first
	given    *lru.Cache[uint64, bool]     // by the key of a value: the app has set it for several clients
	chains   *lru.Cache[uint64, session]  // by the key of a value that has replaced another, or been replaced
}

type rival struct {
	account  string // as typed, with its realm and route; empty: another form's or a code's
	sessions []uint64
	judged   chan struct{} // closed once the app has answered, or will not
	reached  bool          // the app; valid once judged
	raced    bool
	polled   bool     // another request was redirected
	entered  []uint64 // its keys in underWay
	// accounts is those of a login, as typed, and all that have been tried in its sessions since. A code has none.
	accounts []string
}

// NewRivals returns an empty registry.
func NewRivals() *Rivals {
	passes, _ := lru.New[uint64, passed](mostPasses) // the size is right
	owned, _ := lru.New[string, []uint64](mostGiven)
	given, _ := lru.New[uint64, bool](mostGiven)
	chains, _ := lru.New[uint64, session](mostPasses)
	return &Rivals{seed: maphash.MakeSeed(), node: rand.Text(), names: map[string]bool{}, session: map[uint64][]*rival{},
		underWay: map[uint64][]*rival{}, passes: passes, owned: owned, given: given, chains: chains}
}

const (
	mostCookies = 256               // to compare, of a request; browsers keep fewer
	mostNames   = 100 * mostCookies // that are stored, of the apps of all realms
	mostLearned = 1000              // that are stored for other processes
)

// sets records the names of the app's cookies. Cookies of scripts, such as a consent, have one value for everyone and
// identify no session. An app sets no session cookie for a client that has one. So all cookies are compared until one
// is set that may identify a session, or the app is cookieless.
func (r *Rivals) sets(cookies []string) {
	if len(cookies) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, line := range cookies {
		pair, _, _ := strings.Cut(line, ";")
		name, value, _ := strings.Cut(pair, "=")
		identifies := mayIdentify(value)
		r.known = r.known || identifies
		if name = route.CookieName(name); len(r.names) < mostNames {
			r.names[name] = r.names[name] || identifies
		}
	}
}

// signsIn notes whether a successful login needed cookies.
func (r *Rivals) signsIn(in *http.Request, answer *http.Response) {
	if len(in.Header["Cookie"]) > 0 || len(answer.Header["Set-Cookie"]) > 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cookieless = true
}

// Learn adds names of the app's cookies that earlier processes and other nodes have seen: a session may be older than
// this process. Those of sessions end with =; noCookies stands for cookieless. It returns those that only this process
// has seen, of mostLearned at most.
func (r *Rivals) Learn(names []string) (own []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cookieless && !slices.Contains(names, noCookies) {
		own = append(own, noCookies)
	}
	for name, long := range r.names {
		if long {
			name += "="
		}
		if len(names)+len(own) < mostLearned && !slices.Contains(names, name) {
			own = append(own, name)
		}
	}
	for _, name := range names {
		if name == noCookies {
			r.cookieless = true
			continue
		}
		name, long := strings.CutSuffix(name, "=")
		r.names[name], r.known = r.names[name] || long, r.known || long
	}
	return own
}

const noCookies = " " // no cookie has this name

// manyCookies is the error for a request that may hide its session among others.
var manyCookies = &route.Refusal{Status: http.StatusBadRequest, Text: "Send fewer cookies."}

// oddSession is the error for a session in the URL that apps may take for another one.
var oddSession = &route.Refusal{Status: http.StatusBadRequest, Text: "The URL contains an invalid session identifier."}

// enter begins a request for an account as typed: the app may know "alice " apart from alice. A code has none: its
// session may have several. Apps also read sessions from ;parameters of the path and from the query, under the cookie's
// name.
func (r *Rivals) enter(account string, cookies []string, at *url.URL) (*rival, error) {
	keys, err := r.keys(cookies, at, mostCookies)
	switch {
	case err != nil:
		return nil, err
	case !r.onlyASCII(nil, at):
		return nil, oddSession
	}
	one := &rival{account: account, judged: make(chan struct{}), sessions: keys}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, key := range keys {
		r.session[key] = append(r.session[key], one)
	}
	return one, nil
}

// keys returns the keys of the sessions that a request may have.
func (r *Rivals) keys(cookies []string, at *url.URL, most int) (keys []uint64, err error) {
	all, err := r.values(cookies, at, false, most)
	for _, one := range all {
		if one.set && !one.mayBeSession() || r.shared(one) {
			continue
		}
		for _, id := range sessionIDs(one.value) {
			if len(keys) > 4*most {
				return nil, manyCookies
			}
			if key := r.key(one.name, id); !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	return keys, err
}

// key is the same for identifiers that a database compares without case.
func (r *Rivals) key(name, id string) uint64 {
	return maphash.String(r.seed, name+"="+strings.ToLower(id))
}

// judge notes that the app has answered, or that it will not.
func (r *Rivals) judge(one *rival, reached bool) {
	if one != nil {
		one.reached = reached
		close(one.judged)
	}
}

func (r *Rivals) others(one *rival) (all []*rival) {
	for _, key := range one.sessions {
		for _, other := range r.session[key] {
			if other != one && (other.account != one.account || one.account == "") {
				all = append(all, other)
			}
		}
	}
	return all
}

// won waits for the responses to all rivals, and reports whether one of them has reached the app.
func (r *Rivals) won(ctx context.Context, one *rival) bool {
	r.mu.Lock()
	others := r.others(one)
	r.mu.Unlock()
	for _, other := range others {
		select {
		case <-other.judged:
		case <-ctx.Done():
			return true
		}
		if other.reached {
			return true
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return one.raced
}

// redirects notes a redirect outside the routes: a magic link, a sign-up or a single sign-on may have changed the account
// of the sessions. Other responses are not noted, because pages poll while a visitor signs in.
func (r *Rivals) redirects(in *http.Request, answer *http.Response) {
	if answer.StatusCode/100 != 3 || answer.StatusCode == http.StatusNotModified || !r.any() {
		return
	}
	keys, _ := r.keys(in.Header["Cookie"], in.URL, math.MaxInt32) // however many hide it
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, key := range keys {
		for _, one := range r.session[key] {
			one.polled = true
		}
	}
}

func (r *Rivals) polled(one *rival) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return one.polled
}

func (r *Rivals) any() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.session) > 0
}

// leave ends a request. Apps may store the session only after they have begun the response.
func (r *Rivals) leave(one *rival, reached bool) {
	if one == nil {
		return
	}
	select {
	case <-one.judged:
	default:
		r.judge(one, reached)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, other := range r.others(one) {
		other.raced = other.raced || one.reached
	}
	without(r.session, one.sessions, one)
	without(r.underWay, one.entered, one)
}

func without(of map[uint64][]*rival, keys []uint64, one *rival) {
	for _, key := range keys {
		of[key] = slices.DeleteFunc(of[key], func(o *rival) bool { return o == one })
		if len(of[key]) == 0 {
			delete(of, key)
		}
	}
}
