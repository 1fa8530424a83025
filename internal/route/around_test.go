package route

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// These are ways round a route that real servers and frameworks opened: what the app
// would take for a login is found or refused.

func TestWhatAFrameworkTakesForAFieldIsOne(t *testing.T) {
	t.Parallel()
	table := Table{mustCompile(t, Spec{Name: "login", Path: "/login", Account: "form:user[name]", Password: "form:user[password]", Success: []string{"status 302"}})}
	flat := Table{mustCompile(t, Spec{Name: "login", Path: "/login", Account: "form:username", Password: "form:password", Success: []string{"status 302"}})}
	for form, table := range map[string]Table{
		"[username]=a&[password]=b":         flat, // Express, Rails
		"[[username]=a&[[password]=b":       flat, // Rails
		"!username=a&!password=b":           flat, // Spring
		"username:utf8=a&password:string=b": flat, // Zope
		// ASP.NET, Grails, Struts; Express with body.user || body
		"username=x&password=y&model.username=a&model.password=b": flat,
		"username=x&password=y&user[username]=a&user[password]=b": flat,
		"model.username=a&model.password=b":                       flat,
		"username=x&model.password=b":                             flat,
		// URLSearchParams, .NET's ParseQueryString, npm's query-string
		"?username=a&password=b":                             flat,
		"?username=a&password=b&username=x":                  flat,
		"?password=b&username=a&password=x":                  flat,
		"#username=a&%23password=b":                          flat,
		"%3F%20username=a&password=b&username=x":             flat,
		"?[username]=a&password=b&username=x":                flat,
		"model['username']=a&model['password']=b":            flat, // Struts (OGNL)
		"username=x&password=y&model['username']=a":          flat,
		"username=x&password=y&model('username')=a":          flat,
		"username=x&password=y&model(%22username%22)%20=a":   flat,
		"username=x&password=y&models[0].user('username')=a": flat,
		"username=x&password=y&username(1)=a":                flat, // Rails
		"?user[name]=a&user[password]=b&user[name]=x":        table,
		"user['name']=a&user['password']=b":                  table,
		"user('name')=a&user('password')=b&user[name]=x":     table,
		"[user][name]=a&[user][password]=b":                  table, // Express, Rails
		"user[name]x=a&user[password].y=b":                   table, // PHP
		"user[name][]=a&user[password][]=b":                  table,
		"user[password]x=b":                                  table,
		"user[name]=a&user[name]x=c&user[]=b":                table,
	} {
		if one, _, err := table.Find(posted(ofPairs, form), []byte(form)); err == nil {
			t.Errorf("%s passes, as %v", form, one)
		}
	}
	folder := Table{mustCompile(t, Spec{Name: "login", Path: "/*", Account: "form:user[name]",
		Password: "form:user[password]", Success: []string{"status 302"}})}
	for _, form := range []string{"user[nick]=a&user[password_hint]=b", "user=1", "username2=a&passwords=b", "a:b=c",
		"?page=2", "model['nick']=a&model('password_hint')=b", "what?=1&(1)=2"} {
		if one, _, err := folder.Find(posted(ofPairs, form), []byte(form)); err != nil || one != nil {
			t.Errorf("%s: %v, %v", form, one, err)
		}
	}
}

