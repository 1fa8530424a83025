package route

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"
)

// loginAt is a form's route at a path.
func loginAt(t testing.TB, path string, change ...func(*Spec)) *Route {
	t.Helper()
	s := Spec{
		Name: "login", Path: path, Account: "form:username", Password: "form:password",
		Success: []string{"status 302"},
	}
	for _, one := range change {
		one(&s)
	}
	return mustCompile(t, s)
}

const (
	pairsBody  = "username=alice&password=guess"
	objectBody = `{"username":"alice","password":"guess"}`
	xmlBody    = `<?xml version="1.0"?><login><username>alice</username><a:password>guess</a:password></login>`
)

// partsOf is a body of parts with these heads and contents.
func partsOf(headsAndContents ...string) (body string) {
	for i := 0; i < len(headsAndContents); i += 2 {
		body += "--XyZ\r\n" + headsAndContents[i] + "\r\n\r\n" + headsAndContents[i+1] + "\r\n"
	}
	return body + "--XyZ--\r\n"
}

func named(name string) string { return `Content-Disposition: form-data; name="` + name + `"` }

var partsBody = partsOf(named("username"), "alice", named("password"), "guess")

func utf16Of(text string) string {
	var b strings.Builder
	for _, unit := range utf16.Encode([]rune(text)) {
		b.WriteString(string([]byte{byte(unit), byte(unit >> 8)}))
	}
	return b.String()
}

// withDecoy is JSON that is also a form with a decoy.
const withDecoy = `{"a":"&username=decoy&password=x&b=","username":"alice","password":"guess"}`

// inString is a text as a JSON string.
func inString(text string) string {
	b, _ := json.Marshal(text)
	return string(b)
}

