package route

import (
	"encoding/json"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/text/unicode/norm"
)

// A way is how an app may find fields in a body.
type way uint8

const (
	asPairs way = iota
	asParts
	asJSON
	asXML
	ways
)

// A reading holds the field names that lenient apps find in a request, whatever its declared type. Bottle reads pairs
// from image/png; Flask's get_json(force=True) and PHP's php://input read any body.
type reading struct {
	text    string
	form    []field // as formFields reads it
	query   []string
	cookies []field
	headers []field // without standard ones
	body    [ways][]string
	json    []string  // of the body as JSON, in order
	odd     *mentions // for an odd body
}

// readLeniently does not imitate each parser for a body in an unusual form (odd): there, every mention of a field's
// name counts.
func readLeniently(req *http.Request, body []byte) (all reading) {
	all.query, all.cookies, all.headers = keys(req.URL.RawQuery), cookies(req), headerFields(req)
	text := string(body)
	all.body = [ways][]string{asPairs: keys(text), asXML: xmlNames(text)}
	fields, err := formFields(req, body)
	all.text, all.form = text, fields
	if kind, _ := formType(req); kind == multipartForm {
		all.body[asParts] = namesOf(fields)
	}
	all.json = new(jsonNamer).in(text)
	for _, one := range slices.Concat([]string{text}, texts(req.URL.RawQuery), texts(text), contents(text)) {
		plain, _ := decodeField(one) // as by JSON.parse(decodeURIComponent(body))
		all.body[asJSON] = slices.Concat(all.body[asJSON], jsonNames(one), jsonNames(plain))
	}
	if len(body) > 0 && (err != nil || mayBeForm(req) || oddJSON(text) || oddXML(text)) {
		all.odd = new(mentions)
		all.odd.add(text)
	}
	return all
}

// cookies returns what PHP's $_REQUEST and ASP.NET's Request read as fields.
func cookies(req *http.Request) []field {
	line := strings.NewReplacer(";", "&", ",", "&").Replace(strings.Join(req.Header.Values("Cookie"), ";"))
	return queryFields(line)
}

func namesOf(fields []field) (names []string) {
	for _, f := range fields {
		names = append(names, f.name)
	}
	return names
}

// mayBeForm reports whether some app may find a form where this package finds none.
func mayBeForm(req *http.Request) bool {
	kind, _ := formType(req)
	return kind == noForm && formLike.MatchString(strings.Join(req.Header.Values("Content-Type"), ","))
}

// formLike and formWord do not match the openxmlformats of Office files.
var (
	formLike = regexp.MustCompile(`(?i)(?:^|[^a-z])form|multipart|boundary|encoded`)
	formWord = regexp.MustCompile(`(?i)(?:^|[^a-z])form`)
)

// oddJSON reports whether a text begins like JSON that parsers read differently: repeated names, comments (Ruby),
// unquoted names (JSON5), UTF-16.
func oddJSON(text string) bool { return beginsJSON(text) && !jsontext.Value(text).IsValid() }

func beginsJSON(text string) bool { return jsonStart.MatchString(withoutMarks(text)) }

// start skips what some app or parser skips before JSON or XML: trim() removes \v in PHP, U+00A0 and U+2028 in
// JavaScript and U+001C in Python, and Gson skips )]}' and comments.
func start(text string) string {
	plain := withoutMarks(text)
	return plain[len(leading.FindString(plain)):]
}

// oddXML reports whether XML may hide names in entities or in another encoding.
func oddXML(text string) bool {
	plain := start(text)
	return beginsWith(plain, "<") && (strings.Contains(plain, "<!ENTITY") || !inASCII(plain, xmlEncoding))
}

// skipped has no U+FFFD, which stands for the bytes of binary files.
const skipped = `[^\pL\pN\x{fffd}{\["<#/]|/\*(?s:.*?)\*/|//[^\n]*\n`

// inASCII reports whether all encodings that a text names are supersets of ASCII. In UTF-7, EBCDIC or ISO-2022 a name's
// bytes are not its letters.
func inASCII(text string, named *regexp.Regexp) bool {
	return !slices.ContainsFunc(named.FindAllStringSubmatch(text, -1), func(m []string) bool {
		return !asciiCharset.MatchString(m[1])
	})
}

