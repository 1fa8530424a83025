package route

import (
	"bytes"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// wiki takes a login on every page, as DokuWiki does.
func wiki(t testing.TB) Table {
	t.Helper()
	r, err := Compile(Spec{Name: "login", Path: "/*", Methods: []string{"ANY"}, Account: "param:u", Password: "param:p", Success: []string{"status 302"}})
	if err != nil {
		t.Fatal(err)
	}
	return Table{r}
}

func posted(kind, body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/doku.php", strings.NewReader(body))
	r.Header.Set("Content-Type", kind)
	return r
}

const (
	ofParts   = "multipart/form-data; boundary=XyZ"
	ofPairs   = "application/x-www-form-urlencoded"
	partStart = "--XyZ\r\nContent-Disposition: form-data; name="
)

// parted is a form of parts with these names, each with a text.
func parted(names ...string) (body string) {
	for _, name := range names {
		body += partStart + `"` + name + `"` + "\r\n\r\ntext of " + name + "\r\n"
	}
	return body + "--XyZ--\r\n"
}

const file = partStart + "\"file\"; filename=\"a.png\"\r\nContent-Type: image/png\r\n\r\n\x00\r\n--Xy\r\n--\r\n\xff\r\n"

func TestAFormOfPartsIsReadLikeAnyOther(t *testing.T) {
	t.Parallel()
	body := file + parted("id", "u", "p")
	r := posted(ofParts, body)
	one, o, err := wiki(t).Find(r, []byte(body))
	if err != nil || one == nil || !slices.Equal(o.Credentials, []Credential{{"text of u", "text of p"}}) {
		t.Fatalf("%q, %v", o.Credentials, err)
	}
	spoiled := o.Spoil(r, []byte(body), Credential{Password: "a&b"})
	if want := strings.Replace(body, "text of p", "a&b", 1); string(spoiled) != want {
		t.Errorf("got %q", spoiled)
	}
	if one, _, err := wiki(t).Find(r, []byte(file+parted("id"))); one != nil || err != nil {
		t.Errorf("nothing is offered: %v, %v", one, err)
	}
}

func TestAQuerysFieldsCountWithThoseOfTheForm(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ query, kind, body string }{
		{"u=alice&p=x", ofPairs, "id=start"},
		{"u=alice", ofPairs, "p=x"},
		{"p=x", ofPairs, "u=alice"},
		{"u=alice", ofParts, strings.Replace(parted("p"), "text of p", "x", 1)},
		{"u=alice&p=x", "application/octet-stream", "\x00"},
		{"u=alice&p=x", "", ""},
	} {
		for _, method := range []string{"GET", "HEAD", "POST", "FOO"} {
			if method != "POST" && (c.kind == ofPairs || c.kind == ofParts) && c.body != "id=start" {
				continue // see TestAFormComesWithPOST
			}
			r := httptest.NewRequest(method, "/start?"+c.query, nil)
			if r.Header.Set("Content-Type", c.kind); c.kind == "" {
				r.Header.Del("Content-Type")
			}
			if _, o, err := wiki(t).Find(r, []byte(c.body)); err != nil || !slices.Equal(o.Credentials, []Credential{{"alice", "x"}}) {
				t.Errorf("%s %+v: %q, %v", method, c, o.Credentials, err)
			}
		}
	}
}