func TestAPageHasOtherAddresses(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("/x", 2000)
	for path, requests := range map[string]map[string]Place{
		"/login": {
			long: Elsewhere, long + "+": Elsewhere, "/login" + long + "+": Here, long + "/../y": Ambiguous, "/x" + strings.Repeat("%ef%b7%ba", 300): Ambiguous, // too much to read
			"/log%C4%B1n": Ambiguous, "/log%C4%B0n/x": Ambiguous, "/logıns": Here, "/l%C4%B1st": Elsewhere, // Python's re.IGNORECASE
			"/login.json": Here, "/login.x": Here, "/index.php/login": Here, "/index/login": Here, "/index/x": Elsewhere, "/app.php/login.json": Here, "/login/index.php": Here, "/login.php/x": Here,
			"/login%0a": Ambiguous, "/login%3fx": Ambiguous, "/login%23": Ambiguous, "/login%0d%0ax": Ambiguous,
			"//x/login": Ambiguous, "///x/login": Ambiguous, "/%5cx/login": Ambiguous, "//x:80/login?": Ambiguous, "//x@y/login": Ambiguous, "//login": Ambiguous,
			"/%EF%BD%8Cogin": Ambiguous, "/ｌogin": Ambiguous, "/%E2%93%9Bogin": Ambiguous, "/x/%EF%BC%8E%EF%BC%8E/login": Ambiguous, "/x/%E2%80%A5/login": Ambiguous, "/%EF%BC%852e/login": Ambiguous,
			"/log%c3%a4in": Ambiguous, "/%fflogin": Ambiguous, "/login%c2%a0": Ambiguous, "/lo%20gin": Ambiguous, "/l%c3%b6g": Elsewhere,
			"/login.a.b": Here, "/login.a.b.c": Here, "//x/y/login": Elsewhere,
			"/logins": Here, "/login+": Ambiguous, "/+login": Ambiguous, "/log+in": Ambiguous, "/lo+g": Elsewhere, "/x/c++": Elsewhere, "/a.b/login": Elsewhere, "/login/x": Here, "/login/x.php": Here, "//login/x": Ambiguous, "/x.php/y/login": Elsewhere, "/what%3f": Elsewhere,
		},
		"/login.php":         {"/login.php/x": Here, "/login.php/x.css": Here, "/login": Here, "/login/x": Here, "/login.phpx": Here, "/x.php": Elsewhere, "/login.php/../x": Ambiguous},
		"/index.php":         {"/": Here, "/index.php/x": Here, "/index.html": Here, "/x": Elsewhere, "/a/index.php": Elsewhere},
		"/shop/login":        {"/shop/index.php/login": Here, "/shop/app.php/login.json": Here, "/shop/index.php/x": Elsewhere, "/x/index.php/login": Elsewhere},
		"/a/":                {"/a/index.php": Here, "/a/default.aspx": Here, "/a/x": Here, "/b/a/x": Elsewhere},
		"/signin.html":       {"/signin/x": Here, "/signin.en/x": Here, "/signin": Here},
		"/account/login":     {"/account.php/login": Here, "/ACCOUNT.phar/login.en": Here, "/account.php/login/x": Here, "/account.php/logout": Elsewhere},
		"/admin/*":           {"/admin.php": Here, "/admin.json": Here, "/admin.x.y": Here, "/admins": Elsewhere, "/admin/c++": Here, "/admin.php/users": Here, "/x/admin.php/users": Elsewhere, "/admin.php//users": Here, "/x/.%20/..%20/admin/users": Ambiguous, "/x/..%EF%BC%8Fadmin/users": Ambiguous, "/admin.txt/users": Elsewhere},
		"/rest/user.login":   {"/rest/user.login.json": Here, "/rest/user.logout": Elsewhere, "/rest/user": Elsewhere},
		"/wiki/*":            {"/wiki/%c3%a4": Here, "/wiki/a%CC%88": Here, "/wiki/%EF%BC%8E%EF%BC%8E/x": Ambiguous, "/a%CC%88": Elsewhere, "/wiki%c3%a4/x": Ambiguous, "/%c3%a4": Elsewhere, "//x/wiki/y": Ambiguous},
		"/accounts/*":        {"/index.php/accounts/login": Here, "/account": Elsewhere, "/x/accounts/login": Elsewhere},
		"/wp-login.php/*":    {"/wp-login.php": Here, "/wp-login.php/x": Here, "/wp-login": Here, "/wp-login/x/y.css": Here, "/wp-loginx": Elsewhere},
		"/":                  {"/index.php": Here, "/index": Here, "/x.php": Elsewhere, "/x": Elsewhere},
		"/accounts/login/":   {"/accounts/login": Here, "/accounts/login.html": Here, "/accounts/": Elsewhere},
		"/users/sign_in":     {"/users/sign_in.json": Here, "/users/sign_in.html": Here, "/users": Elsewhere},
		"/phpmyadmin/pma.do": {"/phpmyadmin/pma.do/x": Here},
	} {
		table := Table{mustCompile(t, Spec{Name: "login", Path: path, Account: "form:u", Success: []string{"status 302"}})}
		for request, want := range requests {
			if _, got := table.At(request); got != want {
				t.Errorf("%s is %v for a route at %s, not %v", request, got, path, want)
			}
		}
	}
}

