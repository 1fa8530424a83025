package route

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// readForm reads the two fields: once each, from the body or, for param, from the query.
func (r *Route) readForm(req *http.Request, body []byte) (Offer, error) {
	fields, err := formFields(req, body)
	if kind, _ := formType(req); kind == noForm && len(body) > 0 && mayHoldFields(req) {
		err = errOtherForm
	}
	if err != nil && !r.path.folder { // in a folder: see hidden
		return Offer{}, err
	}
	var found [2]*string
	for i, l := range []locator{r.account, r.password} {
		if l.kind == nowhere {
			continue
		}
		if found[i], err = l.field(req.URL.RawQuery, fields, i == 0); err != nil {
			return Offer{}, err
		}
	}
	if found[1] == nil && (found[0] == nil || r.path.folder && r.hasPassword()) { // see hidden
		return Offer{}, nil
	}
	if err := r.usual(req, fields); err != nil {
		return Offer{}, err
	}
	c := Credential{}
	for i, to := range []*string{&c.Account, &c.Password} {
		if found[i] != nil {
			*to = *found[i]
		}
	}
	return Offer{[]Credential{c}, r.spoilForm}, nil
}

// mostFields is the maximum number of fields in a login's form or query. PHP, Node and ASP.NET ignore fields after some
// 1,000; others reject the request.
const mostFields = 200

// usual is an error for a login that an app may read differently. It has too many fields, is a form without POST, or
// overrides the method in a field.
func (r *Route) usual(req *http.Request, fields []field) error {
	query := queryFields(req.URL.RawQuery)
	if len(fields) > mostFields || len(query) > mostFields {
		return refuse("Send a form of at most %d fields.", mostFields)
	}
	named := req.Method != http.MethodGet && req.Method != http.MethodHead && slices.Contains(r.methods, req.Method)
	if req.Method != http.MethodPost && !named && (r.account.in(namesOf(fields)) || r.password.in(namesOf(fields))) {
		return refuse("Send the form with POST.")
	}
	return sameMethod(req.Method, slices.Concat(query, fields))
}

// sameMethod is an error if a field overrides the request's method: Rack, Rails, Laravel, Symfony, Spring and ASP.NET
// accept that.
func sameMethod(method string, fields []field) error {
	for _, f := range fields {
		if slices.ContainsFunc(methodFields, func(name string) bool { return spells(f.name, name, isSame) }) &&
			f.value != method && f.value != strings.ToLower(method) {
			return refuse("Send the login without the field %.60q.", f.name)
		}
	}
	return nil
}

var methodFields = []string{"_method", "X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"}

// mayHoldFields reports whether an app may parse the body as a form, whatever its declared type.
func mayHoldFields(req *http.Request) bool {
	kind := strings.Join(req.Header.Values("Content-Type"), ",")
	return kind == "" && req.Method == http.MethodPost || formWord.MatchString(kind)
}

var errOtherForm = &Refusal{http.StatusUnsupportedMediaType, "Send the form as browsers send it, in UTF-8."}

type field struct {
	name, value string
	whole       bool   // name and value are fully decodable
	file        bool   // to some app
	at          [2]int // the value's range in the text
}

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

// formFields parses a form, including its files.
func formFields(req *http.Request, body []byte) (all []field, err error) {
	kind, boundary := formType(req)
	switch {
	case len(body) == 0 || kind == noForm:
		return nil, nil
	case kind == urlencodedForm && strings.Contains(string(body), ";"):
		return nil, refuse("Write a semicolon in a form as %%3B.")
	case kind == urlencodedForm:
		all = queryFields(string(body))
		if slices.ContainsFunc(all, func(f field) bool { return !f.whole }) {
			return nil, refuse("The form cannot be read.")
		}
		return all, nil
	}
	reading := newParts(boundary, func(f field) error {
		if f.name == "_charset_" { // RFC 7578, section 4.6: some apps decode all other fields by it
			return errPart
		}
		all = append(all, f)
		return nil
	}, func(at int, piece []byte) error {
		if f := &all[len(all)-1]; f.at[1] == 0 {
			f.at = [2]int{at, at + len(piece)}
		} else {
			f.at[1] = at + len(piece)
		}
		return nil
	})
	_, err = reading.feed(body, true)
	for i, f := range all {
		all[i].value = string(body[f.at[0]:f.at[1]])
		all[i].whole = f.whole || isASCII(all[i].value)
	}
	if err != nil {
		return nil, err
	}
	return all, nil
}

