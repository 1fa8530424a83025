//go:build apps

package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"compress/zlib"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"authguard/internal/testing/appstest"
)

// A framework reads a body in its own way, whatever type the body says to be.
type framework struct {
	start func(testing.TB) *appstest.App
	// form and json are the readers of a usual form and of JSON: the last word of a path.
	form, json string
	below      string // which the members of JSON are, such as /session
	bodies     []frameworkBody
}

// A frameworkBody is a login that the app's reader finds in a body.
type frameworkBody struct {
	reader, kind, body string
	// With POST and without another header, unless these are set.
	method, header, value string
}

const (
	pairsLogin  = "username={user}&password={password}"
	objectLogin = `{"username":"{user}","password":"{password}"}`
	xmlLogin    = `<login><username>{user}</username><password>{password}</password></login>`
)

var partsLogin = parts("username", "{user}", "password", "{password}")

// disguisedParts are a login's parts with these words before and behind the names.
func disguisedParts(disposition, ends string) string {
	return "--XyZ\r\n" + disposition + "username" + ends + "\r\n\r\n{user}\r\n--XyZ\r\n" + disposition +
		"password" + ends + "\r\n\r\n{password}\r\n--XyZ--\r\n"
}

// encodedParts are a login's parts with the name in UTF-7.
func encodedParts(kind string) string {
	return strings.Replace(parts("username", "{utf-7}{user}", "password", "{password}"), "\r\n\r\n",
		"\r\nContent-Type: "+kind+"\r\n\r\n", 1)
}

// filled is the body with a name and a password in it. Its n-th spelling in UTF-7 is its own.
func filled(text, user, password string, n int) string {
	if strings.Contains(text, "{utf-7}") {
		spelled := ""
		for i, c := range []byte(user) {
			if n>>(i%5)&1 == 0 {
				spelled += string(c)
			} else {
				spelled += "+" + base64.RawStdEncoding.EncodeToString([]byte{0, c}) + "-"
			}
		}
		text, user = strings.Replace(text, "{utf-7}", "", 1), spelled
	}
	text = strings.NewReplacer("{user}", user, "{password}", password).Replace(text)
	if text, ok := strings.CutPrefix(text, "{utf-16}"); ok {
		units := []byte{0xff, 0xfe}
		for _, c := range []byte(text) {
			units = append(units, c, 0)
		}
		return string(units)
	}
	return text
}

// folds and spaces are longer than what is looked at of a large body at once, pad than max_body.
var folds, spaces, pad = strings.Repeat("\r\n ", 15_000), strings.Repeat(" ", 40_000), strings.Repeat("A", 70_000)

// The fields, and JSON in a field, behind and before a long value.
var largeFields, largeParts = "pad=" + pad + "&" + pairsLogin, parts("pad", pad, "data", objectLogin)

const partsOfAny, decoyLogin = "multipart/mixed; boundary=XyZ", "username=decoy{password}&password=x"

