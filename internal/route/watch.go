package route

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Watch passes on a body that is too large for a login, and fails before the value
// of a field that one of these routes looks for: an upload streams through, and a
// password that hides behind one never arrives. It holds a few KiB at most. The
// error is a *Refusal.
func (t Table) Watch(r *http.Request, body io.Reader) io.Reader {
	in := bufio.NewReaderSize(body, longestName)
	first := watch(in, nil)
	if first.err = t.tooLarge(r, in); first.err != nil {
		return first
	}
	s := &sieve{table: t}
	for _, one := range t {
		if one.inFields() && one.password.kind != nowhere {
			beside := append(keys(r.URL.RawQuery), namesOf(cookies(r))...)
			s.wanted = append(s.wanted, &wanted{one, one.account.in(beside), one.password.in(beside)})
		}
	}
	kind, boundary := formType(r)
	switch s.kind = kind; kind {
	case urlencodedForm:
		first.through = &pairs{name: s.name, value: func(piece string) error { return s.value([]byte(piece)) }}
	case multipartForm:
		first.through = newParts(boundary, func(f field) error { return s.name(f.name) },
			func(_ int, piece []byte) error { return s.value(piece) })
	default:
		if mayBeForm(r) {
			s.odd = new(mentions)
		}
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
	name    func(name string) error
	value   func(piece string) error
	inValue bool
}

func (p *pairs) feed(b []byte, last bool) (n int, err error) {
	for n < len(b) {
		end := bytes.IndexAny(b[n:], "&=;")
		if p.inValue {
			end = bytes.IndexAny(b[n:], "&;")
		}
		switch {
		case end < 0 && last:
			end = len(b) - n
		case end < 0 && p.inValue:
			end = len(b) - n - len(cutEscape.Find(b[n:]))
		}
		if end < 0 && len(b)-n < longestName {
			return n, nil
		}
		if end < 0 || n+end < len(b) && b[n+end] == ';' {
			return n, errPart
		}
		if err := p.pass(string(b[n : n+end])); err != nil {
			return n, err
		}
		if n += end; n < len(b) && b[n] == '%' {
			return n, nil
		} else if n < len(b) {
			p.inValue = b[n] == '='
			n++
		}
	}
	return n, nil
}

func (p *pairs) pass(text string) error {
	if p.inValue {
		plain, _ := decodeField(text)
		return p.value(plain)
	}
	name, err := url.QueryUnescape(text)
	if err != nil {
		return errPart
	}
	return p.name(name)
}

// cutEscape is an escape that goes on in the next piece.
var cutEscape = regexp.MustCompile(`%[[:xdigit:]]?$`)

// A sieve goes through what is no form to us, and may be one to an app. Of a form it gets the
// names and values as well.
type sieve struct {
	table  Table
	kind   formKind // what looks through it as well
	wanted []*wanted
	passed int
	begins string // what the body begins with; empty: nothing but spaces yet
	json   jsonNamer
	inner  jsonNamer // of a field's name, or of its value
	named  int       // of what feed gets, json has seen
	odd    *mentions // not nil: every mention of a name counts
}

// A wanted route's fields were seen in the body or beside it.
type wanted struct {
	of                *Route
	account, password bool
}

// see is an error once both fields of a route were seen. In a form a route's own fields are
// refused one by one: see watches.
func (s *sieve) see(names []string, far bool) error {
	for _, one := range s.wanted {
		if far && (len(one.of.account.last()) < 4 || len(one.of.password.last()) < 4) {
			continue
		}
		one.account = one.account || one.of.account.in(names)
		one.password = one.password || one.of.password.in(names)
		if one.account && one.password {
			return errLarge
		}
	}
	return nil
}

var errLarge = refuse("Send the login in a small form.")

// name sees the name of a field: it may be JSON, as the value may.
func (s *sieve) name(name string) error {
	if err := s.table.watches(name); err != nil {
		return err
	}
	s.inner = jsonNamer{text: s.inner.text}
	if err := s.value([]byte(name)); err != nil {
		return err
	}
	s.inner = jsonNamer{text: s.inner.text}
	return s.see([]string{name}, false)
}

// value sees the next piece of a value.
func (s *sieve) value(piece []byte) error {
	if s.inner.feed(piece); s.inner.wide && s.odd == nil {
		s.odd = new(mentions) // the rest of it comes to feed, too
	}
	names := s.inner.names
	s.inner.names = nil
	return s.see(names, false)
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
		s.json.feed(b[s.named:])
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
	if s.odd != nil {
		if n = quiet(text, n, last); n < 0 {
			return 0, errPart
		}
		if s.mentioned(text, n) {
			return 0, errLarge
		}
	}
	for w := range ways {
		if err := s.see(all[w], w == asPairs && s.passed > fewBytes); err != nil {
			return 0, err
		}
	}
	s.passed, s.named = s.passed+n, len(b)-n
	return n, nil
}

// mentioned reports whether both names of a route occur somewhere, with those in a text of
// which n bytes pass.
func (s *sieve) mentioned(text string, n int) bool {
	seen := *s.odd
	seen.add(text)
	s.odd.add(text[:n])
	s.odd.text = s.odd.text[max(0, len(s.odd.text)-longestName):]
	return slices.ContainsFunc(s.wanted, func(one *wanted) bool {
		one.account = one.account || seen.of(one.of.account)
		one.password = one.password || seen.of(one.of.password)
		return one.account && one.password
	})
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

// A jsonNamer finds the names in JSON as it comes, however much space and however many
// comments stand before the colon.
type jsonNamer struct {
	names   []string
	text    []byte // of the string, or of the one before
	quote   byte   // in a string
	comment byte   // in one: how it began, / or *; until it ends with *, then a slash
	before  byte   // the byte before, in a string or a comment or of a slash
	last    byte   // outside of strings and comments; 0: it has not begun
	none    bool   // it does not begin like JSON
	odd     bool   // this is no JSON to all parsers
	wide    bool   // it has the NULs of UTF-16, in which a letter may look like a quote
}

func (j *jsonNamer) feed(text []byte) {
	for i := 0; i < len(text) && !j.none; i++ {
		switch c := text[i]; {
		case c == 0:
			j.odd, j.wide = true, j.wide || j.last != 0
		case j.quote != 0:
			j.inString(c)
		case j.comment != 0:
			if c == '\n' && j.comment == '/' || c == '/' && j.before == '*' && j.comment == '*' {
				j.comment, c = 0, 0
			}
			j.before = c
		case j.before == '/' && (c == '/' || c == '*'):
			j.comment, j.before = c, 0
		case c == '/':
			j.before, j.odd = c, true
		case c == ' ' || c == '\t' || c == '\r' || c == '\n' || j.last == 0 && isMark(c):
		default:
			j.outside(c)
		}
	}
}

// isMark is about the bytes of a BOM.
func isMark(c byte) bool { return strings.IndexByte("\xef\xbb\xbf\xff\xfe", c) >= 0 }

func (j *jsonNamer) inString(c byte) {
	if c == j.quote && j.before != '\\' {
		j.quote, j.last = 0, '"'
	} else if len(j.text) < longestName {
		j.text = append(j.text, c)
	}
	if j.before == '\\' { // an escaped backslash escapes nothing
		c = 0
	}
	j.before = c
}

func (j *jsonNamer) outside(c byte) {
	j.before = 0
	switch {
	case j.last == 0 && c != '{' && c != '[':
		j.none, j.odd = true, true
	case c == '"' || c == '\'':
		j.quote, j.text, j.odd = c, j.text[:0], j.odd || c == '\''
		return
	case c == ':' && j.last == '"':
		j.names = append(j.names, unquote(`"`+string(j.text)+`"`))
	default:
		j.odd = j.odd || !strings.Contains("{}[],0123456789+-.eEtrufalsn", string(c))
	}
	j.last = c
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
