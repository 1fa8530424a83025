//go:build !race

package route

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// What large bodies in a folder have in them is found on its way.
func TestALargeBodyThatSomeAppReadsOtherwiseIsCutOff(t *testing.T) {
	t.Parallel()
	table := Table{loginAt(t, "/*")}
	pad := strings.Repeat("0123456789abcde\n", 20_000)
	spaces, folds, long := strings.Repeat(" ", 40_000), strings.Repeat("\r\n ", 15_000), strings.Repeat("a", 40_000)
	for _, one := range [][2]string{
		{"image/png", "a=" + pad + "&" + pairsBody}, {"application/x-url-encoded", "a=" + pad + "&" + pairsBody},
		{"multipart/mixed; boundary=XyZ", partsOf(named("a"), pad) + partsBody},
		{"multipart/related; boundary=XyZ", partsOf("Content-ID: a", pad, "Content-ID: username", "alice",
			"Content-ID: password", "guess")},
		{ofPairs, `{"a":"` + pad + `",` + objectBody[1:]}, {"image/png", `{"a":"` + pad + `",` + objectBody[1:]},
		{"application/json", `{"a":"` + pad + `","username"` + spaces + `:"alice","password"` + spaces + `:"guess"}`},
		{"text/plain", `{"a":"` + pad + `","username"/*` + spaces + `*/:"alice","password"/*` + spaces + `*/:"guess"}`},
		{"multipart/mixed; boundary=XyZ", partsOf(named("a"), pad, "Content-Disposition: x;"+folds+"name=user\\name",
			"alice", "Content-Disposition: x;"+folds+"name*0=pass;"+folds+"name*1=word", "guess")},
		{"multipart/related; boundary=XyZ", partsOf("Content-ID: a", pad, "Content-ID:"+folds+"user"+folds+"name",
			"alice", "Content-ID: pass%"+"77ord", "guess")},
		{"text/plain", "<a>" + pad + "<" + long + ":username>alice</" + long + ":username><" + long +
			":password>guess</" + long + ":password></a>"},
		{"application/json; charset=utf-7", `{"a":"` + pad + `"}`},
		{"application/json", ")]}'\n" + `{"a":"` + pad + `",` + objectBody[1:]},
		{"application/json", "# " + strings.ReplaceAll(pad, "\n", "\n#") + "\n" + `{username="alice";a=` + pad +
			";password=guess}"},
		{"text/plain", strings.Repeat("\x0b\u00a0\u2028", 10_000) + `{"a":"` + pad + `",` + objectBody[1:]},
		{ofPairs, "\x0b" + `{"a":"&` + pad + `",` + objectBody[1:]},
		{"application/json", `{"a":"` + strings.ReplaceAll(pad, "\n", "") + `","b":` + inString(objectBody) + "}"},
		{"application/json", `{"b":` + inString(`{"a":"`+pad+`","b":`+inString("\x0b"+objectBody)+"}") + "}"},
		{"application/json", inString(`{"a":"` + pad + `",` + objectBody[1:])},
		{ofPairs, "a=" + pad + "&b=" + inString(objectBody)}, {"text/plain", "\x0b<a>" + pad + xmlBody},
		{"text/plain", utf16Of(`{"a":"` + pad + `",` + objectBody[1:])}, {"text/plain", "<a>" + pad +
			xmlBody[len(`<?xml version="1.0"?>`):]},
	} {
		got, err := io.ReadAll(table.Watch(posted(one[0], one[1]), strings.NewReader(one[1])))
		if err == nil || strings.Contains(string(got), "guess") {
			t.Errorf("%s: %d of %d bytes pass: %v", one[0], len(got), len(one[1]), err)
		}
	}
	png := "\x89PNG\r\n\x1a\n" + strings.Repeat("\x00&u=\xff;p=username password", 20_000)
	for kind, body := range map[string]string{
		"image/png": png, "application/octet-stream": pad,
		"text/html": `<form><input name="username"><input name="password"></form>` + pad,
		"application/json": `{"text":"` + strings.ReplaceAll(pad, "\n", `\n`) +
			`your username: and your password: "}`,
		"text/markdown":                   "# Users\n\n[![x](y)] the \"username\": and the \"password\": x" + pad,
		"text/csv":                        `"username","password"` + "\n" + `"a","b"` + pad,
		"text/x-shellscript":              "#!/bin/sh\nusername=a\npassword=b\n" + pad,
		"multipart/related; boundary=XyZ": partsOf("Content-ID: <a@b>", pad),
		ofParts:                           partsOf(`Content-Disposition: form-data; name="f"; filename="a.png"`, png),
	} {
		if got, err := io.ReadAll(table.Watch(posted(kind, body), strings.NewReader(body))); err != nil ||
			string(got) != body {
			t.Errorf("%s: %d of %d bytes pass: %v", kind, len(got), len(body), err)
		}
	}
}