var frameworks = map[string]framework{
	"Bottle": {start: appstest.Bottle, form: "form", bodies: []frameworkBody{
		{reader: "form", kind: formType, body: largeFields},
		{reader: "form", kind: "image/png", body: pairsLogin},
		{reader: "form", kind: "application/pdf", body: pairsLogin},
		{reader: "form", kind: partsOfAny, body: partsLogin},
		{reader: "form", kind: partsOfAny, body: disguisedParts("Content-Disposition: x;\x0bname=", "")},
		{reader: "form", kind: partsOfAny, body: disguisedParts("Content-Disposition: x;\u00a0name=", "")},
	}},
	"Sinatra": {start: appstest.Sinatra, form: "form", bodies: []frameworkBody{
		{reader: "form", kind: formType, body: largeFields},
		{reader: "form", kind: partsOfAny, body: partsLogin},
		{reader: "form", kind: "multipart/related; boundary=XyZ", body: partsLogin},
		{reader: "form", kind: partsType,
			body: disguisedParts(`Content-Disposition: form-data; name="x; name=`, `"`)},
		{reader: "form", kind: partsType, body: disguisedParts(
			`Content-Disposition: form-data; name="x"; filename="y; name=`, `"`)},
		{reader: "form", kind: partsType, body: disguisedParts("X-A: Content-Disposition: ; name=",
			"\r\nContent-Disposition: form-data; name=\"x\"")},
		{reader: "form", kind: partsOfAny, body: disguisedParts("Content-Disposition: x;\x0bname=", "")},
		{reader: "form", kind: partsOfAny, body: disguisedParts("Content-Disposition: x;"+folds+"name=", "")},
	}},
	"Rails": {start: appstest.Rails, form: "form", json: "form", below: "/session", bodies: []frameworkBody{
		{reader: "form", kind: formType, body: largeFields},
		{reader: "form", kind: "application/json", body: objectLogin},
		{reader: "form", kind: "application/json", body: `{"username"/* x */:"{user}","password"/**/:"{password}"}`},
		{reader: "form", kind: "application/json", body: `{"a":1,"username"` + spaces + `:"{user}","password"` + spaces +
			`:"{password}"}`},
		{reader: "form", kind: "application/json", body: spaces + spaces + `{"username":"{user}","pass\word":"{password}"}`},
	}},
	"Express": {start: appstest.Express, form: "form", json: "form", bodies: []frameworkBody{
		{reader: "form", kind: formType, body: largeFields},
		{reader: "form", kind: "application/json; charset=utf-7",
			body: `+AHsAIg-username+ACIAOgAi-{user}+ACIALAAi-pass+AHc-ord+ACIAOgAi-{password}+ACIAfQ-`},
		{reader: "form", kind: "application/json; charset=utf-16", body: "{utf-16}" + objectLogin},
		{reader: "form", kind: "application/json", body: objectLogin, method: "PUT", header: "Content-Encoding",
			value: "gzip"},
		{reader: "form", kind: formType, body: pairsLogin, method: "PATCH", header: "Content-Encoding", value: "deflate"},
		{reader: "form", kind: "application/json", body: `{"a":1,"username"` + spaces + `:"{user}","password"` + spaces +
			`:"{password}"}`},
	}},
	"Werkzeug": {start: appstest.Werkzeug, form: "form", json: "json", bodies: []frameworkBody{
		{reader: "form", kind: formType, body: largeFields},
		{reader: "part", kind: formType, body: "pad=" + pad + "&data=" + objectLogin},
		{reader: "part", kind: formType, body: "data=" + objectLogin + "&pad=" + pad},
		{reader: "part", kind: partsType, body: largeParts},
		{reader: "form", kind: partsType, body: encodedParts("text/plain; charset*=utf-8''utf-7")},
		{reader: "form", kind: partsType, body: encodedParts("text/plain; charset =utf-7")},
		{reader: "form", kind: "application/x-url-encoded", body: pairsLogin},
		{reader: "json", kind: "text/plain", body: objectLogin},
		{reader: "json", kind: formType, body: objectLogin},
		{reader: "json", kind: "image/png", body: objectLogin},
		{reader: "part", kind: partsType, body: strings.Replace(parts("data", objectLogin), `"data"`,
			"\"data\"\r\nContent-Type: application/json", 1)},
		{reader: "first", kind: "application/json", body: "[" + objectLogin + "]"},
		{reader: "first", kind: formType, body: "[" + objectLogin + "]"},
		{reader: "visible", kind: formType, body: "\ufeff" + pairsLogin},
		{reader: "visible", kind: formType, body: "%EF%BB%BF" + pairsLogin},
		{reader: "visible", kind: formType, body: "user%C2%ADname={user}&password={password}"},
		{reader: "twice", kind: formType, body: "%2575sername={user}&password={password}"},
		{reader: "xml", kind: "application/xml", body: xmlLogin},
		{reader: "xml", kind: formType, body: xmlLogin},
	}},
	"PHP": {start: appstest.PHP, form: "form", json: "json", bodies: []frameworkBody{
		{reader: "form", kind: formType, body: largeFields},
		{reader: "part", kind: formType, body: "pad=" + pad + "&data=" + objectLogin},
		{reader: "part", kind: formType, body: "data=" + objectLogin + "&pad=" + pad},
		{reader: "part", kind: partsType, body: largeParts},
		{reader: "request", kind: formType, body: decoyLogin, header: "Cookie",
			value: "username={user}; password={password}"},
		{reader: "request", kind: formType, body: "a=b", header: "Cookie", value: "username={user}; password={password}"},
		{reader: "request", kind: formType, body: decoyLogin, header: "Cookie",
			value: "user%6eame=x; username={user};password={password}"},
		{reader: "request", method: "GET", header: "Cookie", value: "username={user}; password={password}"},
		{reader: "json", kind: formType, body: objectLogin},
		{reader: "json", kind: "text/plain", body: objectLogin},
		{reader: "part", kind: partsType, body: parts("data", objectLogin)},
		{reader: "xml", kind: "text/xml", body: xmlLogin},
		{reader: "xml", kind: formType, body: xmlLogin},
	}},
}