// disguised are bodies in which some framework finds both fields, and their types. The
// first of each pair of names is its reader.
var disguised = [][3]string{
	{"Bottle", "image/png", pairsBody},
	{"Bottle", "application/pdf", pairsBody},
	{"Bottle", "application/octet-stream", "a=b;" + strings.ReplaceAll(pairsBody, "&", ";")},
	{"Bottle", "multipart/mixed; boundary=XyZ", partsBody},
	{"Rack", "multipart/mixed; boundary=XyZ", partsBody},
	{"Rack", "multipart/related; boundary=XyZ", partsBody},
	{"Rack", "multipart/related; boundary=XyZ", partsOf("Content-ID: username", "alice", "Content-ID: password",
		"guess")},
	{"Rack", "multipart/mixed; boundary=XyZ", partsOf("Content-Disposition: x; name=username", "alice",
		"Content-Disposition: x; name*=utf-8''pass%77ord", "guess")},
	{"Python", "multipart/mixed; boundary=XyZ",
		partsOf("Content-Disposition:form-data;\r\n name*0=user; name*1=name", "alice", named("password"), "guess")},
	{"Werkzeug 2.2", "application/x-url-encoded", pairsBody},
	{"parse_str(php://input)", ofParts, partsOf(named("a"), "&"+pairsBody+"&")},
	{"json_decode(php://input)", ofPairs, objectBody},
	{"json_decode(php://input)", ofPairs, `{"username":"alice","password":"guess","a":"&x=y&"}`},
	{"get_json(force=True)", "image/png", objectBody},
	{"get_json(force=True)", "text/plain", "[" + objectBody + "]"},
	{"get_json(force=True)", "text/plain", "\ufeff" + objectBody},
	{"get_json(force=True)", "text/plain", `{"a":NaN,` + objectBody[1:]},
	{"get_json(force=True)", "application/octet-stream", utf16Of("\ufeff" + objectBody)},
	{"get_json(force=True)", "application/octet-stream", utf16Of(objectBody)},
	{"get_json(force=True)", "text/plain", `{"user\u006eame":"alice","password":"guess"}`},
	{"get_json(force=True)", "text/plain", `{"user` + "\u00ad" + `name":"alice","password":"guess"}`},
	{"a JSON part", ofParts,
		partsOf("Content-Disposition: form-data; name=\"data\"\r\nContent-Type: application/json", objectBody)},
	{"a JSON part", "multipart/mixed; boundary=XyZ", partsOf("Content-Type: application/json", objectBody)},
	{"JSON in a field", ofPairs, "data=%7B%22username%22%3A%22alice%22%2C%22password%22%3A%22guess%22%7D"},
	{"JSON in JSON", "application/json", `"{\"username\":\"alice\",\"password\":\"guess\"}"`},
	{"ASP.NET", ofPairs, "model.username=alice&model.password=guess"},
	{"Express with body.user", ofPairs, "user[username]=alice&user[password]=guess"},
	{"a JSON text in JSON", "application/json", inString(objectBody)},
	{"a JSON text in JSON", "application/json", `{"message":` + inString(" "+objectBody) + "}"},
	{"a JSON text in JSON", "text/plain", `[{"id":1,"a":["x",` + inString(`{"a":{"b":`+inString(objectBody)+"}}") + "]}]"},
	{"a JSON text in JSON", "application/json", `{"a":"\u007b\u0022username\u0022:1,\u0022pass\u0077ord\u0022:2}"}`},
	{"a JSON text in JSON", ofPairs, "data=" + `{"message":` + inString(objectBody) + "}"},
	{"Gson", "application/json", ")]}'\n" + objectBody}, {"Gson", "text/plain", "#\n" + objectBody},
	{"Gson", "application/json", "# a\n \t)]}'\n# {\n[" + objectBody},
	{"Gson", "application/json", ")]}'\n{username=alice;password=>guess}"},
	{"Gson", ofPairs, "data=)]}'%0A" + objectBody}, {"Gson", ofPairs, "#\n" + withDecoy},
	{"JSON5.parse(trim)", "text/plain", "\x0b{user\\u006eame:1,pass\\u0077ord:2}"},
	{"trim", "application/json", "\x0b" + objectBody}, {"trim", "text/plain", "\x1c" + objectBody},
	{"trim", "text/plain", "\u00a0\u2028\u3000" + objectBody}, {"trim", ofPairs, "\x0b" + objectBody},
	{"trim", "application/json", "\x0b" + inString(objectBody)}, {"trim", ofPairs, "\x0b" + withDecoy},
	{"trim", ofPairs, "data=%0B" + objectBody}, {"trim", ofParts, partsOf(named("data"), "\x0b"+objectBody)},
	{"decodeURIComponent", ofPairs, "%20" + withDecoy}, {"decodeURIComponent", ofPairs, "%7B" + withDecoy[1:]},
	{"decodeURIComponent", ofPairs, "data=%257B%2522username%2522%253A1%252C%2522password%2522%253A2%257D"},
	{"decodeURIComponent", "text/plain", "%257B%2522username%2522%253A1%252C%2522password%2522%253A2%257D"},
	{"trim", "text/plain", "\x0b" + `<?xml version="1.0" encoding="UTF-7"?>+ADw-login+AD4-`},
	{"trim", "text/plain", "\x0b" + xmlBody}, {"trim", "application/xml", "\u00a0\x01" + xmlBody},
	{"XML", "application/xml", xmlBody},
	{"Jackson", "application/xml", `<l username="alice" password="guess"/>`},
	{"Jackson", "text/xml", `<l><username>alice</username><x a:password` + "\n = " + `'guess'/></l>`},
	{"koa-bodyparser", ofPairs, "username=alice&password.$regex=guess"},
	{"Express", ofPairs, "username[]x=alice&password[a](1)=guess"},
	{"XML", "text/plain", xmlBody},
	{"a reader that decodes twice", ofPairs, "%2575sername=alice&password=guess"},
	{"a reader that decodes twice", ofPairs, "%2575sername=alice&%2570assword=guess"},
	{"a reader that drops what cannot be seen", ofPairs, "user%C2%ADname=alice&password=guess"},
	{"a reader that drops what cannot be seen", ofPairs, "%EF%BB%BFusername=alice&pass%E2%80%8Bword=guess"},
	{"a reader that drops a BOM", ofPairs, "\ufeff" + pairsBody},
	{"Tomcat", ofParts, partsOf(named("=?utf-8?q?user=6eame?="), "alice", named("password"), "guess")},
	{"Tomcat", ofParts, partsOf(named("=?utf-8?b?dXNlcm5hbWU=?="), "alice", named("password"), "guess")},
	{"Rack", ofParts, partsOf(named("x; name=username"), "alice", named("x; name=password"), "guess")},
	{"Rack", ofParts, partsOf(named("f")+`; filename="x; name=username"`, "alice",
		named("f")+`; filename="x; name=password"`, "guess")},
	{"Rack", ofParts, partsOf("X-A: Content-Disposition: ; name=username\r\n"+named("x"), "alice",
		"X-A: Content-Disposition: ; name=password\r\n"+named("y"), "guess")},
	{"Rack", "multipart/mixed; boundary=XyZ", partsOf("Content-Disposition: x;\x0bname=username", "alice",
		"Content-Disposition: x;\x0bname=password", "guess")},
	{"Bottle", "multipart/mixed; boundary=XyZ", partsOf("Content-Disposition: x;\u00a0name=username", "alice",
		"Content-Disposition: x;\x1cname=password", "guess")},
	{"Bottle", ofParts, partsOf(named("x")+"\r\nContent-Type: multipart/mixed; boundary=a",
		"--a\r\n"+named("username")+"\r\n\r\nalice\r\n--a\r\n"+named("password")+"\r\n\r\nguess\r\n--a--")},
	{"Werkzeug 2.2", ofParts, partsOf(named("username")+"\r\nContent-Type: text/plain; charset*=utf-8''utf-7",
		"+AGEAbABpAGMAZQ-", named("password"), "guess")},
	{"Werkzeug 2.2", ofParts, partsOf(named("username")+"\r\nContent-Type: text/plain; charset =utf-7",
		"+AGEAbABpAGMAZQ-", named("password"), "guess")},
	{"Werkzeug 2.2", ofParts, partsOf(named("username")+"\r\nContent-Type: text/plain; charset=iso-8859-1",
		"al\xc3\xafce", named("password"), "guess")},
	{"formidable", ofParts, partsOf(named("username")+"\r\nContent-Transfer-Encoding: base64", "YWxpY2U=",
		named("password"), "guess")},
	{"Express", "application/json; charset=utf-7",
		"+AHsAIgB1AHMAZQByAG4AYQBtAGUAIgA6-1+ACw-+ACI-pass+AHc-ord+ACIAOg-1+AH0-"},
	{"Express", "application/json; charset=utf-16", utf16Of(objectBody)},
	{"Express", "application/json; x=y; charset=ibm037", "\xc0\x7f\xa4\xa2"},
	{"Ruby's JSON", "text/plain", `/* a */ {"username"/* b */:"alice","password"//c` + "\n" + `:"guess"}`},
	{"Ruby's JSON", ofPairs, `data={"us\ername":"alice","\u0070ass\word":"guess"}`},
	{"Ruby's JSON", "application/json", `{"us\ername":"alice","\u0070ass\word":"guess"}`},
	{"Ruby's JSON", ofPairs, `data={"username"/* b */:"alice","password"/**/:"guess"}`},
	{"Rails", "application/json", `{"username":"decoy","password":"x","session":` + objectBody + `}`},
	{"Rails", "application/json", `{"session":` + objectBody + `,"username":"decoy","password":"x"}`},
	{"JSON5", "text/plain", `{username:"alice",password:"guess"}`},
	{"expat", "text/plain", `<!DOCTYPE a [<!ENTITY e "&#60;username>alice&#60;/username>` +
		`&#x3c;pass&#119;ord>guess&#60;/password>">]><a>&e;</a>`},
	{"libxml", "text/plain", `<?xml version="1.0" encoding="UTF-7"?>+ADw-login+AD4-`},
}

