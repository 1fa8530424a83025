package route

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// readXMLRPC reads an XML-RPC call: one method, or each call in a system.multicall, each with a password (attackers
// sent WordPress 500 guesses in one request). It reads only what every parser reads alike.
func readXMLRPC(req *http.Request, body []byte) (Offer, error) {
	if len(body) == 0 {
		return Offer{}, nil
	}
	if !(locator{kind: xmlrpc}).reads(req) { // WordPress reads a body of any type
		return Offer{}, &Refusal{http.StatusUnsupportedMediaType, "Send the call as text/xml, in UTF-8."}
	}
	calls, err := parseCalls(body)
	if err != nil {
		return Offer{}, refuse("This call of XML-RPC cannot be read: %v.", err)
	}
	var at [][2]int // of each account, and of its password
	offer := Offer{Spoil: func(_ *http.Request, body []byte, other Credential) []byte { return splice(body, at, other) }}
	for _, one := range calls {
		account, password, err := one.offer()
		if err != nil {
			return Offer{}, refuse("This call of XML-RPC cannot be read: %v.", err)
		}
		if account != nil {
			// WordPress trims both, DokuWiki neither: " x" and "x" are two guesses.
			offer.Credentials = append(offer.Credentials, Credential{account.text, password.text})
			at = append(at, account.at, password.at)
		}
	}
	return offer, nil
}

func splice(body []byte, at [][2]int, other Credential) []byte {
	for i, one := range slices.Backward(at) {
		if text := [...]string{other.Account, other.Password}[i%2]; text != "" {
			var escaped bytes.Buffer
			_ = xml.EscapeText(&escaped, []byte(text)) // a Buffer does not fail
			body = slices.Concat(body[:one[0]], escaped.Bytes(), body[one[1]:])
		}
	}
	return body
}

type call struct {
	method string
	params []element // each a value
}

const multicall = "system.multicall"

// position returns the index of the account among a method's parameters, -1 for a method without a password. The
// password follows the account.
func position(method string) (at int, known bool) {
	switch method {
	case "wp.getUsersBlogs", "dokuwiki.login", "core.login":
		return 0, true
	case "blogger.getUserInfo":
		return 1, true
	case "blogger.getUsersBlogs", "metaWeblog.getUsersBlogs": // 1, but 0 in a network of WordPress
		return 0, false
	case "metaWeblog.deletePost", "wp.getPage", "wp.editPage":
		return 2, true
	case "mt.supportedMethods", "mt.supportedTextFilters", "mt.getTrackbackPings":
		return -1, true
	}
	switch family, _, _ := strings.Cut(method, "."); family {
	case "blogger":
		return 2, true
	case "wp", "metaWeblog", "mt":
		return 1, true
	case "system", "demo", "pingback", "dokuwiki", "wiki", "core":
		return -1, method != multicall // in a multicall
	}
	return 0, false
}

func (c call) offer() (account, password *element, err error) {
	at, known := position(c.method)
	switch {
	case !known:
		return nil, nil, errors.New("the place of its password is unknown")
	case at < 0:
		return nil, nil, nil
	case len(c.params) < at+2:
		return nil, nil, errors.New("it has too few parameters")
	}
	account, password = c.params[at].str(), c.params[at+1].str()
	if account == nil || password == nil {
		return nil, nil, errors.New("the account and the password must be strings")
	}
	return account, password, nil
}

// trimmed removes XML white space. U+00A0 is none: WordPress treats it as a parameter.
func trimmed(text string) string { return strings.Trim(text, " \t\r\n") }

var errForm = errors.New("it is not of the usual form")

// parseCalls returns the call in a body, or every call in a multicall.
func parseCalls(body []byte) (all []call, err error) {
	top, err := parseXML(body)
	if err != nil {
		return nil, err
	}
	method, params, err := top.call()
	if err != nil || method != multicall {
		return []call{{method, params}}, err
	}
	if len(params) != 1 {
		return nil, errForm
	}
	calls, ok := params[0].array()
	for _, one := range calls {
		c, is := one.callOfMany()
		ok = ok && is
		all = append(all, c)
	}
	if !ok {
		return nil, errForm
	}
	return all, nil
}

// An element holds either elements or text, and has no attributes.
type element struct {
	name     string
	children []element
	text     string
	at       [2]int // the text's range in the body
}

// is reports whether the element holds exactly elements of these names.
func (e *element) is(name string, children ...string) bool {
	return e.name == name && slices.EqualFunc(e.children, children,
		func(c element, want string) bool { return c.name == want })
}