// frameworkPlaces are the routes: the same app answers at a single path of a form, at one
// of JSON, and in a folder of each.
func frameworkPlaces(f framework) (yaml string) {
	const rest = ", success: [status 302], signed_in: [never]}\n"
	yaml = "    - {name: login, path: /account/*, account: 'form:username', password: 'form:password'" + rest
	yaml += "    - {name: login, path: /api/*, account: 'json:" + f.below + "/username', password: 'json:" + f.below +
		"/password'" + rest
	readers := map[string]bool{f.form: true}
	for _, one := range f.bodies {
		readers[one.reader] = true
	}
	for reader := range readers {
		yaml += "    - {name: login, path: /form/" + reader + ", account: 'form:username', password: 'form:password'" +
			rest + "    - {name: login, path: /json/" + reader + ", account: 'json:" + f.below +
			"/username', password: 'json:" + f.below + "/password'" + rest
	}
	return yaml
}

func sendTo(t *testing.T, p *person, url string, one frameworkBody) answer {
	t.Helper()
	var body bytes.Buffer
	var to io.WriteCloser
	switch one.value {
	case "gzip":
		to = gzip.NewWriter(&body)
	case "deflate":
		to = zlib.NewWriter(&body)
	default:
		body.WriteString(one.body)
	}
	if to != nil {
		_, _ = io.WriteString(to, one.body) // a Buffer does not fail
		_ = to.Close()
	}
	r, err := http.NewRequestWithContext(t.Context(), cmp.Or(one.method, http.MethodPost), url, &body)
	if err != nil {
		t.Fatal(err)
	}
	if one.kind != "" {
		r.Header.Set("Content-Type", one.kind)
	}
	if one.header != "" {
		r.Header.Set(one.header, one.value)
	}
	return p.do(t, r)
}

