package proxy

import (
	"context"
	"crypto/rand"
	"hash/maphash"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	lru "github.com/hashicorp/golang-lru/v2"

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
	return true
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
			return c.Name == name && c.Value != strings.Trim(value, `"`)
		})
	}
	keepCookies(h, replaced)
}

// Rivals are concurrent requests in one session that may sign in: attempts, other forms at a single path, such as that of
// an MFA code, and all that the app redirects. Many apps keep the session's identifier at a login. An attacker could sign
// in with the same cookie between probe and attempt, which makes the attempt look like a success. The app's answer does
// not show whether the attacker is signed in. Only requests on the same node are detected. Realms may share an app, so
// their proxies share the rivals.
type Rivals struct {
	seed maphash.Seed
	node string // of this process

	mu      sync.Mutex
	names   map[string]bool // of the cookies that the app sets; true: it has set a value long enough for a session
	known   bool            // one of them may identify a session
	session map[uint64][]*rival
	// underWay is the attempts that the app is checking, by the key of their session in the notes.
	underWay map[uint64][]*rival
	passes   *lru.Cache[uint64, passed]   // by the key of the session
	owned    *lru.Cache[string, []uint64] // sessions by account, the oldest first
	given    *lru.Cache[uint64, bool]     // by the key of a value: the app has set it for several clients
	chains   *lru.Cache[uint64, session]  // by the key of a value that has replaced another, or been replaced
}

type rival struct {
	account  string // with its realm and route, in lower case; empty: another form's or a code's
	sessions []uint64
	judged   chan struct{} // closed once the app has answered, or will not
	reached  bool          // the app; valid once judged
	raced    bool
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
	shortestID  = 20                // characters of an identifier that an app sets
)

// sets records the names of the app's cookies. Cookies of scripts, such as a consent, have one value for everyone and
// identify no session. An app sets no session cookie for a client that has one. So all cookies are compared until one
// is set that may identify a session: a language does not.
func (r *Rivals) sets(cookies []string) {
	if len(cookies) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, line := range cookies {
		pair, _, _ := strings.Cut(line, ";")
		name, value, _ := strings.Cut(pair, "=")
		r.known = r.known || len(value) >= shortestID
		if name = route.CookieName(name); len(r.names) < mostNames {
			r.names[name] = r.names[name] || len(value) >= shortestPass
		}
	}
}

// Learn adds names of the app's cookies that earlier processes and other nodes have seen: a session may be older than
// this process. Those of sessions end with =. It returns those that only this process has seen, of mostLearned at most.
func (r *Rivals) Learn(names []string) (own []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, long := range r.names {
		if long {
			name += "="
		}
		if len(names)+len(own) < mostLearned && !slices.Contains(names, name) {
			own = append(own, name)
		}
	}
	for _, name := range names {
		name, long := strings.CutSuffix(name, "=")
		r.names[name], r.known = r.names[name] || long, r.known || long
	}
	return own
}

// manyCookies is the error for a request that may hide its session among others.
var manyCookies = &route.Refusal{Status: http.StatusBadRequest, Text: "Send fewer cookies."}