// hidden are forms in which an app may find the field u, and others that are not as
// browsers write them.
var hidden = map[string]string{
	"plain":                      parted("id", "u"),
	"behind a file":              file + parted("u"),
	"as a file":                  strings.Replace(file, `"file"`, `"u"`, 1) + parted("id"),
	"as PHP reads it":            parted("u "),
	"behind a line feed":         strings.Replace(parted("id", "u"), "\r\n--XyZ\r\nContent-Disposition: form-data; name=\"u", "\n--XyZ\r\nContent-Disposition: form-data; name=\"u", 1),
	"without a line end":         partStart + "\"id\"\r\n\r\n" + parted("u"),
	"before the first delimiter": "x" + parted("u"),
	"behind the last delimiter":  parted("id") + parted("u"),
	"without quotes":             strings.Replace(parted("u"), `"u"`, "u", 1),
	"in other quotes":            strings.Replace(parted("u"), `"u"`, "'u'", 1),
	"escaped":                    strings.Replace(parted("u"), `"u"`, `"\u"`, 1),
	"in another order":           strings.Replace(parted("u"), `form-data; name="u"`, `form-data; filename="x"; name="u"`, 1),
	"twice":                      strings.Replace(parted("id"), `name="id"`, `name="id"; name="u"`, 1),
	"in a second header":         strings.Replace(parted("id"), "\r\n\r\n", "\r\nContent-Disposition: form-data; name=\"u\"\r\n\r\n", 1),
	"folded":                     strings.Replace(parted("u"), "form-data; ", "form-data;\r\n ", 1),
	"encoded":                    strings.Replace(parted("id"), "\r\n\r\n", "\r\nContent-Transfer-Encoding: base64\r\n\r\n", 1),
	"in RFC 5987's way":          strings.Replace(parted("u"), `name="u"`, `name*=utf-8''u`, 1),
	"lines end in line feeds":    strings.ReplaceAll(parted("id"), "\r\n", "\n"),
	"cut":                        strings.TrimSuffix(parted("id"), "--\r\n"),
	"in the middle of a text":    strings.Replace(parted("id"), "text of id", "text--XyZ\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\n", 1),
	"a delimiter goes on":        strings.Replace(parted("id"), "--XyZ--", "--XyZ x", 1),
}

// Other forms of a folder name an account, too.
func TestJSONWithOneFieldPassesInAFolder(t *testing.T) {
	t.Parallel()
	table := Table{loginAt(t, "/api/*", func(s *Spec) { s.Account, s.Password = "json:/user", "json:/password" })}
	for body, passes := range map[string]bool{`{"user":"alice","code":"1"}`: true, `{"password":"x"}`: false, `{"user":"alice","password":"x"}`: false} {
		if one, _, err := table.Find(posted("application/json", body), []byte(body)); err != nil || (one == nil) != passes {
			t.Errorf("%s: %v %v", body, one, err)
		}
	}
}

// Apps look for JSON in a body of any type.
func TestJSONIsReadInAFolderWhateverItsType(t *testing.T) {
	t.Parallel()
	one, err := Compile(Spec{Name: "login", Path: "/api/*", Account: "json:/user", Password: "json:/password", Success: []string{"status 200"}})
	if err != nil {
		t.Fatal(err)
	}
	table, login := Table{one}, `{"user":"alice","password":"secret"}`
	for _, kind := range []string{"text/plain", "", ofPairs, "image/png", "application/octet-stream", "application/vnd.api+json"} {
		for _, body := range []string{login, " \n" + login, "\ufeff" + login} {
			r := posted(kind, body)
			if _, o, err := table.Find(r, []byte(body)); err == nil || !table.MayRead() {
				t.Errorf("as %q: %q passes, with %q", kind, body, o.Credentials)
			}
			if got, err := io.ReadAll(table.Watch(r, strings.NewReader(body))); err == nil || len(got) > 0 {
				t.Errorf("as %q: %q passes, large: %v", kind, got, err)
			}
		}
		if one, _, err := table.Find(posted(kind, "\x89PNG"), []byte("\x89PNG")); one != nil || err != nil {
			t.Errorf("as %q: a file does not pass: %v", kind, err)
		}
	}
}

func TestNamesThatAnAppFoldsAreRefused(t *testing.T) {
	t.Parallel()
	wordPress, err := Compile(Spec{
		Name: "login", Path: "/wp-login.php", Account: "form:log", Password: "form:pwd", Success: []string{"status 302"},
		Names: `[!-~ ]+`,
	})
	if err != nil {
		t.Fatal(err)
	}
	reset, err := Compile(Spec{Name: "reset", Path: "/wp-login.php", Account: "form:user_login", Success: []string{"status 302"}})
	if err != nil {
		t.Fatal(err)
	}
	table := Table{wordPress, reset}
	for form, name := range map[string]string{
		"log=alice&pwd=x":                  "alice",
		"log=alice%40example.org&pwd=x":    "alice@example.org",
		"log=+alice+&pwd=x":                " alice ",
		"user_login=%C3%A0lice":            "àlice",
		"log=%C3%A0lice&pwd=x":             "",
		"log=alice%00x&pwd=x":              "",
		"log=al%0Aice&pwd=x":               "",
		"user_login=alice%00":              "",
		"log=bob&pwd=x&user_login=alice":   "",
		"log=bob&pwd=x&log=alice":          "",
		"log=bob&pwd=x&+log=alice":         "",
		"log=bob&pwd=x&log%00=alice":       "",
		"log=bob&pwd=x&log%5B%5D=alice":    "",
		"log=bob&pwd=x&user.login=alice":   "",
		"log=bob&pwd=x&user%5Blogin=alice": "",
		"user_login=bob&user+login=alice":  "",
		"log=bob&pwd=x;log=alice":          "",
	} {
		_, o, err := table.Find(posted(ofPairs, form), []byte(form))
		if name == "" && err == nil {
			t.Errorf("%s passes, with %q", form, o.Credentials)
		}
		if name != "" && (err != nil || len(o.Credentials) != 1 || o.Credentials[0].Account != name) {
			t.Errorf("%s: %q, %v", form, o.Credentials, err)
		}
	}
	if _, err := Compile(Spec{Name: "login", Path: "/graphql", Account: "json:/variables/name", Password: "json:/variables/password", Success: []string{"status 200"}}); err == nil || !strings.Contains(err.Error(), "GraphQL") {
		t.Errorf("GraphQL: %v", err)
	}
	if _, err := Compile(Spec{Name: "login", Path: "/", Account: "form:u", Success: []string{"status 302"}, Names: "["}); err == nil || !strings.HasPrefix(err.Error(), "names: ") {
		t.Errorf("a pattern that is none: %v", err)
	}
}