// A form that is larger than a login is looked through as a small one is: a JSON route's
// fields as pairs or parts, and JSON in a field.
func TestALargeFormHidesNoJSON(t *testing.T) {
	t.Parallel()
	ofJSON := mustCompile(t, Spec{Name: "login", Path: "/*", Account: "json:/session/username",
		Password: "json:/session/password", Success: []string{"status 200"}})
	pad := strings.Repeat("A", 70_000)
	spaces := strings.Repeat(" ", 40_000)
	escaped := strings.NewReplacer("{", "%7B", `"`, "%22", ":", "%3A", ",", "%2c", "}", "%7D").Replace
	stop := [][3]string{
		{"", ofPairs, "data=" + escaped(objectBody) + "&pad=" + pad}, {"", ofPairs, "pad=" + pad + "&data=" + objectBody},
		{"", ofPairs, "pad=" + pad + "&data=%20%5B" + escaped(objectBody) + "]"},
		{"", ofPairs, "pad=" + pad + "&data=%EF%BB%BF" + objectBody}, {"", ofPairs, "pad=" + pad + "&" + escaped(objectBody)},
		{"", ofPairs, "pad=" + pad + `&data={"username"/*` + pad + `*/:"alice","password"` + spaces + `:"guess"}`},
		{"", ofPairs, "pad=" + pad + `&data=/*x*/{"user\u006eame":"alice","pad":"` + pad + `\"","password":"guess"}`},
		{"", ofPairs, "pad=" + pad + `&data=[{"session":` + objectBody + "}]"},
		{"", ofPairs, `data={"username":"alice"}&pad=` + pad + `&more={"password":"guess"}`},
		{"", ofPairs, "pad=" + pad + `&data={"us\ername":"alice","\u0070ass\word":"guess"}`},
		{"", "application/json", "username=alice& password=guess&pad=" + pad}, {"", "text/plain", "pad=" + pad + "&\r\nusername=alice&\tpassword=guess"},
		{"", "application/json", `[1,"` + pad + `",{"us\ername":"alice","\u0070ass\word":"guess"}]`},
		{"", ofPairs, "pad=" + pad + `&data={'username':'alice','password':'guess'}`},
		{"", ofParts, partsOf(named("pad"), pad, named("data"), objectBody)},
		{"", ofParts, partsOf(named("data")+"; filename=\"a.json\"\r\nContent-Type: application/json", objectBody, named("pad"), pad)},
		{"", ofParts, partsOf(named("data"), " \r\n"+objectBody[:1]+`"pad":"`+pad+`",`+objectBody[1:])},
		{"", ofParts, partsOf(named("data")+"; filename=\"a.json\"", utf16Of(objectBody), named("pad"), pad)},
		{"", "application/xml", `<l username="alice" pad="` + pad + `" password` + spaces + `="guess"/>`},
		{"", ofParts, partsOf(named("data")+"; filename=\"a.json\"", utf16Of(`{"a":"`+"\u2200"+`",`+objectBody[1:]), named("pad"), pad)},
	}
	for _, kind := range []string{"application/json", "text/plain", "image/png", "application/octet-stream", ofPairs} {
		for _, object := range []string{
			`{"pad":"` + pad + `",` + objectBody[1:], `{"pad":"=` + pad + `",` + objectBody[1:], objectBody[:len(objectBody)-1] + `,"pad":"` + pad + `"}`,
		} {
			once := url.PathEscape(object) // as for JSON.parse(decodeURIComponent(body))
			stop = append(stop, [3]string{"", kind, once}, [3]string{"", kind, url.PathEscape(once)}, [3]string{"", kind, spaces + once})
		}
	}
	stop = append(stop, [3]string{"", ofPairs, "data=" + url.PathEscape(escaped(`{"pad":"`+pad+`",`+objectBody[1:]))},
		[3]string{"", ofParts, partsOf(named("data"), escaped(`{"pad":"`+pad+`",`+objectBody[1:]))})
	stop = append(stop, [3]string{"", ofPairs, "a=%2541&pad=" + pad + "&data=" + url.PathEscape(escaped(objectBody))})
	onlyJSON := [][3]string{
		{"", ofPairs, "session[username]x=alice&pad=" + pad + "&session[password]%00x=guess"},
		{"", ofPairs, "pad=" + pad + "&session[username](1)=alice&a.session.password.x=guess"},
		{"", ofPairs, "pad=" + pad + "&" + pairsBody}, {"", ofPairs, pairsBody + "&pad=" + pad},
		{"", ofPairs, "pad=" + pad + "&session[username]=alice&session[password]=guess"},
		{"", ofParts, partsOf(named("pad"), pad, named("username"), "alice", named("password"), "guess")},
		{"username=alice", ofPairs, "pad=" + pad + "&password=guess"}, {"", ofPairs, "username=alice&pad=" + pad + "&more[password]=guess"},
	}
	for _, table := range []Table{{ofJSON}, {loginAt(t, "/*")}, {loginAt(t, "/*"), ofJSON}} {
		all := stop
		if table[0] == ofJSON {
			all = slices.Concat(stop, onlyJSON)
		}
		for _, one := range all {
			r := posted(one[1], one[2])
			r.URL.RawQuery = one[0]
			got, err := io.ReadAll(table.Watch(r, strings.NewReader(one[2])))
			if err == nil || strings.Contains(strings.ReplaceAll(string(got), "\x00", ""), "guess") {
				t.Errorf("%v: %.200q: %d of %d bytes pass: %v", table[0].account.name, one[2], len(got), len(one[2]), err)
			}
		}
		for _, one := range onlyJSON[:6] { // pairs and parts, at any depth
			if found, o, err := table.Find(posted(one[1], one[2]), []byte(one[2])); slices.Contains(table, ofJSON) && err == nil && (found == nil ||
				!slices.Contains(o.Credentials, Credential{"alice", "guess"})) {
				t.Errorf("%v: %.200q passes in a small form, at %v with %q", table[0].account.name, one[2], found, o.Credentials)
			}
		}
		r := posted(ofPairs, "")
		r.Header.Set("Cookie", "username=alice")
		body := "pad=" + pad + "&password=guess"
		if got, err := io.ReadAll(table.Watch(r, strings.NewReader(body))); err == nil || strings.Contains(string(got), "guess") {
			t.Errorf("a name in a cookie: %d of %d bytes pass: %v", len(got), len(body), err)
		}
		for _, one := range [][2]string{
			{ofPairs, "id=start&text={{image.png}}+the+username:+x,+the+password:+y" + pad},
			{ofPairs, "text=[[start]]+the+\"username\"+and+the+'password'" + pad}, {ofPairs, `data={"id":1,"username":"x"}&pad=` + pad},
			{ofParts, partsOf(named("text"), `[1] say "username" and "password"`, named("pad"), pad)},
			{ofParts, partsOf(named("f")+"; filename=\"a.png\"", "\x89PNG\x00{\"username\":\"password\"", named("pad"), pad)},
			{ofPairs, "session[nick]=a&pad=" + pad},
			{ofPairs, strings.Repeat("&", 20_000) + "a=" + pad},
		} {
			if got, err := io.ReadAll(table.Watch(posted(one[0], one[1]), strings.NewReader(one[1]))); err != nil || string(got) != one[1] {
				t.Errorf("%v: %.100q: %d of %d bytes pass: %v", table[0].account.name, one[1], len(got), len(one[1]), err)
			}
		}
	}
}