// decoys are what a form has before or behind a disguised body: what the strict reader
// finds, so that it looks no further.
const decoy = "username=decoy&password=x"

// What some app takes for a login is an attempt, or is refused and counts at its route:
// at one path and in a folder, alone and beside what the route reads itself.
func TestABodyThatSomeAppReadsOtherwiseIsRefusedAtItsRoute(t *testing.T) {
	t.Parallel()
	basicAt := func(path string) *Route {
		return mustCompile(t, Spec{Name: "login", Path: path, Account: "basic", Success: []string{"status 200"}})
	}
	objectAt := func(path string) *Route {
		return mustCompile(t, Spec{Name: "login", Path: path, Account: "json:/user/id",
			Password: "json:/user/code", Success: []string{"status 200"}})
	}
	for name, table := range map[string]Table{
		"one path":             {loginAt(t, "/login")},
		"a folder":             {loginAt(t, "/*")},
		"beside basic":         {basicAt("/login"), loginAt(t, "/login")},
		"beside basic, folder": {loginAt(t, "/*"), basicAt("/*")},
		"beside JSON":          {objectAt("/login"), loginAt(t, "/login")},
		"beside JSON, folder":  {loginAt(t, "/*"), objectAt("/*")},
		"with an exception": {loginAt(t, "/login", func(s *Spec) {
			s.Passes = []string{"form:other",
				"form:data", "form:a"}
		})},
	} {
		for _, one := range disguised {
			for _, header := range []string{"", "Basic ZGVjb3k6eA=="} {
				r := httptest.NewRequest(http.MethodPost, "/login", nil)
				r.Header.Set("Content-Type", one[1])
				if r.Header.Set("Authorization", header); header == "" {
					r.Header.Del("Authorization")
				}
				found, o, err := table.Find(r, []byte(one[2]))
				if err == nil && (found == nil || !slices.Contains(o.Credentials, Credential{"alice",
					"guess"})) || found == nil {
					t.Errorf("%s: %s as %s: %q passes, at %v with %q: %v", name, one[0], one[1], one[2], found,
						o.Credentials, err)
				}
			}
		}
	}
}

// One body is a form to the strict reader, and JSON or another form to the app.
func TestADecoyInABodyOfTwoReadingsIsRefused(t *testing.T) {
	t.Parallel()
	ofJSON := mustCompile(t, Spec{Name: "login", Path: "/login", Account: "json:/username",
		Password: "json:/password", Success: []string{"status 200"}})
	for _, one := range []struct {
		table             Table
		query, kind, body string
	}{
		{Table{loginAt(t, "/login")}, "", ofPairs, `{"username":"alice","password":"guess","a":"&` + decoy + `&"}`},
		{Table{loginAt(t, "/*")}, "", ofPairs, `{"username":"alice","password":"guess","a":"&` + decoy + `&"}`},
		{Table{loginAt(t, "/login")}, "", ofPairs, decoy + "&data=" + objectBody},
		{Table{loginAt(t, "/login")}, "", ofParts, partsOf(named("username"), "decoy", named("password"),
			"x&"+pairsBody+"&")},
		{Table{loginAt(t, "/login")}, "", ofParts, partsOf(named("username"), "decoy", named("password"), "x",
			named("data"), objectBody)},
		{Table{loginAt(t, "/login")}, "", ofParts, partsOf(named("=?utf-8?q?user=6eame?="), "alice",
			named("username"), "decoy", named("password"), "guess")},
		{Table{ofJSON}, "", "application/json", `{"username":"decoy","password":"x","a":"&` + pairsBody + `&"}`},
		{Table{ofJSON}, "username=alice", "application/json", `{"username":"decoy","password":"guess"}`},
		{Table{loginAt(t, "/login"), ofJSON}, "", "application/json",
			`{"username":"decoy","password":"x","a":"&` + pairsBody + `&"}`},
		{Table{loginAt(t, "/login"), mustCompile(t, Spec{Name: "login", Path: "/login", Account: "json:/id",
			Password: "json:/code", Success: []string{"status 200"}})}, "", "application/json",
			`{"id":"decoy","code":"x","username":"alice","password":"guess"}`},
	} {
		r := httptest.NewRequest(http.MethodPost, "/login?"+one.query, nil)
		r.Header.Set("Content-Type", one.kind)
		if found, o, err := one.table.Find(r, []byte(one.body)); err == nil || found == nil {
			t.Errorf("%s %q passes, at %v with %q: %v", one.kind, one.body, found, o.Credentials, err)
		}
	}
}

