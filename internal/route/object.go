package route

import (
	"bytes"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// readJSON reads one object, strictly: parsers differ in which of two equal names they take and in whether they fold
// names.
func (r *Route) readJSON(req *http.Request, body []byte) (Offer, error) {
	if !r.account.reads(req) {
		if beginsObject(body) && !r.path.folder { // an app may ignore the type
			return Offer{}, &Refusal{http.StatusUnsupportedMediaType, "Send JSON as application/json, in UTF-8."}
		}
		return Offer{}, nil
	}
	if query := keys(req.URL.RawQuery); r.account.in(query) || r.password.in(query) {
		return Offer{}, refuse("Send the account's name and the password in the body, not in the address.")
	}
	var top map[string]any
	if jsontext.Value(body).Kind() != '{' || json.Unmarshal(body, &top) != nil {
		if r.path.folder { // see hidden
			return Offer{}, nil
		}
		return Offer{}, refuse("Send one JSON object, in which every name comes once.")
	}
	var c Credential
	var found [2]bool
	for i, l := range []locator{r.account, r.password} {
		if l.kind == nowhere {
			continue
		}
		value, ok, err := l.member(top)
		if err != nil {
			return Offer{}, err
		}
		if ok {
			found[i] = true
			*[]*string{&c.Account, &c.Password}[i] = value
		}
	}
	if !found[1] && (!found[0] || r.path.folder && r.hasPassword()) { // see hidden
		return Offer{}, nil
	}
	fields := queryFields(req.URL.RawQuery)
	for name, value := range top { // Laravel reads the method there
		text, _ := value.(string)
		fields = append(fields, field{name: name, value: text})
	}
	if err := sameMethod(req.Method, fields); err != nil {
		return Offer{}, err
	}
	return Offer{[]Credential{c}, r.spoilJSON}, nil
}

func beginsObject(body []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(bytes.TrimPrefix(body, []byte("\ufeff")), " \t\r\n"), []byte("{"))
}

func (l locator) member(top map[string]any) (text string, ok bool, err error) {
	at := top
	for i, want := range l.pointer {
		for key := range at {
			if key != want && looksLike(key, want) {
				return "", false, refuse("Write the name %.60q in one way.", want)
			}
		}
		value, ok := at[want]
		if !ok {
			return "", false, nil
		}
		text, isText := value.(string)
		if i == len(l.pointer)-1 {
			if !isText {
				return "", false, refuse("The member %s must be a JSON string.", l.name)
			}
			return text, true, nil
		}
		if at, ok = value.(map[string]any); !ok {
			return "", false, refuse("The member %.60q must be a JSON object.", want)
		}
	}
	return "", false, nil
}

// spoilJSON changes nothing else: an app may reject a number that was encoded anew.
func (r *Route) spoilJSON(_ *http.Request, body []byte, other Credential) []byte {
	for _, one := range [...]struct {
		locator
		text string
	}{{r.account, other.Account}, {r.password, other.Password}} {
		if at, ok := one.span(body); ok && one.text != "" {
			quoted, _ := jsontext.AppendQuote(nil, one.text) // fails only for text that is not UTF-8
			body = slices.Concat(body[:at[0]], quoted, body[at[1]:])
		}
	}
	return body
}

// span returns where the value at the locator's pointer lies.
func (l locator) span(body []byte) (at [2]int, ok bool) {
	decoder := jsontext.NewDecoder(bytes.NewReader(body))
	for l.kind == object {
		if _, err := decoder.ReadToken(); err != nil {
			return at, false
		}
		// After a name, an object has an odd number of names and values.
		in, n := decoder.StackIndex(decoder.StackDepth())
		if in != '{' || n%2 == 0 || !slices.Equal(slices.Collect(decoder.StackPointer().Tokens()), l.pointer) {
			continue
		}
		value, err := decoder.ReadValue()
		end := int(decoder.InputOffset())
		return [2]int{end - len(value), end}, err == nil
	}
	return at, false
}

func follow(top any, pointer []string) (any, bool) {
	for _, key := range pointer {
		object, ok := top.(map[string]any)
		if !ok {
			return nil, false
		}
		if top, ok = object[key]; !ok {
			return nil, false
		}
	}
	return top, true
}
