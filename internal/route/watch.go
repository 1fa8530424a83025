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
	"strconv"
	"strings"
)

// Watch scans a body that is too large for a login while it streams. It fails before the value of a field that one of
// the routes reads. Uploads pass, but a password hidden behind one never arrives. It buffers a few KiB at most. The
// error is a *Refusal.
func (t Table) Watch(r *http.Request, body io.Reader) io.Reader {
	in := bufio.NewReaderSize(body, longestName)
	first := watch(in, nil)
	if first.err = t.tooLarge(r, in); first.err != nil {
		return first
	}
	s := &sieve{table: t}
	for _, one := range t {
		if one.inFields() {
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

// tooLarge rejects bodies that cannot be scanned while they stream.
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

// A splitter scans a form as it arrives.
type splitter interface {
	// feed returns how many bytes may pass; the caller sends the rest again, with more.
	feed(b []byte, last bool) (n int, err error)
}

type watched struct {
	from    io.Reader
	through splitter
	space   []byte
	held    []byte // in space: read, not yet passed
	free    int    // bytes of held that may pass
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

// longestName is the maximum length of a field's name or of a part's headers, in bytes.
const longestName = 4 << 10

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

// cutEscape matches an escape that continues in the next piece.
var cutEscape = regexp.MustCompile(`%[[:xdigit:]]?$`)

// A sieve scans bodies that are not forms to this package, but may be to an app. It also gets the names and values of
// forms.
type sieve struct {
	table  Table
	kind   formKind // the splitter that scans it as well
	wanted []*wanted
	passed int
	begins string // the body's first character; empty: only spaces so far
	json   escapedNamer
	inner  escapedNamer // for the name or the value of a field
	named  int          // how much of feed's bytes json has scanned
	odd    *mentions    // not nil: every mention of a name counts
}

// A wanted records which fields of a route were seen in or beside the body.
type wanted struct {
	of                *Route
	account, password bool
}

// see returns an error when both fields of a route were seen. In a form, watches rejects the route's own fields.
func (s *sieve) see(names []string, far bool) error {
	for _, one := range s.wanted {
		if far && (len(one.of.account.last()) < 4 || len(one.of.secret().last()) < 4) {
			continue
		}
		if len(names) > 0 {
			one.account = one.account || one.of.account.in(names)
			one.password = one.password || one.of.secret().in(names)
		}
		if one.account && one.password {
			return errLarge
		}
	}
	return nil
}

var errLarge = refuse("Send the login in a small form.")

func (s *sieve) name(name string) error {
	if err := s.table.watches(name); err != nil {
		return err
	}
	s.inner.reset()
	if err := s.value([]byte(name)); err != nil {
		return err
	}
	s.inner.reset()
	return s.see([]string{name}, false)
}

func (s *sieve) value(piece []byte) error {
	names := s.inner.feed(piece)
	if s.inner.layers[0].wide && s.odd == nil {
		s.odd = new(mentions) // the rest of it reaches feed as well
	}
	return s.see(names, false)
}

// fewBytes limits the search for a short name, such as p, between pairs: a file of 1 GiB contains it by chance. Bottle
// reads 100 KiB of such a body.
const fewBytes = 128 << 10

func (s *sieve) feed(b []byte, last bool) (n int, err error) {
	if !last && len(b) < 2*longestName {
		return 0, nil // do not rescan everything for each byte
	}
	if at := slices.IndexFunc(b, func(c byte) bool { return !isSkipped(c) && !isMark(c) }); s.begins == "" && at >= 0 {
		s.begins = string(b[at : at+1])
	}
	if err := s.see(s.json.feed(b[s.named:]), false); err != nil {
		return 0, err
	}
	if s.kind != noForm && s.odd == nil && s.begins != "" && !beginsWith(s.begins, `{["#/<`) {
		s.passed, s.named = s.passed+len(b), 0
		return len(b), nil // a form by its type only, which the previous splitter scans
	}
	var all [ways][]string
	text, plain := string(b), &s.json.layers[0]
	if beginsWith(s.begins, "<") {
		all[asXML] = xmlNames("<" + text)
	}
	if s.kind == noForm {
		all[asPairs] = plainKeys(text)
	}
	if s.odd == nil && (plain.odd && plain.last != 0 || s.begins == "<" && oddXML("<"+text)) {
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

// mentioned reports whether both names of a route occur, including those in a text of which n bytes pass.
func (s *sieve) mentioned(text string, n int) bool {
	seen := *s.odd
	seen.add(text)
	s.odd.add(text[:n])
	s.odd.text = s.odd.text[max(0, len(s.odd.text)-longestName):]
	return slices.ContainsFunc(s.wanted, func(one *wanted) bool {
		one.account = one.account || seen.of(one.of.account)
		one.password = one.password || seen.of(one.of.secret())
		return one.account && one.password
	})
}

// quiet returns where a text can be split, at n or before, without cutting an escape; -1 if nowhere.
func quiet(text string, n int, last bool) int {
	const longest = 12 // of an escaped escape
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

// An escapedNamer finds the names in JSON, also if it is percent-encoded once or twice.
type escapedNamer struct {
	layers  [3]jsonNamer
	cut     [2][]byte // an escape that the next piece completes
	escaped bool      // else all layers are the first one
}

func (e *escapedNamer) reset() {
	*e = escapedNamer{layers: [3]jsonNamer{{text: e.layers[0].text[:0]}}}
}

func (e *escapedNamer) feed(text []byte) (names []string) {
	if !e.escaped && bytes.ContainsAny(text, "%+") {
		e.escaped, e.layers[1], e.layers[2] = true, e.layers[0].clone(), e.layers[0].clone()
	}
	for i := range e.layers {
		if i > 0 {
			text = append(e.cut[i-1], text...)
			e.cut[i-1] = bytes.Clone(cutEscape.Find(text))
			plain, _ := decodeField(string(text[:len(text)-len(e.cut[i-1])]))
			text = []byte(plain)
		}
		one := &e.layers[i]
		one.feed(text)
		names, one.names = append(names, one.names...), nil
		if !e.escaped || !slices.ContainsFunc(e.layers[i+1:], func(j jsonNamer) bool { return !j.none }) {
			break
		}
	}
	return names
}

// A jsonNamer finds the names in JSON as it arrives, whatever space and comments precede a colon, and those in JSON
// inside its strings.
type jsonNamer struct {
	names   []string
	text    []byte // of this string, or of the previous one
	quote   byte   // in a string
	comment byte   // in a comment: how it began, #, / or *
	before  byte   // the previous byte, in a string or a comment or after a slash
	last    byte   // outside of strings and comments; 0: not begun
	none    bool   // it does not begin like JSON, or is complete
	odd     bool   // not JSON to all parsers
	wide    bool   // has NULs, as UTF-16, in which a letter may look like a quote
	heading bool   // a # came before: see jsonStart

	inner   *jsonNamer // for the text of this string
	depth   int
	escape  rune // the character of an escape \u…
	escapes int  // how many of its digits are missing
}

func (j *jsonNamer) clone() jsonNamer {
	c := *j
	c.text = bytes.Clone(j.text)
	if j.inner != nil {
		inner := j.inner.clone()
		c.inner = &inner
	}
	return c
}

// in returns the names in a whole text.
func (j *jsonNamer) in(text string) []string {
	j.feed([]byte(withoutMarks(text)))
	return j.names
}

func (j *jsonNamer) feed(text []byte) {
	for i := 0; i < len(text) && !j.none; i++ {
		switch c := text[i]; {
		case c == 0:
			j.odd, j.wide = true, j.wide || j.last != 0
		case j.quote != 0:
			j.inString(c)
		case j.comment != 0:
			if c == '\n' && j.comment != '*' || c == '/' && j.before == '*' && j.comment == '*' {
				j.comment, c = 0, 0
			}
			j.before = c
		case j.before == '/' && (c == '/' || c == '*'):
			j.comment, j.before = c, 0
		case c == '/':
			j.before, j.odd = c, true
		case c == '#':
			j.comment, j.odd, j.heading = c, true, true
		case c == ' ' || c == '\t' || c == '\r' || c == '\n' || j.last == 0 && isMark(c):
		case j.last == 0 && (isSkipped(c) || c == '[' && j.heading):
			j.odd = true
		default:
			j.outside(c)
		}
	}
}

func isMark(c byte) bool { return strings.IndexByte("\xef\xbb\xbf\xff\xfe", c) >= 0 }

// isSkipped reports whether start skips this byte: punctuation, a control character, or a byte of a space in UTF-8.
func isSkipped(c byte) bool {
	if c >= 0x80 {
		return c <= 0x8a || strings.IndexByte("\x9a\x9f\xa0\xa8\xa9\xaf\xc2\xe1\xe2\xe3", c) >= 0
	}
	return !inName(rune(c)) && !strings.ContainsRune(`{["<#/`, rune(c)) || c == '_'
}

func (j *jsonNamer) inString(c byte) {
	escaped := j.before == '\\'
	if j.before = c; c == j.quote && !escaped {
		j.quote, j.none = 0, j.last == 0
		if !j.none {
			j.last = '"'
		}
		return
	}
	if len(j.text) < longestName {
		j.text = append(j.text, c)
	}
	j.feedInner(c, escaped)
	if escaped { // an escaped backslash escapes nothing
		j.before = 0
	}
}

// deepestJSON is how many JSON texts in each other are read. The escapes double with each.
const deepestJSON = 4

// feedInner reads the string itself: Meteor, for one, sends its calls as JSON in a member.
func (j *jsonNamer) feedInner(c byte, escaped bool) {
	if j.depth == deepestJSON || j.inner != nil && j.inner.none {
		return
	}
	if j.inner == nil {
		j.inner = &jsonNamer{depth: j.depth + 1}
	}
	text := []byte{c}
	switch {
	case j.escapes > 0:
		digit, _ := strconv.ParseUint(string(c), 16, 8)
		j.escape, j.escapes = j.escape<<4|rune(digit), j.escapes-1
		if text = nil; j.escapes == 0 {
			text = []byte(string(j.escape))
		}
	case escaped && c == 'u':
		j.escape, j.escapes, text = 0, 4, nil
	case escaped && strings.IndexByte("bfnrt", c) >= 0:
		text = newline
	case c == '\\' && !escaped:
		text = nil
	}
	j.inner.feed(text)
	j.names, j.inner.names = append(j.names, j.inner.names...), nil
}

func (j *jsonNamer) outside(c byte) {
	j.before = 0
	switch {
	case c == '"' || c == '\'':
		j.quote, j.text, j.odd = c, j.text[:0], j.odd || c == '\''
		j.inner, j.escapes = nil, 0
		return
	case j.last == 0 && c != '{' && c != '[':
		j.none = true
		return
	case c == ':' && j.last == '"':
		j.names = append(j.names, unquote(`"`+string(j.text)+`"`))
	default:
		j.odd = j.odd || !strings.Contains("{}[],0123456789+-.eEtrufalsn", string(c))
	}
	j.last = c
}

// plainKeys returns the names of a form in plain ASCII; a file contains few.
func plainKeys(text string) (all []string) {
	for more := true; more; {
		end := strings.IndexAny(text, "&;")
		if more = end >= 0; !more {
			end = len(text)
		}
		raw, _, ok := strings.Cut(text[:end], "=")
		if raw = strings.TrimLeft(raw, " \t\r\n\v\f"); ok && strings.IndexFunc(raw, func(r rune) bool {
			return r <= ' ' || r >= 0x7f
		}) < 0 {
			key, _ := decodeField(raw)
			all = append(all, key)
		}
		text = text[min(end+1, len(text)):]
	}
	return all
}