// In a folder everything passes that has not both fields.
func TestUploadsPassInAFolder(t *testing.T) {
	t.Parallel()
	table := Table{loginAt(t, "/*")}
	for _, one := range [][2]string{
		{"image/png", "\x89PNG\r\n\x1a\n&u=1;p=2"}, {"", "username and password"}, {"text/plain",
			"username=alice"}, {"multipart/mixed; boundary=XyZ", partsOf(named("username"), "x")},
		{"application/json", `{"text":"the username: x, the password: y","password":1}`}, {"application/xml",
			"<username>x</username>"}, {"text/html", `<input name="username"><input name="password">`},
		{ofParts, partsOf(`Content-Disposition: form-data; name="f"; filename="a.html"`,
			`<input name="username"><input name="password">`)},
		{"text/markdown", "# Users\n\n[![x](y)] [the username: a](b), the password: c"},
		{"text/plain", "# Users\n[login]\nusername=a\npassword=b\n"}, {"text/csv", `"username","password"`},
		{ofPairs, `text=Send+{"username":"a","password":"b"}`}, {ofPairs, `{"username":"a","bio":"b"}`},
		{"application/json", `{"text":` + inString(`Send {"username":"a","password":"b"}`) + "}"},
		{"application/json", `{"text":` + inString(`[the "username"] {b}`) + `,"a":` + inString(`{"password":1}`) + "}"},
		{ofPairs, "text=" + "username%3Da%26password%3Db"}, {"application/pdf", "%PDF-1.4 username password"},
		{ofPairs, "username=alice&bio=x"}, {docx, "PK"}, {ofParts, partsOf(named("f")+`; filename="a.docx"`+"\r\nContent-Type: "+docx, "PK")},
		{ofParts, partsOf(named("f")+`; filename="2024=final; v2.pdf"`+"\r\nContent-Type: application/pdf", "%PDF")},
		{ofParts, partsOf(named("f")+"; filename=a.webm\r\nContent-Type: audio/webm;codecs=opus", "x")},
	} {
		r := posted(one[0], one[1])
		if one[0] == "" {
			r.Header.Del("Content-Type")
			r.Method = http.MethodPut
		}
		if found, _, err := table.Find(r, []byte(one[1])); found != nil || err != nil {
			t.Errorf("%q as %s: %v", one[1], one[0], err)
		}
		if strings.Contains(one[1], "username") {
			continue
		}
		if got, err := io.ReadAll(table.Watch(r, strings.NewReader(one[1]))); err != nil || string(got) != one[1] {
			t.Errorf("%q as %s, large: %v", one[1], one[0], err)
		}
	}
	for _, name := range []string{`a; name="password"`, "a;NAME = password", "a; name*=password", "a; name*0=password", "a; name\u00a0=password"} {
		body := partsOf(named("username"), "x", named("f")+`; filename="`+strings.ReplaceAll(name, `"`, "")+`"`, "x")
		if found, _, err := table.Find(posted(ofParts, body), []byte(body)); found == nil && err == nil {
			t.Errorf("a file's name is that of a field: %s", name)
		}
	}
}

const docx = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"

