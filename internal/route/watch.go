package route

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// Watch passes on a body that is too large for a login, and fails before the value
// of a field that one of these routes looks for: an upload streams through, and a
// password that hides behind one never arrives. It holds a few KiB at most. The
// error is a *Refusal.
func (t Table) Watch(r *http.Request, body io.Reader) io.Reader {
	in := bufio.NewReaderSize(body, longestName)
	first, kind := watch(in, nil), noForm
	if first.err = t.tooLarge(r, in); first.err != nil {
		return first
	}
	switch form, boundary := formType(r); form {
	case urlencodedForm:
		first.through, kind = &pairs{field: t.watches}, form
	case multipartForm:
		first.through, kind = newParts(boundary, func(name string, _ bool) error { return t.watches(name) }), form
	}
	s := &sieve{kind: kind}
	if mayBeForm(r) {
		s.odd = new(mentions)
	}
	for _, one := range t {
		if one.inFields() && one.password.kind != nowhere {
			query := keys(r.URL.RawQuery)
			s.wanted = append(s.wanted, &wanted{one, one.account.in(query), one.password.in(query)})
		}
	}
	if kind == noForm {
		return watch(in, s)
	}
	return watch(first, s)
}

func watch(from io.Reader, through splitter) *watched {
	return &watched{from: from, through: through, space: make([]byte, 8*longestName)}
}

// watches refuses a field that one of the routes looks for.
func (t Table) watches(name string) error {
	for _, one := range t {
		for _, l := range []locator{one.account, one.password} {
			if (l.kind == form || l.kind == param) && looksLike(name, l.name) {
				return refuse("Send the field %.60q in a small form.", l.name)
			}
		}
	}
	return nil
}

// tooLarge refuses what cannot be looked through on its way.
func (t Table) tooLarge(r *http.Request, in *bufio.Reader) error {
	begin, _ := in.Peek(longestName)
	if foreign(r) {
		return errForeign
	}
	for _, one := range t {
		if one.account.kind == xmlrpc || one.account.kind == object && beginsObject(begin) {
			return &Refusal{http.StatusRequestEntityTooLarge, "This request is too large for a login."}
		}
	}
	if kind, _ := formType(r); kind == noForm && (mayHoldFields(r) ||
		strings.Contains(r.Header.Get("Content-Type"), "encoded")) {
		return errOtherForm
	}
	return nil
}

// A splitter goes through a form as it comes in.
type splitter interface {
	// feed says how much of what is there may be passed on; the rest comes again,
	// with more.
	feed(b []byte, last bool) (n int, err error)
}

// watched reads through a splitter.
type watched struct {
	from    io.Reader
	through splitter
	space   []byte
	held    []byte // in space: read, and not yet passed on
	free    int    // of held, may be passed on
	last    bool
	err     error
}

// Read implements io.Reader.
func (w *watched) Read(into []byte) (int, error) {
	for w.free == 0 && w.err == nil {
		if w.last {
			w.err = io.EOF
			break
		}
		w.fill()
	}
	n := copy(into, w.held[:w.free])
	w.held, w.free = w.held[n:], w.free-n
	if n > 0 || len(into) == 0 {
		return n, nil
	}
	return 0, w.err
}

// fill reads more, and has it looked through.
func (w *watched) fill() {
	kept := copy(w.space, w.held)
	n, err := w.from.Read(w.space[kept:])
	w.held = w.space[:kept+n]
	if err != nil && !errors.Is(err, io.EOF) {
		w.err = err
		return
	}
	w.last = err != nil
	w.free, w.err = w.through.feed(w.held, w.last)
	if w.err == nil && w.last && w.free < len(w.held) {
		w.err = errCut
	}
}

var (
	errCut  = refuse("The form ends in the middle.")
	errPart = refuse("The form is not as browsers write it.")
)

// longestName is how long a field's name, or a part's head, may be.
const longestName = 4 << 10

// pairs goes through a form of type application/x-www-form-urlencoded.
type pairs struct {
	field   func(name string) error
	inValue bool
}

func (p *pairs) feed(b []byte, last bool) (n int, err error) {
	for n < len(b) {
		end := bytes.IndexAny(b[n:], "&=;")
		if p.inValue {
			end = bytes.IndexAny(b[n:], "&;")
		}
		if end < 0 && (p.inValue || last) {
			end = len(b) - n
		}
		if end < 0 && len(b)-n < longestName {
			return n, nil
		}
		if end < 0 || n+end < len(b) && b[n+end] == ';' {
			return n, errPart
		}
		if !p.inValue {
			name, err := url.QueryUnescape(string(b[n : n+end]))
			if err != nil {
				return n, errPart
			}
			if err := p.field(name); err != nil {
				return n, err
			}
		}
		if n += end; n < len(b) {
			p.inValue = b[n] == '='
			n++
		}
	}
	return n, nil
}

