package route

import (
	"fmt"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// A Credential is an account name with the password that a request offers for it.
type Credential struct{ Account, Password string }

// An Offer is the credentials in one request, none if it offers no password.
type Offer struct {
	Credentials []Credential
	// Spoil replaces every account name and every password in the request by another; empty: it keeps them.
	Spoil func(r *http.Request, body []byte, other Credential) (spoiled []byte)
}

// A Refusal is an error for a request that two parsers could read differently. It must not reach the app.
type Refusal struct {
	Status int
	Text   string // for the client
}

// Error returns the text.
func (r *Refusal) Error() string { return r.Text }

func refuse(format string, args ...any) error {
	return &Refusal{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

// A locator is the position of a text in a request.
type locator struct {
	kind    kind
	name    string   // of a field, or the pointer as configured
	pointer []string // of JSON
}

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

// parsePointer parses a JSON pointer (RFC 6901).
func parsePointer(s string) (keys []string, err error) {
	if !strings.HasPrefix(s, "/") {
		return nil, fmt.Errorf("must be a JSON pointer such as /user/name, not %.60q", s)
	}
	for key := range strings.SplitSeq(s[1:], "/") {
		keys = append(keys, strings.NewReplacer("~1", "/", "~0", "~").Replace(key))
	}
	return keys, nil
}

// Find returns the first route that the request offers a password at, with the offer; nil if none. The body is
// complete, or nil if it is too large to be read here. The error is a *Refusal that counts at the returned route.
func (t Table) Find(r *http.Request, body []byte) (found *Route, offer Offer, err error) {
	if at, err := t.sane(r, body); err != nil {
		return at, Offer{}, err
	}
	for _, one := range t {
		again := found != nil && found.account.at() == one.account.at()
		if !one.offers(r.Method) || again && offer.Credentials[0].Password != "" {
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
		case len(o.Credentials) == 0, found != nil && o.Credentials[0].Account == "",
			again && o.Credentials[0].Password == "":
		case found != nil && found.Name == one.Name && slices.Equal(offer.Credentials, o.Credentials): // npm login sends both
			first := offer.Spoil
			offer.Spoil = func(r *http.Request, body []byte, other Credential) []byte {
				return o.Spoil(r, first(r, body, other), other)
			}
		case found != nil && !again && offer.Credentials[0].Account != "":
			// Apps differ in which one they use: WordPress decides by another field, action.
			return one, Offer{}, refuse("Send either %s or %s.", found.account.at(), one.account.at())
		default: // the first, or the first with a name, or with the account's password
			found, offer = one, o
			offer.Spoil = func(r *http.Request, body []byte, other Credential) []byte {
				for _, name := range [...]string{"Content-Md5", "Digest", "Content-Digest", "Repr-Digest"} {
					r.Header.Del(name) // of the body as it was
				}
				return o.Spoil(r, body, other)
			}
		}
	}
	account := ""
	if found != nil {
		account = offer.Credentials[0].Account
	}
	if at, err := t.unread(r, body, found, account); err != nil {
		return at, Offer{}, err
	}
	return found, offer, nil
}

// unread rejects a request in which an app may find fields that no route has read.
func (t Table) unread(r *http.Request, body []byte, found *Route, account string) (at *Route, err error) {
	if !slices.ContainsFunc(t, (*Route).inFields) {
		return nil, nil
	}
	all := readLeniently(r, body)
	if at = t.hidden(r, &all, found); at != nil {
		return at, &Refusal{http.StatusUnsupportedMediaType, "Send what the login form sends, in the way that it does."}
	}
	if others := t.otherAccounts(r, &all, found); len(others) > 0 {
		return found, refuse("Send one account name, and not also %.60s.", others[0])
	}
	if at = t.inCookies(&all, found, account); at != nil {
		return at, refuse("A cookie or a header has the name of a field of the login form. Delete this site's cookies.")
	}
	if found != nil && (found.account.kind != basic || len(body) == 0) {
		return nil, nil // a header says nothing about the body
	}
	if at = t.missing(r, body, &all); at == nil {
		return nil, nil
	}
	if len(body) > 0 && !slices.ContainsFunc(t, func(one *Route) bool { return one.account.reads(r) }) {
		return at, &Refusal{http.StatusUnsupportedMediaType,
			"Send what the login form sends: this body is of another type."}
	}
	if at.password.kind == nowhere {
		return at, refuse("The form has not what this page asks for: send the field %.60s.", at.account.name)
	}
	return at, refuse("The form has not what this page asks for: send the fields %.60s and %.60s.",
		at.account.name, at.password.name)
}

func (l locator) last() string {
	if l.kind == object {
		return l.pointer[len(l.pointer)-1]
	}
	if all := nested(l.name); len(all) > 0 {
		return all[len(all)-1]
	}
	return l.name
}

// mostOffered is the maximum number of accounts that one request may offer passwords for.
const mostOffered = 5

// few removes duplicates, which are one guess. It rejects what only attackers send: two passwords or spellings for an
// account, or many accounts. Their attempts would wait for each other.
func few(all []Credential) (kept []Credential, err error) {
	for _, c := range all {
		switch i := slices.IndexFunc(kept, func(k Credential) bool { return strings.EqualFold(k.Account, c.Account) }); {
		case i >= 0 && kept[i] != c: // to some apps, ALICE and alice are two accounts
			return nil, refuse("Send one password for an account, and one spelling of its name.")
		case i < 0:
			kept = append(kept, c)
		}
	}
	if len(kept) > mostOffered {
		return nil, refuse("Send the passwords of at most %d accounts at once.", mostOffered)
	}
	return kept, nil
}

// named rejects account names that do not match Spec.Names. It also rejects control characters, since some apps cut
// names there.
func (r *Route) named(all []Credential) error {
	for _, c := range all {
		if c.Account == "" {
			continue // the guard rejects it, if no other route finds a name
		}
		if strings.ContainsFunc(c.Account, unicode.IsControl) || !r.names.MatchString(strings.Trim(c.Account, " ")) {
			return refuse("No account has a name like that. Write it in its usual way.")
		}
	}
	return nil
}

// sane rejects what no browser sends to a login: an encoded body, a method that the app may read as POST, a page
// request with a body, a password or a code.
func (t Table) sane(r *http.Request, body []byte) (at *Route, err error) {
	for _, one := range t {
		if len(body) > 0 && foreign(r) && one.account.kind != basic {
			return one, errForeign
		}
		if one.path.folder || one.offers(r.Method) {
			continue
		}
		switch r.Method {
		case http.MethodGet, http.MethodHead, http.MethodOptions:
			if len(body) > 0 {
				return one, refuse("Send no body with %s.", r.Method)
			}
			if l := one.secret(); l.in(keys(r.URL.RawQuery)) {
				return one, refuse("Send %s in the body of a form, not in the address.", l.at())
			}
		default:
			if !t.offers(r.Method) {
				return one, &Refusal{http.StatusMethodNotAllowed, "Nothing here is sent with " + r.Method + "."}
			}
		}
	}
	return nil, nil
}

var errForeign = &Refusal{http.StatusUnsupportedMediaType, "Send the body as it is, in UTF-8 and without compression."}

func (t Table) offers(method string) bool {
	for _, r := range t {
		if r.offers(method) {
			return true
		}
	}
	return false
}

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

// mediaType returns the type of a body; empty if it is not in UTF-8 or in an unusual form. Django decodes a form by the
// charset that the client declares, and to PHP a tab or U+00A0 is part of the type.
func mediaType(r *http.Request) string {
	types := r.Header.Values("Content-Type")
	if len(types) != 1 || !usualType.MatchString(types[0]) {
		return ""
	}
	kind, params, err := mime.ParseMediaType(types[0])
	if charset := params["charset"]; err != nil || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return ""
	}
	return kind
}

var usualType = regexp.MustCompile(`^[\w.+-]+/[\w.+-]+(?:; ?[\w.-]+="?[!#-+.-:<-~-]*"?)*;?$`)

func (r *Route) read(req *http.Request, body []byte) (Offer, error) {
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
