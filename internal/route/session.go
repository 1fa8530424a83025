package route

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// A Basis is what the app's response to an attempt depends on. The zero Basis is OnSession.
type Basis uint8

const (
	// OnSession: on the session, whatever the password. Devise, Laravel and Django redirect a signed-in user, which looks
	// like a success.
	OnSession Basis = iota
	// OnPassword: on the password, if the response is a success.
	OnPassword
	// OnAddress: on nothing in the request, since the page is public. Only for basic.
	OnAddress
	// Unclear: only a failure is conclusive.
	Unclear
)

// Ask sends a request with this body to the app, and returns the response.
type Ask func(r *http.Request, body []byte) (Answer, error)

// Basis determines what the app's response to an attempt will depend on, before the app gets it. A request that cannot
// carry a session needs no probe. Otherwise it probes, in this order:
//
//   - the page of Spec.SignedIn, if set;
//   - the login page, as the client gets it: signed-in users get no form;
//   - if that is inconclusive, the attempt with a made-up password, which must fail.
//
// An error is Ask's; with Unclear, that of a request with a made-up password.
func (r *Route) Basis(req *http.Request, body []byte, offer Offer, ask Ask) (Basis, error) {
	q := question{Route: r, req: req, body: body, offer: offer, ask: ask}
	switch {
	case r.signedIn.never || slices.ContainsFunc(r.rule.success, condition.never):
		return OnPassword, nil
	case r.account.kind != basic && !r.mayCarrySession(req, body):
		return OnPassword, nil
	case r.signedIn.conditions != nil:
		return q.byPage()
	case r.account.kind == basic:
		return q.withoutHeader()
	case r.ReadsForm() || !r.hasPassword() && r.account.kind != object:
		return q.byForm()
	}
	return q.byPassword(madeUp)
}

// Proves probes, after a success, whether a made-up password succeeds as well, or the password at a made-up account.
// Then another field, a header, a session, a text on every page, or a filter against injections caused the success.
// Only OnPassword proves the password. A single-use token leads to OnPassword. With basic, the password may be a token
// of any account, so the app may ignore the name.
func (r *Route) Proves(req *http.Request, body []byte, offer Offer, ask Ask) (Basis, error) {
	q := question{Route: r, req: req, body: body, offer: offer, ask: ask, succeeded: true}
	basis, err := q.byPassword(madeUp)
	if err != nil || basis != OnPassword || r.Basic() || !r.hasPassword() {
		return basis, err
	}
	return q.byPassword(func(c Credential) Credential { return Credential{Account: madeUpName(c.Account)} })
}

// SignsIn reports whether the client of a successful attempt is signed in now, by requests with the cookies of the
// success (after). The page of Spec.SignedIn must show that. Without one, the login form is gone, or a made-up password
// fails in the same session: an app may redirect every attempt of a session after some failures, or before its second
// step. It is true if this cannot tell, as for a JSON login without cookies, whose session may be a token in the
// response.
func (r *Route) SignsIn(attempt, after *http.Request, body []byte, offer Offer, ask Ask) bool {
	q := question{Route: r, req: after, body: body, offer: offer, ask: ask}
	switch {
	case r.ReadsForm() && r.mayCarrySession(attempt, body):
		if !slices.ContainsFunc(q.gets(), q.showsForm) {
			return true
		}
		basis, err := q.byPassword(madeUp)
		return err == nil && basis == OnPassword
	case r.signedIn.page == "" || !r.inFields() || r.account.kind == object && len(after.Header["Cookie"]) == 0:
		return true
	}
	return slices.ContainsFunc(q.gets(), func(get look) bool {
		get.URL.Path, get.URL.RawPath = r.signedIn.page+pathSession.FindString(get.URL.Path), ""
		a, err := ask(get.Request, nil)
		return err == nil && r.signedIn.holds(a)
	})
}

// ReadsForm reports whether only the login form itself tells who is signed in.
func (r *Route) ReadsForm() bool {
	return r.signedIn.conditions == nil && !r.path.folder && (r.account.kind == form || r.account.kind == param)
}

var passwordInput = regexp.MustCompile(`(?i)<input[^>]*\stype\s*=\s*["']?password`)

func (q question) showsForm(get look) bool {
	a, err := q.ask(get.Request, nil)
	return err != nil || q.isForm(a)
}

// isForm reports whether a page has a field for the password, or cannot be read. To a signed-in visitor, a login page
// may say so with 200.
func (r *Route) isForm(a Answer) bool {
	return (a.Status/100 == 2 || a.Status == http.StatusUnauthorized) &&
		(passwordInput.Match(a.Body) || r.input != nil && r.input.Match(a.Body) || !a.Whole)
}

