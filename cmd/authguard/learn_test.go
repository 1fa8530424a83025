package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"authguard/internal/learn"
	"authguard/internal/testing/redistest"
)

// A said keeps what a learner says.
type heard struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (h *heard) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.b.Write(p)
}

func (h *heard) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.b.String()
}

// learning starts a learner before an app. What it finds is sent, and then what it
// has said.
func learning(t *testing.T, app string) (base string, said *heard, found <-chan learn.Proposal) {
	t.Helper()
	upstream, err := url.Parse(app)
	if err != nil {
		t.Fatal(err)
	}
	said = new(heard)
	l := newLearner(upstream, said)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done, specs := make(chan struct{}), make(chan learn.Proposal, 1)
	go func() {
		defer close(done)
		if s, err := l.run(ctx, "127.0.0.1:0"); err == nil {
			specs <- s
		}
	}()
	t.Cleanup(func() { stop(); <-done })
	redistest.Until(t, "the learner to listen", func() bool {
		m := regexp.MustCompile(`http://[\d.:]+`).FindString(said.String())
		base = m
		return m != ""
	})
	return base, said, specs
}

const secretTyped = "s3cret-of-mine"

// An app with a login of any kind. The form is at /login.
func anApp(answer func(w http.ResponseWriter, ok bool)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && r.Header.Get("Authorization") == "" && r.URL.Path == "/login" {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, `<form method=post><input name=who><input name=k type=password><input type=hidden name=csrf value=1></form>`)
			return
		}
		password := r.FormValue("k")
		if _, p, ok := r.BasicAuth(); ok {
			password = p
		}
		var object struct {
			Login struct{ Email, Password string }
		}
		if json.NewDecoder(r.Body).Decode(&object) == nil {
			password = object.Login.Password
		}
		http.SetCookie(w, &http.Cookie{Name: "anonymous", Value: "x"})
		answer(w, password == secretTyped)
	}
}

func TestLearnProposesTheRouteOfALogin(t *testing.T) {
	t.Parallel()
	text := func(good, bad string) func(http.ResponseWriter, bool) {
		return func(w http.ResponseWriter, ok bool) {
			w.Header().Set("Content-Type", "text/html")
			if strings.HasPrefix(good, "{") {
				w.Header().Set("Content-Type", "application/json")
			}
			fmt.Fprint(w, map[bool]string{true: good, false: bad}[ok])
		}
	}
	status := func(good, bad int, cookie string) func(http.ResponseWriter, bool) {
		return func(w http.ResponseWriter, ok bool) {
			if ok && cookie != "" {
				http.SetCookie(w, &http.Cookie{Name: cookie, Value: "1"})
			}
			if ok {
				w.Header().Set("Location", "/home")
				w.WriteHeader(good)
				return
			}
			w.Header().Set("Location", "/login?error=1")
			w.WriteHeader(bad)
		}
	}
	const form, object, basic = "form", "json", "basic"
	for name, c := range map[string]struct {
		kind   string
		answer func(http.ResponseWriter, bool)
		want   string
	}{
		"a session": {form, status(302, 200, "appsession"), `
      path: /login
      account: form:who
      password: form:k
      names: '[A-Za-z0-9._@+-]+' # other characters are rejected
      success: [status 302, cookie appsession]`},
		"a cookie with a hash": {form, status(200, 200, "wp_logged_in_0123456789abcdef0123"), `
      path: /login
      account: form:who
      password: form:k
      names: '[A-Za-z0-9._@+-]+' # other characters are rejected
      success: [status 200, cookie wp_logged_in_*]`},
		"302 for both": {form, status(302, 302, ""), `
      path: /login
      account: form:who
      password: form:k
      names: '[A-Za-z0-9._@+-]+' # other characters are rejected
      success: [status 302, not location /login*]`},
		"the page says so": {form, text("<p>Hello</p><a href=/x>Log out</a>", "<p>The password is wrong.</p>"), `
      path: /login
      account: form:who
      password: form:k
      names: '[A-Za-z0-9._@+-]+' # other characters are rejected
      success: [status 200, body Log out]`},
		"a page that only who is inside sees": {form, text("<title>Page 7</title><h1>Dashboard</h1><p>alice@example.org is here</p>", "<p>The password of alice@example.org is wrong.</p>"), `
      path: /login
      account: form:who
      password: form:k
      names: '[A-Za-z0-9._@+-]+' # other characters are rejected
      success: [status 200, body Dashboard]`},
		"a token": {object, text(`{"user":1,"access_token":"abc"}`, `{"error":"no"}`), `
      path: /login
      account: json:/Login/Email
      password: json:/Login/Password
      names: '[A-Za-z0-9._@+-]+' # other characters are rejected
      success: [status 200, 'match "access_token"\s*:\s*"[^"]']
      signed_in: [never]`},
		"a flag": {object, text(`{"ok":true}`, `{"ok":false}`), `
      path: /login
      account: json:/Login/Email
      password: json:/Login/Password
      names: '[A-Za-z0-9._@+-]+' # other characters are rejected
      success: [status 200, json /ok true]
      signed_in: [never]`},
		"401 of an API": {object, status(201, 401, ""), `
      path: /login
      account: json:/Login/Email
      password: json:/Login/Password
      names: '[A-Za-z0-9._@+-]+' # other characters are rejected
      success: [status 2xx]
      signed_in: [never]`},
		"the Authorization header": {basic, status(200, 401, ""), `
      path: /*
      methods: [ANY]
      account: basic
      names: '[A-Za-z0-9._@+-]+' # other characters are rejected
      success: [status 2xx]`},
	} {
		login := http.NewServeMux()
		login.HandleFunc("/login", anApp(c.answer))
		app := httptest.NewServer(login)
		t.Cleanup(app.Close)
		base, said, specs := learning(t, app.URL)
		p := from("127.0.0.1")
		p.get(t, base+"/login")
		for _, password := range []string{"not-mine-at-all", secretTyped} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/login", strings.NewReader(url.Values{"csrf": {"1"}, "who": {"alice@example.org"}, "k": {password}}.Encode()))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			if c.kind == object {
				r, _ = http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/login", strings.NewReader(`{"Login":{"Email":"alice@example.org","Password":"`+password+`","Client":"web"}}`))
				r.Header.Set("Content-Type", "application/json")
			}
			if c.kind == basic {
				r, _ = http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/login", nil)
				r.SetBasicAuth("alice@example.org", password)
			}
			if a := p.do(t, r); a.status/100 == 3 {
				p.get(t, base+a.header.Get("Location"))
			}
		}
		spec := <-specs
		yaml := learn.YAML(spec)
		if yaml != "    - name: login"+c.want+"\n" {
			t.Errorf("%s: got\n%s\n%s", name, yaml, said)
		}
		for _, secret := range []string{secretTyped, "not-mine", "alice@example"} {
			if strings.Contains(yaml+said.String(), secret) {
				t.Errorf("%s: %s is repeated:\n%s%s", name, secret, yaml, said)
			}
		}
	}
}