// enter begins a request for an account as typed: the app may know "alice " apart from alice. A code has none: its
// session may have several. Apps also read sessions from ;parameters of the path and from the query, under the cookie's
// name.
func (r *Rivals) enter(account string, cookies []string, at *url.URL) (*rival, error) {
	keys, err := r.keys(cookies, at, mostCookies)
	if err != nil {
		return nil, err
	}
	one := &rival{account: strings.ToLower(account), judged: make(chan struct{}), sessions: keys}
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

// A cookie may identify a session. Several are readings of one part of the header.
type cookie struct {
	name, value string
	part        int
	set, long   bool // by the app; one value of this name may identify a session
}

// mayBeSession reports whether the value is long enough, unless the app has set a longer one of its name: PHP takes any
// identifier that the client has made up.
func (c cookie) mayBeSession() bool { return c.long || len(c.value) >= shortestPass }

// shared reports whether the app has set the value for several clients, such as the name of a server.
func (r *Rivals) shared(c cookie) bool {
	several, _ := r.given.Get(r.key(c.name, letters(plain(c.value))))
	return several
}

// comparable reports whether a part of a Cookie header has no session with letters beyond ASCII: a database may compare
// them without accents (MySQL), and no app sets such an identifier.
func (r *Rivals) comparable(part string) bool {
	all, _ := r.values([]string{part}, new(url.URL), true, math.MaxInt32)
	return !slices.ContainsFunc(all, foreign)
}

func foreign(c cookie) bool {
	return c.long && strings.ContainsFunc(plain(c.value), func(r rune) bool { return r > unicode.MaxASCII })
}

// aroundEqual is white space that Python ignores.
var aroundEqual = regexp.MustCompile(`[\s\v]*=[\s\v]*`)

// values returns the cookies of a request that may identify its session, as they are spelled. Some apps separate them at
// commas or white space.
func (r *Rivals) values(cookies []string, at *url.URL, every bool, most int) (all []cookie, err error) {
	split := func(s, at string) []string {
		return strings.FieldsFunc(s, func(c rune) bool { return strings.ContainsRune(at, c) })
	}
	var parts []cookie
	add := func(text string, part int) {
		name, value, _ := strings.Cut(text, "=")
		parts = append(parts, cookie{name: route.CookieName(name), value: value, part: part})
	}
	for i, text := range split(aroundEqual.ReplaceAllString(strings.Join(cookies, ";"), "="), ";") {
		add(text, i)
		if pieces := strings.FieldsFunc(text, isSeparator); len(pieces) > 1 {
			for _, piece := range pieces {
				if strings.Contains(piece, "=") {
					add(piece, i)
				}
			}
		}
	}
	inURL := split(at.RawQuery, "&;")
	for _, segment := range strings.Split(at.EscapedPath(), "/") {
		inURL = append(inURL, strings.Split(segment, ";")[1:]...)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	every = every || !r.known || len(r.names) == mostNames
	here := len(parts)
	for i, text := range inURL {
		add(text, -1-i)
	}
	for i, one := range parts {
		if one.long, one.set = r.names[one.name]; !one.set && (!every || i >= here) {
			continue
		}
		if len(all) == most || one.part < 0 && foreign(one) {
			return nil, manyCookies
		}
		all = append(all, one)
	}
	return all, nil
}

func isSeparator(c rune) bool { return c == ',' || unicode.IsSpace(c) }

// sessionIDs returns the parts of a cookie's value that may identify a session, the same for every spelling. To Jetty,
// id.node0 and id.x are one. Python reads "\054" as a comma, Express j:"\u0061" as a, and Flask a signature with other
// last bits. A value that begins like JSON in base64 is the whole session, and has no identifier.
func sessionIDs(value string) (ids []string) {
	value = plain(value)
	if !strings.HasPrefix(value, "eyJ") {
		ids = longID.FindAllString(value, -1)
	}
	if len(ids) == 0 {
		value, _, _ = strings.Cut(strings.ReplaceAll(value, ";", ","), ",")
		ids = []string{strings.TrimFunc(value, func(c rune) bool { return !unicode.IsLetter(c) && !unicode.IsDigit(c) })}
	}
	return ids
}

// plain returns a value without quotes and escapes.
func plain(value string) string {
	value = escaped.ReplaceAllStringFunc(route.Decoded(value), func(e string) string {
		base, digits := 8, e[1:]
		if e[1] == 'u' {
			base, digits = 16, e[2:]
		}
		if n, err := strconv.ParseUint(digits, base, 16); err == nil && len(e) > 2 {
			return string(rune(n))
		}
		return e[1:]
	})
	return strings.Trim(route.Decoded(value), `" `)
}

var (
	escaped = regexp.MustCompile(`(?s)\\(u[0-9A-Fa-f]{4}|[0-3][0-7]{2}|.)`)
	longID  = regexp.MustCompile(`[A-Za-z0-9]{8,}`)
)

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
			one.raced = true
		}
	}
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