// A wrong pattern refuses everybody, and says nothing: it is told before.
func TestAPatternOfNamesThatFitsNobodyIsRefused(t *testing.T) {
	t.Parallel()
	for pattern, good := range map[string]bool{
		"": true, `[a-z]+`: true, `[A-Za-z]+\.[A-Za-z]+`: true, `[A-Z]{2}\d{6}`: true, `\d+`: true, `[^@]+@example\.org`: true,
		`[a-z]`: false, `^$`: false, `/[a-z]+/`: false, `[[:alpha:]]{2}`: false, `a-z`: false,
	} {
		_, err := Compile(Spec{Name: "login", Path: "/", Account: "form:u", Success: []string{"status 302"}, Names: pattern})
		if good != (err == nil) || !good && (!strings.HasPrefix(err.Error(), "names: ") || !strings.Contains(err.Error(), "no account could log in")) {
			t.Errorf("%q: %v", pattern, err)
		}
	}
}

// FuzzWatch holds what passes against two readers that take more than we do: Go's
// own, and one that takes every line with a name for a part's head.
func FuzzWatch(f *testing.F) {
	f.Add(file + parted("id", "u"))
	for _, body := range hidden {
		f.Add(body)
	}
	named := regexp.MustCompile(`(?i)--XyZ[^"]*name=["']?u["'\r\n;]`)
	f.Fuzz(func(t *testing.T, body string) {
		passed, err := io.ReadAll(wiki(t).Watch(posted(ofParts, body), strings.NewReader(body)))
		if err != nil {
			return
		}
		if named.Match(passed) {
			t.Fatalf("%q passes", body)
		}
		reader := multipart.NewReader(bytes.NewReader(passed), "XyZ")
		for part, err := reader.NextPart(); err == nil; part, err = reader.NextPart() {
			if part.FormName() == "u" {
				t.Fatalf("%q passes", body)
			}
		}
	})
}

// A read may end anywhere: in an escape, before the first one, in a string or in JSON in a string.
func TestEscapedJSONIsReadInAnyPieces(t *testing.T) {
	t.Parallel()
	nested := `{"a":[1,"{\"username\":1,\"b\":{\"pass\u0077ord\":2}}"],"c":"%22+"}`
	once := url.PathEscape(nested)
	for _, text := range []string{
		once, url.PathEscape(once), `{"username":1,"pass%77ord":2}`, `{"username":1,"pass%2577ord":2}`,
		`{"username"+:1,"password"+:2}`, `{"a":1,"us%65rname":"b","password":2}`,
		strings.Replace(nested, "user", "us%65r", 1), strings.Replace(nested, "username", "usernam%2565", 1),
		nested[:20] + url.PathEscape(nested[20:]),
	} {
		for at := range text {
			var namer escapedNamer
			names := namer.feed([]byte(text[:at]))
			for piece := range slices.Chunk([]byte(text[at:]), max(1, at)) {
				names = append(names, namer.feed(piece)...)
			}
			if !slices.Contains(names, "username") || !slices.Contains(names, "password") {
				t.Errorf("%q, then %q: %q", text[:at], text[at:], names)
			}
		}
	}
}