// IIS decodes %u0061, CVE-2000-0884 took %c0%af for a slash.
func TestAPathThatServersDecodeDifferentlyIsUnreadable(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{
		"/%u0061dmin": true, "/100%": true, "/%4": true, "/%zz": true, "/%%61": true,
		"/%c0%af": true, "/\xc0\xaf": true, "/%C1%A1": true, "/%c0\xaf": true,
		"/%e0%80%af": true, "/%E0%9F%BF": true, "/%f0%80%80%af": true, "/%F0%8F%BF%BF": true,
		"": false, "/": false, "/admin": false, "/%61dmin": false, "/100%25": false, "/%2561": false, "/%25u0061": false,
		"/%c3%a4": false, "/ä": false, "/%C2%80": false, "/%E0%A0%80": false, "/%F0%90%80%80": false,
		"/%c0": false, "/%c0/x": false, "/%e9t%e9": false, "/%C0%DF": false, // Latin-1
	} {
		if got := Unreadable(path); got != want {
			t.Errorf("%q: %v, want %v", path, got, want)
		}
	}
}

func TestBasicIsReadAsAnybodyReadsIt(t *testing.T) {
	t.Parallel()
	table := Table{mustCompile(t, Spec{Name: "login", Path: "/*", Account: "basic", Success: []string{"status 200"}})}
	for header, found := range map[string]bool{"Basic YTpi": true, "bAsIC YTpi": true, "Bearer basic.token": false, "Digest x": false} {
		for _, method := range []string{"GET", "HEAD", "POST", "PROPFIND"} {
			r, _ := http.NewRequest(method, "/x", nil)
			r.Header.Set("Authorization", header)
			if one, o, err := table.Find(r, nil); err != nil || (one != nil) != found || found && o.Credentials[0] != (Credential{"a", "b"}) {
				t.Errorf("%s %q: %v, %v, %v", method, header, one, o.Credentials, err)
			}
		}
	}
	for _, header := range []string{"Basic\tYTpi", "basic\u00a0YTpi", "basic\xa0YTpi", "Bearer x, Basic YTpi", "Basic", "Basic  YTpi", "Basic,YTpi"} {
		r, _ := http.NewRequest("GET", "/x", nil)
		r.Header.Set("Authorization", header)
		if one, _, err := table.Find(r, nil); err == nil {
			t.Errorf("%q passes, as %v", header, one)
		}
	}
	r, _ := http.NewRequest("GET", "/x", nil)
	r.Header["Authorization"] = []string{"Basic YTpi", "Basic YTpj"}
	if _, _, err := table.Find(r, nil); err == nil {
		t.Error("two headers pass: apps take the first, or the last")
	}
}

