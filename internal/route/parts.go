package route

import (
	"bytes"
	"net/http"
	"regexp"
	"strings"
	"unicode"
)

// Body types that PHP and others parse as forms.
type formKind uint8

const (
	noForm formKind = iota
	urlencodedForm
	multipartForm
)

// A boundary has no =: Ruby's cgi takes the text after the last boundary=.
var multipartType = regexp.MustCompile(`^(?i:multipart/form-data)` + inUTF8 +
	`; ?(?i:boundary)=("?)([A-Za-z0-9'()+_./:?-]{1,70})("?)` + inUTF8 + `$`)

const inUTF8 = `(?i:; ?charset="?utf-8"?)?`

// formType returns the type of a request's form, and the boundary of a multipart one.
func formType(r *http.Request) (formKind, string) {
	switch mediaType(r) {
	case "application/x-www-form-urlencoded":
		return urlencodedForm, ""
	case "multipart/form-data":
		if m := multipartType.FindStringSubmatch(r.Header.Get("Content-Type")); m != nil && m[1] == m[3] {
			return multipartForm, m[2]
		}
	}
	return noForm, ""
}

// parts parses multipart/form-data as browsers write it and rejects all other forms: parsers differ in where a part
// begins and how it is named.
type parts struct {
	part      func(f field) error              // with its name, and without a value
	data      func(at int, piece []byte) error // of the part, at its position in the body
	delimiter []byte
	state     partState
	passed    int // bytes of the body before feed's
}

type partState uint8

const (
	opening partState = iota
	head
	content
	over
)

func newParts(boundary string, part func(f field) error, data func(at int, piece []byte) error) *parts {
	return &parts{part: part, data: data, delimiter: []byte("--" + boundary)}
}

func (p *parts) feed(b []byte, last bool) (n int, err error) {
	defer func() { p.passed += n }()
	for {
		step, err := p.step(b[n:], p.passed+n)
		n += step
		if err != nil || step == 0 {
			if err == nil && last && (p.state != over || n < len(b)) {
				err = errCut
			}
			return n, err
		}
	}
}

var newline = []byte("\r\n")

// step consumes the next complete piece.
func (p *parts) step(b []byte, at int) (n int, err error) {
	switch p.state {
	case opening:
		if len(b) < len(p.delimiter)+2 {
			return 0, nil
		}
		return p.delimited(b, 0)
	case head:
		end := bytes.Index(b, []byte("\r\n\r\n"))
		if end < 0 && len(b) < longestName {
			return 0, nil
		}
		if end < 0 || end > longestName || bytes.Contains(b[:end], p.delimiter) {
			return 0, errPart
		}
		f, err := partHead(string(b[:end]))
		if err == nil {
			err = p.part(f)
		}
		p.state = content
		return end + 4, err
	case content:
		return p.content(b, at)
	}
	switch {
	case bytes.HasPrefix(b, newline):
		return len(newline), nil
	case bytes.HasPrefix(newline, b):
		return 0, nil
	}
	return 0, errPart
}

// content consumes bytes that cannot begin a delimiter.
func (p *parts) content(b []byte, at int) (n int, err error) {
	i := bytes.Index(b, p.delimiter)
	if i < 0 {
		n = max(0, len(b)-len(p.delimiter)-len(newline))
		return n, p.data(at, b[:n])
	}
	if i < 2 || !bytes.HasPrefix(b[i-2:], newline) {
		return 0, errPart
	}
	if len(b) < i+len(p.delimiter)+2 {
		return i - 2, p.data(at, b[:i-2])
	}
	if err := p.data(at, b[:i-2]); err != nil {
		return 0, err
	}
	return p.delimited(b, i)
}

// delimited consumes a delimiter that begins at i.
func (p *parts) delimited(b []byte, i int) (n int, err error) {
	after := i + len(p.delimiter)
	if !bytes.HasPrefix(b[i:], p.delimiter) {
		return 0, errPart
	}
	switch string(b[after : after+2]) {
	case "\r\n":
		p.state = head
	case "--":
		p.state = over
	default:
		return 0, errPart
	}
	return after + 2, nil
}

// No name contains = or ;, and no file's name contains name=: Rack takes the last name= of a line, even inside quotes.
var partLines = map[string]*regexp.Regexp{
	"content-disposition": regexp.MustCompile(`^form-data; name=(?:"([^"\\;=]*)"|([A-Za-z0-9_.-]+))` +
		`((?:; filename=(?:"([^"\\]*)"|[A-Za-z0-9_.-]+))?(?:; filename\*=[^";=\\]*)?)$`),
	// aiohttp and Werkzeug 2.2 decode a field by the charset of its part.
	"content-type":              regexp.MustCompile(`^([\w.+-]+/[\w.+-]+)(?:; ?charset="?([\w-]+)"?|; ?codecs="?[\w.,+-]+"?)?$`),
	"content-transfer-encoding": regexp.MustCompile(`(?i)^(?:7bit|8bit|binary)$`),
	"content-length":            regexp.MustCompile(`^\d+$`),
}

// namedTwice also matches name*0= (RFC 2231) and every kind of space.
var namedTwice = regexp.MustCompile(`(?i)name[^a-z]*=`)

// partHead parses a part's headers: its name, whether it is a file, and whether its text is in UTF-8. Any other or
// repeated header line may name the part to some parser.
func partHead(lines string) (f field, err error) {
	found := map[string][]string{}
	for line := range strings.SplitSeq(lines, "\r\n") {
		key, value, _ := strings.Cut(line, ": ")
		key = strings.ToLower(key)
		pattern := partLines[key]
		if pattern == nil || found[key] != nil || strings.ContainsFunc(line, unicode.IsControl) {
			return f, errPart
		}
		if found[key] = pattern.FindStringSubmatch(value); found[key] == nil {
			return f, errPart
		}
	}
	names, kind := found["content-disposition"], found["content-type"]
	if names == nil || namedTwice.MatchString(names[4]) {
		return f, errPart
	}
	f = field{name: names[1] + names[2], file: names[3] != "", whole: true}
	if kind != nil {
		f.whole = kind[2] == "" || strings.EqualFold(kind[2], "utf-8")
		f.file = f.file || kind[1] != "text/plain" // busboy and formidable treat a typed part as a file
		if formLike.MatchString(kind[1]) || !f.whole && !asciiCharset.MatchString("="+kind[2]) {
			return f, errPart
		}
	}
	return f, nil
}