func (e *element) call() (method string, params []element, err error) {
	if !e.is("methodCall", "methodName", "params") && !e.is("methodCall", "methodName") ||
		len(e.children[0].children) > 0 {
		return "", nil, errForm
	}
	for _, list := range e.children[1:] {
		for _, one := range list.children {
			if !one.is("param", "value") || !one.children[0].valid() {
				return "", nil, errForm
			}
			params = append(params, one.children[0])
		}
	}
	return trimmed(e.children[0].text), params, nil
}

// str returns the element with the text of a string value; nil for other values.
func (e *element) str() *element {
	switch {
	case len(e.children) == 0:
		return e
	case e.is("value", "string") && len(e.children[0].children) == 0:
		return &e.children[0]
	}
	return nil
}

// valid reports whether a value follows the specification. WordPress reads elements by name, wherever they are: a
// methodName inside a parameter replaces the call's. An empty value, or one of an unknown type, shifts the following
// parameters.
func (e *element) valid() bool {
	switch {
	case e.name != "value" || len(e.children) > 1:
		return false
	case len(e.children) == 0:
		return trimmed(e.text) != ""
	}
	t := &e.children[0]
	switch t.name {
	case "struct":
		return !slices.ContainsFunc(t.children, func(m element) bool {
			return !m.is("member", "name", "value") || len(m.children[0].children) > 0 || !m.children[1].valid()
		})
	case "array":
		values, ok := e.array()
		return ok && !slices.ContainsFunc(values, func(v element) bool { return !v.valid() })
	}
	return slices.Contains(scalars, t.name) && len(t.children) == 0
}

var scalars = []string{"string", "int", "i4", "boolean", "double", "dateTime.iso8601", "base64"}

func (e *element) array() (values []element, ok bool) {
	if !e.is("value", "array") || !e.children[0].is("array", "data") {
		return nil, false
	}
	return e.children[0].children[0].children, true
}

// callOfMany returns one call of a multicall: a struct of methodName and params.
func (e *element) callOfMany() (c call, ok bool) {
	if !e.is("value", "struct") || !e.children[0].is("struct", "member", "member") {
		return c, false
	}
	named, listed := false, false
	for _, m := range e.children[0].children {
		switch v := &m.children[1]; trimmed(m.children[0].text) {
		case "methodName":
			if text := v.str(); text != nil {
				c.method, named = trimmed(text.text), true
			}
		case "params":
			c.params, listed = v.array()
		}
	}
	return c, named && listed
}

// declaration matches the usual XML declaration.
var declaration = regexp.MustCompile(
	`^\s*<\?xml version=["']1\.0["'](\s+encoding=["'](?i:utf-8)["'])?(\s+standalone=["']\w+["'])?\s*\?>`)

// parseXML reads exactly one element. It rejects XML that parsers read differently or at a cost: a DTD, whose entities
// expand (CVE-2014-5265), comments, CDATA, processing instructions, attributes, encodings other than UTF-8.
func parseXML(body []byte) (top element, err error) {
	plain := body[len(declaration.Find(body)):]
	if !utf8.Valid(plain) || bytes.Contains(plain, []byte("<!")) || bytes.Contains(plain, []byte("<?")) {
		return top, errForm
	}
	d := xml.NewDecoder(bytes.NewReader(plain))
	all, err := readElements(d, len(body)-len(plain), 0)
	if err != nil || len(all.children) != 1 {
		return top, errForm
	}
	return all.children[0], nil
}

// deepest is the maximum nesting of elements; that of a post is 20.
const deepest = 64

func readElements(d *xml.Decoder, before, depth int) (e element, err error) {
	if depth > deepest {
		return e, errForm
	}
	e.at = [2]int{before + int(d.InputOffset()), before + int(d.InputOffset())}
	for {
		t, err := d.Token()
		switch t := t.(type) {
		case nil: // the end, where it may be
			if depth > 0 || !errors.Is(err, io.EOF) {
				return e, errForm
			}
			return e, e.mixed()
		case xml.EndElement:
			return e, e.mixed()
		case xml.CharData:
			e.text += string(t)
			e.at[1] = before + int(d.InputOffset())
		case xml.StartElement:
			child, err := readElements(d, before, depth+1)
			if err != nil || len(t.Attr) > 0 || t.Name.Space != "" {
				return e, errForm
			}
			if child.name = t.Name.Local; slices.Contains(holders, child.name) && trimmed(child.text) != "" {
				return e, errForm
			}
			e.children = append(e.children, child)
		}
	}
}

// holders are the elements without text.
var holders = []string{"methodCall", "params", "param", "struct", "member", "array", "data"}

func (e *element) mixed() error {
	if len(e.children) > 0 && trimmed(e.text) != "" {
		return errForm
	}
	return nil
}
