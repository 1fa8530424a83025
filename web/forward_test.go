package web_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"authguard/guard"
	"authguard/internal/route"
	"authguard/web"
	"authguard/web/client"
)

// A gateway asks a house about its clients' requests, as a peer that is believed.
type gateway struct {
	*house
	login  *web.Login
	access atomic.Pointer[route.AccessRules]
}

func newGateway(t *testing.T, origin, domain string, rules ...route.AccessRule) *gateway {
	t.Helper()
	g := &gateway{house: newHouse(t)}
	g.login = g.house.login("login", g.gate, g.checker)
	g.login.Edge.Set([]netip.Prefix{prefix("10.0.0.1/32")}, client.XForwardedFor)
	g.login.Origin, g.login.Sessions.Domain, g.login.Access = origin, domain, &g.access
	all, err := route.CompileAccess(rules)
	if err != nil {
		t.Fatal(err)
	}
	g.access.Store(&all)
	g.Handler = (&web.Public{Login: g.login, API: g.api, Challenges: g.Challenges, Look: g.look, Origin: origin, Log: quiet}).Handler()
	g.people.change(func() {
		alice := g.people.all["alice"]
		alice.Email, alice.Groups = "alice@example.org", []string{"editors", "staff"}
		g.people.all["alice"] = alice
	})
	return g
}

// ask sends a request with these headers from the gateway, or from peer if one is among
// them.
func (g *gateway) ask(path string, cookie *http.Cookie, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", path, nil)
	r.RemoteAddr, r.Host = "10.0.0.1:1", "app.example.org"
	r.Header.Set("Accept", page)
	for i := 0; i < len(headers); i += 2 {
		switch headers[i] {
		case "peer":
			r.RemoteAddr = headers[i+1]
		case "Host":
			r.Host = headers[i+1]
		case "Accept":
			r.Header.Set("Accept", headers[i+1])
		default:
			r.Header.Add(headers[i], headers[i+1])
		}
	}
	if cookie != nil {
		r.AddCookie(cookie)
	}
	w := httptest.NewRecorder()
	g.ServeHTTP(w, r)
	return w
}

// signIn is alice's cookie, and where she was sent.
func (g *gateway) signIn(t *testing.T, path, next string) (*http.Cookie, string) {
	t.Helper()
	b := g.browser(page)
	w := b.post(path, "username", "alice", "password", right, "next", next)
	for _, c := range w.Result().Cookies() {
		if strings.HasSuffix(c.Name, "authguard_login") {
			return c, w.Header().Get("Location")
		}
	}
	t.Fatalf("no session: %d %s", w.Code, w.Body)
	return nil, ""
}

