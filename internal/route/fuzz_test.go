package route

import (
	"encoding/json"
	"net/http"
	"net/url"
	pathpkg "path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// These tests set the one strict reading of a request against many lenient ones, as
// apps have them: whatever one of those takes for a login must be guarded, with the
// same account and password, or refused.

// laxDecode decodes what can be decoded and leaves the rest, as PHP and many do.
func laxDecode(s string) string {
	return regexp.MustCompile(`%[0-9A-Fa-f]{2}`).ReplaceAllStringFunc(strings.ReplaceAll(s, "+", " "), func(e string) string {
		n, _ := strconv.ParseUint(e[1:], 16, 8)
		return string([]byte{byte(n)})
	})
}

// php is the name that PHP gives a field.
func php(name string) string {
	name, _, _ = strings.Cut(name, "\x00")
	name = strings.TrimLeft(name, " ")
	base, _, list := strings.Cut(name, "[")
	if list && strings.Contains(name, "]") {
		name = base
	}
	return strings.NewReplacer(".", "_", " ", "_", "[", "_").Replace(name)
}

// A lax app.
type lax struct {
	separators string
	last       bool // of two fields it takes the last
	from       string
	name       func(string) string
}

func laxApps() (all []lax) {
	names := []func(string) string{func(s string) string { return s }, php, strings.ToLower, strings.TrimSpace}
	for _, separators := range []string{"&", "&;"} {
		for _, last := range []bool{false, true} {
			for _, from := range []string{"body", "query body", "body query"} {
				for _, name := range names {
					all = append(all, lax{separators, last, from, name})
				}
			}
		}
	}
	return all
}

// value is the field as the app sees it.
func (l lax) value(query, body, field string) (value string, found bool) {
	text := map[string]string{"body": body, "query body": query + "&" + body, "body query": body + "&" + query}[l.from]
	for pair := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune(l.separators, r) }) {
		key, v, _ := strings.Cut(pair, "=")
		if l.name(laxDecode(key)) == field && (l.last || !found) {
			value, found = laxDecode(v), true
		}
	}
	return value, found
}

func FuzzFormsAreReadAsTheAppReadsThem(f *testing.F) {
	for _, seed := range [][2]string{
		{"", "username=alice&password=x"}, {"username=alice&password=x", ""}, {"password=x", "username=alice"}, {"", "username=a&username=b&password=x"},
		{"", "user%6eame=alice&p%61ssword=%zz"}, {"passw%6Frd=%zz&username=a", ""}, {"", "Username=a&username=b&password=c"}, {"", "username[]=a&password[x]=c"},
		{"", "+username=a&%20password=c"}, {"", "username%00=a&password=c"}, {"", "a=b;username=a;password=c"}, {"", "username=a;b&password=c"}, {"", "username=%ff&password=c"},
		{"username=%F0%9F&password=%", ""}, {"%75sername=%&password", "password"}, {"", "=&username&password"}, {"", "user name=a&password=x&pass.word=y"},
	} {
		f.Add("POST", seed[0], seed[1])
		f.Add("GET", seed[0], "")
	}
	single := mustCompile(f, Spec{Name: "login", Path: "/login", Account: "form:username", Password: "form:password", Success: []string{"status 302"}})
	folder := mustCompile(f, Spec{Name: "login", Path: "/*", Methods: []string{"GET", "POST"}, Account: "param:username", Password: "param:password", Success: []string{"status 302"}})
	apps := laxApps()
	f.Fuzz(func(t *testing.T, method, query, body string) {
		if method != http.MethodGet && method != http.MethodPost || strings.ContainsAny(query, "#\x00\r\n ") {
			t.Skip()
		}
		for _, table := range []Table{{single}, {folder}} {
			r := &http.Request{Method: method, URL: &url.URL{Path: "/login", RawQuery: query}, Header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}}
			found, offer, err := table.Find(r, []byte(body))
			if err != nil {
				continue
			}
			for _, app := range apps {
				password, sees := app.value(query, body, "password")
				account, _ := app.value(query, body, "username")
				switch {
				case !sees || password == "":
				case table.Single() && method == http.MethodGet && account == "":
				case found == nil:
					t.Fatalf("%s ?%s %q: %+v sees %q of %q, and we see nothing", method, query, body, app, password, account)
				case offer.Credentials[0] != Credential{account, password}:
					t.Fatalf("%s ?%s %q: %+v sees %q of %q, and we see %q", method, query, body, app, password, account, offer.Credentials[0])
				}
			}
		}
	})
}

