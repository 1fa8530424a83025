package route

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
)

// Watch passes on a body that is too large for a login, and fails before the value
// of a field that one of these routes looks for: an upload streams through, and a
// password that hides behind one never arrives. It holds a few KiB at most. The
// error is a *Refusal.
func (t Table) Watch(r *http.Request, body io.Reader) io.Reader {
	in := bufio.NewReaderSize(body, longestName)
	w := &watched{from: in, space: make([]byte, 8*longestName), err: t.tooLarge(r, in)}
	kind, boundary := formType(r)
	switch {
	case w.err != nil:
	case kind == urlencodedForm:
		w.through = &pairs{field: t.watches}
	case kind == multipartForm:
		w.through = newParts(boundary, func(name string, _ bool) error { return t.watches(name) })
	default:
		w.through = &texts{text: t.names}
	}
	return w
}

// names refuses the name of a password in a large JSON text.
func (t Table) names(name string) error {
	for _, one := range t {
		if l := one.password; (l.kind == form || l.kind == param || l.kind == object) && looksLike(name, l.last()) {
			return refuse("Send the member %.60q in a small object.", l.last())
		}
	}
	return nil
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
	if len(r.Header.Values("Content-Encoding")) > 0 {
		return &Refusal{http.StatusUnsupportedMediaType, "Send the body as it is, without compression."}
	}
	for _, one := range t {
		if one.account.kind == xmlrpc || one.account.kind == object && beginsObject(begin) {
			return &Refusal{http.StatusRequestEntityTooLarge, "This request is too large for a login."}
		}
	}
	if kind, _ := formType(r); kind == noForm && mayHoldFields(r) {
		return &Refusal{http.StatusUnsupportedMediaType, "Send the form as browsers send it, in UTF-8."}
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

// texts goes through JSON and looks at every string that may be a name: one that is not
// followed by a colon is taken for one, too.
type texts struct {
	text   func(string) error
	begun  bool
	isJSON bool
	inText bool // in a string that is too long for a name
}

func (t *texts) feed(b []byte, last bool) (n int, err error) {
	if !t.begun {
		rest := bytes.TrimLeft(b, "\ufeff \t\r\n")
		t.begun, t.isJSON = len(rest) > 0, len(rest) > 0 && (rest[0] == '{' || rest[0] == '[')
	}
	if !t.isJSON {
		return len(b), nil
	}
	for n < len(b) {
		if !t.inText {
			begin := bytes.IndexByte(b[n:], '"')
			if begin < 0 {
				return len(b), nil
			}
			n += begin
			end := endOfText(b[n+1:])
			if end < 0 && !last && len(b)-n < longestName {
				return n, nil
			}
			if end >= 0 {
				var name string
				if json.Unmarshal(b[n:n+end+2], &name) == nil {
					err = t.text(name)
				}
				if err != nil {
					return n, err
				}
				n += end + 2
				continue
			}
			t.inText, n = true, n+1
		}
		switch at := bytes.IndexAny(b[n:], `"\`); {
		case at < 0:
			return len(b), nil
		case b[n+at] == '"':
			t.inText, n = false, n+at+1
		case n+at+1 == len(b) && !last: // what is escaped is still to come
			return n + at, nil
		default:
			n = min(n+at+2, len(b))
		}
	}
	return n, nil
}

// endOfText is where a string ends whose quotation mark came before; -1 if it does not.
func endOfText(b []byte) int {
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			return i
		case '\\':
			i++
		}
	}
	return -1
}
