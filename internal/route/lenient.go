package route

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// A way is one in which apps find fields in a body.
type way uint8

const (
	asPairs way = iota
	asParts
	asJSON
	asXML
	ways
)

// A reading is the names of fields that lenient apps find in a request, whatever type
// its body says to be: Bottle takes pairs out of image/png, Rack parts out of
// multipart/related, Flask's get_json(force=True) and PHP's php://input read anything.
type reading struct {
	query []string
	body  [ways][]string
}

func readLeniently(req *http.Request, body []byte) (all reading) {
	all.query = keys(req.URL.RawQuery)
	text := string(body)
	all.body = [ways][]string{asPairs: keys(text), asParts: partNames(text), asXML: xmlNames(text)}
	for _, one := range slices.Concat([]string{text}, texts(req.URL.RawQuery), texts(text), contents(text)) {
		all.body[asJSON] = append(all.body[asJSON], jsonNames(one)...)
	}
	return all
}

// texts are the names and the values of a form, each of which may be JSON.
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

// contents are what stands behind each delimiter and head, whatever the boundary is.
func contents(text string) (all []string) {
	for section := range strings.SplitSeq("\n"+text, "\n--") {
		if at := blankLine.FindStringIndex(section); at != nil {
			all = append(all, section[at[1]:])
		}
	}
	return all
}

var (
	blankLine = regexp.MustCompile(`\r?\n\r?\n`)
	// partHeads are the lines that name a part; Rack names one by its Content-ID.
	partHeads = regexp.MustCompile(`(?i)content-(?:disposition|id)\s*:[^\r\n]*(?:\r?\n[ \t][^\r\n]*)*`)
	partName  = regexp.MustCompile(`(?i)(?:[;\s]name\*?\d*\*?\s*=|^content-id\s*:)\s*("(?:[^"\\]|\\.)*"|[^;\s]+)`)
	jsonName  = regexp.MustCompile(`("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')\s*:`)
	xmlName   = regexp.MustCompile(`<(?:[\pL_][\pL\pN_.-]*:)?([\pL_][\pL\pN_.-]*)`)
)

// partNames are the names of parts, by every spelling of a head. A name may come in
// pieces (name*0=, name*1=), and with an encoding before it (RFC 2231).
func partNames(text string) (names []string) {
	if !hasHeads(text) {
		return nil
	}
	for _, head := range partHeads.FindAllString(text, -1) {
		whole := ""
		for _, m := range partName.FindAllStringSubmatch(head, -1) {
			name := strings.Trim(strings.ReplaceAll(m[1], `\`, ""), `"'<>`)
			names = append(names, name, name[strings.LastIndexByte(name, '\'')+1:])
			whole += name
		}
		names = append(names, whole)
	}
	return names
}

// hasHeads is quick for files, which have none.
func hasHeads(text string) bool {
	const begin = "content"
	for at := strings.IndexByte(text, '-'); at >= 0; {
		if at >= len(begin) && strings.EqualFold(text[at-len(begin):at], begin) {
			return true
		}
		next := strings.IndexByte(text[at+1:], '-')
		if next < 0 {
			return false
		}
		at += next + 1
	}
	return false
}

// jsonNames are the names in a text that begins like JSON, in UTF-8, UTF-16 or UTF-32.
func jsonNames(text string) (names []string) {
	if plain := withoutMarks(text); beginsWith(plain, "{[") {
		for _, m := range jsonName.FindAllStringSubmatch(plain, -1) {
			names = append(names, unquote(m[1]))
		}
	}
	return names
}

func unquote(quoted string) (name string) {
	if json.Unmarshal([]byte(quoted), &name) != nil {
		return quoted[1 : len(quoted)-1]
	}
	return name
}

// xmlNames are the names of the elements in a text that begins like XML.
func xmlNames(text string) (names []string) {
	if plain := withoutMarks(text); beginsWith(plain, "<") {
		for _, m := range xmlName.FindAllStringSubmatch(plain, -1) {
			names = append(names, m[1])
		}
	}
	return names
}

// withoutMarks leaves out what makes UTF-16 and UTF-32 of ASCII.
func withoutMarks(text string) string {
	return strings.TrimLeft(strings.ReplaceAll(text, "\x00", ""), "\ufeff\ufffe\xff\xfe \t\r\n")
}

func beginsWith(text, one string) bool { return text != "" && strings.Contains(one, text[:1]) }

// inFields reports whether the route looks for fields, and not in a header or a call.
func (r *Route) inFields() bool {
	return r.account.kind == form || r.account.kind == param || r.account.kind == object
}

// strictly is the way in which the route has read the body itself; ways for none.
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

// in reports whether some of the names may be the locator's field. Most names are
// plain, and have nothing of it in them: those are not looked at closely.
func (l locator) in(names []string) bool {
	if l.kind == nowhere {
		return false
	}
	outer, inner := core(l.name), core(l.last())
	return slices.ContainsFunc(names, func(name string) bool {
		if low := strings.ToLower(name); isPlain(name) && !strings.Contains(low, outer) && !strings.Contains(low,
			inner) {
			return false
		}
		return looksLike(name, l.name) || looksLike(name, l.last())
	})
}

// core is what every plain spelling of a field's name has in it: its first word.
func core(field string) string { return firstWord.FindString(strings.ToLower(field)) }

var firstWord = regexp.MustCompile(`[a-z0-9]*`)

// isPlain reports whether a text is ASCII without escapes.
func isPlain(text string) bool {
	for i := range len(text) {
		if text[i] >= 0x80 || text[i] == '%' || text[i] == 0 {
			return false
		}
	}
	return true
}

// hidden is a route both of whose fields are in a request where no route has read them;
// nil if there is none.
func (t Table) hidden(req *http.Request, all *reading, found *Route) *Route {
	for _, one := range t {
		if !one.inFields() || one.password.kind == nowhere {
			continue
		}
		both := func(names []string) bool { return one.account.in(names) && one.password.in(names) }
		if (one.account.kind == object || !one.offers(req.Method)) && both(all.query) {
			return one
		}
		for w := range ways {
			names := all.body[w]
			read := w == one.strictly(req) || found != nil && w == found.strictly(req) && found.reads(one)
			// Apps merge the fields of the query and of the body.
			if !read && (one.account.in(names) || one.password.in(names)) && both(slices.Concat(names, all.query)) {
				return one
			}
		}
	}
	return nil
}

// reads reports whether both look for fields of the same names.
func (r *Route) reads(other *Route) bool {
	return r.account.last() == other.account.last() && r.password.last() == other.password.last()
}

// missing is the route at this single path whose fields the request should have. It is
// nil if another form passes here, or if the request can have no fields.
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

// lets reports whether the request is a form that every app reads alike, with a field
// that names another form than a login, and without a login's fields in any reading.
func (t Table) lets(req *http.Request, body []byte, all *reading) bool {
	fields, err := formFields(req, body)
	kind, _ := formType(req)
	if err != nil || len(body) > 0 && kind == noForm || slices.ContainsFunc(fields,
		func(f field) bool { return !f.whole }) {
		return false
	}
	names := slices.Concat(append(all.body[:], all.query)...)
	passes := false
	for _, one := range t {
		if one.inFields() && (one.account.in(names) || one.password.in(names)) {
			return false
		}
		for _, l := range one.passes {
			passes = passes || slices.ContainsFunc(fields, func(f field) bool { return f.name == l.name }) ||
				l.kind == param && slices.Contains(all.query, l.name)
		}
	}
	return passes
}