func TestALoginInAFolderIsFoundWhereItHides(t *testing.T) {
	t.Parallel()
	ofForms := mustCompile(t, Spec{Name: "login", Path: "/*", Account: "form:user[name]", Password: "form:user[pw]", Success: []string{"status 302"}})
	ofJSON := mustCompile(t, Spec{Name: "login", Path: "/*", Account: "json:/user/name", Password: "json:/user/pw", Success: []string{"status 302"}})
	const object, form = `{"user":{"name":"a","p\u0077":"b"}}`, "user[name]=a&user[pw]=b"
	ask := func(table Table, method, query, kind, body string) (one *Route, err error) {
		r, _ := http.NewRequest(method, "/x?"+query, nil)
		if kind != "" {
			r.Header.Set("Content-Type", kind)
		}
		if body != "" && !table.MayRead() {
			return nil, nil
		}
		one, _, err = table.Find(r, []byte(body))
		return one, err
	}
	for _, route := range []*Route{ofForms, ofJSON} {
		for _, sent := range [][4]string{
			{"POST", "", "text/plain", object}, {"POST", "", "", object}, {"POST", "", "application/vnd.api+json", "\ufeff" + object}, {"PUT", "", "application/json", object},
			{"PATCH", "", "", " [" + object}, {"PUT", form, "", ""}, {"GET", "user[name]=a&user[pw]=b", "", ""},
			{"PUT", "", "application/octet-stream", object}, {"POST", "", "image/png", object},
			{"POST", "", "application/json; charset=utf-16", object},
		} {
			if route == ofJSON && sent[1] != "" {
				continue
			}
			if one, err := ask(Table{route}, sent[0], sent[1], sent[2], sent[3]); err == nil {
				t.Errorf("%s, %q passes, as %v", route.account.name, sent, one)
			}
		}
		for _, sent := range [][4]string{
			{"POST", "", "text/plain", `{"name":"a"}`}, {"PUT", "", "", "pw and name"}, {"GET", "pw=1", "", ""},
			{"POST", "", "text/plain", "name pw"},
		} {
			if route == ofJSON && sent[0] == "POST" && sent[3][0] == '{' {
				continue // a type of JSON's own is asked for
			}
			if one, err := ask(Table{route}, sent[0], sent[1], sent[2], sent[3]); err != nil || one != nil {
				t.Errorf("%s, %q: %v, %v", route.account.name, sent, one, err)
			}
		}
	}
	if one, err := ask(Table{ofForms}, "POST", "", "application/json", object); err == nil {
		t.Errorf("JSON passes, as %v", one)
	}
	if one, err := ask(Table{ofForms, ofJSON}, "POST", "", "application/json", object); err != nil && one != ofJSON {
		t.Errorf("two routes: %v, %v", one, err)
	}
	pad := strings.Repeat("x", 3*longestName)
	for body, passes := range map[string]bool{
		`{"name":"` + pad + `","p\u0077":"b"}`: false, `{"name":1,"a":"` + pad + `\"","pw":"` + pad: false,
		strings.Repeat(" ", 3*longestName) + `{"pw" :1,"name":2}`: false,
		`{"name":"` + pad + `\"pw\"","b":"pw2"}`:                  true, pad + `"pw":1,"name":1`: true,
	} {
		r := posted("application/vnd+json", body)
		got, err := io.ReadAll(Table{ofForms}.Watch(r, strings.NewReader(body)))
		if (err == nil) != passes || passes && string(got) != body {
			t.Errorf("%.60q…: %d bytes, %v", body, len(got), err)
		}
	}
}

func TestAFieldIsInUTF8WhateverItsPartSays(t *testing.T) {
	t.Parallel()
	for head, passes := range map[string]bool{
		"Content-Type: text/plain": true, "Content-Type: text/plain; charset=UTF-8": true, `Content-Type: text/plain; charset="utf-8"`: true,
		"Content-Type: text/plain; charset=utf-7": false, "Content-Type: text/plain; charset=utf-8x": false, "Content-Type: text/plain; charset='ibm037'": false, "Content-Type: text/plain; charset=": false,
	} {
		body := "--XyZ\r\nContent-Disposition: form-data; name=\"u\"\r\n" + head + "\r\n\r\nalice\r\n--XyZ--\r\n"
		if _, _, err := wiki(t).Find(posted(ofParts, body), []byte(body)); (err == nil) != passes {
			t.Errorf("%s: %v", head, err)
		}
	}
	body := "--XyZ\r\nContent-Disposition: form-data; name=\"_charset_\"\r\n\r\nutf-7\r\n--XyZ\r\nContent-Disposition: form-data; name=\"u\"\r\n\r\nalice\r\n--XyZ--\r\n"
	if _, _, err := wiki(t).Find(posted(ofParts, body), []byte(body)); err == nil {
		t.Error("_charset_ passes")
	}
}

func TestOfTwoCookiesTheLastCounts(t *testing.T) {
	t.Parallel()
	r := mustCompile(t, Spec{Name: "login", Path: "/login", Account: "form:u", Success: []string{"cookie sid"}})
	for lines, want := range map[string]Verdict{
		"sid=x; Path=/":                           Succeeded,
		"sid=x; Path=/, sid=; Max-Age=0":          Failed,
		"sid=; Max-Age=0, sid=x; Path=/":          Succeeded,
		"sid=x; Path=/, sid=; Path=/a; Max-Age=0": Succeeded,
		"sid=deleted; Max-Age=0":                  Failed,
	} {
		if got := r.Judge(Answer{Status: 200, Header: http.Header{"Set-Cookie": strings.Split(lines, ", ")}, Whole: true}); got != want {
			t.Errorf("%s is %v", lines, got)
		}
	}
}

