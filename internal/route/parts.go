package route

import (
	"bytes"
	"net/http"
	"regexp"
	"strings"
	"unicode"
)

// The types of a body that PHP and others take fields out of.
type formKind uint8

const (
	noForm formKind = iota
	urlencodedForm
	multipartForm
)

var multipartType = regexp.MustCompile(`^(?i:multipart/form-data)` + inUTF8 +
	`; ?(?i:boundary)=("?)([A-Za-z0-9'()+_./:=?-]{1,70})("?)` + inUTF8 + `$`)

const inUTF8 = `(?i:; ?charset="?utf-8"?)?`

// formType is the type of a request's form, and what parts a multipart one.
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

// parts goes through a form of type multipart/form-data as browsers write it, and
// refuses every other way to write one: parsers find a part's beginning and its name
// in different ways.
type parts struct {
	part      func(name string, utf8 bool) error
	data      func(from, to int) // of the part, in the whole body; may be nil
	delimiter []byte
	state     partState
	passed    int // of the body, before what feed gets
}

type partState uint8

const (
	opening partState = iota
	head
	content
	over
)

func newParts(boundary string, part func(name string, utf8 bool) error) *parts {
	return &parts{part: part, delimiter: []byte("--" + boundary)}
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

// step passes the next piece that is complete.
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
		name, utf8, err := partHead(string(b[:end]))
		if err == nil {
			err = p.part(name, utf8)
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

// content passes what cannot be the beginning of a delimiter.
func (p *parts) content(b []byte, at int) (n int, err error) {
	i := bytes.Index(b, p.delimiter)
	if i < 0 {
		n = max(0, len(b)-len(p.delimiter)-len(newline))
		p.report(at, at+n)
		return n, nil
	}
	if i < 2 || !bytes.HasPrefix(b[i-2:], newline) {
		return 0, errPart
	}
	if len(b) < i+len(p.delimiter)+2 {
		p.report(at, at+i-2)
		return i - 2, nil
	}
	p.report(at, at+i-2)
	return p.delimited(b, i)
}

func (p *parts) report(from, to int) {
	if p.data != nil {
		p.data(from, to)
	}
}

// delimited passes a delimiter that begins at i.
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

// Values have no = and no ; in them: Rack takes the last name= of a line, within quotes too.
var partLines = map[string]*regexp.Regexp{
	"content-disposition": regexp.MustCompile(`^form-data; name=(?:"([^"\\;=]*)"|([A-Za-z0-9_.-]+))` +
		`(?:; filename=(?:"[^"\\;=]*"|[A-Za-z0-9_.-]+))?(?:; filename\*=[^";=\\]*)?$`),
	// aiohttp and Werkzeug 2.2 decode a field by the charset of its part.
	"content-type":              regexp.MustCompile(`^([\w.+-]+/[\w.+-]+)(?:; ?charset="?([\w-]+)"?)?$`),
	"content-transfer-encoding": regexp.MustCompile(`(?i)^(?:7bit|8bit|binary)$`),
	"content-length":            regexp.MustCompile(`^\d+$`),
}

// partHead reads the head of a part: its name, and whether its text is in UTF-8. A line that
// is none of the four may name the part to some parser, and so may one that comes twice.
func partHead(lines string) (name string, utf8 bool, err error) {
	found := map[string][]string{}
	for line := range strings.SplitSeq(lines, "\r\n") {
		key, value, _ := strings.Cut(line, ": ")
		key = strings.ToLower(key)
		pattern := partLines[key]
		if pattern == nil || found[key] != nil || strings.ContainsFunc(line, unicode.IsControl) {
			return "", false, errPart
		}
		if found[key] = pattern.FindStringSubmatch(value); found[key] == nil {
			return "", false, errPart
		}
	}
	names, kind := found["content-disposition"], found["content-type"]
	if names == nil {
		return "", false, errPart
	}
	if utf8 = kind == nil || kind[2] == "" || strings.EqualFold(kind[2], "utf-8"); kind != nil &&
		(formLike.MatchString(kind[1]) || !utf8 && !asciiCharset.MatchString("="+kind[2])) {
		return "", false, errPart
	}
	return names[1] + names[2], utf8, nil
}