// alike reports whether two pages differ by tokens and numbers only.
func alike(a, b Answer) bool {
	return a.Status == b.Status && bytes.Equal(varying.ReplaceAll(a.Body, nil), varying.ReplaceAll(b.Body, nil))
}

var varying = regexp.MustCompile(`[?&;A-Za-z0-9+/_=.-]{16,}|\d+`)

// Blank reports whether a credential lacks a visible password. Some apps answer that without a check, with a link by
// email. As the password of basic, it may belong to an API key. To PHP, 0 is empty, too.
func (r *Route) Blank(offer Offer) bool {
	read := r.password.kind != nowhere && r.password.kind != basic || r.account.kind == xmlrpc
	blank := func(c rune) bool { return unicode.IsSpace(c) || unicode.IsControl(c) || visible(c) < 0 }
	return read && slices.ContainsFunc(offer.Credentials, func(c Credential) bool {
		seen := strings.TrimFunc(c.Password, blank)
		return seen == "" || seen == "0"
	})
}

// Renews reports whether a success may only renew a session: the client has the cookie that signals a success, and the
// app checks every password, or reads the Authorization header only without a session (DokuWiki).
func (r *Route) Renews(req *http.Request) bool {
	return (r.signedIn.never || r.Basic()) && r.hasSuccess(req)
}

// StartsSession reports whether a login through the route may start a session: Basic and XML-RPC send the password with
// each request.
func (r *Route) StartsSession() bool { return !r.Basic() && r.account.kind != xmlrpc }

// hasSuccess reports whether the client already has the cookie that signals a success.
func (r *Route) hasSuccess(req *http.Request) bool {
	return slices.ContainsFunc(r.rule.success, func(c condition) bool {
		return c.what == "cookie" && slices.ContainsFunc(cookies(req),
			func(one field) bool { return c.folded.MatchString(CookieName(one.name)) })
	})
}

type question struct {
	*Route
	req   *http.Request
	body  []byte
	offer Offer
	ask   Ask
	// succeeded: the attempt was a success.
	succeeded bool
}

// byPage probes the page of Spec.SignedIn. Only a response equal to that of an anonymous client proves that the client
// is signed out. An app may answer 404 to ?format=xml, or to a header.
func (q question) byPage() (Basis, error) {
	var answers []Answer
	var open *http.Request
	for _, get := range q.gets() {
		session := pathSession.FindString(get.URL.Path)
		if q.signedIn.page != "" {
			get.URL.Path, get.URL.RawPath = q.signedIn.page+session, ""
		}
		a, err := q.ask(get.Request, nil)
		if err != nil || q.signedIn.holds(a) {
			return OnSession, err
		}
		if cached(a) {
			return q.byPassword(madeUp)
		}
		if get.asSent {
			continue
		}
		answers, open = append(answers, a), anonymous(get.Request)
		open.URL.Path, open.URL.RawPath = strings.TrimSuffix(open.URL.Path, session), ""
	}
	open.URL.RawQuery = ""
	uncached(open)
	open.Header.Set("User-Agent", "Mozilla/5.0")
	b, err := q.ask(open, nil)
	if err != nil {
		return OnSession, err
	}
	for _, a := range answers {
		if a.Status != b.Status || whither(a) != whither(b) {
			return q.byPassword(madeUp)
		}
	}
	return OnPassword, nil
}

// pathSession matches a session in a path: /login;jsessionid=1.
var pathSession = regexp.MustCompile(`;[^/]*$`)

func (q question) byForm() (Basis, error) {
	for _, get := range q.gets() {
		a, err := q.ask(get.Request, nil)
		if err != nil {
			return OnSession, err
		}
		success := q.Judge(a) == Succeeded
		if cached(a) {
			return q.byPassword(madeUp)
		}
		page := !success && (a.Status/100 == 2 || a.Status == http.StatusUnauthorized)
		if page && (!q.ReadsForm() || q.isForm(a)) {
			continue
		}
		b, err := q.ask(anonymous(get.Request), nil)
		switch {
		case err != nil:
			return OnSession, err
		case get.elsewhere && !success && a.Status/100 == 3 && whither(a) == whither(b) && leadsTo(a, get.URL.Path):
			continue // to the final slash of the client's spelling, for everybody
		case success != (q.Judge(b) == Succeeded),
			q.ReadsForm() && a.Status/100 == 3 && whither(a) != whither(b) && !leadsTo(a, get.URL.Path):
			return OnSession, nil
		case page && alike(a, b), get.elsewhere: // a script draws the form, or the path has a final slash
			continue
		case get.asSent:
			return OnPassword, nil
		}
		return q.byPassword(madeUp) // every client gets this
	}
	return OnPassword, nil
}

