//go:build apps

package main

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"authguard/internal/learn"
	"authguard/internal/testing/appstest"
	"authguard/internal/testing/redistest"
)

// A guest is an application that turns a signed-in visitor away from its login without
// checking the password.
type guest struct {
	start          func(testing.TB) *appstest.App
	page           string // with the form
	user, password string // its fields
	token          string // its token's; empty: it has none
	at             string // behind an account's name
	routes         string // without these they are learned
}

var guests = map[string]guest{
	"Django by preset": {start: appstest.DjangoGuest(true), page: "/accounts/login/", user: "username", password: "password", token: djangoToken, routes: "preset: django"},
	"Django by learn":  {start: appstest.DjangoGuest(false), page: "/accounts/login/", user: "username", password: "password", token: djangoToken},
	"Flask-Login":      {start: appstest.Flask, page: "/login", user: "username", password: "password"},
	"Devise":           {start: appstest.Devise, page: "/users/sign_in", user: "user[email]", password: "user[password]", token: "authenticity_token", at: "@example.org"},
	"Laravel's rule":   {start: appstest.Guest, page: "/login", user: "username", password: "password", token: "_token"},
	"one token":        {start: appstest.Guest, page: "/single/login", user: "username", password: "password", token: "_token"},
}

const djangoToken = "csrfmiddlewaretoken"

// fill gets the login's page, and fills in its form.
func (g guest) fill(t *testing.T, p *person, base, user, password string) url.Values {
	t.Helper()
	form := url.Values{g.user: {user + g.at}, g.password: {password}}
	if page := p.get(t, base+g.page); g.token != "" {
		if value := matched(page.body, `name="`+g.token+`" value="([^"]*)`); value != "" {
			form.Set(g.token, value)
		}
	}
	return form
}

func (g guest) post(t *testing.T, p *person, base string, form url.Values) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+g.page, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", formType)
	r.Header.Set("Referer", base+g.page)
	return p.do(t, r)
}

// learned is the routes that learn proposes after two logins.
func (g guest) learned(t *testing.T, app string) string {
	t.Helper()
	base, said, specs := learning(t, app)
	for _, password := range []string{"wrong in the browser", appstest.Password} {
		p := from("127.0.0.1")
		g.post(t, p, base, g.fill(t, p, base, appstest.User, password))
	}
	select {
	case spec := <-specs:
		return "routes:\n" + learn.YAML(spec)
	case <-t.Context().Done():
		t.Fatalf("nothing is proposed:\n%s", said)
	}
	return ""
}

// mallory signs in with an account of her own, and guesses alice's password with that
// session: the application checks none of them, no success is recorded, and no client of
// mallory's becomes a known one. Alice signs in from a browser with old cookies.
func TestAppsASessionProvesNoPassword(t *testing.T) {
	for name, g := range guests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			app := g.start(t)
			routes := g.routes
			if routes == "" {
				routes = g.learned(t, app.URL)
			}
			t.Log(routes)
			s := newServer(t, "proxy:\n  upstream: "+app.URL+"\n  "+routes+"\n"+noDelay+quiet)
			mallory := from("127.0.0.1")
			guess := g.fill(t, mallory, s.base, "mallory", appstest.Password)
			if a := g.post(t, mallory, s.base, guess); a.status != http.StatusFound {
				t.Fatalf("mallory: %d %v", a.status, a.header)
			}
			redistest.Until(t, "mallory's success", func() bool { return successes(s, "mallory"+g.at) == 1 })
			for name, value := range g.fill(t, mallory, s.base, "alice", "guess") { // with a token of the session, where one is shown
				guess[name] = value
			}
			if value := mallory.jar["csrftoken"]; g.token == djangoToken && value != "" {
				guess.Set(g.token, value) // Django takes the cookie's: no page shows a form to mallory
			}
			before := len(app.GuessesOf(t, appstest.User+g.at))
			mallory.http.Transport = from("127.77.0.1").http.Transport
			for i := range 30 {
				guess.Set(g.password, fmt.Sprint("guess ", i))
				if a := g.post(t, mallory, s.base, guess); a.status < 400 && a.status != http.StatusOK || strings.Contains(fmt.Sprint(a.header), "authguard_device") {
					t.Fatalf("guess %d: %d %v", i, a.status, a.header)
				}
			}
			if n := len(app.GuessesOf(t, appstest.User+g.at)) - before; n > 0 {
				t.Errorf("the application has checked %d of mallory's guesses", n)
			}
			for i, password := range []string{"wrong", appstest.Password} {
				alice := from("127.78.0.1")
				alice.get(t, s.base+g.page) // the cookies of an earlier visit
				a := g.post(t, alice, s.base, g.fill(t, alice, s.base, appstest.User, password))
				if want := []int{http.StatusOK, http.StatusFound}[i]; a.status != want {
					t.Errorf("alice, %s: %d %v, want %d", password, a.status, a.header, want)
				}
			}
			redistest.Until(t, "alice's success", func() bool { return successes(s, appstest.User+g.at) > 0 })
			if n := successes(s, appstest.User+g.at); n != 1 { // of a guess, too: events keep their order
				t.Errorf("%d successes are recorded:\n%s", n, s.log)
			}
		})
	}
}

// successes are the logins to an account that the log says have succeeded.
func successes(s *server, account string) (n int) {
	for line := range strings.Lines(s.log.String()) {
		if strings.Contains(line, `msg="attempt succeeded"`) && strings.Contains(line, " account="+account+" ") {
			n++
		}
	}
	return n
}

// An API that answers a visitor who is signed in as after a right password.
func TestAppsASessionProvesNoPasswordToAnAPI(t *testing.T) {
	app := appstest.Flask(t)
	route := "  routes: [{name: login, path: /api/login, account: 'json:/username', password: 'json:/password', success: [status 200, json /ok true]%s}]\n"
	for name, signedIn := range map[string]string{"by a made-up password": "", "by a page": ", signed_in: [page /account, status 200]"} {
		s := newServer(t, "proxy:\n  upstream: "+app.URL+"\n"+fmt.Sprintf(route, signedIn)+noDelay+quiet)
		send := func(p *person, user, password string) answer {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.base+"/api/login", strings.NewReader(`{"username":"`+user+`","password":"`+password+`"}`))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/json")
			return p.do(t, r)
		}
		mallory := from("127.0.0.1")
		if a := send(mallory, "mallory", appstest.Password); a.status != http.StatusOK {
			t.Fatalf("%s: mallory: %d", name, a.status)
		}
		mallory.http.Transport = from("127.77.0.1").http.Transport
		for i := range 30 {
			if a := send(mallory, "alice", fmt.Sprint("guess ", i)); a.status < 400 || strings.Contains(fmt.Sprint(a.header), "authguard_device") {
				t.Fatalf("%s: guess %d: %d %v", name, i, a.status, a.header)
			}
		}
		alice := from("127.78.0.1")
		alice.jar["analytics"] = "1"
		if a := send(alice, "alice", appstest.Password); a.status != http.StatusOK || !strings.Contains(fmt.Sprint(a.header), "authguard_device") {
			t.Errorf("%s: alice: %d %v", name, a.status, a.header)
		}
	}
	if n := len(app.GuessesOf(t, "alice")); n != 5 { // alice's two, each confirmed by a made-up one, and one that asked before
		t.Errorf("the application has checked %d passwords of alice's, want 5", n)
	}
}