// A request without either field is none of the login's: it is refused, unless the route
// names a field of another form.
func TestARequestWithoutTheFieldsIsRefusedAtOnePath(t *testing.T) {
	t.Parallel()
	closed := Table{loginAt(t, "/login")}
	open := Table{
		loginAt(t, "/login", func(s *Spec) { s.Passes = []string{"form:pass1", "param:action"} }),
		mustCompile(t, Spec{Name: "reset", Path: "/login", Account: "form:email", Success: []string{"never"}}),
	}
	for _, one := range []struct {
		query, kind, body string
		passes            bool
	}{
		{"", ofPairs, "pass1=a&key=b", true}, {"", ofParts, partsOf(named("pass1"), "a", named("key"), "b"),
			true}, {"", ofPairs, "action=x", true}, {"action=x", ofPairs, "a=b", true},
		{"action=x", "", "", true}, {"", ofPairs, "pass2=a", false}, {"pass1=a", ofPairs, "b=c", false}, {"", "",
			"", false}, {"", ofPairs, "zz=1", false},
		{"", "application/json", `{"pass1":"a"}`, false}, {"action=x", "text/plain", "a", false}, {"action=x",
			"image/png", "\x89PNG", false},
		{"", ofPairs, "pass1=a&%2575sername=b", false}, {"", ofPairs, "pass1=a&data=%7B%22password%22:1%7D",
			false}, {"", ofPairs, "pass1=%zz", false}, {"", ofPairs, "pass1=a;b=c", false},
		{"", ofParts, partsOf(named("pass1"), "a", named("b"), `{"username":"x"}`), false}, {"", ofParts,
			partsOf(named("pass1"), "a&password=b"), false},
	} {
		r := httptest.NewRequest(http.MethodPost, "/login?"+one.query, nil)
		r.Header.Set("Content-Type", one.kind)
		if found, _, err := closed.Find(r, []byte(one.body)); err == nil || found != closed[0] {
			t.Errorf("?%s %s %q passes without an exception, at %v: %v", one.query, one.kind, one.body, found, err)
		}
		found, _, err := open.Find(r, []byte(one.body))
		if passes := err == nil && found == nil; passes != one.passes || err != nil && found == nil {
			t.Errorf("?%s %s %q passes: %v, at %v: %v", one.query, one.kind, one.body, passes, found, err)
		}
	}
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodOptions} {
		if found, _, err := closed.Find(httptest.NewRequest(method, "/login?next=/", nil), nil); found != nil ||
			err != nil {
			t.Errorf("%s: %v", method, err)
		}
	}
	for _, passes := range []string{"json:/a", "basic", "form:", "x"} {
		if _, err := Compile(Spec{Name: "login", Path: "/login", Account: "form:u", Success: []string{"never"},
			Passes: []string{passes}}); err == nil || !strings.HasPrefix(err.Error(), "passes: ") {
			t.Errorf("%s: %v", passes, err)
		}
	}
}

// The lenient readers of the property: each is written from what a framework does, and
// not from what is looked for here.

type reader func(kind string, body []byte) (account, password string)

func ofFields(value func(name string) string) (account, password string) {
	return value("username"), value("password")
}

func pairsOfAnyType(twice bool) reader {
	return func(_ string, body []byte) (string, string) {
		return ofFields(func(want string) string {
			for pair := range strings.FieldsFuncSeq(strings.TrimPrefix(string(body), "\ufeff"),
				func(r rune) bool { return r == '&' || r == ';' }) {
				name, value, _ := strings.Cut(pair, "=")
				if name = laxDecode(name); twice {
					name = laxDecode(name)
				}
				if name == want {
					return laxDecode(value)
				}
			}
			return ""
		})
	}
}

// partsIn are the parts of a body of any multipart type, by name.
func partsIn(kind string, body []byte) (parts map[string]string, all []string) {
	parts = map[string]string{}
	_, params, _ := mime.ParseMediaType(kind)
	if params["boundary"] == "" {
		return parts, nil
	}
	reading := multipart.NewReader(bytes.NewReader(body), params["boundary"])
	for part, err := reading.NextRawPart(); err == nil; part, err = reading.NextRawPart() {
		content, _ := io.ReadAll(part)
		_, disposition, _ := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
		parts[disposition["name"]+strings.Trim(part.Header.Get("Content-Id"), "<>")] = string(content)
		all = append(all, string(content))
	}
	return parts, all
}

func partsOfAnyType(kind string, body []byte) (string, string) {
	parts, _ := partsIn(kind, body)
	return ofFields(func(name string) string { return parts[name] })
}

// jsonAnywhere reads a body, a field's name or value, or a part.
func jsonAnywhere(kind string, body []byte) (account, password string) {
	_, texts := partsIn(kind, body)
	texts = append(texts, string(body), strings.ReplaceAll(string(body), "\x00", ""))
	for pair := range strings.SplitSeq(string(body), "&") {
		name, value, _ := strings.Cut(pair, "=")
		texts = append(texts, laxDecode(name), laxDecode(value))
	}
	for _, text := range texts {
		var top any
		if json.Unmarshal([]byte(strings.TrimPrefix(strings.TrimLeft(text, "\ufeff\xff\xfe \t\r\n\v\u00a0"), ")]}'")), &top) != nil {
			continue
		}
		if list, ok := top.([]any); ok && len(list) > 0 {
			top = list[0]
		}
		if object, ok := top.(map[string]any); ok && object["username"] != nil && object["password"] != nil {
			return fmt.Sprint(object["username"]), fmt.Sprint(object["password"])
		}
	}
	return "", ""
}

// rack is what Rack 2.2 takes for the name of a part: the last one of its head.
var rack = regexp.MustCompile(`(?is)Content-Disposition:.*;[\s\x0b]*name=("(?:\\"|[^"])*"|[^\s()<>,;:\\"/\[\]?=]+)`)