var (
	leading = regexp.MustCompile(`^(?:` + skipped + `)*`)
	// jsonStart requires an object after a # comment, which Gson skips: a Markdown file may begin with a heading and [.
	jsonStart = regexp.MustCompile(`^(?:` + skipped + `)*(?:[{\[]|(?:#[^\n]*\n(?:\[|` + skipped + `)*)+\{)`)

	xmlEncoding  = regexp.MustCompile(`(?i)^<\?xml[^>]*encoding([^>]*)`)
	anyCharset   = regexp.MustCompile(`(?i)charset([^,;\r\n]*)`)
	asciiCharset = regexp.MustCompile(`(?i)^\s*=\s*["']?(?:utf-?8|(?:us-)?ascii|iso-8859-\d+|windows-125\d)(?:["'\s/>]|$)`)
)

// foreign reports whether a body declares compression, or an encoding that hides names: Express reads JSON in UTF-7.
func foreign(req *http.Request) bool {
	kind := strings.Join(req.Header.Values("Content-Type"), ",")
	_, _, err := mime.ParseMediaType(kind)
	return len(req.Header.Values("Content-Encoding")) > 0 || !inASCII(kind, anyCharset) ||
		err != nil && anyCharset.MatchString(kind)
}

// A mentions holds the letters and digits of a text.
type mentions struct {
	text  string
	hides bool // the text may hide names completely
}

func (m *mentions) add(text string) {
	m.text += squeeze(text)
	m.hides = m.hides || hiding.MatchString(text) || !inASCII(text, anyCharset) ||
		!inASCII(start(text), xmlEncoding)
}

func (m *mentions) of(l locator) bool {
	name := l.name
	if l.kind == object {
		name = l.last()
	}
	return m.hides || strings.Contains(m.text, squeeze(name))
}

// squeeze decodes the usual escapes and keeps letters and digits only: a name remains, however it is folded, quoted,
// spaced or escaped.
func squeeze(text string) string {
	text = unescape(unescape(text))
	if text = strings.ToLower(text); !isPlain(text) {
		text = foldCase(norm.NFKC.String(text))
	}
	return separators.ReplaceAllString(text, "")
}

func unescape(text string) string {
	return escapes.ReplaceAllStringFunc(text, func(e string) string {
		digits := strings.TrimRight(strings.TrimLeft(e, `%\&#uxUX0`), ";")
		base := 16
		if strings.HasPrefix(e, "&#") && !strings.ContainsAny(e[:3], "xX") {
			base = 10
		}
		c, err := strconv.ParseUint(digits, base, 8)
		if err != nil {
			return e
		}
		return string([]byte{byte(c)})
	})
}

var (
	// hiding matches RFC 2047, which Tomcat decodes, and the continuations of RFC 2231.
	hiding     = regexp.MustCompile(`(?i)=\?[\w-]+\?[bq]\?|(?:^|[^a-z])name\s*\*`)
	escapes    = regexp.MustCompile(`(?i)%[\da-f]{2}|\\u00[\da-f]{2}|\\x[\da-f]{2}|&#0*\d{2,3};|&#x0*[\da-f]{2};`)
	separators = regexp.MustCompile(`[^a-z0-9]+`)
)

// texts returns the names and values of a form; each may be JSON.
func texts(form string) (all []string) {
	for pair := range strings.SplitSeq(form, "&") {
		name, value, _ := strings.Cut(pair, "=")
		for _, one := range []string{name, value} {
			plain, _ := decodeField(one)
			all = append(all, plain)
		}
	}
	return all
}

// contents returns the text after each delimiter and part header, for any boundary.
func contents(text string) (all []string) {
	for section := range strings.SplitSeq("\n"+text, "\n--") {
		if at := blankLine.FindStringIndex(section); at != nil {
			all = append(all, section[at[1]:])
		}
	}
	return all
}

var (
	validEscape = regexp.MustCompile(`\\u[[:xdigit:]]{4}`)
	blankLine   = regexp.MustCompile(`\r?\n\r?\n`)
	jsonName    = regexp.MustCompile(`("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')(?:\s|/\*(?s:.*?)\*/|//[^\n]*\n)*:`)
	// xmlName matches elements and attributes, whose = may follow later. A prefix may be of any length.
	xmlName = regexp.MustCompile(`[<:]([\pL_][\pL\pN_.-]*)|([\pL_][\pL\pN_.-]*)\s*(?:=|$)`)
)