// Forms that make accounts or change passwords may have the fields of a login. In a folder they are attempts, too. A
// login is not such a form because of words in its values, or in the path before /login.
var (
	accountForm = regexp.MustCompile(`(?i)regist|sign[-_]?up|reset|forgot|recover|change|passw|invit|activat|` +
		`enrol|/(users|accounts|members|customers)/?$`)
	loginForm     = regexp.MustCompile(`(?i)/(log|sign)[-_]?in(\.\w+)?/?$`)
	accountFields = func() *regexp.Regexp {
		const word = `(?:(?:new|old|current|confirm|repeat|retype|again)[-_]?pass|` +
			`pass(?:word|wd)?[-_]?(?:confirm|repeat|retype|again|new|2))`
		return regexp.MustCompile(`(?i)(?:^|&)[^=&]*` + word + `[^=&]*=|` +
			`"[^"]*` + word + `[^"]*"\s*:|[;\s]name="?[^"\r\n]*` + word)
	}()
)

// MayRenew reports whether another form in the route's folder may have renewed the client's own session.
func (r *Route) MayRenew(req *http.Request) bool {
	return r.path.folder && (r.Renews(req) || r.second && r.hasSuccess(req))
}

// mayChange reports whether another password or account in the request might make an account or change a password.
func (q question) mayChange() bool {
	below := strings.TrimPrefix(q.req.URL.Path, q.path.written)
	return q.path.folder && !q.Basic() && (accountForm.MatchString(below) && !loginForm.MatchString(below) ||
		accountFields.Match(q.body))
}

// byPassword sends the same attempt with another password or account, once for each credential.
func (q question) byPassword(other func(Credential) Credential) (Basis, error) {
	switch {
	case q.mayChange():
		return Unclear, nil
	case q.second && !q.succeeded: // an app lets a session try few codes
		if repeats(q.req) {
			return Unclear, nil
		}
		return OnPassword, nil
	case q.second:
		sent, err := q.read(q.req, q.body)
		if err != nil || len(sent.Credentials) == 0 {
			return Unclear, err
		}
		other = func(c Credential) Credential {
			return Credential{Account: MadeUp(c.Account, sent.Credentials[0].Account)}
		}
	case !q.hasPassword():
		other = func(c Credential) Credential { return Credential{Account: madeUpName(c.Account)} }
	}
	for _, c := range q.offer.Credentials {
		again := q.req.Clone(q.req.Context())
		a, err := q.ask(again, q.offer.Spoil(again, q.body, other(c)))
		switch {
		case err != nil:
			return Unclear, err
		case q.Judge(a) == Succeeded && !q.hasPassword(): // some forms answer every name alike
			return Unclear, nil
		case q.Judge(a) == Succeeded:
			return OnSession, nil
		case q.inconclusive(a), q.account.kind == basic && !reads(q.req) && a.Status != http.StatusUnauthorized:
			return Unclear, nil
		}
	}
	return OnPassword, nil
}

// repeats reports whether a cookie may hold two sessions: one that the proxy knows, and one that the app reads.
func repeats(req *http.Request) bool {
	values := map[string]string{}
	for _, f := range cookies(req) {
		name := strings.TrimSpace(f.name)
		if before, ok := values[name]; ok && before != f.value {
			return true
		}
		values[name] = f.value
	}
	return false
}