// field returns the value of a field, which must be there once. A link to the form may have filled in the account.
func (l locator) field(query string, body []field, account bool) (value *string, err error) {
	if strings.Contains(query, ";") && slices.ContainsFunc(keys(query), func(key string) bool {
		return looksLike(key, l.name)
	}) {
		return nil, refuse("Write a semicolon in an address as %%3B.")
	}
	once := refuse("Send the field %.60q once, in the form.", l.name)
	var prefilled *string
	for i, fields := range [][]field{queryFields(query), body} {
		for _, f := range fields {
			at := &value
			inQuery := i == 0 && l.kind == form
			if inQuery {
				at = &prefilled
			}
			switch {
			case !looksLike(f.name, l.name) && !l.prefixed(f.name):
			case !f.whole || f.file || f.name != l.name || *at != nil || inQuery && !account:
				return nil, once
			default:
				*at = &f.value
			}
		}
	}
	if prefilled != nil && (value == nil || *value != *prefilled) {
		return nil, once
	}
	if value != nil && !utf8.ValidString(*value) {
		return nil, refuse("Send the field %.60q in UTF-8.", l.name)
	}
	return value, nil
}

// decodeField decodes a name or a value of a form. If parts are invalid it decodes the rest, as lenient apps do.
func decodeField(s string) (text string, whole bool) {
	if text, err := url.QueryUnescape(s); err == nil {
		return text, true
	}
	return decode(strings.ReplaceAll(s, "+", " ")), false
}

// keys returns the names in a query, with either separator.
func keys(query string) (all []string) {
	for pair := range strings.FieldsFuncSeq(query, func(r rune) bool { return r == '&' || r == ';' }) {
		raw, _, _ := strings.Cut(pair, "=")
		key, _ := decodeField(raw)
		all = append(all, key)
	}
	return all
}

// InQuery reports whether an app may find a field in a query, in its own words: _method is not method.
func InQuery(query, field string) bool {
	return slices.ContainsFunc(keys(query), func(key string) bool { return spells(key, field, isSame) })
}

// looksLike reports whether an app may confuse two field names. PHP replaces dots, spaces and an open bracket by
// underscores, and ignores text after the last bracket. PHP, Express and Rails read name[] and name[x] as a list or a
// member; Express and Rails read [name] as name, Rails name(1) as a part. Spring reads !name as a default, Zope
// name:int as a type. JavaScript's URLSearchParams drops a leading ?, other parsers also # and &. Other apps cut at a
// NUL. Some decode twice, ignore invisible characters, or fold case, width or white space. humps, camelcase-keys and
// djangorestframework-camel-case read login_name, login-name and loginName as one.
func looksLike(key, field string) bool { return spells(key, field, sameWords) }

// spells is looksLike with the comparison of two names.
func spells(key, field string, same func(a, b string) bool) bool {
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
	case len(k) >= len(f) && slices.EqualFunc(k[:len(f)], f, same):
		return true
	}
	return strings.Join(k, "_") == strings.Join(f, "_")
}

func isSame(a, b string) bool { return a == b }

func sameWords(a, b string) bool { return a == b || inflected.Replace(a) == inflected.Replace(b) }

var inflected = strings.NewReplacer("_", "", "-", "")

// nested splits a[b][c] or a(b) into its names, as loosely as apps do.
func nested(s string) (all []string) {
	s, _, _ = strings.Cut(decode(s), "\x00")
	if s = strings.ToLower(s); !isPlain(s) {
		s = strings.Map(visible, foldCase(norm.NFKC.String(s)))
	}
	for name := range strings.FieldsFuncSeq(s, func(r rune) bool { return strings.ContainsRune("[]()", r) }) {
		name = strings.TrimFunc(name, func(r rune) bool { return r != '.' && r != '{' && !inName(r) }) // { begins JSON
		if name = strings.TrimRight(joined.Replace(name), "_"); name != "" {
			all = append(all, name)
		}
	}
	return all
}

func inName(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }

// visible removes characters that filters and databases remove: BOM, soft hyphen, joiners.
func visible(r rune) rune {
	if unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) {
		return -1
	}
	return r
}

var joined = strings.NewReplacer(".", "_", " ", "_", "+", "_")

func (r *Route) spoilForm(req *http.Request, body []byte, other Credential) []byte {
	put := func(text string, fields []field, escape func(string) string) string {
		for _, f := range slices.Backward(fields) {
			for name, value := range map[string]string{r.account.name: other.Account, r.password.name: other.Password} {
				if f.name == name && value != "" {
					text = text[:f.at[0]] + escape(value) + text[f.at[1]:]
				}
			}
		}
		return text
	}
	req.URL.RawQuery = put(req.URL.RawQuery, queryFields(req.URL.RawQuery), url.QueryEscape)
	escape := func(value string) string { return value }
	if kind, _ := formType(req); kind == urlencodedForm {
		escape = url.QueryEscape
	}
	fields, _ := formFields(req, body) // parsed before
	return []byte(put(string(body), fields, escape))
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf })
}
