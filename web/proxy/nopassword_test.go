package proxy_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"authguard/guard"
	"authguard/internal/route"
	"authguard/internal/testing/world"
	"authguard/web/proxy"
)

// A route need not name the password: then a session of the attacker's own proves none, either.
func TestWithoutAPasswordASessionProvesNoName(t *testing.T) {
	t.Parallel()
	for name, app := range map[string]*guestApp{
		"a page": {token: "none", renews: true}, "no page": {token: "none", alone: true, renews: true},
	} {
		for _, path := range []string{"/login", "/*"} {
			d := newDoor(t, redirects, nil)
			d.behind(t, guestRoute(func(s *route.Spec) { s.Path, s.Password = path, "" }), app.ServeHTTP)
			id := app.signedIn("mallory")
			for i, headers := range [][]string{{"Cookie", "session=" + id}, {"X-Session", id}} {
				if r := d.send(t, fmt.Sprintf("198.18.%d.1", i), form("username=alice&password=guess"), headers...); device(r) {
					t.Errorf("%s at %s, %s: %d %v", name, path, headers[0], r.StatusCode, r.Header)
				}
			}
			o := form("username=alice&password=" + url.QueryEscape(right))
			if r := d.send(t, "198.18.9.1", o, "Cookie", "session=of-last-week"); !device(r) {
				t.Errorf("%s at %s: the right password: %d %v", name, path, r.StatusCode, r.Header)
			}
		}
	}
}

// The session of another account beside the one that has passed the password: an app that reads it redirects without
// a look at the code.
func TestAnotherSessionProvesNoCode(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct{ path, method string }{
		"a single path": {"/code", ""}, "a folder": {"/code/*", ""}, "no page": {"/code/*", http.MethodPost},
	} {
		for _, own := range []string{"sid=of-mallory-0123456789", "other=of-mallory-0123456789", "X-Session"} {
			if one.method != "" && strings.HasPrefix(own, "other") {
				continue // no GET shows it
			}
			d, app := newTwoSteps(t)
			d.atCodes(t, app, one.path, func(w http.ResponseWriter, r *http.Request) bool {
				if one.method != "" && r.Method != one.method {
					w.WriteHeader(http.StatusMethodNotAllowed)
					return true
				}
				if r.Header.Get("X-Session") == "" && !strings.Contains(r.Header.Get("Cookie"), "of-mallory") {
					return false
				}
				w.Header().Set("Location", "/home")
				w.WriteHeader(http.StatusSeeOther)
				return true
			})
			from := world.Address(1)
			session := d.signIn(t, "alice", from, "")
			headers := []string{"Cookie", session + "; " + own}
			if own == "X-Session" {
				headers = []string{"Cookie", session, own, "of-mallory"}
			}
			if r := d.send(t, from, code("000000"), headers...); device(r) {
				t.Errorf("%s, %s: %d %v", name, own, r.StatusCode, r.Header)
			}
			session = d.signIn(t, "alice", from, "")
			if r := d.send(t, from, code(rightCode), "Cookie", "lang=en; "+session); !device(r) || r.StatusCode != http.StatusSeeOther {
				t.Errorf("%s: the right code: %d %v", name, r.StatusCode, r.Header)
			}
			if n, counted := app.checked("alice"), d.Used(t, "alice", world.Address(9), guard.OnAccount); n-1 > counted {
				t.Errorf("%s, %s: the app has checked %d codes, and %d count", name, own, n, counted)
			}
		}
	}
}

// atCodes puts the codes of an app at another path, and a handler before it there, which returns whether it has answered.
func (d *door) atCodes(t *testing.T, app http.Handler, path string, before func(http.ResponseWriter, *http.Request) bool) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/code" || !before(w, r) {
			app.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	one := proxy.App{Timeout: time.Minute, Patience: time.Minute, MaxBody: 4096}
	one.Upstream, _ = url.Parse(server.URL)
	for _, s := range []route.Spec{
		{Name: "login", Path: "/login", Account: "form:username", Password: "form:password",
			Success: []string{"status 303", "location /home"}, SecondFactor: []string{"status 303", "location /code"}},
		{Name: "login", Kind: route.SecondFactor, Path: path, Password: "form:otp",
			Success: []string{"status 303", "location /home"}},
	} {
		r, err := route.Compile(s)
		if err != nil {
			t.Fatal(err)
		}
		one.Routes = append(one.Routes, r)
	}
	d.proxy.Set(one)
}

// Nothing can be replaced in such a request, so a fake failure is a block: the app would accept a right code.
func TestWithoutAPasswordAFakeFailureIsABlock(t *testing.T) {
	t.Parallel()
	app := &guestApp{token: "none", alone: true, renews: true}
	d, reached := newDoor(t, redirects, nil), 0
	d.behind(t, guestRoute(func(s *route.Spec) { s.Path, s.Password = "/login", "" }), func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			reached++
		}
		app.ServeHTTP(w, r)
	})
	p := d.Policy()
	p.Account = []guard.Limit{{Failures: 1, Window: time.Hour, Action: guard.FakeFailure}}
	if err := d.SetPolicy(p); err != nil {
		t.Fatal(err)
	}
	d.send(t, "203.0.113.8", form("username=alice&password=wrong"))
	before := reached
	for i, password := range []string{right, "wrong"} {
		r := d.send(t, fmt.Sprintf("203.0.113.%d", 9+i), form("username=alice&password="+url.QueryEscape(password)))
		if r.StatusCode != http.StatusTooManyRequests || reached != before {
			t.Errorf("%s: %d, the app was reached %d times", password, r.StatusCode, reached-before)
		}
	}
}