// A sieve goes through what is no form to us, and may be one to an app.
type sieve struct {
	kind   formKind // what looks through it as well
	wanted []*wanted
	passed int
	begins string // what the body begins with; empty: nothing but spaces yet
	json   jsonNamer
	named  int       // of what feed gets, json has seen
	odd    *mentions // not nil: every mention of a name counts
}

// A wanted route's fields were seen in the body or in the query.
type wanted struct {
	of                *Route
	account, password bool
}

// fewBytes is how far a short name, such as p, is looked for between pairs: in a file of
// a gibibyte it is there by chance. Bottle reads 100 KiB of such a body.
const fewBytes = 128 << 10

func (s *sieve) feed(b []byte, last bool) (n int, err error) {
	if !last && len(b) < 2*longestName {
		return 0, nil // not all of it again for each byte
	}
	if s.begins == "" {
		s.begins = withoutMarks(string(b))
		s.begins = s.begins[:min(1, len(s.begins))]
	}
	if s.kind != noForm && s.odd == nil && s.begins != "" && !beginsWith(s.begins, "{[/<") {
		s.passed += len(b)
		return len(b), nil // a form of its type only, which the splitter before this one reads
	}
	text := string(b)
	var all [ways][]string
	switch {
	case beginsWith(s.begins, "{[/"):
		s.json.feed(text[s.named:])
		all[asJSON], s.json.names = s.json.names, nil
	case beginsWith(s.begins, "<"):
		all[asXML] = xmlNames("<" + text)
	}
	if s.kind == noForm {
		all[asPairs] = plainKeys(text)
	}
	if s.odd == nil && (s.json.odd || s.begins == "<" && oddXML("<"+text)) {
		s.odd = new(mentions)
	}
	if n = len(b); !last {
		n = max(0, n-longestName)
	}
	seen := mentions{}
	if s.odd != nil {
		if n = quiet(text, n, last); n < 0 {
			return 0, errPart
		}
		seen = *s.odd
		seen.add(text)
		s.odd.add(text[:n])
		s.odd.text = s.odd.text[max(0, len(s.odd.text)-longestName):]
	}
	for _, one := range s.wanted {
		short := len(one.of.account.last()) < 4 || len(one.of.password.last()) < 4
		one.account = one.account || s.odd != nil && seen.of(one.of.account)
		one.password = one.password || s.odd != nil && seen.of(one.of.password)
		for w := range ways {
			if w == asPairs && short && s.passed > fewBytes {
				continue
			}
			one.account = one.account || one.of.account.in(all[w])
			one.password = one.password || one.of.password.in(all[w])
		}
		if one.account && one.password {
			return 0, refuse("Send the login in a small form.")
		}
	}
	s.passed, s.named = s.passed+n, len(b)-n
	return n, nil
}

// quiet is where a text can be parted, at n or before it, without cutting an escape; -1
// if that is nowhere.
func quiet(text string, n int, last bool) int {
	const longest = 12 // one that is escaped itself
	if last || n == 0 {
		return n
	}
	for at := n; at > longest; at-- {
		if strings.IndexAny(text[at-longest:at], `%\&=`) < 0 {
			return at
		}
	}
	return -1
}

// A jsonNamer finds the names in JSON as it comes, however much space stands before the
// colon.
type jsonNamer struct {
	names   []string
	text    []byte // of the string, or of the one before
	in      bool   // in a string
	escaped bool
	last    byte // outside of strings
	odd     bool // this is no JSON to all parsers
}

func (j *jsonNamer) feed(text string) {
	for _, c := range []byte(text) {
		switch {
		case j.in && c == '"' && !j.escaped:
			j.in, j.last = false, c
		case j.in:
			j.escaped = c == '\\' && !j.escaped
			if j.odd = j.odd || c == 0; len(j.text) < longestName {
				j.text = append(j.text, c)
			}
		case c == '"':
			j.in, j.text = true, j.text[:0]
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
		case c == ':' && j.last == '"':
			j.names = append(j.names, unquote(`"`+string(j.text)+`"`))
			j.last = c
		default:
			j.odd = j.odd || !strings.Contains("{}[],0123456789+-.eEtrufalsn", string(c))
			j.last = c
		}
	}
}

// plainKeys are the names of a form that are ASCII as they are written: in a file there
// are few.
func plainKeys(text string) (all []string) {
	for more := true; more; {
		end := strings.IndexAny(text, "&;")
		if more = end >= 0; !more {
			end = len(text)
		}
		raw, _, ok := strings.Cut(text[:end], "=")
		if ok && strings.IndexFunc(raw, func(r rune) bool { return r <= ' ' || r >= 0x7f }) < 0 {
			key, _ := decodeField(raw)
			all = append(all, key)
		}
		text = text[min(end+1, len(text)):]
	}
	return all
}