// Each body is a login to the app alone. Behind the proxy the app sees no more of them
// than the limit, at any route, and each request that it does not see is refused and
// counts against the IP address.
func TestAppsFrameworksReadNoOtherBodies(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(frameworks)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := frameworks[name]
			app := f.start(t)
			s := newServer(t, "proxy:\n  upstream: "+app.URL+"\n  routes:\n"+frameworkPlaces(f)+noDelay+quiet)
			for i, one := range f.bodies {
				fill := func(user, password string, n int) frameworkBody {
					filledIn := one
					filledIn.body, filledIn.value = filled(one.body, user, password, n), filled(one.value, user, password, n)
					return filledIn
				}
				alone := fmt.Sprintf("alone%dx", i)
				sendTo(t, from("127.0.0.1"), app.URL+"/form/"+one.reader, fill(alone, "guess", 1))
				if n := len(app.GuessesOf(t, alone+" guess")); n != 1 {
					t.Errorf("%.300q: the app alone looks at %d passwords, want 1", one, n)
				}
				large := len(one.body) > 64<<10
				for at, place := range []string{"form", "json", "account", "api"} {
					for spread, addresses := range []int{1, 2} {
						what := fmt.Sprintf("/%s/%s from %d addresses: %.300q", place, one.reader, addresses, one)
						user := fmt.Sprintf("behind%d%s%dx", i, place, spread)
						answers := map[int]int{}
						for j := range 30 {
							p := from(loopback(100+i, 10*(2*at+spread)+j%addresses))
							p.daring = large
							url := s.base + "/" + place + "/" + one.reader
							answers[sendTo(t, p, url, fill(user, fmt.Sprint("guess", j), j)).status]++
						}
						seen := len(app.GuessesOf(t, user))
						stopped := answers[400] + answers[403] + answers[413] + answers[415] + answers[429]
						if large { // refused before it is read: its client may see a reset and no answer
							stopped += answers[0]
						}
						if seen > 5 || stopped != 30-seen {
							t.Errorf("%s: the app looks at %d guesses; answers %v", what, seen, answers)
						}
						// The address limit is 10 a minute: the rest meets the challenge.
						// A large body at a single path is not looked at, and counts nowhere.
						if seen == 0 && !large && answers[http.StatusForbidden] != 30-10*addresses {
							t.Errorf("%s: refused requests do not count for their address: %v", what, answers)
						}
						t.Logf("%d %v %s", seen, answers, what)
					}
				}
			}
			for _, what := range []string{"/form/" + f.form, "/account/" + f.form, "/json/" + f.json, "/api/" + f.json} {
				kind, body := formType, pairsLogin
				if !strings.HasPrefix(what, "/form/") && !strings.HasPrefix(what, "/account/") {
					kind, body = "application/json", objectLogin
				}
				if strings.HasSuffix(what, "/") {
					continue // the app has no reader for JSON
				}
				if kind != formType && f.below != "" {
					body = `{"` + f.below[1:] + `":` + body + "}"
				}
				one := frameworkBody{kind: kind, body: filled(body, appstest.User, appstest.Password, 0)}
				if a := sendTo(t, from("127.0.0.1"), s.base+what, one); a.status != http.StatusFound {
					t.Errorf("%s: a login gets %d: %s", what, a.status, a.body)
				}
			}
			for _, size := range []int{1 << 10, 1 << 20} { // the larger one streams
				picture := "\x89PNG\r\n\x1a\n" + strings.Repeat("\x00\xff;p", size/4)
				body := strings.Replace(parts("file", picture, "note", "username and password"),
					`"file"`, "\"file\"; filename=\"a.png\"\r\nContent-Type: image/png", 1)
				a := sendTo(t, from("127.0.0.1"), s.base+"/account/upload", frameworkBody{kind: partsType, body: body})
				if a.status != http.StatusOK || a.body != fmt.Sprint(len(picture)) {
					t.Errorf("an upload of %d bytes gets %d: %.100s", len(picture), a.status, a.body)
				}
			}
		})
	}
}

// PHP's usual lines decode what stands behind byte 6 of the Authorization header.
func TestAppsBasicUnderAnotherSchemeIsRefused(t *testing.T) {
	t.Parallel()
	app := appstest.PHP(t)
	s := newServer(t, "proxy:\n  upstream: "+app.URL+"\n  routes:\n    - {name: login, path: /api/*, account: basic, "+
		"success: [status 302], signed_in: [never]}\n"+noDelay+quiet)
	for i, scheme := range []string{"Basic", "Bearer", "Digest", "Token1", "xxxxx"} {
		send := func(base, user string, j int) answer {
			login := base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%s:guess%d", user, j))
			return sendTo(t, from(loopback(140+i, j)), base+"/api/basic", frameworkBody{header: "Authorization",
				value: scheme + " " + login})
		}
		send(app.URL, "alone"+scheme, 0)
		for j := range 20 {
			send(s.base, "behind"+scheme, j)
		}
		want := 0
		if scheme == "Basic" {
			want = 5
		}
		alone, behind := len(app.GuessesOf(t, "alone"+scheme)), len(app.GuessesOf(t, "behind"+scheme))
		if alone != 1 || behind != want {
			t.Errorf("%s: the app alone looks at %d passwords, want 1; behind the proxy at %d, want %d", scheme, alone, behind, want)
		}
	}
}