func TestBrowsersComeBackToTheWholeAddress(t *testing.T) {
	t.Parallel()
	alone, shared := newGateway(t, "", ""), newGateway(t, "https://login.example.org", "example.org")
	plain := newGateway(t, "http://login.example.org:8000", "example.org")
	for _, uri := range []string{
		"/shop", "/shop?x=1&y=2", "/a%26b?c=%26d&e=f%3Dg", "/?q=a+b%20c", "/%E2%82%AC/ü?q=ü", "/x?next=//evil.example/%2e%2e", "/x?a[]=1&b='\"<>|", "/x?q=100%", `/x?back\slash`, "/a;b=c/d?e;f",
	} {
		want := strings.NewReplacer("ü", "%C3%BC", `\`, "%5C").Replace(uri)
		for _, one := range []struct {
			g               *gateway
			at, back, proto string
		}{{alone, "", "", "https"}, {shared, "https://login.example.org", "https://app.example.org", "https"}, {plain, "http://login.example.org:8000", "http://app.example.org:8000", "http"}} {
			host := "app.example.org"
			if one.g == plain {
				host += ":8000"
			}
			for _, headers := range [][]string{
				{"X-Forwarded-Uri", uri, "X-Forwarded-Method", "GET", "X-Forwarded-Host", host, "X-Forwarded-Proto", one.proto},
				{"X-Forwarded-Uri", uri, "X-Forwarded-Proto", one.proto},
			} {
				w := one.g.ask("/auth/verify", nil, append(headers, "Host", host)...)
				to, err := url.Parse(w.Header().Get("Location"))
				if err != nil || w.Code != http.StatusSeeOther || !strings.HasPrefix(w.Header().Get("Location"), one.at+"/.authguard/login?next=") {
					t.Fatalf("%s: %d %v", uri, w.Code, w.Header())
				}
				if w.Header().Get("Cache-Control") != "no-store" {
					t.Errorf("a redirect may be kept: %v", w.Header())
				}
				next := to.Query().Get("next")
				if _, back := one.g.signIn(t, "/.authguard/login", next); back != one.back+want {
					t.Errorf("%s: back at %q, want %q", uri, back, one.back+want)
				}
			}
			// nginx shows our status alone, and asks again for what to tell its client.
			nginx := []string{"X-Original-URL", one.proto + "://" + host + uri, "X-Original-Method", "GET", "X-Forwarded-Proto", one.proto, "Host", host}
			if w := one.g.ask("/auth/verify", nil, nginx...); w.Code != http.StatusUnauthorized || !strings.Contains(w.Body.String(), "/.authguard/login?next=") {
				t.Errorf("%s: %d %s", uri, w.Code, w.Body)
			}
			if w := one.g.ask("/auth/denied", nil, nginx...); w.Code != http.StatusSeeOther || !strings.HasPrefix(w.Header().Get("Location"), one.at+"/.authguard/login?next=") {
				t.Errorf("%s: %d %v", uri, w.Code, w.Header())
			}
		}
	}
	// nginx' X-Original-URL alone says that the client came over TLS.
	if got := shared.ask("/auth/denied", nil, "X-Original-URL", "https://app.example.org/x").Header().Get("Location"); got != "https://login.example.org/.authguard/login?next=https%3A%2F%2Fapp.example.org%2Fx" {
		t.Errorf("nginx' client is sent to %q", got)
	}
	// Traefik asks at our own address, against which it reads a path.
	w := alone.ask("/auth/verify", nil, "Host", "127.0.0.1:8080", "X-Forwarded-Host", "app.example.org", "X-Forwarded-Uri", "/x", "X-Forwarded-Proto", "https")
	if got := w.Header().Get("Location"); got != "https://app.example.org/.authguard/login?next=%2Fx" {
		t.Errorf("Traefik's client is sent to %q", got)
	}
	for uri, want := range map[string]string{
		"/x?q=" + strings.Repeat("%26", 2000):   "?next=%2Fx",
		"/" + strings.Repeat("%26", 2000):       "",
		"//evil.example/":                       "",
		"/x?q=" + strings.Repeat("a", 2700):     "?next=%2Fx%3Fq%3D" + strings.Repeat("a", 2700),
		"/x?q=" + strings.Repeat("a", 16<<10-9): "?next=%2Fx",
	} {
		w := alone.ask("/auth/verify", nil, "X-Forwarded-Uri", uri)
		if got := w.Header().Get("Location"); got != "/.authguard/login"+want {
			t.Errorf("%.40s: %.80q", uri, got)
		}
	}
}

func TestScriptsGetAProblemAndNobodyABlankPage(t *testing.T) {
	t.Parallel()
	g := newGateway(t, "", "", route.AccessRule{Paths: []string{"/admin/*"}, Groups: []string{"admins"}}, route.AccessRule{Paths: []string{"/old/*"}, Allow: route.AllowNone})
	in, _ := g.signIn(t, "/login", "")
	for _, one := range []struct {
		what, path, uri string
		cookie          *http.Cookie
		headers         []string
		status          int
		kind, says      string
	}{
		{"a script", "/auth/verify", "/x?a&b", nil, []string{"Accept", "application/json"}, 401, "application/problem+json", `"login-required"`},
		{"curl", "/auth/verify", "/x", nil, []string{"Accept", "*/*"}, 401, "application/problem+json", `"login":"/.authguard/login?next=%2Fx"`},
		{"nothing", "/auth/verify", "/x", nil, []string{"Accept", ""}, 401, "application/problem+json", `"login-required"`},
		{"XHR", "/auth/verify", "/x", nil, []string{"X-Requested-With", "XMLHttpRequest"}, 401, "application/problem+json", `"login-required"`},
		{"fetch", "/auth/verify", "/x", nil, []string{"Sec-Fetch-Mode", "cors"}, 401, "application/problem+json", `"login-required"`},
		{"a websocket", "/auth/verify", "/x", nil, []string{"Accept", "", "Upgrade", "websocket", "Sec-Fetch-Mode", "websocket"}, 401, "application/problem+json", `"login-required"`},
		{"a script at nginx", "/auth/denied", "/x", nil, []string{"Accept", "application/json"}, 401, "application/problem+json", `"login-required"`},
		{"a browser", "/auth/verify", "/x", nil, []string{"Sec-Fetch-Mode", "navigate"}, 303, "", ""},
		{"nobody says for what", "/auth/verify", "", nil, nil, 403, "text/html; charset=UTF-8", "Access to this page is denied for all accounts"},
		{"HEAD", "/auth/verify", "/x", nil, []string{"Accept", "*/*", "X-Forwarded-Method", "HEAD"}, 401, "", ""},
		{"another group", "/auth/verify", "/admin/x", in, nil, 403, "text/html; charset=UTF-8", "Your account is not allowed to open this page"},
		{"another group's script", "/auth/verify", "/admin/x", in, []string{"Accept", "application/json"}, 403, "application/problem+json", `"not-permitted"`},
		{"another group at nginx", "/auth/denied", "/admin/x", in, nil, 403, "text/html; charset=UTF-8", `href="/.authguard/static/authguard.css"`},
		{"nobody", "/auth/verify", "/old", in, nil, 403, "text/html; charset=UTF-8", "not allowed to open this page"},
		{"nobody, a stranger", "/auth/verify", "/old", nil, nil, 403, "text/html; charset=UTF-8", "Access to this page is denied for all accounts"},
		{"by now it may", "/auth/denied", "/x", in, nil, 303, "", ""},
		{"two gateways", "/auth/verify", "/x", in, []string{"X-Original-URL", "http://app.example.org/y"}, 400, "text/html; charset=UTF-8", "Invalid request"},
	} {
		headers := one.headers
		if one.uri != "" {
			headers = append(headers, "X-Forwarded-Uri", one.uri)
		}
		w := g.ask(one.path, one.cookie, headers...)
		if w.Code != one.status || w.Header().Get("Content-Type") != one.kind || !strings.Contains(w.Body.String(), one.says) {
			t.Errorf("%s: %d %s\n%s", one.what, w.Code, w.Header().Get("Content-Type"), w.Body)
		}
		if w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s may be kept", one.what)
		}
		if strings.Contains(one.kind, "json") && !json.Valid(w.Body.Bytes()) {
			t.Errorf("%s: %s", one.what, w.Body)
		}
	}
	if got := g.ask("/auth/denied", in, "X-Original-URL", "http://app.example.org//evil.example/x").Header().Get("Location"); got != "/" {
		t.Errorf("by now it may, and leads to %q", got)
	}
	page := g.ask("/auth/verify", in, "X-Forwarded-Uri", "/admin/<x>?token=secret", "X-Forwarded-Host", "app.example.org").Body.String()
	if !strings.Contains(page, "signed in as <strong>") || !strings.Contains(page, "app.example.org/admin/&lt;x&gt;<") || strings.Contains(page, "token=secret<") {
		t.Errorf("the page does not say who asked for what:\n%s", page)
	}
	g.sessions.fail = errors.New("the disk is gone")
	if w := g.ask("/auth/verify", in, "X-Forwarded-Uri", "/x"); w.Code != 503 || w.Header().Get("Retry-After") != "1" || !strings.Contains(w.Body.String(), "The server is busy") {
		t.Errorf("without sessions: %d %v %s", w.Code, w.Header(), w.Body)
	}
}

// R9: who is no configured proxy says nothing, and one that says two things is asked
// again.
func TestR9WhatIsAskedForIsSaidByConfiguredProxiesAlone(t *testing.T) {
	t.Parallel()
	g := newGateway(t, "https://login.example.org", "example.org",
		route.AccessRule{Hosts: []string{"app.example.org"}, Paths: []string{"/public/*"}, Allow: route.AllowAnyone},
		route.AccessRule{Paths: []string{"/admin/*"}, Groups: []string{"admins"}})
	in, _ := g.signIn(t, "/login", "")
	stranger := []string{"peer", "192.0.2.9:1"}
	for _, one := range []struct {
		what    string
		cookie  *http.Cookie
		headers []string
		want    int
	}{
		{"public", nil, []string{"X-Forwarded-Uri", "/public/x?y"}, 200},
		{"public at nginx", nil, []string{"X-Original-URL", "https://app.example.org/public/x"}, 200},
		{"public at nginx, by its path", nil, []string{"X-Original-Uri", "/public/x"}, 200},
		{"a forged path", nil, append(stranger, "X-Forwarded-Uri", "/public/x", "X-Original-URL", "https://app.example.org/public/x"), 401},
		{"a forged path of somebody", in, append(stranger, "X-Forwarded-Uri", "/public/x"), 403},
		{"an unknown host", in, []string{"X-Forwarded-Uri", "/x", "X-Forwarded-Host", "unknown.example.org"}, 200},
		{"no host", in, []string{"X-Forwarded-Uri", "/x", "Host", ""}, 200},
		{"two ports", in, []string{"X-Forwarded-Uri", "/x", "X-Forwarded-Host", "app.example.org:1:2"}, 400},
		{"a bracket", in, []string{"X-Original-URL", "https://app.example.org:80]/x"}, 400},
		{"a bracket in our own host", in, []string{"X-Forwarded-Uri", "/x", "Host", "app.example.org:80]"}, 400},
		{"a dot", in, []string{"X-Forwarded-Uri", "/x", "Remote.User", "root"}, 400},
		{"a sign", in, []string{"X-Forwarded-Uri", "/public/x", "X!Y", "root"}, 400},
		{"an underscore", nil, []string{"X-Forwarded-Uri", "/public/x", "X_Forwarded_For", "127.0.0.1"}, 400},
		{"an account's name", in, []string{"X-Forwarded-Uri", "/public/x", "Remote-User", "root"}, 400},
		{"another of those", in, []string{"X-Forwarded-Uri", "/x", "Remote-Name", "root"}, 400},
		{"a proxy's user", in, []string{"X-Forwarded-Uri", "/x", "X-Forwarded-User", "root"}, 400},
		{"a user by another name", in, []string{"X-Forwarded-Uri", "/x", "X-Remote-User", "root"}, 400},
		{"an original host", in, []string{"X-Forwarded-Uri", "/x", "X-Original-Host", "admin.example.org"}, 400},
		{"a rewritten path", in, []string{"X-Forwarded-Uri", "/x", "X-Rewrite-Path", "/admin"}, 400},
		{"X-Forwarded alone", in, []string{"X-Forwarded-Uri", "/x", "X-Forwarded", "for=127.0.0.1"}, 400},
		{"another protocol", in, []string{"X-Forwarded-Uri", "/x", "X-Forwarded-Protocol", "https"}, 400},
		{"two hyphens", in, []string{"X-Forwarded-Uri", "/x", "X--Forwarded-For", "127.0.0.1"}, 400},
		{"NUL in a path", in, []string{"X-Forwarded-Uri", "/x%00"}, 400},
		{"IIS' escapes", in, []string{"X-Forwarded-Uri", "/%u0061dmin/x"}, 400},
		{"a broken escape", in, []string{"X-Forwarded-Uri", "/100%"}, 400},
		{"an escaped percent sign", in, []string{"X-Forwarded-Uri", "/100%25unicode"}, 200},
		{"overlong", in, []string{"X-Forwarded-Uri", "/x/..%c0%afadmin/x"}, 400},
		{"overlong, raw", in, []string{"X-Forwarded-Uri", "/x/..\xc0\xafadmin/x"}, 400},
		{"overlong, in three bytes", in, []string{"X-Forwarded-Uri", "/x/..%E0%80%AFadmin/x"}, 400},
		{"UTF-8 and Latin-1", in, []string{"X-Forwarded-Uri", "/%C3%A4%E0%A4%85%F0%9F%98%80/%C0%DF%e9"}, 200},
		{"what gateways say", in, []string{"X-Forwarded-Uri", "/x", "X-Forwarded-Port", "443", "X-Forwarded-Server", "a", "X-Real-Ip", "192.0.2.1", "Cf-Connecting-Ip", "192.0.2.1"}, 200},
		{"another host", nil, []string{"X-Forwarded-Uri", "/public/x", "X-Forwarded-Host", "other.example.org"}, 303},
		{"a client's header beside Caddy's", in, []string{"X-Forwarded-Uri", "/admin/x", "X-Original-URL", "https://app.example.org/public/x"}, 400},
		{"a client's header beside nginx'", in, []string{"X-Original-URL", "https://app.example.org/admin/x", "X-Forwarded-Uri", "/public/x"}, 400},
		{"two paths", in, []string{"X-Forwarded-Uri", "/admin/x", "X-Forwarded-Uri", "/public/x"}, 400},
		{"the same twice", nil, []string{"X-Forwarded-Uri", "/public/x", "X-Original-URL", "https://app.example.org/public/x"}, 200},
		{"two hosts", in, []string{"X-Forwarded-Uri", "/x", "X-Forwarded-Host", "a.example.org", "X-Original-URL", "https://b.example.org/x"}, 400},
		{"a list of hosts", in, []string{"X-Forwarded-Uri", "/x", "X-Forwarded-Host", "a.example.org, b.example.org"}, 400},
		{"two methods", in, []string{"X-Forwarded-Uri", "/x", "X-Forwarded-Method", "GET", "X-Original-Method", "POST"}, 400},
		{"no path", in, []string{"X-Forwarded-Uri", "https://app.example.org/public/x"}, 400},
		{"a line end", in, []string{"X-Forwarded-Uri", "/public/x\r\nSet-Cookie: a=b"}, 400},
		{"a line end in the method", in, []string{"X-Forwarded-Uri", "/x", "X-Forwarded-Method", "GET\r\nX: y"}, 400},
		{"a line end in the host", in, []string{"X-Forwarded-Uri", "/x", "X-Forwarded-Host", "a\r\nX: y"}, 400},
		{"too long", in, []string{"X-Forwarded-Uri", "/" + strings.Repeat("x", 17<<10)}, 400},
		{"the group's path", in, []string{"X-Forwarded-Uri", "/admin/x"}, 403},
		{"the group's path, spelt", in, []string{"X-Forwarded-Uri", "/public/..%2fadmin/x"}, 403},
		{"anything else", in, []string{"X-Forwarded-Uri", "/x"}, 200},
	} {
		if w := g.ask("/auth/verify", one.cookie, one.headers...); w.Code != one.want {
			t.Errorf("%s: %d, want %d: %s", one.what, w.Code, one.want, w.Body)
		}
	}
}

// What makes another method of a request in some framework makes one of any method.
func TestARequestThatMayBeOfAnotherMethodOpensNothing(t *testing.T) {
	t.Parallel()
	g := newGateway(t, "", "", route.AccessRule{Methods: []string{"DELETE"}, Groups: []string{"admins"}}, route.AccessRule{Methods: []string{"GET", "POST"}, Allow: route.AllowAnyone})
	ask := func(method, uri string, headers ...string) int {
		return g.ask("/auth/verify", nil, append(headers, "Accept", "*/*", "X-Forwarded-Uri", uri, "X-Forwarded-Method", method)...).Code
	}
	for _, header := range []string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override"} {
		if got := ask("POST", "/x", header, "DELETE"); got != http.StatusUnauthorized {
			t.Errorf("%s: %d", header, got)
		}
		// PHP and Node take the second line, too.
		if got := ask("POST", "/x", header, "", header, "DELETE"); got != http.StatusUnauthorized {
			t.Errorf("%s behind an empty one: %d", header, got)
		}
	}
	for uri, want := range map[string]int{
		"/x": 200, "/x?method=DELETE&payment_method=card&a=_method": 200, "/x?_methods=1": 200,
		"/x?_method=DELETE": 401, "/x?a&_METHOD=DELETE": 401, "/x?%5fmethod=delete": 401, "/x?+.method=DELETE": 401, "/x?a=%zz&_method=DELETE": 401, "/x?a;_method=DELETE": 401,
		"/x?_method[]=DELETE": 401, "/x?_method%00=DELETE": 400, "/x?a=%00": 400, "/x?_method%2500=DELETE": 401,
		"/x?%255fmethod=DELETE":   401,
		"/x?_method%C2%AD=DELETE": 401, "/x?[_method]=DELETE": 401, "/x?%EF%BC%BFmethod=DELETE": 401,
		"/x?%0A_method=DELETE": 401, "/x??_method=DELETE": 401, "/x???_method=DELETE": 401,
	} {
		if got := ask("POST", uri); got != want {
			t.Errorf("%s: %d, want %d", uri, got, want)
		}
	}
	if got := ask("delete", "/x"); got != http.StatusUnauthorized {
		t.Errorf("delete: %d", got)
	}
}

func TestTheAppIsToldWhoItIsAndNothingThatBreaksAHeader(t *testing.T) {
	t.Parallel()
	g := newGateway(t, "", "", route.AccessRule{Paths: []string{"/public/*"}, Allow: route.AllowAnyone})
	in, _ := g.signIn(t, "/login", "")
	told := func(cookie *http.Cookie, uri string) string {
		w := g.ask("/auth/verify", cookie, "X-Forwarded-Uri", uri)
		if w.Code != http.StatusOK || w.Body.Len() > 0 {
			t.Errorf("%s: %d", uri, w.Code)
		}
		var all []string
		for _, name := range []string{"Remote-User", "Remote-Groups", "Remote-Email"} {
			if len(w.Header()[name]) != 1 {
				t.Errorf("%s: %v", name, w.Header()[name]) // what is not set, a gateway leaves as it came
			}
			all = append(all, w.Header()[name]...)
		}
		return strings.Join(all, "|")
	}
	if got := told(in, "/x"); got != "alice|editors,staff|alice@example.org" {
		t.Error(got)
	}
	if got := told(in, "/public/x"); got != "alice|editors,staff|alice@example.org" {
		t.Error(got)
	}
	if got := told(nil, "/public/x"); got != "||" {
		t.Error(got)
	}
	g.people.change(func() {
		alice := g.people.all["alice"]
		alice.Email, alice.Groups = "a\r\nRemote-User: root", []string{"a\nb"}
		g.people.all["alice"] = alice
	})
	if got := told(in, "/x"); got != "alice||" {
		t.Error(got)
	}
	g.sessions.fail = errors.New("the disk is gone")
	if got := told(in, "/public/x"); got != "||" {
		t.Errorf("a public address without sessions: %s", got)
	}
}

func TestOneLoginIsGoodBelowTheDomainAndItsEndToo(t *testing.T) {
	t.Parallel()
	g := newGateway(t, "https://login.example.org", "example.org")
	g.login.Secure, g.login.Sessions.Secure = web.SecureAlways, web.SecureAlways
	in, back := g.signIn(t, "/login", "https://app.example.org/x?a=b&c=d")
	if in.Name != "__Secure-authguard_login" || in.Domain != "example.org" || !in.Secure || !in.HttpOnly || in.Path != "/" || in.SameSite != http.SameSiteLaxMode {
		t.Errorf("%v", in)
	}
	if back != "https://app.example.org/x?a=b&c=d" {
		t.Errorf("back at %q", back)
	}
	for _, name := range []string{"authguard_login", "__Host-authguard_login"} {
		planted := *in
		planted.Name = name
		if w := g.ask("/auth/verify", &planted, "X-Forwarded-Uri", "/x"); w.Code != http.StatusSeeOther {
			t.Errorf("planted as %s: %d", name, w.Code)
		}
	}
	r := httptest.NewRequest("POST", "/.authguard/logout", nil)
	r.Host, r.RemoteAddr = "app.example.org", "192.0.2.1:1"
	r.AddCookie(&http.Cookie{Name: in.Name, Value: in.Value})
	for origin, want := range map[string]int{"https://evil.example.org": http.StatusForbidden, "https://app.example.org": http.StatusSeeOther} {
		r.Header.Set("Origin", origin)
		w := httptest.NewRecorder()
		g.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("a form of %s: %d", origin, w.Code)
		}
		if want != http.StatusSeeOther {
			continue
		}
		out := w.Result().Cookies()
		if len(out) != 1 || out[0].Name != in.Name || out[0].Domain != "example.org" || out[0].Value != "" || w.Header().Get("Location") != "/.authguard/login?signed-out=1" {
			t.Errorf("%v %v", out, w.Header())
		}
	}
	if w := g.ask("/auth/verify", in, "X-Forwarded-Uri", "/x", "Host", "other.example.org"); w.Code != http.StatusSeeOther {
		t.Errorf("after logging out: %d", w.Code)
	}
	b := g.browser(page)
	for next, want := range map[string]string{
		"":                          "form-action 'self';",
		"/x":                        "form-action 'self';",
		"https://app.example.org/x": "form-action 'self' https://example.org https://*.example.org;",
		"https://evil.example/x":    "form-action 'self';",
	} {
		if got := b.get("/login?next=" + url.QueryEscape(next)).Header().Get("Content-Security-Policy"); !strings.Contains(got, want) {
			t.Errorf("%s: %s", next, got)
		}
	}
}

func TestEverythingOfOursIsBelowTheAppsHostToo(t *testing.T) {
	t.Parallel()
	g := newGateway(t, "", "")
	g.Force(t)
	b := g.browser(page)
	w := b.get("/.authguard/login?next=%2Fx")
	want(t, w, http.StatusOK, `action="/.authguard/login"`, `href="/.authguard/static/authguard.css"`, `src="/.authguard/captcha/`)
	want(t, b.get("/.authguard/static/authguard.css"), http.StatusOK)
	want(t, b.get("/.authguard/login/code"), http.StatusOK)
	want(t, b.get("/.authguard/../x"), http.StatusNotFound)
	want(t, b.get("/.authguardx/login"), http.StatusNotFound)
	want(t, b.get("/.authguard/auth/verify"), http.StatusNotFound) // the gateways' and back ends' own are not
	want(t, b.get("/.authguard/v1/attempts"), http.StatusNotFound)
	if to := b.get("/.authguard/").Header().Get("Location"); to != "/.authguard/login" {
		t.Errorf("its root leads to %q", to)
	}
	script := g.browser("application/json")
	var said struct{ Challenge struct{ Image, Audio string } }
	if err := json.Unmarshal(script.post("/.authguard/login", "username", "alice", "password", right).Body.Bytes(), &said); err != nil || !strings.HasPrefix(said.Challenge.Image, "/.authguard/captcha/") {
		t.Errorf("%+v %v", said, err)
	}
	want(t, script.get(said.Challenge.Image), http.StatusOK)
}

func TestAnEdgeLearnsWhatAnAddressIsWorth(t *testing.T) {
	t.Parallel()
	g := newGateway(t, "", "")
	ask := func(address string) string {
		w := g.ask("/auth/address", nil, "X-Forwarded-For", address)
		return http.StatusText(w.Code) + " " + w.Header().Get("Authguard-Address") + " " + w.Header().Get("Retry-After")
	}
	for range 3 { // nothing is charged
		for range 30 {
			if got := ask("192.0.2.7"); got != "No Content free " {
				t.Fatal(got)
			}
		}
	}
	for i := range 10 {
		b := g.browser("application/json")
		b.from = "192.0.2.7"
		b.login(fmt.Sprint("nobody", i), "wrong")
	}
	if got := ask("192.0.2.7"); got != "No Content challenge " {
		t.Error(got)
	}
	g.Lists.Set([]guard.Listing{{Prefix: prefix("192.0.2.8/32"), Verdict: guard.Blocked}, {Prefix: prefix("192.0.2.7/32"), Verdict: guard.Allowed}})
	if got := ask("192.0.2.8"); got != "Forbidden blocked 86400" {
		t.Error(got)
	}
	if got := ask("192.0.2.7"); got != "No Content free " {
		t.Error(got)
	}
	if w := g.ask("/auth/address", nil, "X-Forwarded-For", "192.0.2.8"); !strings.Contains(w.Body.String(), "has blocked this network") {
		t.Errorf("somebody who is blocked sees %s", w.Body)
	}
	if w := g.ask("/auth/address", nil, "peer", "192.0.2.9:1", "X-Forwarded-For", "192.0.2.8"); w.Code != http.StatusNoContent {
		t.Errorf("a forged address: %d", w.Code)
	}
}
