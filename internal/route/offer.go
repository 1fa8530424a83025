package route

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
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

// mayBeJSON reports whether an app may read a body as JSON: many do so whatever they are
// told, but what is told to be something else altogether is an upload.
func mayBeJSON(r *http.Request) bool {
	kind := strings.ToLower(strings.Join(r.Header.Values("Content-Type"), ","))
	for _, one := range []string{"json", "text", "octet-stream"} {
		if strings.Contains(kind, one) {
			return true
		}
	}
	return !strings.Contains(kind, "/")
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

// members are the names in all objects of a JSON text.
func members(body []byte) (names []string) {
	body = bytes.TrimPrefix(body, []byte("\ufeff"))
	if kind := jsontext.Value(body).Kind(); kind != '{' && kind != '[' {
		return nil
	}
	d := jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for {
		within, n := d.StackIndex(d.StackDepth())
		token, err := d.ReadToken()
		if err != nil {
			return names
		}
		if within == '{' && n%2 == 0 && token.Kind() == '"' {
			names = append(names, token.String())
		}
	}
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

// readForm reads the two fields: once each, in the body or, for param, in the query.
func (r *Route) readForm(req *http.Request, body []byte) (Offer, error) {
	if kind, _ := formType(req); kind == noForm && len(body) > 0 && (!r.path.folder || mayHoldFields(req)) {
		return Offer{}, r.otherForm(req)
	}
	fields, err := formFields(req, body)
	if err != nil {
		return Offer{}, err
	}
	var found [2]*string
	for i, l := range []locator{r.account, r.password} {
		if l.kind == nowhere {
			continue
		}
		if found[i], err = l.field(req.URL.RawQuery, fields); err != nil {
			return Offer{}, err
		}
	}
	if found[0] == nil && found[1] == nil {
		return Offer{}, nil
	}
	c := Credential{}
	for i, to := range []*string{&c.Account, &c.Password} {
		if found[i] != nil {
			*to = *found[i]
		}
	}
	return Offer{[]Credential{c}, r.spoilForm}, nil
}

// mayHoldFields reports whether an app may take fields out of the body, of whatever
// type it says to be.
func mayHoldFields(req *http.Request) bool {
	kind := strings.ToLower(strings.Join(req.Header.Values("Content-Type"), ","))
	return kind == "" && req.Method == http.MethodPost || strings.Contains(kind, "form")
}

func (r *Route) otherForm(req *http.Request) error {
	if !r.path.folder && !mayHoldFields(req) {
		return nil // typed has the last word: another route may read it
	}
	return &Refusal{http.StatusUnsupportedMediaType, "Send the form as browsers send it, in UTF-8."}
}

// A field is one of a query or of a form.
type field struct {
	name, value string
	whole       bool   // all of both can be read
	at          [2]int // of the value, as it is written
}

// queryFields are the fields of a query, or of a form that is written like one.
func queryFields(text string) (all []field) {
	at := 0
	for pair := range strings.SplitSeq(text, "&") {
		name, value, _ := strings.Cut(pair, "=")
		f := field{at: [2]int{at + len(pair) - len(value), at + len(pair)}}
		var whole bool
		f.name, whole = decodeField(name)
		f.value, f.whole = decodeField(value)
		f.whole = f.whole && whole
		all = append(all, f)
		at += len(pair) + 1
	}
	return all
}

// formFields are the fields of a form: those that are files, too.
func formFields(req *http.Request, body []byte) (all []field, err error) {
	kind, boundary := formType(req)
	switch {
	case len(body) == 0 || kind == noForm:
		return nil, nil
	case kind == urlencodedForm && strings.Contains(string(body), ";"):
		return nil, refuse("Write a semicolon in a form as %%3B.")
	case kind == urlencodedForm:
		return queryFields(string(body)), nil
	}
	reading := newParts(boundary, func(name string, _ bool) error {
		if name == "_charset_" { // RFC 7578, section 4.6: of all other fields, to some
			return errPart
		}
		all = append(all, field{name: name, whole: true})
		return nil
	})
	reading.data = func(from, to int) {
		if f := &all[len(all)-1]; f.at[1] == 0 {
			f.at = [2]int{from, to}
		} else {
			f.at[1] = to
		}
	}
	_, err = reading.feed(body, true)
	for i, f := range all {
		all[i].value = string(body[f.at[0]:f.at[1]])
	}
	return all, err
}

// field is the value of a field; nil if there is none.
func (l locator) field(query string, body []field) (value *string, err error) {
	if strings.Contains(query, ";") && slices.ContainsFunc(keys(query), func(key string) bool { return looksLike(key, l.name) }) {
		return nil, refuse("Write a semicolon in an address as %%3B.")
	}
	for i, fields := range [][]field{queryFields(query), body} {
		for _, f := range fields {
			switch {
			case !f.whole && i == 1:
				return nil, refuse("The form cannot be read.")
			case !looksLike(f.name, l.name):
			case !f.whole || f.name != l.name || value != nil || i == 0 && l.kind == form:
				return nil, refuse("Send the field %.60q once, in the form.", l.name)
			default:
				value = &f.value
			}
		}
	}
	if value != nil && !utf8.ValidString(*value) {
		return nil, refuse("Send the field %.60q in UTF-8.", l.name)
	}
	return value, nil
}

// decodeField decodes a name or a value of a form. If not all of it can be decoded it
// decodes the rest, as lenient apps do.
func decodeField(s string) (text string, whole bool) {
	if text, err := url.QueryUnescape(s); err == nil {
		return text, true
	}
	return decode(strings.ReplaceAll(s, "+", " ")), false
}

// keys are the names of a query, by whichever separator.
func keys(query string) (all []string) {
	for pair := range strings.FieldsFuncSeq(query, func(r rune) bool { return r == '&' || r == ';' }) {
		raw, _, _ := strings.Cut(pair, "=")
		key, _ := decodeField(raw)
		all = append(all, key)
	}
	return all
}

// looksLike reports whether an app may take one field for the other. PHP writes an
// underscore for dots, spaces and an open bracket, and forgets what comes after the
// last bracket; it, Express and Rails make a list or a member of name[] and name[x],
// and the latter two take [name] for name. Spring takes !name for a default, Zope
// name:int for one with a type. Others cut at a NUL, fold case, width or white space.
func looksLike(key, field string) bool {
	if key == field {
		return true
	}
	if !strings.Contains(field, ":") {
		key, _, _ = strings.Cut(key, ":")
	}
	k, f := nested(key), nested(field)
	switch {
	case len(f) == 0:
		return false
	case len(k) >= len(f) && slices.Equal(k[:len(f)], f):
		return true
	}
	return strings.Join(k, "_") == strings.Join(f, "_")
}

// nested are the names in a[b][c], as loosely as apps read them.
func nested(s string) []string {
	s, _, _ = strings.Cut(s, "\x00")
	s = strings.TrimLeft(cases.Fold().String(norm.NFKC.String(s)), "! \t\r\n\v\f")
	all := strings.FieldsFunc(s, func(r rune) bool { return r == '[' || r == ']' })
	for i, name := range all {
		all[i] = strings.TrimRight(joined.Replace(strings.TrimSpace(name)), "_")
	}
	return all
}

var joined = strings.NewReplacer(".", "_", " ", "_", "+", "_")

// spoilForm puts a password into the body's or the query's field.
func (r *Route) spoilForm(req *http.Request, body []byte, password string) []byte {
	put := func(text string, fields []field, password string) string {
		for _, f := range slices.Backward(fields) {
			if f.name == r.password.name {
				text = text[:f.at[0]] + password + text[f.at[1]:]
			}
		}
		return text
	}
	escaped := url.QueryEscape(password)
	if r.password.kind == param {
		req.URL.RawQuery = put(req.URL.RawQuery, queryFields(req.URL.RawQuery), escaped)
	}
	if kind, _ := formType(req); kind == urlencodedForm {
		password = escaped
	}
	fields, _ := formFields(req, body) // which was read before
	return []byte(put(string(body), fields, password))
}

// readJSON reads one object: strict, since parsers differ in which of two equal
// names they take, and in whether names are folded.
func (r *Route) readJSON(req *http.Request, body []byte) (Offer, error) {
	if !r.account.reads(req) {
		if beginsObject(body) { // an app may look at no type
			return Offer{}, &Refusal{http.StatusUnsupportedMediaType, "Send JSON as application/json, in UTF-8."}
		}
		return Offer{}, nil
	}
	for _, key := range keys(req.URL.RawQuery) {
		if l := r.password; l.kind != nowhere && looksLike(key, l.pointer[len(l.pointer)-1]) {
			return Offer{}, refuse("Send the password in the body, not in the address.")
		}
	}
	if jsontext.Value(body).Kind() != '{' || !jsontext.Value(body).IsValid() {
		return Offer{}, refuse("Send one JSON object, in which every name comes once.")
	}
	var top map[string]any
	if err := json.Unmarshal(body, &top); err != nil {
		return Offer{}, refuse("Send one JSON object, in which every name comes once.")
	}
	var c Credential
	found := 0
	for i, l := range []locator{r.account, r.password} {
		if l.kind == nowhere {
			continue
		}
		value, ok, err := l.member(top)
		if err != nil {
			return Offer{}, err
		}
		if ok {
			found++
			*[]*string{&c.Account, &c.Password}[i] = value
		}
	}
	if found == 0 {
		return Offer{}, nil
	}
	return Offer{[]Credential{c}, r.spoilJSON}, nil
}

// beginsObject reports whether a body begins like a JSON object.
func beginsObject(body []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(bytes.TrimPrefix(body, []byte("\ufeff")), " \t\r\n"), []byte("{"))
}

// member is the text that the pointer leads to.
func (l locator) member(top map[string]any) (text string, ok bool, err error) {
	at := top
	for i, want := range l.pointer {
		for key := range at {
			if key != want && looksLike(key, want) {
				return "", false, refuse("Write the name %.60q in one way.", want)
			}
		}
		value, ok := at[want]
		if !ok {
			return "", false, nil
		}
		text, isText := value.(string)
		if i == len(l.pointer)-1 {
			if !isText {
				return "", false, refuse("The member %s must be a JSON string.", l.name)
			}
			return text, true, nil
		}
		if at, ok = value.(map[string]any); !ok {
			return "", false, refuse("The member %.60q must be a JSON object.", want)
		}
	}
	return "", false, nil
}

func (r *Route) spoilJSON(_ *http.Request, body []byte, password string) []byte {
	var top map[string]any
	if r.password.kind == nowhere || json.Unmarshal(body, &top) != nil {
		return body
	}
	at := top
	for _, key := range r.password.pointer[:len(r.password.pointer)-1] {
		at, _ = at[key].(map[string]any)
	}
	if _, ok := at[r.password.pointer[len(r.password.pointer)-1]]; ok {
		at[r.password.pointer[len(r.password.pointer)-1]] = password
	}
	spoiled, err := json.Marshal(top, json.Deterministic(true))
	if err != nil {
		return body
	}
	return spoiled
}

// follow is the value that a pointer leads to in what encoding/json has read.
func follow(top any, pointer []string) (any, bool) {
	for _, key := range pointer {
		object, ok := top.(map[string]any)
		if !ok {
			return nil, false
		}
		if top, ok = object[key]; !ok {
			return nil, false
		}
	}
	return top, true
}
