//go:build apps

package main

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"authguard/internal/appstest"
)

// A framework reads a body in its own way, whatever type the body says to be.
type framework struct {
	start func(testing.TB) *appstest.App
	// form and json are the readers of a usual form and of JSON: the last word of a path.
	form, json string
	bodies     []frameworkBody
}

// A frameworkBody is a login that the app's reader finds in a body.
type frameworkBody struct{ reader, kind, body string }

const (
	pairsLogin  = "username={user}&password={password}"
	objectLogin = `{"username":"{user}","password":"{password}"}`
	xmlLogin    = `<login><username>{user}</username><password>{password}</password></login>`
)

var partsLogin = parts("username", "{user}", "password", "{password}")

var frameworks = map[string]framework{
	"Bottle": {start: appstest.Bottle, form: "form", bodies: []frameworkBody{
		{"form", "image/png", pairsLogin},
		{"form", "application/pdf", pairsLogin},
		{"form", "multipart/mixed; boundary=XyZ", partsLogin},
	}},
	"Sinatra": {start: appstest.Sinatra, form: "form", bodies: []frameworkBody{
		{"form", "multipart/mixed; boundary=XyZ", partsLogin},
		{"form", "multipart/related; boundary=XyZ", partsLogin},
	}},
	"Werkzeug": {start: appstest.Werkzeug, form: "form", json: "json", bodies: []frameworkBody{
		{"form", "application/x-url-encoded", pairsLogin},
		{"json", "text/plain", objectLogin},
		{"json", formType, objectLogin},
		{"json", "image/png", objectLogin},
		{"part", partsType, strings.Replace(parts("data", objectLogin), `"data"`,
			"\"data\"\r\nContent-Type: application/json", 1)},
		{"first", "application/json", "[" + objectLogin + "]"},
		{"first", formType, "[" + objectLogin + "]"},
		{"visible", formType, "\ufeff" + pairsLogin},
		{"visible", formType, "%EF%BB%BF" + pairsLogin},
		{"visible", formType, "user%C2%ADname={user}&password={password}"},
		{"twice", formType, "%2575sername={user}&password={password}"},
		{"xml", "application/xml", xmlLogin},
		{"xml", formType, xmlLogin},
	}},
	"PHP": {start: appstest.PHP, form: "form", json: "json", bodies: []frameworkBody{
		{"json", formType, objectLogin},
		{"json", "text/plain", objectLogin},
		{"part", partsType, parts("data", objectLogin)},
		{"xml", "text/xml", xmlLogin},
		{"xml", formType, xmlLogin},
	}},
}

// frameworkPlaces are the routes: the same app answers at a single path of a form, at one
// of JSON, and in a folder.
func frameworkPlaces(f framework) (yaml string) {
	const rest = ", success: [status 302], signed_in: [never]}\n"
	yaml = "    - {name: login, path: /account/*, account: 'form:username', password: 'form:password'" + rest
	readers := map[string]bool{f.form: true}
	for _, one := range f.bodies {
		readers[one.reader] = true
	}
	for reader := range readers {
		yaml += "    - {name: login, path: /form/" + reader + ", account: 'form:username', password: 'form:password'" +
			rest + "    - {name: login, path: /json/" + reader +
			", account: 'json:/username', password: 'json:/password'" + rest
	}
	return yaml
}

func sendTo(t *testing.T, p *person, url, kind, body string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", kind)
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
				fill := func(user, password string) string {
					return strings.NewReplacer("{user}", user, "{password}", password).Replace(one.body)
				}
				alone := fmt.Sprintf("alone%dx", i)
				sendTo(t, from("127.0.0.1"), app.URL+"/form/"+one.reader, one.kind, fill(alone, "guess"))
				if n := len(app.GuessesOf(t, alone+" guess")); n != 1 {
					t.Errorf("%s %q: the app alone looks at %d passwords, want 1", one.kind, one.body, n)
				}
				for at, place := range []string{"form", "json", "account"} {
					for spread, addresses := range []int{1, 2} {
						what := fmt.Sprintf("/%s/%s from %d addresses: %s %q", place, one.reader, addresses,
							one.kind, one.body)
						user := fmt.Sprintf("behind%d%s%dx", i, place, spread)
						answers := map[int]int{}
						for j := range 30 {
							p := from(loopback(100+i, 10*(2*at+spread)+j%addresses))
							url := s.base + "/" + place + "/" + one.reader
							answers[sendTo(t, p, url, one.kind, fill(user, fmt.Sprint("guess", j))).status]++
						}
						seen := len(app.GuessesOf(t, user))
						stopped := answers[400] + answers[403] + answers[415] + answers[429]
						if seen > 5 || stopped != 30-seen {
							t.Errorf("%s: the app looks at %d guesses; answers %v", what, seen, answers)
						}
						// The address limit is 10 a minute: the rest meets the challenge.
						if seen == 0 && answers[http.StatusForbidden] != 30-10*addresses {
							t.Errorf("%s: refused requests do not count for their address: %v", what, answers)
						}
						t.Logf("%d %v %s", seen, answers, what)
					}
				}
			}
			for _, what := range []string{"/form/" + f.form, "/account/" + f.form, "/json/" + f.json} {
				kind, body := formType, pairsLogin
				if strings.HasPrefix(what, "/json/") {
					kind, body = "application/json", objectLogin
				}
				if strings.HasSuffix(what, "/") {
					continue // the app has no reader for JSON
				}
				body = strings.NewReplacer("{user}", appstest.User, "{password}", appstest.Password).Replace(body)
				if a := sendTo(t, from("127.0.0.1"), s.base+what, kind, body); a.status != http.StatusFound {
					t.Errorf("%s: a login gets %d: %s", what, a.status, a.body)
				}
			}
			for _, size := range []int{1 << 10, 1 << 20} { // the larger one streams
				picture := "\x89PNG\r\n\x1a\n" + strings.Repeat("\x00\xff;p", size/4)
				body := strings.Replace(parts("file", picture, "note", "username and password"),
					`"file"`, "\"file\"; filename=\"a.png\"\r\nContent-Type: image/png", 1)
				a := sendTo(t, from("127.0.0.1"), s.base+"/account/upload", partsType, body)
				if a.status != http.StatusOK || a.body != fmt.Sprint(len(picture)) {
					t.Errorf("an upload of %d bytes gets %d: %.100s", len(picture), a.status, a.body)
				}
			}
		})
	}
}
