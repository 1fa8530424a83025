package route

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// A Basis is what the app's answer to an attempt is based on. The zero Basis is OnSession.
type Basis uint8

const (
	// OnSession: on who is signed in already, whatever the password. Devise, Laravel and
	// Django redirect such a visitor, and the redirection looks like a success.
	OnSession Basis = iota
	// OnPassword: on the password, if the answer is a success.
	OnPassword
	// OnAddress: on nothing that was sent, since the page is open to all. Basic alone.
	OnAddress
	// Unclear: only an answer that is no success says something. Basic alone.
	Unclear
)

// Ask sends a request with this body to the app, and returns the answer.
type Ask func(r *http.Request, body []byte) (Answer, error)

// Basis finds out what the app's answer to an attempt will be based on, before the app gets
// it. A request without anything that can carry a session needs no question. Otherwise
// it asks, in this order:
//
//   - for the page of Spec.SignedIn, where that is set;
//   - for the login's own page, as the visitor gets it: who is signed in gets none;
//   - where that page says nothing, whether a made-up password would be a success, too.
//
// An error is Ask's.
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
	case !r.path.folder && (r.account.kind == form || r.account.kind == param):
		return q.byForm()
	}
	return q.byPassword()
}

// A question is about one attempt.
type question struct {
	*Route
	req   *http.Request
	body  []byte
	offer Offer
	ask   Ask
}

// byPage asks for the page that tells.
func (q question) byPage() (Basis, error) {
	get := q.get()
	if q.signedIn.page != "" {
		get.URL.Path, get.URL.RawPath = q.signedIn.page+pathSession.FindString(get.URL.Path), ""
	}
	a, err := q.ask(get, nil)
	for _, c := range q.signedIn.conditions {
		if err == nil && !c.holds(&a) {
			return OnPassword, nil
		}
	}
	return OnSession, err
}

// pathSession is a session in a path: /login;jsessionid=1.
var pathSession = regexp.MustCompile(`;[^/]*$`)

// byForm asks for the login's page. With a query it is asked for without one, too: the
// same form may be taken at /login?page=help, and that page shown to everyone.
func (q question) byForm() (Basis, error) {
	gets := []*http.Request{q.get()}
	if gets[0].URL.RawQuery != "" {
		plain := q.get()
		plain.URL.RawQuery = ""
		gets = append(gets, plain)
	}
	for _, get := range gets {
		a, err := q.ask(get, nil)
		if err != nil {
			return OnSession, err
		}
		success := q.Judge(a) == Succeeded
		if !success && (a.Status/100 == 2 || a.Status == http.StatusUnauthorized) {
			continue // the form
		}
		anonymous := get.Clone(get.Context())
		for name := range anonymous.Header {
			if !harmless(name) {
				anonymous.Header.Del(name)
			}
		}
		b, err := q.ask(anonymous, nil)
		switch {
		case err != nil:
			return OnSession, err
		case success != (q.Judge(b) == Succeeded), a.Status/100 == 3 && whither(a) != whither(b) && !leadsTo(a, get.URL.Path):
			return OnSession, nil
		}
		return q.byPassword() // everyone gets this
	}
	return OnPassword, nil
}

// byPassword sends the same attempt with a password made up here.
func (q question) byPassword() (Basis, error) {
	if q.password.kind == nowhere && q.account.kind != xmlrpc {
		return OnPassword, nil // there is none to check
	}
	other := q.req.Clone(q.req.Context())
	a, err := q.ask(other, q.offer.Spoil(other, q.body, rand.Text()))
	if err == nil && q.Judge(a) != Succeeded {
		return OnPassword, nil
	}
	return OnSession, err
}

// withoutHeader asks for the page without the Authorization header, and with a made-up one.
// The body is a stream, and may change something: only GET is sent.
func (q question) withoutHeader() (Basis, error) {
	safe := q.req.Method == http.MethodGet || q.req.Method == http.MethodHead
	if !safe && !q.mayCarrySession(q.req, nil) {
		return OnPassword, nil
	}
	a, err := q.ask(q.get(), nil)
	switch {
	case err != nil:
		return OnSession, err
	case q.Judge(a) != Succeeded && (safe || a.Status == http.StatusUnauthorized):
		return OnPassword, nil
	case !safe:
		return Unclear, nil
	}
	get := q.get()
	q.offer.Spoil(get, nil, rand.Text())
	if a, err = q.ask(get, nil); err == nil && q.Judge(a) != Succeeded {
		return OnPassword, nil
	}
	return OnAddress, err
}

// get is a GET by the same visitor at the same address: without the body, the
// credentials, and what a GET alone is answered otherwise for (304, 206, a prefetch).
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

// mayCarrySession reports whether something in a request can say who is signed in. A form's
// fields are not looked at where the form is at a single path: no GET carries them.
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

// whither is where an answer redirects to.
func whither(a Answer) string {
	before, _, _ := strings.Cut(a.Header.Get("Location"), "?")
	return before
}

// leadsTo reports whether a redirection leads to a path, as after a session has expired.
func leadsTo(a Answer, path string) bool {
	return strings.HasSuffix(strings.TrimRight(whither(a), "/"), strings.TrimRight(path, "/"))
}

// A signedInRule is Spec.SignedIn.
type signedInRule struct {
	never      bool // the app checks the password of everyone
	page       string
	conditions []condition
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
		return errors.New("signed_in: must say what a visitor who is signed in gets, such as [page /account, status 200]")
	case rule.never && len(written) > 1:
		return errors.New("signed_in: never must stand alone, for an app that checks the password of every visitor")
	case rule.page == "" && r.path.folder && !rule.never:
		return errors.New("signed_in: must name a page where the route is a folder, such as [page /account, status 200]")
	}
	return nil
}
