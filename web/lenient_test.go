package web

import (
	"bytes"
	"math/bits"
	"strconv"
	"strings"
)

// A lenient is how an HTTP parser that somebody might run in front of us, or behind,
// is less strict than it should be: a set of leniencies, each seen in a shipped one.
type lenient uint64

const (
	bareLFEnds       lenient = 1 << iota // a line (CVE-2025-22871 in chunks)
	bareCREnds                           // a line (CVE-2023-30589)
	nulEnds                              // a line's text
	folds                                // continued lines are joined; otherwise read as headers (CVE-2022-32215)
	foldsDropped                         // continued lines are dropped
	trimsName                            // "Content-Length : 5" (CVE-2019-16276)
	trimsAny                             // control characters around a value (CVE-2019-18277)
	trimsNothing                         // "Content-Length: 5" with a second space is not 5
	lastLength                           // of several (CVE-2020-10108); otherwise the first
	splitsLengths                        // 5, 5
	prefersLength                        // over chunked (CVE-2020-10109)
	lastCoding                           // of several Transfer-Encodings
	codingContains                       // xchunked, "chunked, identity" (CVE-2022-1705, CVE-2024-1135)
	codingExact                          // Chunked is not chunked
	oldNoCoding                          // HTTP/1.0 has no Transfer-Encoding
	atoiLengths                          // 5abc, +5
	badLengthIsNone                      // what is no number is left out
	octalLengths                         // 010 is 8
	hexLengths                           // 0x10 is 16
	lengths32                            // a length is cut to 32 bits (CVE-2021-40346)
	underscores                          // Content_Length is Content-Length
	emptyNameEnds                        // a header without a name ends the headers (CVE-2023-25725)
	emptyLinesFirst                      // are skipped before a request
	looseRequestLine                     // any white space, any number of times
	noVersion                            // HTTP/0.9
	upperCases                           // the method, as Django does
	cutsFragment                         // from the target
	targetsHost                          // is the host; otherwise the Host header
	lastHost                             // of several
	bodilessGET                          // the body of a GET or HEAD is the next request
	cutsExtension                        // chunk extensions; otherwise the number must be all
	extensionToLF                        // and ends them at any LF (CVE-2025-55315)
	chunkPrefix                          // the size is what looks like one: 5_0, "5 "
	chunkHex                             // 0x5
	chunkSigned                          // +5
	chunk32                              // cut to 32 bits
	chunkEndAny                          // two bytes after a chunk, whatever they are
	chunkEndNone                         // nothing need follow a chunk
	mergesTrailers                       // with the headers
	obeysConnection                      // and takes out what it names
	leniencies       = iota
)

// A seen is a request as a parser saw it.
type seen struct{ method, target, host, body, user string }

func (l lenient) is(one lenient) bool { return l&one != 0 }

// A lenientParser reads a stream.
type lenientParser struct {
	lenient
	rest []byte
}

// read is all whole requests of a stream, up to the first that cannot be read.
func (l lenient) read(stream []byte) (all []seen) {
	p := lenientParser{l, stream}
	for {
		one, ok := p.request()
		if !ok {
			return all
		}
		all = append(all, one)
	}
}

// line is the next line without its end.
func (p *lenientParser) line() (string, bool) {
	for i, c := range p.rest {
		ends := 0
		switch {
		case c == '\r' && i+1 < len(p.rest) && p.rest[i+1] == '\n':
			ends = 2
		case c == '\n' && p.is(bareLFEnds), c == '\r' && p.is(bareCREnds):
			ends = 1
		default:
			continue
		}
		line := string(p.rest[:i])
		p.rest = p.rest[i+ends:]
		if p.is(nulEnds) {
			line, _, _ = strings.Cut(line, "\x00")
		}
		return line, true
	}
	return "", false
}

type lenientHead struct {
	old     bool
	lengths []string
	codings []string
	hosts   []string
	users   []string
	drop    string
}