// What tells nothing is not guessed at.
func TestLearnSaysWhatItNeeds(t *testing.T) {
	t.Parallel()
	app := httptest.NewServer(anApp(func(w http.ResponseWriter, ok bool) { fmt.Fprint(w, "as always") }))
	t.Cleanup(app.Close)
	base, said, found := learning(t, app.URL)
	p := from("127.0.0.1")
	p.get(t, base+"/login")
	for _, c := range []struct{ name, password, path, want string }{
		{"alice", "wrong", "/login", "2. Now log in"},
		{"alice", "wrong", "/login", "the password equals the first one"},
		{"bob", "other", "/login", "the user name differs from the first one"},
		{"bob", "right", "/elsewhere", "this login used another form than the first one"},
		{"bob", "right2", "/elsewhere", "If the app rejects every login, let it accept the host name of this address"},
		{"bob", "again", "/login", "this login used another form than the first one"}, // and the count of alike answers begins anew
		{"bob", "right", "/elsewhere", "this login used another form than the first one"},
		{"bob", "right2", "/elsewhere", "log in with the right password once more"},
		{"", "right2", "/elsewhere", "POST /elsewhere has a password in form:k and no name: it is a form with only a password"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+c.path, strings.NewReader(url.Values{"who": {c.name}, "k": {c.password}}.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		p.do(t, r)
		if !strings.Contains(said.String(), c.want) {
			t.Errorf("%+v: it says\n%s", c, said)
		}
	}
	if n := strings.Count(said.String(), "log in with the right password once more"); n != 2 {
		t.Errorf("asked %d times for another login:\n%s", n, said)
	}
	p.do(t, loginForm(t, base+"/elsewhere", "bob", "right2"))
	if proposal := <-found; !slices.Equal(proposal.Success, []string{"never"}) || !slices.Equal(proposal.Counted, []string{"/", "/elsewhere", "/elsewhere/x"}) {
		t.Errorf("%+v", proposal)
	}
}

func loginForm(t *testing.T, to, name, password string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, to, strings.NewReader(url.Values{"who": {name}, "k": {password}}.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return r
}

// Before a script has sent a login, the proxy does not know that pages need the script for challenges.
func TestLearnProposesTheScriptForALoginOfAScript(t *testing.T) {
	t.Parallel()
	app := httptest.NewServer(anApp(func(w http.ResponseWriter, ok bool) { fmt.Fprint(w, map[bool]string{true: "Welcome", false: "No"}[ok]) }))
	t.Cleanup(app.Close)
	for dest, want := range map[string]bool{"empty": true, "document": false} {
		base, _, found := learning(t, app.URL)
		p := from("127.0.0.1")
		p.get(t, base+"/login")
		for _, password := range []string{"wrong", secretTyped} {
			r := loginForm(t, base+"/login", "alice", password)
			r.Header.Set("Sec-Fetch-Dest", dest)
			p.do(t, r)
		}
		if text := configured("http://127.0.0.1:8000", <-found); strings.Contains(text, "\n  script: always # a script sends the login\n") != want {
			t.Errorf("%s:\n%s", dest, text)
		}
	}
}

// The browser gets the page after the login before detect ends, whenever it asks.
func TestLearnWaitsUntilTheBrowserHasFollowed(t *testing.T) {
	t.Parallel()
	app := http.NewServeMux()
	app.HandleFunc("/home", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	app.HandleFunc("/login", anApp(func(w http.ResponseWriter, ok bool) {
		if ok {
			w.Header().Set("Location", "/home")
			w.WriteHeader(http.StatusFound)
		}
	}))
	server := httptest.NewServer(app)
	t.Cleanup(server.Close)
	base, said, found := learning(t, server.URL)
	p := from("127.0.0.1")
	p.get(t, base+"/login")
	for _, password := range []string{"wrong", secretTyped} {
		p.do(t, loginForm(t, base+"/login", "alice", password))
	}
	redistest.Until(t, "the check to end", func() bool { return strings.Contains(said.String(), "the proposal counts it") })
	if strings.Contains(said.String(), "Done") {
		t.Error("it has ended")
	}
	if got := p.get(t, base+"/home").status; got != http.StatusOK {
		t.Errorf("the page after the login: %d", got)
	}
	<-found
	if !strings.Contains(said.String(), "Done. You can close the browser.") {
		t.Errorf("it does not say that it is done:\n%s", said)
	}
}

// A login in two steps is named as one. Without any login, the user is asked what is wrong.
func TestLearnNamesALoginInSteps(t *testing.T) {
	t.Parallel()
	upstream, err := url.Parse("http://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	said := new(heard)
	l := newLearner(upstream, said)
	l.unseen()
	l.watcher.Page([]byte(`<form><input name=q></form><form><input type=email name=email></form>`))
	l.ServeHTTP(httptest.NewRecorder(), loginForm(t, "http://127.0.0.1:1/second", "", "right"))
	l.watcher.Page([]byte(`<form><input type=password name=k></form>`))
	l.ServeHTTP(httptest.NewRecorder(), loginForm(t, "http://127.0.0.1:1/second", "", "right"))
	if text := said.String(); !strings.Contains(text, "No login seen yet") || !strings.Contains(text, "it is the second step of a login") {
		t.Error(text)
	}
}

func TestLearnNeedsTheAppsAddress(t *testing.T) {
	t.Parallel()
	for _, upstream := range []string{"", "127.0.0.1:8000", "ftp://127.0.0.1", "http://"} {
		var out, complaints bytes.Buffer
		if code := run([]string{"proxy", "detect", "--upstream", upstream}, &out, &complaints); code == 0 || !strings.Contains(complaints.String(), "http://127.0.0.1:8000") {
			t.Errorf("%q: %d %s", upstream, code, &complaints)
		}
	}
}

// An app that redirects to its own address leads the browser past the learner.
func TestLearnKeepsTheBrowserHere(t *testing.T) {
	t.Parallel()
	upstream, err := url.Parse("http://127.0.0.1:8000")
	if err != nil {
		t.Fatal(err)
	}
	l := newLearner(upstream, new(heard))
	for from, want := range map[string]string{
		"http://127.0.0.1:8000/login?next=%2Fa%20b": "/login?next=%2Fa%20b",
		"http://127.0.0.1:8000":                     "/",
		"http://127.0.0.1:8000//evil.example":       "/evil.example",
		"/home":                                     "/home",
		"http://example.org/login":                  "http://example.org/login",
		"https://127.0.0.1:8000/":                   "https://127.0.0.1:8000/",
	} {
		h := http.Header{"Location": {from}}
		if l.home(h); h.Get("Location") != want {
			t.Errorf("%s becomes %s, want %s", from, h.Get("Location"), want)
		}
	}
	var out, complaints bytes.Buffer
	if run([]string{"proxy", "detect", "--help"}, &out, &complaints); !strings.Contains(out.String()+complaints.String(), "127.0.0.1:8088") {
		t.Errorf("the help does not say where it listens:\n%s%s", &out, &complaints)
	}
}
