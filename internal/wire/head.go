package wire

import (
	"bytes"
	"strings"
)

// A refusal is why a request is refused.
type refusal string

func (r refusal) Error() string { return string(r) }

// Why requests are refused.
const (
	badRequestLine refusal = "the request line must be a method in capitals, a target and HTTP/1.1 or HTTP/1.0, with one space between them"
	badTarget      refusal = "the target must be a path, or http:// with the name in Host, in ASCII without spaces and #"
	badHost        refusal = "there must be one Host header, with a name and perhaps a port"
	badName        refusal = "a header must begin with its name, of letters, digits and hyphens, and the colon right after it"
	badValue       refusal = "a header has a control character"
	bareLF         refusal = "a line must end in CR LF"
	badLength      refusal = "there may be one Content-Length, in digits"
	badCoding      refusal = "Transfer-Encoding may only be chunked, once, without Content-Length, in HTTP/1.1"
	badConnection  refusal = "Connection may only be close, keep-alive, upgrade, http2-settings and te"
	badUpgrade     refusal = "only an upgrade to websocket, without a body, is possible; for HTTP/2 begin with it, or use HTTP/1.1"
	badTrailer     refusal = "a trailer may only be a checksum of the body"
	badChunk       refusal = "a chunk must be its size in at most 16 hexadecimal digits, CR LF, so many bytes, CR LF"
	bodyUnexpected refusal = "GET, HEAD and TRACE have no body"
	tooLarge       refusal = "the headers are too large"
)

// A head is what is to be remembered of a request's head until it is whole.
type head struct {
	old       bool // HTTP/1.0
	bodiless  bool // the method has no body
	absolute  bool
	authority []byte // of an absolute target
	host      []byte
	hosts     int
	hasLength bool
	length    int64
	chunked   bool
	upgrade   bool
}

// request reads a request line.
func (h *head) request(line []byte) error {
	method, rest, _ := bytes.Cut(line, []byte(" "))
	target, version, _ := bytes.Cut(rest, []byte(" "))
	switch string(version) {
	case "HTTP/1.0":
		h.old = true
	case "HTTP/1.1":
	default:
		return badRequestLine
	}
	// Django and Werkzeug take "post" for POST, a route's methods do not.
	if !methods.all(method) || string(method) == "CONNECT" {
		return badRequestLine
	}
	switch string(method) {
	case "GET", "HEAD", "TRACE":
		h.bodiless = true
	}
	return h.target(target, string(method) == "OPTIONS")
}

func (h *head) target(target []byte, options bool) error {
	if !targets.all(target) {
		return badTarget
	}
	if target[0] == '/' || options && string(target) == "*" {
		return nil
	}
	for _, scheme := range []string{"http://", "https://"} {
		if len(target) > len(scheme) && strings.EqualFold(string(target[:len(scheme)]), scheme) {
			authority := target[len(scheme):]
			if end := bytes.IndexAny(authority, "/?"); end >= 0 {
				authority = authority[:end]
			}
			h.absolute, h.authority = true, append(h.authority, authority...)
			return nil
		}
	}
	return badTarget
}

// field reads a header.
func (h *head) field(line []byte) error {
	name, value, err := cut(line)
	if err != nil {
		return err
	}
	var short [longestName]byte
	key := folded(&short, name)
	switch string(key) {
	case "content-length", "transfer-encoding", "host", "connection", "upgrade", "trailer":
		// WSGI, CGI and PHP take Content_Length for it.
		if bytes.IndexByte(name, '_') >= 0 {
			return badName
		}
	}
	switch string(key) {
	case "content-length":
		return h.setLength(value)
	case "transfer-encoding":
		if h.chunked || string(bytes.TrimPrefix(value, []byte(" "))) != "chunked" {
			return badCoding
		}
		h.chunked = true
	case "host":
		h.hosts++
		value = bytes.Trim(value, " ")
		h.host = append(h.host[:0], value...)
		if len(value) > 0 && !Host(value) {
			return badHost
		}
	case "connection":
		// Whatever is named here, a proxy takes out: our headers must not be.
		return every(value, badConnection, "close", "keep-alive", "upgrade", "te", "http2-settings", "")
	case "upgrade":
		// Java's HttpClient offers h2c with every request. Nobody here takes that up or
		// passes it on. Others are HTTP once more, which nobody would look at: TLS/1.0.
		if bytes.EqualFold(bytes.Trim(value, " "), []byte("h2c")) {
			return nil
		}
		h.upgrade = true
		return every(value, badUpgrade, "websocket")
	case "trailer":
		for name := range bytes.SplitSeq(value, []byte(",")) {
			if !mayTrail(bytes.Trim(name, " ")) {
				return badTrailer
			}
		}
	}
	return nil
}

func (h *head) setLength(value []byte) (err error) {
	digits := bytes.TrimPrefix(value, []byte(" "))
	if h.hasLength || len(digits) > 1 && digits[0] == '0' { // 010 is 8 to some
		return badLength
	}
	h.hasLength = true
	h.length, err = number(digits, 10)
	return err
}

// whole checks a head that is complete.
func (h *head) whole() error {
	sends := h.chunked || h.length > 0
	switch {
	case h.hosts > 1 || h.hosts == 0 && !h.old:
		return badHost
	case h.absolute && !bytes.EqualFold(h.authority, h.host):
		return badTarget
	case h.chunked && (h.hasLength || h.old):
		return badCoding
	case h.upgrade && (sends || h.old):
		return badUpgrade
	case h.bodiless && sends: // a server that ignores the body takes it for the next request
		return bodyUnexpected
	}
	return nil
}

// trailer checks a header that comes after a chunked body.
func trailer(line []byte) error {
	name, _, err := cut(line)
	if err == nil && !mayTrail(name) {
		return badTrailer
	}
	return err
}

// mayTrail: checksums of the body. Some servers merge trailers with the headers that
// were checked, and nobody can name all that say who somebody is.
func mayTrail(name []byte) bool {
	var short [longestName]byte
	key := string(folded(&short, name))
	for _, checksum := range []string{"content-digest", "repr-digest", "digest", "content-md5", "x-amz-checksum-", "x-amz-trailer-sign", "x-goog-hash"} {
		if strings.HasPrefix(key, checksum) {
			return true
		}
	}
	return false
}

// cut takes a header apart.
func cut(line []byte) (name, value []byte, err error) {
	name, value, _ = bytes.Cut(line, []byte(":"))
	if len(name) == len(line) || !tokens.all(name) {
		return nil, nil, badName
	}
	if len(value) > 0 && !values.all(value) {
		return nil, nil, badValue
	}
	return name, value, nil
}

// every reports refused unless each element of a list is one of these words.
func every(list []byte, refused refusal, words ...string) error {
next:
	for element := range bytes.SplitSeq(list, []byte(",")) {
		for _, word := range words {
			if strings.EqualFold(string(bytes.Trim(element, " ")), word) {
				continue next
			}
		}
		return refused
	}
	return nil
}
