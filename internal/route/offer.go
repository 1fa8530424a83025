package route

import (
	"encoding/base64"
	"fmt"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Credential is an account's name and the password that is offered for it.
type Credential struct{ Account, Password string }

// An Offer is what one request offers. Without credentials, it offers nothing.
type Offer struct {
	Credentials []Credential
	// Spoil puts another password in place of every one that is offered.
	Spoil func(r *http.Request, body []byte, password string) (spoiled []byte)
}

// A Refusal is a request that two readers could take for two different ones. It
// must not reach the app.
type Refusal struct {
	Status int
	Text   string // for its sender
}

// Error is the text.
func (r *Refusal) Error() string { return r.Text }

func refuse(format string, args ...any) error {
	return &Refusal{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

// A locator says where a text is in a request.
type locator struct {
	kind    kind
	name    string   // of a field, or the pointer as it was written
	pointer []string // of JSON
}

// at is the locator as people know it.
func (l locator) at() string {
	switch l.kind {
	case basic:
		return "an Authorization header"
	case xmlrpc:
		return "a call of XML-RPC"
	}
	return fmt.Sprintf("the field %.60q", l.name)
}

type kind uint8

const (
	nowhere kind = iota
	form
	param
	object
	basic
	xmlrpc
)

func parseLocator(written string) (l locator, err error) {
	what, name, named := strings.Cut(written, ":")
	l.name = name
	switch {
	case what == "form" && name != "":
		l.kind = form
	case what == "param" && name != "":
		l.kind = param
	case what == "json" && name != "":
		l.kind = object
		l.pointer, err = parsePointer(name)
	case what == "basic" && !named:
		l.kind = basic
	case what == "xmlrpc" && !named:
		l.kind = xmlrpc
	default:
		return l, fmt.Errorf("must be form:NAME, param:NAME, json:/POINTER, basic or xmlrpc, not %.60q", written)
	}
	return l, err
}

// parsePointer reads a JSON pointer (RFC 6901).
func parsePointer(s string) (keys []string, err error) {
	if !strings.HasPrefix(s, "/") {
		return nil, fmt.Errorf("must be a JSON pointer such as /user/name, not %.60q", s)
	}
	for key := range strings.SplitSeq(s[1:], "/") {
		keys = append(keys, strings.NewReplacer("~1", "/", "~0", "~").Replace(key))
	}
	return keys, nil
}

// Find is the first of the routes that the request offers a password at, and what it
// offers; nil if it offers none. The body is all of it. The error is a *Refusal.
func (t Table) Find(r *http.Request, body []byte) (found *Route, offer Offer, err error) {
	if err := t.sane(r, body); err != nil {
		return nil, Offer{}, err
	}
	for _, one := range t {
		if one.path.folder && !t.readsJSON(r) && one.hides(r, body) {
			return one, Offer{}, &Refusal{http.StatusUnsupportedMediaType, "Send what the login form sends, in the way that it does."}
		}
		if !one.offers(r.Method) || found != nil && found.account.at() == one.account.at() {
			continue
		}
		o, err := one.read(r, body)
		if err == nil && len(o.Credentials) > 0 {
			o.Credentials, err = few(o.Credentials)
		}
		if err == nil && len(o.Credentials) > 0 {
			err = one.named(o.Credentials)
		}
		switch {
		case err != nil:
			return one, Offer{}, err
		case len(o.Credentials) == 0, found != nil && o.Credentials[0].Account == "":
		case found != nil && offer.Credentials[0].Account != "":
			// Which of both the app takes is its own affair: WordPress looks at
			// another field, action.
			return one, Offer{}, refuse("Send either %s or %s.", found.account.at(), one.account.at())
		default: // the first, or the first that has a name
			found, offer = one, o
		}
	}
	if found == nil {
		err = t.typed(r, body)
	}
	return found, offer, err
}

// hides reports whether a request in a folder has both fields in a place where the
// route does not look, and an app may: Express and Rails take JSON for a form, and many
// read JSON of whatever type and method.
func (r *Route) hides(req *http.Request, body []byte) bool {
	if r.password.kind != form && r.password.kind != param && r.password.kind != object {
		return false
	}
	var names []string
	if !r.offers(req.Method) {
		names = keys(req.URL.RawQuery)
		fields, _ := formFields(req, body)
		for _, f := range fields {
			names = append(names, f.name)
		}
	}
	if !r.offers(req.Method) || r.account.kind != object {
		names = append(names, members(body)...)
	}
	has := func(l locator) bool {
		return slices.ContainsFunc(names, func(name string) bool { return looksLike(name, l.name) || looksLike(name, l.last()) })
	}
	return has(r.account) && has(r.password)
}

// readsJSON reports whether one of the routes reads the request as JSON.
func (t Table) readsJSON(r *http.Request) bool {
	return slices.ContainsFunc(t, func(one *Route) bool { return one.account.kind == object && one.offers(r.Method) })
}

// last is the innermost name of the locator.
func (l locator) last() string {
	if l.kind == object {
		return l.pointer[len(l.pointer)-1]
	}
	if all := nested(l.name); len(all) > 0 {
		return all[len(all)-1]
	}
	return l.name
}

// mostOffered is how many accounts one request may offer passwords for.
const mostOffered = 5

// few leaves out what is offered twice, which is one guess, and refuses what nobody
// sends but to guess: two passwords for an account, or many accounts. Their attempts
// would wait for each other.
func few(all []Credential) (kept []Credential, err error) {
	for _, c := range all {
		switch i := slices.IndexFunc(kept, func(k Credential) bool { return strings.EqualFold(k.Account, c.Account) }); {
		case i >= 0 && kept[i].Password != c.Password:
			return nil, refuse("Send one password for an account.")
		case i < 0:
			kept = append(kept, c)
		}
	}
	if len(kept) > mostOffered {
		return nil, refuse("Send the passwords of at most %d accounts at once.", mostOffered)
	}
	return kept, nil
}

// named refuses names that the route does not know to be written in one way. Nobody
// has a control character in a name, but apps cut names there.
func (r *Route) named(all []Credential) error {
	for _, c := range all {
		if c.Account == "" {
			continue // which the guard refuses, if no other route finds a name
		}
		if strings.ContainsFunc(c.Account, unicode.IsControl) || !r.names.MatchString(strings.TrimSpace(c.Account)) {
			return refuse("No account has a name like that. Write it in its usual way.")
		}
	}
	return nil
}

// sane refuses what no browser sends to a login: a method that the app may take for
// POST, or a page that is asked for with a body or a password.
func (t Table) sane(r *http.Request, body []byte) error {
	for _, one := range t {
		if one.path.folder || one.offers(r.Method) {
			continue
		}
		switch r.Method {
		case http.MethodGet, http.MethodHead, http.MethodOptions:
			if len(body) > 0 {
				return refuse("Send no body with %s.", r.Method)
			}
			for _, key := range keys(r.URL.RawQuery) {
				if one.password.kind != nowhere && looksLike(key, one.password.name) {
					return refuse("Send the password in the body of a form, not in the address.")
				}
			}
		default:
			if !t.offers(r.Method) {
				return &Refusal{http.StatusMethodNotAllowed, "Nothing here is sent with " + r.Method + "."}
			}
		}
	}
	return nil
}

func (t Table) offers(method string) bool {
	for _, r := range t {
		if r.offers(method) {
			return true
		}
	}
	return false
}

// typed refuses a body at a single path that none of its routes could read: the app
// may read it.
func (t Table) typed(r *http.Request, body []byte) error {
	if len(body) == 0 || !t.Single() {
		return nil
	}
	for _, one := range t {
		if one.account.kind == basic || one.account.reads(r) {
			return nil
		}
	}
	return &Refusal{http.StatusUnsupportedMediaType, "Send what the login form sends: this body is of another type."}
}

// reads reports whether a body is of the type that the locator looks into.
func (l locator) reads(r *http.Request) bool {
	switch kind := mediaType(r); l.kind {
	case form, param:
		form, _ := formType(r)
		return form != noForm
	case object:
		return kind == "application/json"
	case xmlrpc:
		return kind == "text/xml" || kind == "application/xml"
	}
	return false
}

// mediaType is the type of a request's body; empty for one that is not in UTF-8 or
// cannot be read: Django decodes a form by the encoding that its sender names.
func mediaType(r *http.Request) string {
	types := r.Header.Values("Content-Type")
	if len(types) != 1 {
		return ""
	}
	kind, params, err := mime.ParseMediaType(types[0])
	if charset := params["charset"]; err != nil || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return ""
	}
	return kind
}

// read is what a request offers at the route.
func (r *Route) read(req *http.Request, body []byte) (Offer, error) {
	if body != nil && len(req.Header.Values("Content-Encoding")) > 0 {
		return Offer{}, &Refusal{http.StatusUnsupportedMediaType, "Send the body as it is, without compression."}
	}
	switch r.account.kind {
	case basic:
		return readBasic(req)
	case object:
		return r.readJSON(req, body)
	case xmlrpc:
		return readXMLRPC(req, body)
	}
	return r.readForm(req, body)
}

func readBasic(req *http.Request) (Offer, error) {
	all := req.Header.Values("Authorization")
	if len(all) == 0 {
		return Offer{}, nil
	}
	if len(all) > 1 {
		return Offer{}, refuse("Send one Authorization header.")
	}
	scheme, text, _ := strings.Cut(all[0], " ")
	if !strings.EqualFold(scheme, "basic") {
		if mayBeBasic.MatchString(all[0]) {
			return Offer{}, refuse("The Authorization header cannot be read.")
		}
		return Offer{}, nil
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(text)
	name, password, ok := strings.Cut(string(raw), ":")
	if err != nil || !ok || !utf8.Valid(raw) {
		return Offer{}, refuse("The Authorization header cannot be read.")
	}
	return Offer{[]Credential{{name, password}}, func(r *http.Request, body []byte, password string) []byte {
		r.SetBasicAuth(name, password)
		return body
	}}, nil
}

// mayBeBasic: Django REST framework and others split the header at any white space, some
// servers at commas.
var mayBeBasic = regexp.MustCompile(`(?i)(^|[\s,;\x{85}\x{a0}\x{fffd}])basic($|[^\w+/=.~-])`)