// nginx's location /admin and lighttpd's auth.require hold for /adminx, too.
func TestAFolderForBasicHasAllPathsThatBeginWithIt(t *testing.T) {
	t.Parallel()
	for account, want := range map[string]bool{"basic": true, "form:username": false} {
		s := Spec{Name: "login", Path: "/admin/*", Account: account, Success: []string{"status 200"}}
		if account != "basic" {
			s.Password = "form:password"
		}
		table := Table{mustCompile(t, s)}
		for path, sibling := range map[string]bool{"/adminx": true, "/admin-": true, "/ADMINX/y": true, "/index.php/admin-api": true, "/admin.x/y": true} {
			if at, where := table.At(path); (where == Here) != want || want && at[0].Sibling != sibling {
				t.Errorf("%s, %s: %v", account, path, where)
			}
		}
		for _, path := range []string{"/admin", "/admin/x", "/admin.json", "/admin/../admin/x", "/index.php/admin/x"} {
			if at, _ := table.At(path); len(at) > 0 && at[0].Sibling {
				t.Errorf("%s, %s is a sibling", account, path)
			}
		}
		other := mustCompile(t, Spec{Name: "other", Path: "/admin2/*", Account: "basic", Success: []string{"status 200"}})
		for path, want := range map[string]string{"/admin2/x": "other login", "/admin2": "other login", "/admin/x": "login", "/admin23": "other login"} {
			var names []string
			at, _ := append(table, other).At(path)
			for _, r := range at {
				names = append(names, r.Name)
			}
			if got := strings.Join(names, " "); account == "basic" && got != want {
				t.Errorf("%s: %s, want %s", path, got, want)
			}
		}
		if _, where := table.At("/other"); where != Elsewhere {
			t.Errorf("%s: /other is %v", account, where)
		}
	}
}

// Below the path of one login, the folder of another one comes second.
func TestTheLongestRouteComesFirstBelowItsPathToo(t *testing.T) {
	t.Parallel()
	users, admins := loginAt(t, "/app/*"), loginAt(t, "/app/admin/login")
	for path, want := range map[string]int{"/app/admin/login": 16, "/app/admin/login/x": 16, "/app/admin/logins": 16, "/app/x": 4} {
		if at, _ := (Table{users, admins}).At(path); len(at) == 0 || len(at[0].path.written) != want {
			t.Errorf("%s: %d routes", path, len(at))
		}
	}
}

// A router in PHP serves / for /x:80. So a login at / is there, too, and nothing else.
func TestAPathThatPHPDoesNotFindIsTheRoot(t *testing.T) {
	t.Parallel()
	root := Table{loginAt(t, "/")}
	folder := Table{loginAt(t, "/app/*")}
	for path, want := range map[string]bool{"/x:80": true, "/x%3A80": true, "///a/b": true, `//!\x`: true, "/%2f%2fa/b": true, "/a//b": false, "/a/b:1/c": true, "/x:a": false, "/x:123456": false, "/a:b:80": false} {
		if at, where := root.At(path); (where == Here) != want || (len(at) == 1) != want {
			t.Errorf("%s: %v, %d routes", path, where, len(at))
		}
	}
	at, _ := root.At("/x:80")
	for body, want := range map[string]bool{"username=alice&password=x": true, "a=b": false} {
		if found, _, err := at.Find(posted(ofPairs, body), []byte(body)); err != nil || (found != nil) != want {
			t.Errorf("%s: %v %v", body, found, err)
		}
	}
	for path, want := range map[string]Place{"/app/room:5": Here, "/-/user/org.couchdb.user:1234": Elsewhere} {
		if _, where := folder.At(path); where != want {
			t.Errorf("%s: %v", path, where)
		}
	}
}