// utf7 are the parameters that some app takes for a charset, and letters that are written so.
var (
	utf7      = regexp.MustCompile(`(?is)charset[\s*0]*=[\s"']*(?:utf-8'')?utf-7`)
	utf7Text  = regexp.MustCompile(`\+([A-Za-z0-9/+]+)-`)
	partsType = regexp.MustCompile(`(?i)^multipart/.*boundary="?([^";,]+)`)
)

// partsAsRackReadsThem are those of every multipart type, decoded as Werkzeug 2.2 does.
func partsAsRackReadsThem(kind string, body []byte) (string, string) {
	parts := map[string]string{}
	if m := partsType.FindStringSubmatch(kind); m != nil {
		for section := range strings.SplitSeq(string(body), "--"+m[1]) {
			head, value, _ := strings.Cut(strings.TrimPrefix(section, "\r\n"), "\r\n\r\n")
			if utf7.MatchString(head) {
				value = utf7Text.ReplaceAllStringFunc(value, func(one string) string {
					raw, _ := base64.RawStdEncoding.DecodeString(one[1 : len(one)-1])
					return strings.ReplaceAll(string(raw), "\x00", "")
				})
			}
			if m := rack.FindStringSubmatch(head); m != nil {
				parts[strings.Trim(m[1], `"`)] = strings.TrimSuffix(value, "\r\n")
			}
		}
	}
	return ofFields(func(name string) string { return parts[name] })
}

// wrappedJSON is what a framework finds that puts an object below a name, or takes one out
// of it, as Rails' wrap_parameters does: with comments, as Ruby's JSON has them.
func wrappedJSON(_ string, body []byte) (account, password string) {
	var top map[string]any
	if json.Unmarshal(comments.ReplaceAll(body, nil), &top) != nil {
		return "", ""
	}
	for _, value := range top { // a name below is found although one above was read
		if inner, ok := value.(map[string]any); ok && inner["username"] != nil && inner["password"] != nil {
			return fmt.Sprint(inner["username"]), fmt.Sprint(inner["password"])
		}
	}
	return "", ""
}

var comments = regexp.MustCompile(`(?s)/\*.*?\*/`)

var ofXML = regexp.MustCompile(`(?s)^\s*<.*<username>([^<]+)</username>.*<password>([^<]+)</password>`)

func xmlOfAnyType(_ string, body []byte) (account, password string) {
	if m := ofXML.FindSubmatch(body); m != nil {
		return string(m[1]), string(m[2])
	}
	return "", ""
}

var readers = map[string]reader{
	"pairs": pairsOfAnyType(false), "pairs, decoded twice": pairsOfAnyType(true), "parts": partsOfAnyType,
	"JSON": jsonAnywhere, "XML": xmlOfAnyType, "parts, as Rack": partsAsRackReadsThem, "wrapped JSON": wrappedJSON,
}

// holdsAgainst is an error if a reader finds both fields in a body that passes.
func holdsAgainst(table Table, method, kind, body string) error {
	r := httptest.NewRequest(method, "/login", nil)
	r.Header.Set("Content-Type", kind)
	found, offer, err := table.Find(r, []byte(body))
	if err != nil && found != nil {
		return nil // refused, and counted
	}
	for name, read := range readers {
		account, password := read(kind, []byte(body))
		if account == "" || password == "" || found != nil && slices.Contains(offer.Credentials,
			Credential{account, password}) {
			continue
		}
		return fmt.Errorf("%s as %s: %q: a reader of %s sees %q of %q, and we %v %q: %v", method, kind, body,
			name, password, account, found, offer.Credentials, err)
	}
	if table.Single() {
		return nil
	}
	// The same body may come as a part of a large one.
	passed, err := io.ReadAll(table.Watch(r, strings.NewReader(body)))
	account, password := partsAsRackReadsThem(kind, passed)
	if err == nil && account != "" && password != "" {
		return fmt.Errorf("%s as %s: %q: Rack sees %q of %q in a large body", method, kind, body, password, account)
	}
	return nil
}

// tables are routes of every kind, alone and beside each other.
func tables(t testing.TB) (all []Table) {
	for _, path := range []string{"/login", "/*"} {
		ofJSON := mustCompile(t, Spec{Name: "login", Path: path, Account: "json:/username",
			Password: "json:/password", Success: []string{"status 200"}})
		basic := mustCompile(t, Spec{Name: "login", Path: path, Account: "basic", Success: []string{"status 200"}})
		param := mustCompile(t, Spec{Name: "login", Path: path, Account: "param:username",
			Password: "param:password", Success: []string{"status 200"}})
		form := loginAt(t, path)
		all = append(all, Table{form}, Table{ofJSON}, Table{param}, Table{form, ofJSON}, Table{basic, form},
			Table{ofJSON, basic})
	}
	return append(all, Table{loginAt(t, "/login", func(s *Spec) { s.Passes = []string{"form:a", "form:data"} })})
}