func reads(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// inconclusive reports whether the app may have failed for another reason than the made-up password, such as its own
// throttle.
func (q question) inconclusive(a Answer) bool {
	return q.Judge(a) == Abandoned || a.Status == http.StatusTooManyRequests || a.Status/100 == 5
}

// Away reports whether the app answers anonymous clients, too, as if it were down. An answer to an attempt may look so
// for what the client sent: a gateway answers 502 to a long Location, which repeats a Referer or a field.
func (r *Route) Away(req *http.Request, ask Ask) bool {
	get := question{Route: r, req: req}.get()
	get.URL = &url.URL{Path: cmp.Or(r.path.written, "/")}
	get.Header = http.Header{"User-Agent": {"Mozilla/5.0"}, "Accept": {"text/html,*/*;q=0.8"}}
	a, err := ask(get, nil)
	return err == nil && r.Judge(a) == Abandoned
}

// withoutHeader probes the page without the Authorization header, and with a made-up password. It sends safe methods
// only, without a body, which is a stream: other methods may change data.
func (q question) withoutHeader() (Basis, error) {
	get, carries := q.get(), q.mayCarrySession(q.req, nil)
	if slices.Contains(safeMethods, q.req.Method) {
		get.Method = q.req.Method
	}
	safe := q.req.Method == get.Method
	switch {
	case !safe && (q.path.folder || q.req.Method == http.MethodTrace): // a POST may be public where a GET is not
		return Unclear, nil
	case !safe && !carries && slices.Contains(q.methods, q.req.Method):
		return OnPassword, nil // a login's own path, such as POST /api/login
	}
	a, err := q.ask(get, nil)
	switch closed := q.Judge(a) != Succeeded; {
	case err != nil:
		return OnSession, err
	case !safe && a.Status == http.StatusUnauthorized, safe && closed && !carries:
		return OnPassword, nil
	case !safe:
		return Unclear, nil
	}
	made := get.Clone(get.Context())
	q.offer.Spoil(made, nil, madeUp(q.offer.Credentials[0]))
	b, err := q.ask(made, nil)
	switch {
	case err != nil:
		return Unclear, err
	case q.inconclusive(b):
		return Unclear, nil
	case q.Judge(b) != Succeeded:
		return OnPassword, nil
	case q.Judge(a) != Succeeded:
		return OnSession, nil // DokuWiki renews a user's session despite a wrong header
	}
	return OnAddress, nil
}

// safeMethods begin the session of a WebDAV or CalDAV client (RFC 9110, 9.2.1; RFC 4918, 9.1; RFC 3253, 3.6).
var safeMethods = []string{http.MethodHead, http.MethodOptions, "PROPFIND", "REPORT"}

type look struct {
	*http.Request
	asSent    bool
	elsewhere bool // at the route's own path, which the client spells otherwise
}

// gets returns the probes of a page, as browsers send them. The first has all that can carry a session. That may also
// change the response (?page=help, X-Format: xml), so the second has only what carries most sessions. The last has the
// attempt's headers, since sessions may be bound to Accept-Language and the like. It only detects a session.
func (q question) gets() []look {
	all, asSent, accept := q.get(), q.get(), "text/html,application/xhtml+xml,*/*;q=0.8"
	if slices.ContainsFunc(q.signedIn.conditions, func(c condition) bool { return c.what == "json" }) {
		accept = "application/json,*/*;q=0.8"
	}
	plain := all.Clone(all.Context())
	plain.URL.RawQuery = ""
	for name := range asSent.Header {
		if harmless(name) && name != "User-Agent" { // sessions may be bound to it
			all.Header.Del(name)
			plain.Header.Del(name)
		}
		if name != "Cookie" && name != "Authorization" && name != "User-Agent" {
			plain.Header.Del(name)
		}
	}
	looks := []look{{Request: all}}
	same := len(plain.Header) == len(all.Header) && plain.URL.RawQuery == all.URL.RawQuery
	if !same && q.mayCarrySession(plain, nil) {
		looks = append(looks, look{Request: plain})
	}
	// At another spelling of the path, /login.json, an app may answer everybody alike.
	session := pathSession.FindString(all.URL.Path)
	if q.ReadsForm() && strings.TrimSuffix(all.URL.Path, session) != q.path.written {
		there := all.Clone(all.Context())
		there.URL.Path, there.URL.RawPath = q.path.written+session, ""
		there.Header.Set("Accept", accept)
		looks = append(looks, look{Request: there, elsewhere: true})
	}
	bound := len(asSent.Header) > len(all.Header)
	all.Header.Set("Accept", accept)
	plain.Header.Set("Accept", accept)
	if bound {
		looks = append(looks, look{Request: asSent, asSent: true})
	}
	for _, one := range looks {
		uncached(one.Request)
	}
	return looks
}

// uncached asks caches between the proxy and the app for a new response: they may answer a signed-in client with what
// an anonymous one got.
func uncached(r *http.Request) {
	r.URL.RawQuery = strings.TrimPrefix(r.URL.RawQuery+"&_="+rand.Text(), "&")
	r.Header.Set("Cache-Control", "no-cache")
}

// cached reports whether a cache has answered nevertheless.
func cached(a Answer) bool {
	age := a.Header.Get("Age")
	return age != "" && age != "0" || slices.ContainsFunc([]string{"X-Cache", "X-Cache-Status", "Cf-Cache-Status"},
		func(name string) bool { return strings.Contains(strings.ToLower(a.Header.Get(name)), "hit") })
}

// anonymous returns the request without headers that can carry a session.
func anonymous(r *http.Request) *http.Request {
	r = r.Clone(r.Context())
	for name := range r.Header {
		if !harmless(name) {
			r.Header.Del(name)
		}
	}
	uncached(r)
	return r
}

// get returns a GET by the same client at the same URL. It lacks body, credentials, and headers that change the
// response to GET (304, 206, a prefetch).
func (q question) get() *http.Request {
	get := q.req.Clone(q.req.Context())
	get.Method, get.Body, get.GetBody = http.MethodGet, http.NoBody, nil
	get.ContentLength, get.TransferEncoding, get.Trailer = 0, nil, nil
	for name := range get.Header {
		if forGET.MatchString(name) {
			get.Header.Del(name)
		}
	}
	if q.account.kind == basic {
		get.Header.Del("Authorization")
	}
	hidden := func(pair string) bool {
		return slices.ContainsFunc(keys(pair), func(key string) bool {
			return q.account.kind == param && (looksLike(key, q.account.name) || looksLike(key, q.password.name))
		})
	}
	if pairs := strings.Split(get.URL.RawQuery, "&"); slices.ContainsFunc(pairs, hidden) {
		get.URL.RawQuery = strings.Join(slices.DeleteFunc(pairs, hidden), "&")
	}
	return get
}

var forGET = regexp.MustCompile(`^(Content-.*|Transfer-Encoding|Trailer|Expect|If-.*|Range|Upgrade|Connection|` +
	`(Sec-|X-)?Purpose|X-Moz)$`)

// mayCarrySession reports whether a request can identify a session. The form fields at a single path do not matter: no
// GET carries them.
func (r *Route) mayCarrySession(req *http.Request, body []byte) bool {
	if req.URL.RawQuery != "" || strings.Contains(req.URL.EscapedPath(), ";") {
		return true
	}
	for name := range req.Header {
		if !harmless(name) && (name != "Authorization" || r.account.kind != basic) {
			return true
		}
	}
	var names []string
	switch {
	case r.account.kind == object:
		names = jsonNames(string(body))
	case r.path.folder && r.account.kind != basic:
		fields, _ := formFields(req, body)
		for _, f := range fields {
			names = append(names, f.name)
		}
	}
	own := strings.FieldsFunc(r.account.name+"/"+r.password.name, func(c rune) bool { return c == '/' })
	return slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(own, name) })
}