// FuzzPathsAreFoundAsTheAppFindsThem sets At against servers that decode once or
// twice, merge slashes, resolve dots, drop parameters, cut at a NUL, take \ for / and
// fold case, in every combination.
func FuzzPathsAreFoundAsTheAppFindsThem(f *testing.F) {
	for _, seed := range []string{"/login", "//login", "/./login", "/x/../login", "/%6cogin", "/%256cogin", "/login;x", "/;x/login", "/x/..;/login", "/login%00.png", "/LOGIN/", "/\\login",
		"/x%2f..%2flogin", "/login%20", "/login.", "/%5clogin", "/a/b/..%2f../login", "/..;x/login", "/%2e%2e;/login", "/login/.", "/login/./", "/login/x/..", "/%25%36%63ogin",
		"/Login/a.b/c.", "/login/...", "/.login", "/lo~gin!$&'()*+,=:@-_/", "/+/00000", "/logın", "/\x7flogin"} {
		f.Add(seed)
	}
	table := Table{mustCompile(f, Spec{Name: "login", Path: "/login", Account: "form:u", Success: []string{"status 302"}})}
	f.Fuzz(func(t *testing.T, escaped string) {
		if !strings.HasPrefix(escaped, "/") || strings.ContainsAny(escaped, "?# ") || len(escaped) > 200 {
			t.Skip()
		}
		if _, err := url.PathUnescape(escaped); err != nil {
			t.Skip() // net/http refuses it
		}
		plain, readings := read(escaped)
		if p, all := readOdd(escaped); p != plain || !slices.Equal(all, readings) {
			t.Fatalf("%q is read as %q %q in short, and as %q %q with care", escaped, plain, readings, p, all)
		}
		if _, where := table.At(escaped); where != Elsewhere {
			return
		}
		for variant := range 1 << 7 {
			on := func(bit int) bool { return variant&(1<<bit) != 0 }
			s := decodeAll(escaped)
			if on(0) {
				s = decodeAll(s)
			}
			if on(1) {
				s, _, _ = strings.Cut(s, "\x00")
			}
			if on(2) {
				s = strings.ReplaceAll(s, `\`, "/")
			}
			if on(3) {
				s = regexp.MustCompile(`;[^/]*`).ReplaceAllString(s, "")
			}
			if on(4) {
				s = regexp.MustCompile(`/{2,}`).ReplaceAllString(s, "/")
			}
			if on(5) {
				s = pathpkg.Clean(s)
			}
			if on(6) {
				s = strings.ToLower(s)
			}
			if strings.TrimSuffix(s, "/") == "/login" {
				t.Fatalf("%q leads to /login for a server of kind %07b, and is not guarded", escaped, variant)
			}
		}
	})
}

func decodeAll(s string) string {
	return laxDecode(strings.ReplaceAll(s, "+", "%2B"))
}

func mustCompile(tb testing.TB, s Spec) *Route {
	tb.Helper()
	r, err := Compile(s)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// FuzzJSONIsReadAsTheAppReadsIt sets the one reading against encoding/json, which
// takes the last of two equal names and folds case.
func FuzzJSONIsReadAsTheAppReadsIt(f *testing.F) {
	for _, seed := range []string{
		`{"user":{"name":"a","password":"b"}}`, `{"user":{"name":"a","name":"c","password":"b"}}`, `{"User":{"name":"x"},"user":{"name":"a","password":"b"}}`,
		`{"user":{"name":"a","pa\u017f\u017fword":"b"}}`, `{"user":{"name":"a","password":"b"}} {"user":{}}`, "\ufeff" + `{"user":{"name":"a","password":"b"}}`, `{"user":{"NAME":"a","password":"b\ud800"}}`,
	} {
		f.Add(seed)
	}
	table := Table{mustCompile(f, Spec{Name: "login", Path: "/login", Account: "json:/user/name", Password: "json:/user/password", Success: []string{"status 200"}})}
	f.Fuzz(func(t *testing.T, body string) {
		r := &http.Request{Method: http.MethodPost, URL: &url.URL{Path: "/login"}, Header: http.Header{"Content-Type": {"application/json"}}}
		found, offer, err := table.Find(r, []byte(body))
		if err != nil {
			return
		}
		var app struct {
			User struct{ Name, Password string }
		}
		if json.NewDecoder(strings.NewReader(body)).Decode(&app) != nil || app.User.Password == "" {
			return
		}
		if found == nil || offer.Credentials[0] != (Credential{app.User.Name, app.User.Password}) {
			t.Fatalf("%q: the app sees %+v, and we see %v", body, app, offer.Credentials)
		}
	})
}