// jsonNames returns the names in a text that begins like JSON, in UTF-8, UTF-16 or UTF-32, and the names in its strings
// that begin like JSON.
func jsonNames(text string) (names []string) {
	if beginsJSON(text) {
		for _, m := range jsonName.FindAllStringSubmatch(withoutMarks(text), -1) {
			names = append(names, unquote(m[1]))
		}
	}
	return append(names, new(jsonNamer).in(text)...)
}

func unquote(quoted string) (name string) {
	if json.Unmarshal([]byte(quoted), &name) == nil {
		return name
	}
	plain := validEscape.ReplaceAllStringFunc(quoted[1:len(quoted)-1], func(escape string) (text string) {
		_ = json.Unmarshal([]byte(`"`+escape+`"`), &text)
		return text
	})
	return strings.ReplaceAll(plain, `\`, "") // as Ruby does with an invalid escape
}

// xmlNames returns the names of elements and attributes in a text that begins like XML.
func xmlNames(text string) (names []string) {
	if plain := start(text); beginsWith(plain, "<") {
		for _, m := range xmlName.FindAllStringSubmatch(plain, -1) {
			names = append(names, m[1]+m[2])
		}
	}
	return names
}

// withoutMarks removes the BOM and the NULs of ASCII in UTF-16 and UTF-32.
func withoutMarks(text string) string {
	return strings.TrimLeft(strings.ReplaceAll(text, "\x00", ""), "\ufeff\ufffe\xff\xfe \t\r\n")
}

func beginsWith(text, one string) bool { return text != "" && strings.Contains(one, text[:1]) }

// inFields reports whether the route reads fields, not a header or an XML-RPC call.
func (r *Route) inFields() bool {
	return r.account.kind == form || r.account.kind == param || r.account.kind == object
}

// secret returns the field that makes a request an attempt: the password, or the account of a route without one.
func (r *Route) secret() locator {
	if r.hasPassword() {
		return r.password
	}
	return r.account
}

// hasPassword is false for codes, and for names without a password.
func (r *Route) hasPassword() bool { return r.password.kind != nowhere || r.account.kind == xmlrpc }

// strictly returns how the route itself has read the body; ways for not at all.
func (r *Route) strictly(req *http.Request) way {
	switch kind, _ := formType(req); {
	case !r.offers(req.Method):
	case r.account.kind == object && r.account.reads(req):
		return asJSON
	case r.account.kind == object:
	case kind == urlencodedForm:
		return asPairs
	case kind == multipartForm:
		return asParts
	}
	return ways
}

// in reports whether one of the names may be the locator's field. Most names are plain and unrelated; the cheap first
// check skips them.
func (l locator) in(names []string) bool {
	if l.kind == nowhere {
		return false
	}
	outer, inner := core(l.name), core(l.last())
	return slices.ContainsFunc(names, func(name string) bool {
		low := inflected.Replace(strings.ToLower(name))
		if isPlain(name) && !strings.Contains(low, outer) && !strings.Contains(low, inner) {
			return false
		}
		return looksLike(name, l.name) || looksLike(name, l.last()) || l.prefixed(name)
	})
}

// prefixed reports whether a name has the locator's after a prefix. ASP.NET, Grails and Struts bind model.username if
// there is such a field, and username otherwise; Express apps read body.user or the body.
func (l locator) prefixed(name string) bool {
	own := l.name
	if l.kind == object {
		own = l.last()
	}
	return slices.ContainsFunc(components(name), func(one string) bool { return looksLike(one, own) })
}

func innermost(name string) string {
	all := components(name)
	return all[len(all)-1]
}

// components returns the names in a[b][c] or a.b.c: PHP, Rails and Spring nest forms like JSON. Struts also reads a['b']
// and a('b'). PHP and qs ignore what follows the last bracket.
func components(name string) []string {
	plain := strings.TrimRightFunc(decode(name), func(c rune) bool { return !inName(c) })
	all := strings.FieldsFunc(plain, func(c rune) bool { return strings.ContainsRune("[]().", c) })
	if len(all) == 0 || jsonName.MatchString(plain) { // JSON, whose last text is mostly a value
		return []string{name}
	}
	return all
}

// core returns the first word of a field's name, which every plain spelling contains.
func core(field string) string { return firstWord.FindString(strings.ToLower(field)) }

var firstWord = regexp.MustCompile(`[a-z0-9]*`)

func isPlain(text string) bool {
	for i := range len(text) {
		if text[i] >= 0x80 || text[i] == '%' || text[i] == 0 {
			return false
		}
	}
	return true
}

// hidden returns a route both of whose fields are in a request, but where no route has read them; nil if none.
func (t Table) hidden(req *http.Request, all *reading, found *Route) *Route {
	for _, one := range t {
		if !one.inFields() {
			continue
		}
		// An app merges the fields of the query, of the body and, in PHP, of the cookies.
		beside := slices.Concat(all.query, namesOf(all.cookies))
		if m := all.odd; m != nil && (m.of(one.account) || one.account.in(beside)) &&
			(m.of(one.secret()) || one.secret().in(beside)) {
			return one
		}
		both := func(names []string) bool { return one.account.in(names) && one.secret().in(names) }
		if (one.account.kind == object || !one.offers(req.Method)) && both(all.query) {
			return one
		}
		for w := range ways {
			names := all.body[w]
			// found itself, or a route beside it without a password, has read its fields this way; other copies can only
			// be elsewhere.
			if found != nil && w == found.strictly(req) &&
				(found.reads(one) || one.password.kind == nowhere && w == one.strictly(req)) {
				if w != asJSON {
					continue
				}
				// Rails' wrap_parameters: {"username":…,"session":{"username":…}}.
				names = without(without(all.json, one.account.last()), one.password.last())
			}
			if (one.account.in(names) || one.password.in(names)) && both(slices.Concat(names, beside)) {
				return one
			}
		}
	}
	return nil
}

func without(names []string, one string) []string {
	if at := slices.Index(names, one); at >= 0 {
		return slices.Delete(slices.Clone(names), at, at+1)
	}
	return names
}

// inCookies returns a route with fields in the cookies or headers; nil if none. PHP's $_REQUEST and ASP.NET's Request
// read cookies as form fields, express-validator and Spring 6.2 headers. The attempt's own account name is harmless
// there.
func (t Table) inCookies(all *reading, found *Route, account string) *Route {
	var names []string
	for _, f := range all.cookies {
		if found == nil || f.name != found.account.last() || f.value != account {
			names = append(names, f.name)
		}
	}
	for _, f := range all.headers {
		if found == nil || !looksLike(f.name, found.account.last()) || f.value != account {
			names = append(names, f.name)
		}
	}
	for _, one := range t {
		if !one.inFields() || !one.account.in(names) && !one.password.in(names) {
			continue
		}
		beside := slices.Concat(append(all.body[:], names, all.query)...)
		if found != nil && found.reads(one) || one.second || one.account.in(beside) && one.password.in(beside) {
			return one
		}
	}
	return nil
}

func (r *Route) reads(other *Route) bool {
	return r.account.last() == other.account.last() &&
		(other.password.kind == nowhere || r.password.last() == other.password.last())
}

// missing returns the route at this single path whose fields the request lacks. It returns nil if the request is
// another permitted form or cannot have fields.
func (t Table) missing(req *http.Request, body []byte, all *reading) *Route {
	asks := req.Method == http.MethodGet || req.Method == http.MethodHead || req.Method == http.MethodOptions
	if len(body) == 0 && asks || t.lets(req, body, all) {
		return nil
	}
	for _, one := range t {
		if !one.path.folder && one.inFields() && one.offers(req.Method) {
			return one
		}
	}
	return nil
}

// lets reports whether the request is a form that all apps read alike, with a field from Spec.Passes. In no reading
// may it have a login's fields.
func (t Table) lets(req *http.Request, body []byte, all *reading) bool {
	fields, err := formFields(req, body)
	kind, _ := formType(req)
	if err != nil || len(body) > 0 && kind == noForm {
		return false
	}
	names := slices.Concat(append(all.body[:], all.query)...)
	passes := false
	for _, one := range t {
		second := func(name string) bool { return one.namesAnotherPassword(name) && !t.permits(name, false) }
		if one.inFields() && (one.account.in(names) || one.password.in(names) || slices.ContainsFunc(names, second)) {
			return false
		}
		for _, l := range one.passes {
			passes = passes || l.kind != object && slices.ContainsFunc(fields, func(f field) bool { return f.name == l.name }) ||
				l.kind == param && slices.Contains(all.query, l.name)
		}
	}
	return passes
}