// harmless reports whether a header carries no session: browsers and gateways set these.
func harmless(name string) bool { return harmlessNames.MatchString(name) }

var harmlessNames = regexp.MustCompile(`^(Host|User-Agent|Accept(-.*)?|Content-(Type|Length|Encoding|Language)|` +
	`Origin|Refer+er|` +
	`Sec-(Fetch|Ch|Gpc)(-.*)?|Connection|Cache-Control|Pragma|Priority|Dnt|Te|Expect|Date|Upgrade-Insecure-Requests|` +
	`X-Requested-With|Via|Traceparent|X-Request-Id|Authguard-.*)$`)

// whither returns the target of a redirect, without query and session.
func whither(a Answer) string {
	before, _, _ := strings.Cut(a.Header.Get("Location"), "?")
	return pathSession.ReplaceAllString(before, "")
}

// leadsTo reports whether a redirect leads to a path, as after a session has expired.
func leadsTo(a Answer, path string) bool {
	return strings.HasSuffix(strings.TrimRight(whither(a), "/"), strings.TrimRight(path, "/"))
}

type signedInRule struct {
	never      bool // the app checks every password
	page       string
	conditions []condition
}

func (r *signedInRule) holds(a Answer) bool {
	return !slices.ContainsFunc(r.conditions, func(c condition) bool { return !c.holds(&a) })
}

func (r *Route) parseSignedIn(written []string) error {
	rule := &r.signedIn
	for _, text := range written {
		if page, ok := strings.CutPrefix(strings.TrimSpace(text), "page "); ok && rule.page == "" {
			rule.page = strings.TrimSpace(page)
			if p, err := parsePath(rule.page); err != nil || p.folder {
				return fmt.Errorf("signed_in: page must be one path, such as page /account, not %.60q", rule.page)
			}
			continue
		}
		c, err := parseCondition(text)
		if err != nil {
			return fmt.Errorf("signed_in: %w", err)
		}
		rule.never = rule.never || c.what == "never"
		rule.conditions = append(rule.conditions, c)
	}
	switch {
	case len(written) == 0:
	case len(rule.conditions) == 0:
		return errors.New("signed_in: must be what a signed-in visitor gets, such as [page /account, status 200]")
	case rule.never && len(written) > 1:
		return errors.New("signed_in: never must be the only condition")
	case rule.page == "" && r.path.folder && !rule.never:
		return errors.New("signed_in: must have a page if the route is a folder, such as [page /account, status 200]")
	}
	return nil
}