func (p *lenientParser) request() (one seen, ok bool) {
	line, ok := p.line()
	for ok && line == "" && p.is(emptyLinesFirst) {
		line, ok = p.line()
	}
	if !ok {
		return one, false
	}
	parts := strings.SplitN(line, " ", 3)
	if p.is(looseRequestLine) {
		parts = strings.Fields(line)
	}
	if len(parts) == 2 && p.is(noVersion) {
		parts = append(parts, "HTTP/1.0")
	}
	if len(parts) != 3 || parts[0] == "" || parts[1] == "" || !p.is(looseRequestLine) && !strings.HasPrefix(parts[2], "HTTP/") {
		return one, false
	}
	one.method, one.target = parts[0], parts[1]
	if p.is(upperCases) {
		one.method = strings.ToUpper(one.method)
	}
	if p.is(cutsFragment) {
		one.target, _, _ = strings.Cut(one.target, "#")
	}
	h := lenientHead{old: parts[2] == "HTTP/1.0"}
	if !p.headers(&h) {
		return one, false
	}
	if one.body, ok = p.body(one.method, &h); !ok {
		return one, false
	}
	one.host = p.host(one.target, &h)
	if len(h.users) > 0 && !(p.is(obeysConnection) && strings.Contains(strings.ToLower(h.drop), "remote-user")) {
		one.user = h.users[0]
	}
	return one, true
}

func (p *lenientParser) host(target string, h *lenientHead) (host string) {
	if len(h.hosts) > 0 {
		host = h.hosts[0]
		if p.is(lastHost) {
			host = h.hosts[len(h.hosts)-1]
		}
	}
	if _, rest, absolute := strings.Cut(target, "://"); absolute && p.is(targetsHost) && target[0] != '/' {
		host = rest
		if end := strings.IndexAny(rest, "/?"); end >= 0 {
			host = rest[:end]
		}
	}
	return strings.ToLower(host)
}

func (p *lenientParser) headers(h *lenientHead) bool {
	var lines []string
	for {
		line, ok := p.line()
		switch {
		case !ok:
			return false
		case line == "" || p.is(emptyNameEnds) && line[0] == ':':
			for _, line := range lines {
				p.header(line, h)
			}
			return true
		case (line[0] == ' ' || line[0] == '\t') && p.is(folds) && len(lines) > 0:
			lines[len(lines)-1] += " " + strings.Trim(line, " \t")
		case (line[0] == ' ' || line[0] == '\t') && p.is(foldsDropped):
		default:
			lines = append(lines, line)
		}
	}
}

func (p *lenientParser) header(line string, h *lenientHead) {
	name, value, _ := strings.Cut(line, ":")
	if p.is(trimsName) {
		name = strings.TrimSpace(name)
	}
	name = strings.ToLower(name)
	if p.is(underscores) && !strings.Contains(name, "user") {
		name = strings.ReplaceAll(name, "_", "-")
	}
	switch {
	case p.is(trimsAny):
		value = strings.TrimFunc(value, func(r rune) bool { return r <= ' ' || r == 0x7f })
	case p.is(trimsNothing) && (name == "content-length" || name == "transfer-encoding"):
		value = strings.TrimPrefix(value, " ")
	default:
		value = strings.Trim(value, " \t")
	}
	switch name {
	case "content-length":
		h.lengths = append(h.lengths, value)
	case "transfer-encoding":
		h.codings = append(h.codings, value)
	case "host":
		h.hosts = append(h.hosts, value)
	case "connection":
		h.drop += "," + value
	case "remote-user":
		h.users = append(h.users, value)
	}
}

func (p *lenientParser) body(method string, h *lenientHead) (string, bool) {
	if p.is(bodilessGET) && (method == "GET" || method == "HEAD") {
		return "", true
	}
	length, hasLength, ok := p.length(h)
	if !ok {
		return "", false
	}
	if p.chunked(h) && !(hasLength && p.is(prefersLength)) {
		return p.chunks(h)
	}
	if uint64(length) > uint64(len(p.rest)) {
		return "", false
	}
	body := string(p.rest[:length])
	p.rest = p.rest[length:]
	return body, true
}

