package route

import (
	"bytes"
	"net/http"
	"regexp"
	"strings"
)

// The types of a body that PHP and others take fields out of.
type formKind uint8

const (
	noForm formKind = iota
	urlencodedForm
	multipartForm
)

var multipartType = regexp.MustCompile(`^(?i:multipart/form-data); ?(?i:boundary)=("?)([A-Za-z0-9'()+_./:=?-]{1,70})("?)$`)

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
	part      func(name string, file bool) error
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

func newParts(boundary string, part func(name string, file bool) error) *parts {
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
		name, file, err := partHead(string(b[:end]))
		if err == nil {
			err = p.part(name, file)
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

var (
	disposition = regexp.MustCompile(`^(?i:Content-Disposition): form-data; name="([^"\\]*)"(; filename="([^"]*[^"\\])?")?(; filename\*=[^";\\]*)?$`)
	// aiohttp decodes a field by the charset of its part: one name could be written in
	// UTF-7 in many ways.
	charset    = regexp.MustCompile(`charset=["']?([^"';, ]*)`)
	partHeader = regexp.MustCompile(`^[A-Za-z-]+: [^\\]*$`)
)

func inUTF8(lower string) bool {
	m := charset.FindStringSubmatch(lower)
	return m == nil || m[1] == "utf-8"
}

// partHead reads the head of a part: its name, and whether it is a file.
func partHead(lines string) (name string, file bool, err error) {
	found := false
	for line := range strings.SplitSeq(lines, "\r\n") {
		m := disposition.FindStringSubmatch(line)
		lower := strings.ToLower(line)
		switch {
		case strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r == 0x7f }), strings.HasPrefix(lower, "content-transfer-encoding"):
			return "", false, errPart
		case m != nil && !found && !strings.Contains(m[1], "=?"): // Tomcat decodes names by RFC 2047
			found, name, file = true, m[1], m[2] != "" || m[4] != ""
		case strings.HasPrefix(lower, "content-disposition"), !partHeader.MatchString(line), !inUTF8(lower):
			return "", false, errPart
		}
	}
	if !found {
		return "", false, errPart
	}
	return name, file, nil
}