var bodyTypes = []string{
	ofPairs, ofParts, "application/json", "text/plain", "image/png", "application/xml",
	"multipart/mixed; boundary=XyZ", "multipart/related; boundary=XyZ",
	"application/x-url-encoded", "application/octet-stream", "", "multipart/form-data; boundary=XyZ; x=y",
	"application/json; charset=utf-16", "multipart/form-data; charset=utf-8; boundary=XyZ",
	`multipart/form-data; boundary="XyZ"; charset=utf-8`, "multipart/form-data; x=\"y; boundary=XyZ\"",
}

var bodyPieces = []string{
	"{", "}", "[", "]", ",", ":", `"`, "=", "&", ";", "\r\n", " ", "\ufeff", "\x00", "data=", "a=b", `"a":"`,
	"\v", "\u00a0", ")]}'", inString(objectBody),
	"--XyZ\r\n", "--XyZ--\r\n", "\r\n\r\n",
	`"username":"alice"`, `"password":"guess"`, `"user\u006eame":"alice"`, `"a":"b"`, "username=alice",
	"password=guess", "username=decoy", "password=x", "%75sername=alice", "%2575sername=alice",
	"<login>", "</login>", "<username>alice</username>", "<password>guess</password>",
	"%7B%22username%22:%22alice%22,%22password%22:%22guess%22%7D",
	objectBody, pairsBody, decoy, named("username"), named("password"), named("a"), named("data"),
	"Content-ID: username", "Content-ID: <password>", "alice", "guess",
	"Content-Type: text/plain; charset*=utf-8''utf-7", "X-A: Content-Disposition: ; name=username",
	named("x; name=username"),
	named("a") + `; filename="x; name=password"`, "Content-Disposition: x;\x0bname=username", "+AGE-lice", "/* a */",
	`{"a":{"username":"alice","password":"guess"}}`, "Content-Transfer-Encoding: binary",
	"Content-Disposition: form-data; name=username",
	"Content-Type: application/json", partsOf(named("a"), "b"), partsBody, utf16Of(objectBody),
}