func (p *lenientParser) length(h *lenientHead) (n int64, has, ok bool) {
	lengths := h.lengths
	if p.is(splitsLengths) {
		lengths = strings.FieldsFunc(strings.Join(lengths, ","), func(r rune) bool { return r == ',' || r == ' ' })
	}
	if len(lengths) == 0 {
		return 0, false, true
	}
	text := lengths[0]
	if p.is(lastLength) {
		text = lengths[len(lengths)-1]
	}
	n, err := p.number(text)
	if err != nil || n < 0 {
		return 0, false, p.is(badLengthIsNone)
	}
	return n, true, true
}

func (p *lenientParser) number(text string) (int64, error) {
	base := 10
	if digits, hex := strings.CutPrefix(text, "0x"); hex && p.is(hexLengths) {
		text, base = digits, 16
	} else if p.is(octalLengths) && len(text) > 1 && text[0] == '0' {
		text, base = text[1:], 8
	}
	if p.is(atoiLengths) {
		text = strings.TrimPrefix(text, "+")
		if end := strings.IndexFunc(text, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
			text = text[:end]
		}
	}
	n, err := strconv.ParseUint(text, base, 64)
	if p.is(lengths32) {
		return int64(uint32(n)), err
	}
	return int64(n), err
}

func (p *lenientParser) chunked(h *lenientHead) bool {
	if len(h.codings) == 0 || h.old && p.is(oldNoCoding) {
		return false
	}
	coding := h.codings[0]
	if p.is(lastCoding) {
		coding = h.codings[len(h.codings)-1]
	}
	switch {
	case p.is(codingExact):
		return coding == "chunked"
	case p.is(codingContains):
		return strings.Contains(strings.ToLower(coding), "chunked")
	}
	return strings.EqualFold(coding, "chunked")
}

func (p *lenientParser) chunks(h *lenientHead) (string, bool) {
	var body bytes.Buffer
	for {
		size, ok := p.chunkSize()
		if !ok {
			return "", false
		}
		if size == 0 {
			break
		}
		if size > uint64(len(p.rest)) {
			return "", false
		}
		body.Write(p.rest[:size])
		p.rest = p.rest[size:]
		switch crlf := bytes.HasPrefix(p.rest, []byte("\r\n")); {
		case p.is(chunkEndAny) && len(p.rest) >= 2, crlf:
			p.rest = p.rest[2:]
		case p.is(chunkEndNone):
		default:
			return "", false
		}
	}
	trailers := lenientHead{}
	if !p.headers(&trailers) {
		return "", false
	}
	if p.is(mergesTrailers) {
		h.hosts = append(h.hosts, trailers.hosts...)
		h.users = append(trailers.users, h.users...)
	}
	return body.String(), true
}

func (p *lenientParser) chunkSize() (uint64, bool) {
	was := p.lenient
	if p.is(extensionToLF) {
		p.lenient |= bareLFEnds
	}
	line, ok := p.line()
	p.lenient = was
	if p.is(cutsExtension) || p.is(extensionToLF) {
		line, _, _ = strings.Cut(line, ";")
		line = strings.TrimRight(line, " \t\r")
	}
	if p.is(chunkHex) {
		line = strings.TrimPrefix(line, "0x")
	}
	if p.is(chunkSigned) {
		line = strings.TrimPrefix(line, "+")
	}
	if p.is(chunkPrefix) {
		line = strings.TrimLeft(line, " \t")
		if end := strings.IndexFunc(line, func(r rune) bool { return !strings.ContainsRune("0123456789abcdefABCDEF", r) }); end >= 0 {
			line = line[:end]
		}
	}
	if len(line) > 16 && p.is(chunk32) {
		line = line[len(line)-8:]
	}
	n, err := strconv.ParseUint(line, 16, 64)
	if p.is(chunk32) {
		n = uint64(uint32(n))
	}
	return n, ok && err == nil
}

// String names the leniencies by their number.
func (l lenient) String() string {
	var all []string
	for l != 0 {
		all = append(all, strconv.Itoa(bits.TrailingZeros64(uint64(l))))
		l &= l - 1
	}
	return strings.Join(all, "+")
}