func FuzzALargeFormHidesNoJSON(f *testing.F) {
	for _, body := range []string{pairsBody, "data=" + objectBody, "a=" + strings.Repeat("x", 20_000) + "&data=%7B" + objectBody[1:]} {
		f.Add(body)
	}
	table := Table{mustCompile(f, Spec{Name: "login", Path: "/*", Account: "json:/username", Password: "json:/password",
		Success: []string{"status 200"}})}
	f.Fuzz(func(t *testing.T, body string) {
		passed, err := io.ReadAll(table.Watch(posted(ofPairs, body), strings.NewReader(body)))
		if err != nil {
			return
		}
		if string(passed) != body {
			t.Fatalf("%q passes of %q", passed, body)
		}
		for name, read := range map[string]reader{"pairs": pairsOfAnyType(false), "JSON": jsonAnywhere} {
			if account, password := read(ofPairs, passed); account != "" && password != "" {
				t.Fatalf("%q: a reader of %s sees %s of %s", body, name, password, account)
			}
		}
	})
}

func TestAPasswordBehindAnUploadNeverArrives(t *testing.T) {
	t.Parallel()
	table := wiki(t)
	upload := strings.Replace(file, "\x00", strings.Repeat("0123456789\r\n", 2_000), 1)
	pass := map[string]*http.Request{
		"an upload":        posted(ofParts, upload+parted("id", "text")),
		"a long text":      posted(ofPairs, "id=start&text="+strings.Repeat("u%3D&a=", 5_000)+"&up=1"),
		"one without end":  posted(ofPairs, "id"),
		"nothing":          posted(ofPairs, ""),
		"a form of nobody": posted(ofParts, "--XyZ--\r\n"),
	}
	stop := map[string]*http.Request{
		"in a long text":      posted(ofPairs, "text="+strings.Repeat("x", 40_000)+"&u=alice&p=secret"),
		"escaped":             posted(ofPairs, "text="+strings.Repeat("x", 40_000)+"&%75=alice&%70=secret"),
		"a name without end":  posted(ofPairs, strings.Repeat("x", 40_000)+"&u=alice"),
		"behind a semicolon":  posted(ofPairs, "text=x;u=alice;p=secret"),
		"the password's half": posted(ofPairs, "text=x&p=secret"),
		"of another type":     posted("multipart/form-data", parted("u")),
		"of no type":          posted("", "u=alice&p=secret"),
	}
	for name, body := range hidden {
		stop[name] = posted(ofParts, upload+body)
		if strings.HasPrefix(body, "x--") { // the first delimiter
			stop[name] = posted(ofParts, body)
		}
	}
	for name, how := range map[string]func(io.Reader) io.Reader{
		"at once": func(r io.Reader) io.Reader { return r }, "byte by byte": iotest.OneByteReader, "with the end": iotest.DataErrReader,
	} {
		for what, r := range pass {
			sent, _ := io.ReadAll(r.Body)
			got, err := io.ReadAll(table.Watch(r, how(bytes.NewReader(sent))))
			if err != nil || !bytes.Equal(got, sent) {
				t.Errorf("%s, %s: %d of %d bytes pass: %v", what, name, len(got), len(sent), err)
			}
			r.Body = io.NopCloser(bytes.NewReader(sent))
		}
		for what, r := range stop {
			sent, _ := io.ReadAll(r.Body)
			got, err := io.ReadAll(table.Watch(r, how(bytes.NewReader(sent))))
			if refusal := (*Refusal)(nil); !errors.As(err, &refusal) || bytes.Contains(got, []byte("text of u")) || bytes.Contains(got, []byte("secret")) {
				t.Errorf("%s, %s: %d of %d bytes pass: %v", what, name, len(got), len(sent), err)
			}
			r.Body = io.NopCloser(bytes.NewReader(sent))
		}
	}
	for name, body := range hidden {
		body = strings.Replace(body, partStart, partStart+"\"p\"\r\n\r\ntext of p\r\n"+partStart, 1) // one field is no login
		one, o, err := table.Find(posted(ofParts, body), []byte(body))
		if strings.Contains(body, "u") && err == nil && (one == nil || o.Credentials[0].Account != "text of u") {
			t.Errorf("%s: a small form passes, with %q", name, o.Credentials)
		}
	}
}