func TestNoBodyPassesThatSomeReaderFindsALoginIn(t *testing.T) {
	t.Parallel()
	all := tables(t)
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom(bodyTypes).Draw(t, "type")
		body := strings.Join(rapid.SliceOfN(rapid.SampledFrom(bodyPieces), 1, 12).Draw(t, "pieces"), "")
		for _, table := range all {
			if err := holdsAgainst(table, http.MethodPost, kind, body); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func FuzzNoBodyPassesThatSomeReaderFindsALoginIn(f *testing.F) {
	for _, one := range disguised {
		f.Add(one[1], one[2])
	}
	all := tables(f)
	f.Fuzz(func(t *testing.T, kind, body string) {
		for _, table := range all {
			if err := holdsAgainst(table, http.MethodPost, kind, body); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func BenchmarkALargeBodyOfBytes(b *testing.B) {
	table := Table{loginAt(b, "/*")}
	body := make([]byte, 4<<20)
	random := uint32(2)
	for i := range body {
		random = random*1664525 + 1013904223
		body[i] = byte(random >> 24)
	}
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if n, err := io.Copy(io.Discard, table.Watch(posted("application/octet-stream", ""),
			bytes.NewReader(body))); err != nil || n != int64(len(body)) {
			b.Fatal(n, err)
		}
	}
}

// A password in a header says nothing about a body that the route beside it cannot read.
func TestABasicRouteDoesNotOpenTheFormsRouteBesideIt(t *testing.T) {
	t.Parallel()
	basic := mustCompile(t, Spec{Name: "login", Path: "/login", Account: "basic", Success: []string{"status 200"}})
	for _, table := range []Table{{basic, loginAt(t, "/login")}, {loginAt(t, "/login"), basic}} {
		for _, header := range []string{"", "Basic ZGVjb3k6eA=="} {
			body := "\x82\xa8username\xa5alice\xa8password\xa5guess" // MessagePack
			r := posted("application/x-msgpack", body)
			if r.Header.Set("Authorization", header); header == "" {
				r.Header.Del("Authorization")
			}
			if found, o, err := table.Find(r, []byte(body)); err == nil || found == nil {
				t.Errorf("%q: the body passes, at %v with %q: %v", header, found, o.Credentials, err)
			}
		}
	}
}

// Wherever the fields or their encoding are sent beside the body, they are found.
func TestFieldsInCookiesAndCompressedBodiesAreRefused(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/login", "/*"} {
		table := Table{loginAt(t, path)}
		for _, one := range []struct{ method, query, header, value, body string }{
			{"POST", "", "Cookie", "username=alice; password=guess", decoy},
			{"POST", "", "Cookie", "sid=1;username=alice", decoy},
			{"POST", "", "Cookie", "sid=1; %70assword=guess", decoy},
			{"POST", "", "Cookie", "user_name[=1; username[]=alice", decoy},
			{"POST", "", "Cookie", "username=decoy; username=alice", decoy},
			{"POST", "", "Cookie", "username=alice; password=guess", ""},
			{"GET", "", "Cookie", "username=alice; password=guess", ""},
			{"POST", "", "Cookie", "password=guess", "username=alice"},
			{"GET", "username=alice", "Cookie", "password=guess", ""},
			{"PUT", "", "Content-Encoding", "gzip", "\x1f\x8b"},
			{"DELETE", "", "Content-Encoding", "identity", "\x1f\x8b"},
		} {
			r := httptest.NewRequest(one.method, "/login?"+one.query, nil)
			r.Header.Set("Content-Type", ofPairs)
			r.Header.Set(one.header, one.value)
			if found, o, err := table.Find(r, []byte(one.body)); err == nil || found == nil {
				t.Errorf("%s: %q passes, at %v with %q: %v", path, one, found, o.Credentials, err)
			}
		}
		for cookie, body := range map[string]string{
			"sid=1; username2=a": decoy, "username=decoy; sid=1": decoy, "username=de%63oy": decoy,
		} {
			r := posted(ofPairs, body)
			r.Header.Set("Cookie", cookie)
			if found, o, err := table.Find(r, []byte(body)); err != nil || found == nil ||
				o.Credentials[0].Account != "decoy" {
				t.Errorf("%s: cookie %s: %v, %q, %v", path, cookie, found, o.Credentials, err)
			}
		}
	}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Cookie", "username=alice")
	if found, _, err := (Table{loginAt(t, "/*")}).Find(r, nil); found != nil || err != nil {
		t.Errorf("a remembered name: %v, %v", found, err)
	}
}

// Rails puts the members of a JSON object below the controller's name as well.
func TestFieldsAtAnotherDepthOfJSONAreRefused(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/session", "/*"} {
		table := Table{mustCompile(t, Spec{Name: "login", Path: path, Account: "json:/session/email",
			Password: "json:/session/password", Success: []string{"status 200"}})}
		for _, body := range []string{`{"email":"alice","password":"guess"}`, `{"a":[{"email":"alice"}],"password":1}`} {
			if found, _, err := table.Find(posted("application/json", body), []byte(body)); err == nil || found == nil {
				t.Errorf("%s: %s passes, at %v: %v", path, body, found, err)
			}
		}
	}
}

// In a folder every other request passes, however it is written.
func TestOddBodiesWithoutTheFieldsPassInAFolder(t *testing.T) {
	t.Parallel()
	f := named("f")
	for _, path := range []string{"form", "json"} {
		table := Table{loginAt(t, "/*")}
		if path == "json" {
			table = Table{mustCompile(t, Spec{Name: "login", Path: "/*", Account: "json:/username",
				Password: "json:/password", Success: []string{"status 200"}})}
		}
		for _, one := range [][2]string{
			{"application/json", `[1,{"a":2}]`}, {"application/json", `{"a":1,"a":2}`}, {"application/json", `"x"`},
			{"application/json", "{"}, {"application/json; charset=iso-8859-1", `{"a":1}`},
			{ofParts, partsOf(f+"\r\nContent-Type: text/plain; charset=ISO-8859-1", "caf\xe9")},
			{ofParts, partsOf(f+"\r\nContent-Transfer-Encoding: binary", "username password")},
			{ofParts, partsOf(`Content-Disposition: form-data; name=f`, "username password")},
			{ofParts, partsOf(`Content-Disposition: form-data; name=f; filename=a.txt; filename*=utf-8''a.txt`,
				"username password")},
			{ofParts, partsOf(f+`; filename="a\"b;c.png"`, "x")}, {ofParts, "preamble\r\n" + partsOf(f, "x")},
			{ofParts, strings.TrimSuffix(partsOf(f, "x"), "--XyZ--\r\n")},
			{"multipart/form-data; charset=utf-8; boundary=XyZ", partsOf(f, "username password")},
			{"multipart/form-data; boundary=XyZ; charset=utf-8", partsOf(f, "username password")},
			{"multipart/mixed; boundary=XyZ", partsOf("Content-Type: text/plain", "username")},
			{ofPairs, "a=b;c=d"}, {ofPairs, "a=%zz"}, {"text/plain; charset=windows-1252", "username=x"},
			{"text/html", "<!DOCTYPE html><meta charset=utf-7>"},
		} {
			found, _, err := table.Find(posted(one[0], one[1]), []byte(one[1]))
			if found != nil || err != nil {
				t.Errorf("%s: %q as %s: %v", path, one[1], one[0], err)
			}
		}
	}
}

func TestAnUnanchoredReaderOfTheHeaderFindsNoOtherPassword(t *testing.T) {
	t.Parallel()
	table := Table{mustCompile(t, Spec{Name: "login", Path: "/*", Account: "basic", Success: []string{"status 200"}})}
	for header, passes := range map[string]bool{
		"xBasic YTpi": false, "Bearer-Basic YTpi": false, `"Basic YTpi`: false, "x=basic\tYTpi": false,
		"Bearer abcbasic": true, "Bearer basic.token": true, `Digest username="basic", realm="x"`: true,
	} {
		r := httptest.NewRequest(http.MethodGet, "/x", nil)
		r.Header.Set("Authorization", header)
		if one, _, err := table.Find(r, nil); (err == nil) != passes {
			t.Errorf("%q: %v, %v", header, one, err)
		}
	}
}