// What is made up has the form of the password that it stands for, and is another one.
func TestWhatIsMadeUpIsAnotherPasswordOfTheSameForm(t *testing.T) {
	t.Parallel()
	kinds := func(s string) (all []bool) {
		for _, c := range s {
			all = append(all, unicode.IsLower(c), unicode.IsUpper(c), unicode.IsDigit(c), c > unicode.MaxASCII)
		}
		return all
	}
	check := func(t rapid.TB, password string) {
		made := MadeUp("alice", password)
		if strings.EqualFold(made, password) || len(made) != len(plainDigits(password)) || !utf8.ValidString(made) {
			t.Fatalf("%q for %q", made, password)
		}
		for _, c := range password {
			if c > unicode.MaxASCII {
				return // of which there are too many kinds
			}
		}
		for i, kind := range kinds(made) {
			if kind != kinds(password)[i] {
				t.Fatalf("%q for %q", made, password)
			}
		}
	}
	for _, one := range []string{
		"a", "Z", "7", "!", " ", "!!!!", "Correct-Horse-7", "пароль", "Ārger", "\u07ff\uffff\U0010ffff", strings.Repeat("x", 300),
	} {
		check(t, one)
	}
	for c := range unicode.MaxRune {
		if utf8.ValidRune(c) {
			check(t, string(c))
		}
	}
	rapid.Check(t, func(t *rapid.T) { check(t, rapid.StringN(1, 40, -1).Draw(t, "password")) })
	if MadeUp("alice", "") == "" {
		t.Error("nothing is made up for an empty password")
	}
}
