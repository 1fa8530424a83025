package mw_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"authguard/captchamode/challenge"
	"authguard/guard"
	"authguard/internal/testing/redistest"
	"authguard/internal/testing/world"
	"authguard/web/client"
	"authguard/web/mw"
)

const right = "correct horse"

// A site is a login handler behind the middleware.
type site struct {
	t      *testing.T
	guard  *guard.Guard
	server *httptest.Server
	seen   atomic.Int64 // passwords that the handler has looked at
	mu     sync.Mutex
	events []guard.Event
}

// Observe implements guard.Observer.
func (s *site) Observe(e guard.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e)
}

func (s *site) last() guard.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.events[len(s.events)-1]
}

// login is what people write: it reads the form, and says if the password was right.
func (s *site) login(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		_, _ = io.WriteString(w, "the form")
		return
	}
	s.seen.Add(1)
	if r.FormValue("password") != right {
		http.Error(w, "wrong user name or password", http.StatusUnauthorized)
		return
	}
	if err := mw.Succeeded(r); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(w, "welcome, "+r.FormValue("username"))
}

// newSite protects a handler; nil is login. The challenges have a known answer.
func newSite(t *testing.T, login http.HandlerFunc, options ...mw.Option) *site {
	t.Helper()
	s := &site{t: t}
	if login == nil {
		login = s.login
	}
	desk, err := challenge.New(challenge.Config{Secret: []byte(strings.Repeat("s", 32)), Spent: challenge.NewMemorySpent(0, nil), BuiltIn: world.Riddle{}})
	if err != nil {
		t.Fatal(err)
	}
	return s.protect(login, func(d *guard.Defaults) { d.Challenges, d.Observer = desk, s }, options...)
}

// protect starts the site with a guard of its own.
func (s *site) protect(login http.HandlerFunc, own func(*guard.Defaults), options ...mw.Option) *site {
	t := s.t
	t.Helper()
	var err error
	if s.guard, err = guard.Default([]byte("sixteen bytes or more"), own); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.guard.Close)
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	s.server = httptest.NewUnstartedServer(mw.Protect(s.guard, login, append([]mw.Option{mw.Proxies("127.0.0.1"), mw.Log(quiet)}, options...)...))
	s.server.Config.ErrorLog = slog.NewLogLogger(quiet.Handler(), slog.LevelDebug)
	s.server.Start()
	t.Cleanup(s.server.Close)
	return s
}

// An answer is what a client got.
type answer struct {
	*http.Response
	body string
}

// send sends a request from an address.
func (s *site) send(method, path, from, kind, body string, headers ...string) answer {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.server.URL+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("X-Forwarded-For", from)
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	got, err := s.server.Client().Do(r)
	if err != nil {
		return answer{body: err.Error()}
	}
	defer got.Body.Close()
	all, err := io.ReadAll(got.Body)
	if err != nil {
		s.t.Error(err)
	}
	return answer{got, string(all)}
}

const formType = "application/x-www-form-urlencoded"

// try sends a form.
func (s *site) try(from, name, password string, headers ...string) answer {
	s.t.Helper()
	return s.send(http.MethodPost, "/login", from, formType, url.Values{"username": {name}, "password": {password}}.Encode(), headers...)
}

func (s *site) want(a answer, status int, words string) {
	s.t.Helper()
	if a.Response == nil || a.StatusCode != status || !strings.Contains(a.body, words) {
		s.t.Errorf("got %v %.300q, want %d with %q", a.Response, a.body, status, words)
	}
}

// guesses have an account guessed at by strangers until they are challenged.
func (s *site) guesses(name string, n int) {
	s.t.Helper()
	for i := range n {
		s.want(s.try(fmt.Sprintf("198.51.%d.1", i), name, fmt.Sprint("guess", i)), http.StatusUnauthorized, "")
	}
}

func TestR1OfAHundredParallelGuessesFiveReachTheHandler(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	s.want(s.try("192.0.2.7", "alice", right), http.StatusOK, "welcome, alice")
	s.seen.Store(0)
	var challenged atomic.Int64
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			if a := s.try(fmt.Sprintf("198.51.%d.1", i), "alice", fmt.Sprint("guess", i)); a.StatusCode == http.StatusForbidden {
				challenged.Add(1)
			}
		})
	}
	all.Wait()
	if s.seen.Load() != 5 || challenged.Load() != 95 {
		t.Errorf("%d guesses reached the handler and %d were challenged, want 5 and 95", s.seen.Load(), challenged.Load())
	}
	s.want(s.try("203.0.113.9", "alice", right), http.StatusForbidden, "challenge-required")
	s.want(s.try("192.0.2.7", "alice", right), http.StatusOK, "welcome, alice")
}

// Logins with one program share a count, wherever they come from.
func TestR13ClientsThatLookAlikeAreAsked(t *testing.T) {
	t.Parallel()
	s, clients, p := &site{t: t}, new(client.Identity), guard.DefaultPolicy()
	clients.Set([]string{"User-Agent"})
	p.Fingerprint = []guard.Limit{{Failures: 3, Window: time.Hour, Action: guard.Challenge}}
	s.protect(s.login, func(d *guard.Defaults) { d.Policy, d.Observer = p, s }, mw.Identity(clients.Of))
	for i := range 3 {
		s.want(s.try(fmt.Sprintf("198.51.%d.1", i), fmt.Sprint("user", i), "guess", "User-Agent", "bot"), http.StatusUnauthorized, "")
	}
	s.want(s.try("198.51.9.1", "alice", right, "User-Agent", "bot"), http.StatusForbidden, "challenge-required")
	s.want(s.try("198.51.9.2", "alice", right, "User-Agent", "a browser"), http.StatusOK, "welcome, alice")
}

// echo writes what a handler returns when the middleware is done, so that its status is
// nobody's word: docs/how-to/go-middleware.md says so.
func TestR27AnEchoHandlerThatReturns503SaysSo(t *testing.T) {
	t.Parallel()
	for want, say := range map[guard.Outcome]func(*http.Request){guard.Failed: func(*http.Request) {}, guard.Abandoned: mw.Abandoned} {
		s := &site{t: t}
		g, err := guard.Default([]byte("0123456789abcdef"), func(d *guard.Defaults) { d.Observer = s })
		if err != nil {
			t.Fatal(err)
		}
		e := echo.New()
		e.POST("/login", func(c echo.Context) error {
			say(c.Request())
			return echo.NewHTTPError(http.StatusServiceUnavailable)
		}, echo.WrapMiddleware(mw.Middleware(g)))
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/login", strings.NewReader("username=alice&password=pw"))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		e.ServeHTTP(w, r)
		if got := s.last(); w.Code != http.StatusServiceUnavailable || got.Outcome != want {
			t.Errorf("%d, settled as %v, want %v", w.Code, got.Outcome, want)
		}
		g.Close()
	}
}

// anonymous says that nobody is signed in.
var anonymous = mw.SignedIn(func(*http.Request) bool { return false })

// A handler that redirects a visitor who is signed in has checked no password.
func TestAnAttackersSessionProvesNoPassword(t *testing.T) {
	t.Parallel()
	signedIn := func(r *http.Request) bool { _, err := r.Cookie("session"); return err == nil }
	checked := 0
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		if signedIn(r) {
			http.Redirect(w, r, "/home", http.StatusSeeOther)
			return
		}
		checked++
		w.WriteHeader(http.StatusUnauthorized)
	}, mw.ByStatus(), mw.SignedIn(signedIn))
	for i := range 30 {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.server.URL+"/login", strings.NewReader(fmt.Sprintf("username=alice&password=guess-%d", i)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", formType)
		r.Header.Set("Cookie", "session=mallorys")
		got, err := s.server.Client().Transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = got.Body.Close()
		if got.StatusCode < 400 || len(got.Header["Set-Cookie"]) > 0 || i == 0 && got.StatusCode != http.StatusConflict {
			t.Fatalf("guess %d: %d %v", i, got.StatusCode, got.Header)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.IndexFunc(s.events, func(e guard.Event) bool { return e.Outcome == guard.Succeeded && e.Settled }); checked > 0 || i >= 0 {
		t.Errorf("%d passwords were checked, success %d of %d events", checked, i, len(s.events))
	}
}

// An attempt may be held for a while, and another request may sign in meanwhile: who is signed in is asked last, of what
// reaches the handler alone.
func TestWhoIsSignedInIsAskedRightBeforeTheHandler(t *testing.T) {
	t.Parallel()
	asked := 0
	s := newSite(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }, mw.ByStatus(),
		mw.SignedIn(func(*http.Request) bool { asked++; return asked == 5 }))
	p := s.guard.Policy()
	p.PairDelay, p.Account = guard.PairDelay{}, []guard.Limit{{Failures: 5, Window: time.Hour, Action: guard.Block}}
	if err := s.guard.SetPolicy(p); err != nil {
		t.Fatal(err)
	}
	var statuses []int
	for i := range 8 {
		statuses = append(statuses, s.try(fmt.Sprintf("203.0.%d.9", i), "alice", fmt.Sprint("guess", i)).StatusCode)
	}
	// The fifth is withdrawn, so that there is room for one more.
	if want := []int{401, 401, 401, 401, 409, 401, 429, 429}; asked != 6 || !slices.Equal(statuses, want) {
		t.Errorf("asked %d times, %v", asked, statuses)
	}
}

// What the handler does, and what that was.
func TestR1WhatNobodyCallsRightWasWrong(t *testing.T) {
	t.Parallel()
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	for name, one := range map[string]struct {
		login   http.HandlerFunc
		options []mw.Option
		want    guard.Outcome
	}{
		"nothing":              {login: func(http.ResponseWriter, *http.Request) {}, want: guard.Failed},
		"200":                  {login: status(200), want: guard.Failed},
		"a redirection":        {login: status(303), want: guard.Failed},
		"500":                  {login: status(500), want: guard.Failed},
		"503":                  {login: status(503), want: guard.Abandoned},
		"a panic":              {login: func(http.ResponseWriter, *http.Request) { panic("nil map") }, want: guard.Failed},
		"http.ErrAbortHandler": {login: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, want: guard.Failed},
		"a panic after 200, by status": {
			login:   func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", "y"); panic("before the answer") },
			options: []mw.Option{mw.ByStatus(), anonymous}, want: guard.Failed,
		},
		"200, by status": {login: status(200), options: []mw.Option{mw.ByStatus(), anonymous}, want: guard.Succeeded},
		"nothing, by status": {
			login: func(http.ResponseWriter, *http.Request) {}, options: []mw.Option{mw.ByStatus(), anonymous}, want: guard.Failed,
		},
		"303, by status": {login: status(303), options: []mw.Option{mw.ByStatus(), anonymous}, want: guard.Succeeded},
		"401, by status": {login: status(401), options: []mw.Option{mw.ByStatus(), anonymous}, want: guard.Failed},
		"422, by status": {login: status(422), options: []mw.Option{mw.ByStatus(), anonymous}, want: guard.Failed},
		"Failed and 200, by status": {
			login: func(_ http.ResponseWriter, r *http.Request) { mw.Failed(r) }, options: []mw.Option{mw.ByStatus(), anonymous}, want: guard.Failed,
		},
		"Abandoned and 500": {login: func(w http.ResponseWriter, r *http.Request) { mw.Abandoned(r); w.WriteHeader(500) }, want: guard.Abandoned},
		"Succeeded and a panic": {
			login: func(_ http.ResponseWriter, r *http.Request) { _ = mw.Succeeded(r); panic("after it") }, want: guard.Succeeded,
		},
		"hijacked, by status": {
			login: func(w http.ResponseWriter, _ *http.Request) {
				if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
					_ = conn.Close()
				}
			},
			options: []mw.Option{mw.ByStatus(), anonymous}, want: guard.Failed,
		},
	} {
		s := newSite(t, one.login, one.options...)
		s.try("192.0.2.7", "alice", "pw")
		redistest.Until(t, name+" to be settled", func() bool { // who hijacks has answered before
			s.mu.Lock()
			defer s.mu.Unlock()
			return len(s.events) > 0
		})
		if got := s.last(); !got.Settled || got.Outcome != one.want {
			t.Errorf("%s: settled %v as %v, want %v", name, got.Settled, got.Outcome, one.want)
		}
	}
}

func TestASuccessWithoutAResponseSetsTheDeviceCookie(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(_ http.ResponseWriter, r *http.Request) { _ = mw.Succeeded(r) })
	if got := s.try("192.0.2.7", "alice", "pw"); got.StatusCode != http.StatusOK || len(got.Cookies()) != 1 {
		t.Errorf("%d %v, want 200 and a device cookie", got.StatusCode, got.Header)
	}
}

func TestAnAnswerToOPTIONSProvesNoPassword(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
		mw.Basic(), mw.ByStatus(), mw.SignedIn(func(*http.Request) bool { return false }))
	for method, known := range map[string]bool{http.MethodOptions: false, http.MethodPost: true} {
		r, _ := http.NewRequestWithContext(t.Context(), method, s.server.URL+"/login", nil)
		r.SetBasicAuth("alice", "guess")
		got, err := s.server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		got.Body.Close()
		if got.StatusCode != http.StatusNoContent || len(got.Cookies()) > 0 != known {
			t.Errorf("%s: %d %v", method, got.StatusCode, got.Header)
		}
	}
}

// A handler answers 504 if the back end still checks the password.
func TestR1AHandlersTimeoutHasFailed(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]guard.Outcome{503: guard.Abandoned, 502: guard.Abandoned, 504: guard.Failed} {
		s := newSite(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		if s.try("198.51.0.1", "alice", "x"); s.last().Outcome != want {
			t.Errorf("%d: the attempt has %v", status, s.last().Outcome)
		}
	}
}

func TestR1WhoHangsUpHasGuessed(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]func(*http.Request){"silent": func(*http.Request) {}, "abandoned": mw.Abandoned} {
		begun, ended := make(chan struct{}), make(chan struct{})
		s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
			close(begun)
			<-r.Context().Done()
			after(r)
			w.WriteHeader(http.StatusServiceUnavailable)
			defer close(ended)
		})
		ctx, hangUp := context.WithCancel(t.Context())
		r, _ := http.NewRequestWithContext(ctx, http.MethodPost, s.server.URL+"/login", strings.NewReader("username=alice&password=x"))
		r.Header.Set("Content-Type", formType)
		go func() { <-begun; hangUp() }()
		if got, err := s.server.Client().Do(r); err == nil {
			got.Body.Close()
			t.Fatal("there is an answer")
		}
		<-ended
		s.server.Close() // waits for the handler
		if got := s.last(); got.Outcome != guard.Failed {
			t.Errorf("%s: the attempt has %v", name, got.Outcome)
		}
	}
}

func TestR11WhatTwoReadersReadDifferentlyNeverReachesTheHandler(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	for name, one := range map[string]struct {
		method, path, kind, body string
		want                     int
	}{
		"a name twice":               {"POST", "/", formType, "username=alice&username=bob&password=x", 400},
		"a password twice":           {"POST", "/", formType, "username=alice&password=x&password=y", 400},
		"a list of names":            {"POST", "/", formType, "username[]=alice&password=x", 400},
		"another case":               {"POST", "/", formType, "Username=alice&password=x", 400},
		"a question mark before":     {"POST", "/", formType, "?username=alice&password=x&username=bob", 400},
		"a name in OGNL":             {"POST", "/", formType, "username=bob&password=x&a['username']=alice", 400},
		"a semicolon":                {"POST", "/", formType, "username=alice;password=x&password=y", 400},
		"a name in the address":      {"POST", "/?username=bob", formType, "username=alice&password=x", 400},
		"a password in the address":  {"GET", "/?username=alice&password=x", "", "", 400},
		"a body with GET":            {"GET", "/", formType, "username=alice&password=x", 400},
		"another method":             {"PUT", "/", formType, "username=alice&password=x", 405},
		"no name":                    {"POST", "/", formType, "password=x", 400},
		"neither, as with a typo":    {"POST", "/", formType, "user=alice&pass=x", 400},
		"no body":                    {"POST", "/", "", "", 400},
		"a type that nobody reads":   {"POST", "/", "text/plain", "username=alice&password=x", 415},
		"a form in another encoding": {"POST", "/", formType + "; charset=utf-7", "username=alice&password=x", 415},
		"JSON with a name twice":     {"POST", "/", "application/json", `{"username":"alice","username":"bob","password":"x"}`, 400},
		"JSON with another case":     {"POST", "/", "application/json", `{"Username":"alice","password":"x"}`, 400},
		"a form that is also JSON": {"POST", "/", formType,
			"\x0b" + `{"a":"&username=bob&password=x&b=","username":"alice","password":"y"}`, 415},
		"JSON in JSON": {"POST", "/", "application/json",
			`{"username":"bob","password":"x","a":"{\"username\":\"alice\",\"password\":\"y\"}"}`, 415},
		"another account":            {"POST", "/", formType, "username=bob&email=alice@example.org&password=x", 400},
		"another account in JSON":    {"POST", "/", "application/json", `{"username":"bob","user":"alice","password":"x"}`, 400},
		"the account again in JSON":  {"POST", "/", "application/json", `{"username":"bob","password":"x","a":{"username":"alice"}}`, 400},
		"another inflection":         {"POST", "/", formType, "username=bob&user_name=alice&password=x", 400},
		"JSON with a list":           {"POST", "/", "application/json", `{"username":["alice"],"password":"x"}`, 400},
		"two JSON objects":           {"POST", "/", "application/json", `{"username":"alice","password":"x"}{}`, 400},
		"a large form":               {"POST", "/", formType, "username=alice&password=x&more=" + strings.Repeat("x", mw.MaxBody), 413},
		"a huge form":                {"POST", "/", formType, "username=alice&password=x&more=" + strings.Repeat("x", 4*mw.MaxBody), 413},
		"a name that cannot be seen": {"POST", "/", formType, "username=ali%E2%80%8Bce&password=x", 400},
		"a sealed form of nobody's":  {"POST", "/", formType, "authguard_form=AAAA&password=x", 400},
		"an empty sealed form":       {"POST", "/", formType, "authguard_form=", 400},
		"two sealed forms":           {"POST", "/", formType, "authguard_form=AAAA&authguard_form=BBBB", 400},
	} {
		if a := s.send(one.method, one.path, "192.0.2.7", one.kind, one.body); a.Response == nil || a.StatusCode != one.want {
			t.Errorf("%s: %v %s, want %d", name, a.Response, a.body, one.want)
		}
		if err := s.guard.Unlock(t.Context(), "", addr("192.0.2.7")); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.seen.Load(); n != 0 {
		t.Errorf("%d of them reached the handler", n)
	}
	for j, body := range []string{"password=x", "username=alice&username=bob&password=x"} {
		for i := range 11 { // they count for their address
			a := s.send(http.MethodPost, "/", fmt.Sprint("192.0.3.", j), formType, body)
			if want := map[bool]int{true: 400, false: 403}[i < 10]; a.StatusCode != want {
				t.Errorf("%s, the %dth time: %d, want %d", body, i+1, a.StatusCode, want)
			}
		}
	}
}

func TestTheHandlerReadsTheBodyAsIfNobodyHad(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		kind, body string
		options    []mw.Option
		read       func(r *http.Request) string
	}{
		"a form":           {formType, "username=alice&password=pw&more=1", nil, func(r *http.Request) string { return r.FormValue("username") + r.PostFormValue("more") }},
		"a multipart form": {"multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=\"username\"\r\n\r\nalice\r\n--b\r\nContent-Disposition: form-data; name=\"password\"\r\n\r\npw\r\n--b\r\nContent-Disposition: form-data; name=\"more\"\r\n\r\n1\r\n--b--\r\n", nil, func(r *http.Request) string { return r.FormValue("username") + r.FormValue("more") }},
		"JSON": {"application/json", `{"username":"alice","password":"pw","more":1}`, nil, func(r *http.Request) string {
			var got struct {
				Username string
				More     int
			}
			_ = json.NewDecoder(r.Body).Decode(&got)
			return fmt.Sprint(got.Username, got.More)
		}},
		"other names": {formType, "email=alice&pass=pw&more=1", []mw.Option{mw.Account("email"), mw.Password("pass")}, func(r *http.Request) string { return r.FormValue("email") + r.FormValue("more") }},
		"an email":    {formType, "username=alice&email=alice@example.org&password=pw", []mw.Option{mw.Passes("email")}, func(r *http.Request) string { return r.PostFormValue("username") + "1" }},
		"it in JSON":  {"application/json", `{"username":"alice","email":"a@example.org","password":"pw"}`, []mw.Option{mw.Passes("email")}, func(r *http.Request) string { b, _ := io.ReadAll(r.Body); return string(b[13:18]) + "1" }},
		"a pointer":   {"application/json", `{"user":{"name":"alice","pw":"pw"}}`, []mw.Option{mw.Account("json:/user/name"), mw.Password("json:/user/pw")}, func(r *http.Request) string { b, _ := io.ReadAll(r.Body); return string(b[17:22]) + "1" }},
	} {
		var got string
		s := newSite(t, func(_ http.ResponseWriter, r *http.Request) { got = one.read(r); _ = mw.Succeeded(r) }, one.options...)
		a := s.send(http.MethodPost, "/login", "192.0.2.7", one.kind, one.body)
		if got != "alice1" || s.last().Account != "alice" || s.last().Outcome != guard.Succeeded {
			t.Errorf("%s: the handler has read %q, the guard %+v: %v", name, got, s.last(), a.body)
		}
	}
}

func TestBasicAuthenticationIsAnAttemptWithEachRequest(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		if _, password, ok := r.BasicAuth(); !ok {
			w.WriteHeader(http.StatusUnauthorized)
		} else if password == right {
			_ = mw.Succeeded(r)
		}
	}, mw.Basic())
	s.want(s.send(http.MethodGet, "/", "192.0.2.7", "", ""), http.StatusUnauthorized, "")
	ask := func(password string) answer {
		r, _ := http.NewRequest(http.MethodGet, s.server.URL, nil)
		r.SetBasicAuth("alice", password)
		return s.send(http.MethodGet, "/", "192.0.2.7", "", "", "Authorization", r.Header.Get("Authorization"))
	}
	s.want(ask(right), http.StatusOK, "")
	if got := s.last(); got.Outcome != guard.Succeeded || got.Account != "alice" {
		t.Errorf("%+v", got)
	}
	s.want(s.send(http.MethodGet, "/", "192.0.2.7", "", "", "Authorization", "Basic eDp5", "Authorization", "Basic eDp6"), http.StatusBadRequest, "")
	s.want(s.send(http.MethodPost, "/", "192.0.2.7", formType, "what=ever"), http.StatusUnauthorized, "")
}

var hidden = regexp.MustCompile(`name="(authguard_form|captcha_id)" value="([^"]+)"`)

// filled is the form of the page in between, filled in.
func filled(page, answer string) url.Values {
	form := url.Values{"captcha_answer": {answer}}
	for _, m := range hidden.FindAllStringSubmatch(page, -1) {
		form.Set(m[1], m[2])
	}
	return form
}

func TestThePageInBetweenKeepsTheFormAndNeedsNoJavaScript(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	s.guesses("alice", 5)
	s.seen.Store(0)
	page := s.try("203.0.113.9", "alice", right, "Accept", "text/html", "Accept-Language", "de")
	s.want(page, http.StatusForbidden, `lang="de"`)
	for _, part := range []string{`src="data:image/png;base64,`, `<form method="post">`, `.wav" target="_blank"`} {
		if !strings.Contains(page.body, part) {
			t.Errorf("the page has no %s:\n%s", part, page.body)
		}
	}
	if strings.Contains(page.body, right) || s.seen.Load() != 0 {
		t.Error("the page shows the password, or the handler has seen it")
	}
	if policy := page.Header.Get("Content-Security-Policy"); strings.Contains(policy, "unsafe") || !strings.Contains(policy, "style-src 'sha256-") {
		t.Errorf("the policy is %q", policy)
	}
	wrong := s.send(http.MethodPost, "/login", "203.0.113.9", formType, filled(page.body, "no").Encode(), "Accept", "text/html")
	s.want(wrong, http.StatusForbidden, "authguard_form")
	form := filled(wrong.body, world.Answer).Encode()
	s.want(s.send(http.MethodPost, "/login", "203.0.113.9", formType, form), http.StatusOK, "welcome, alice")
	if n := s.seen.Load(); n != 1 {
		t.Errorf("the handler has seen %d passwords, want 1", n)
	}
}

// A form of another type comes back from the page in between as what it was.
func TestThePageInBetweenKeepsAFormOfParts(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	s.guesses("alice", 5)
	const parts = "--b\r\nContent-Disposition: form-data; name=\"username\"\r\n\r\nalice\r\n--b\r\nContent-Disposition: form-data; name=\"password\"\r\n\r\n" + right + "\r\n--b--\r\n"
	page := s.send(http.MethodPost, "/login", "203.0.113.9", "multipart/form-data; boundary=b", parts, "Accept", "text/html")
	s.want(page, http.StatusForbidden, "authguard_form")
	s.want(s.send(http.MethodPost, "/login", "203.0.113.9", formType, filled(page.body, world.Answer).Encode()), http.StatusOK, "welcome, alice")
}

// A reverse proxy in front that Proxies does not name is noticed, and that it forwards.
func TestAProxyThatWasForgottenIsNoticed(t *testing.T) {
	t.Parallel()
	s := &site{t: t}
	s.protect(s.login, func(*guard.Defaults) {}, mw.Proxies("192.0.2.1"))
	for i := range 20 {
		s.try("203.0.113.9", fmt.Sprintf("person%d", i), right)
	}
	if got := s.guard.UnconfiguredProxies(); len(got) != 1 || !got[0].Forwarded {
		t.Errorf("noticed %+v, want 127.0.0.1, which forwards", got)
	}
}

// A proxy that Proxies names, and that says nothing of its clients, is noticed: three people
// log in through it, or ten names fail.
func TestR9AConfiguredProxyWithoutAHeaderIsNoticed(t *testing.T) {
	t.Parallel()
	for password, enough := range map[string]int{right: 3, "wrong": 10} {
		s := &site{t: t}
		s.protect(s.login, func(*guard.Defaults) {}, mw.Proxies("127.0.0.1"))
		for i := range enough {
			if got := s.guard.UnconfiguredProxies(); len(got) > 0 {
				t.Errorf("%s: noticed %+v after %d", password, got, i)
			}
			s.try("", fmt.Sprintf("person%d", i), password)
		}
		if got := s.guard.UnconfiguredProxies(); len(got) != 1 || !got[0].Configured || got[0].Integration != "library" {
			t.Errorf("%s: noticed %+v", password, got)
		}
	}
}

// passes know one code of alice's.
type passes struct{ settled chan guard.Outcome }

func (passes) Show(_ context.Context, p guard.Code) (bool, error) {
	return p.Account == "alice" && p.Text == "abcd-efgh", nil
}

func (p passes) Settle(_ context.Context, _ guard.Code, o guard.Outcome) error {
	p.settled <- o
	return nil
}

// R29: whoever runs the program makes codes, and the page asks for them; without any it
// does not.
func TestR29ThePageTakesAOneTimeCode(t *testing.T) {
	t.Parallel()
	codes := passes{make(chan guard.Outcome, 1)}
	for _, closed := range []guard.Action{guard.Challenge, guard.Block} {
		s := &site{t: t}
		s.protect(s.login, func(d *guard.Defaults) {
			d.Codes, d.Policy.PairDelay = codes, guard.PairDelay{}
			d.Policy.Account = []guard.Limit{{Failures: 2, Window: time.Hour, Action: closed}}
		})
		s.guesses("alice", 2)
		s.seen.Store(0)
		page := s.try("203.0.113.9", "alice", right, "Accept", "text/html")
		if !strings.Contains(page.body, `name="code"`) || strings.Contains(page.body, "required>") || strings.Contains(page.body, "verification code is not valid") {
			t.Fatalf("%v: no field for a code: %s", closed, page.body)
		}
		form := filled(page.body, "")
		form.Set("code", "made-up")
		page = s.send(http.MethodPost, "/login", "203.0.113.9", formType, form.Encode(), "Accept", "text/html")
		if page.StatusCode < 400 || !strings.Contains(page.body, "The verification code is not valid") || s.seen.Load() != 0 {
			t.Errorf("%v: a code that is made up: %d %s", closed, page.StatusCode, page.body)
		}
		form = filled(page.body, "")
		form.Set("code", " abcd-efgh ")
		s.want(s.send(http.MethodPost, "/login", "203.0.113.9", formType, form.Encode()), http.StatusOK, "welcome, alice")
		if o := <-codes.settled; o != guard.Succeeded || s.seen.Load() != 1 {
			t.Errorf("%v: settled as %v, %d passwords seen", closed, o, s.seen.Load())
		}
	}
	s := newSite(t, nil)
	s.guesses("alice", 5)
	if page := s.try("203.0.113.9", "alice", right, "Accept", "text/html"); strings.Contains(page.body, `name="code"`) || !strings.Contains(page.body, " required>") {
		t.Errorf("a field for a code where there are none: %s", page.body)
	}
}

func TestR17OneSolveOneAttempt(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	s.guesses("alice", 5)
	s.seen.Store(0)
	var got struct{ Challenge challenge.Challenge }
	a := s.try("203.0.113.9", "alice", "x")
	if err := json.Unmarshal([]byte(a.body), &got); err != nil || a.Header.Get("Content-Type") != "application/problem+json" {
		t.Fatalf("%v: %s", err, a.body)
	}
	picture := s.send(http.MethodGet, got.Challenge.Image, "203.0.113.9", "", "")
	s.want(picture, http.StatusOK, "png")
	var looked atomic.Int64
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			if a := s.try("203.0.113.9", "alice", fmt.Sprint("other", i), "Authguard-Captcha-Id", got.Challenge.ID, "Authguard-Captcha-Answer", world.Answer); a.StatusCode == 401 {
				looked.Add(1)
			}
		})
	}
	all.Wait()
	if looked.Load() != 1 || s.seen.Load() != 1 {
		t.Errorf("one solve let %d guesses through", s.seen.Load())
	}
	s.want(s.send(http.MethodPost, got.Challenge.Audio, "203.0.113.9", "", ""), http.StatusNotFound, "This challenge has expired.") // it is spent
}

func TestR28ASprayedPasswordDoesNotSufficeForStrangers(t *testing.T) {
	t.Parallel()
	var got error
	var saw string
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		if name := r.FormValue("username"); strings.HasPrefix(name, "owner") {
			saw, got = r.FormValue("password"), mw.Succeeded(r)
		}
		w.WriteHeader(http.StatusUnauthorized)
	})
	for i := range 10 {
		s.try(fmt.Sprintf("198.51.%d.1", i), fmt.Sprint("user", i), "Summer2026!")
	}
	for i := range guard.SprayedPerHour + 1 {
		from, owner := fmt.Sprintf("203.0.%d.9", i), fmt.Sprint("owner", i)
		saw, got = "nothing", nil
		id := regexp.MustCompile(`"id":"([^"]+)"`).FindStringSubmatch(s.try(from, owner, "Summer2026!").body)
		if id == nil || saw != "nothing" {
			t.Fatalf("%s: the challenge is %v, and the handler saw %q", owner, id, saw)
		}
		s.try(from, owner, "Summer2026!", "Authguard-Captcha-Id", id[1], "Authguard-Captcha-Answer", world.Answer)
		if admitted := i < guard.SprayedPerHour; (saw == "Summer2026!") != admitted || errors.Is(got, guard.ErrInsufficient) == admitted {
			t.Errorf("%s: the handler saw %q, and Succeeded said %v", owner, saw, got)
		}
	}
}

// The handler learns that the right password is known from leaks, and asks for another one.
func TestTheHandlerLearnsThatThePasswordIsLeaked(t *testing.T) {
	t.Parallel()
	g, err := guard.Default([]byte("sixteen bytes or more"), func(d *guard.Defaults) {
		d.Leaked = new(guard.LeakedPasswords)
		d.Leaked.Set(func(password string) bool { return password == right })
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	login := mw.Protect(g, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d, _ := mw.Decision(r)
		fmt.Fprint(w, d.PasswordLeaked, d.Insufficient, mw.Succeeded(r))
	}))
	for password, want := range map[string]string{right: "true false <nil>", "another": "false false <nil>"} {
		r := httptest.NewRequest(http.MethodPost, "/login", strings.NewReader(url.Values{"username": {"alice"}, "password": {password}}.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		if login.ServeHTTP(w, r); w.Body.String() != want {
			t.Errorf("%s: %s, want %s", password, w.Body, want)
		}
	}
}

// A wrong password repeats only in the same request: each other code is another guess.
func TestR28TheSamePasswordBesideAnotherCodeIsAnotherGuess(t *testing.T) {
	t.Parallel()
	for field, want := range map[string]int64{"csrf_token": 12, "otp": 5} {
		s := newSite(t, nil)
		for i := range 12 {
			s.send(http.MethodPost, "/login", fmt.Sprintf("198.51.%d.1", i), formType,
				fmt.Sprintf("username=alice&password=stale&%s=%06d", field, i))
		}
		if got := s.seen.Load(); got != want {
			t.Errorf("%s: %d guesses reached the handler, want %d", field, got, want)
		}
	}
}

func TestR14ADeviceIsKnownElsewhere(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	first := s.try("192.0.2.7", "alice", right, "X-Forwarded-Proto", "https")
	cookies := first.Cookies()
	if len(cookies) != 1 || !strings.HasPrefix(cookies[0].Name, "__Host-authguard_device_") || !cookies[0].HttpOnly || !cookies[0].Secure {
		t.Fatalf("the cookies are %v", cookies)
	}
	s.guesses("alice", 5)
	s.want(s.try("203.0.113.9", "alice", right), http.StatusForbidden, "")
	s.want(s.try("203.0.113.9", "alice", right, "Cookie", cookies[0].Name+"="+cookies[0].Value), http.StatusOK, "welcome")
}

func TestR9TheAddressIsThePeersUnlessAProxySaysSo(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, mw.Proxies("192.0.2.0/24"))
	s.try("203.0.113.9", "alice", "x")
	if got := s.last().Address.String(); got != "127.0.0.1" {
		t.Errorf("a stranger's header made him %s", got)
	}
}

func TestR15WhoHasToWaitIsToldHowLong(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	for i := range 3 {
		s.want(s.try("192.0.2.7", "alice", fmt.Sprint(i)), http.StatusUnauthorized, "")
	}
	a := s.try("192.0.2.7", "alice", right)
	s.want(a, http.StatusTooManyRequests, `"retry_after":1`)
	if a.Header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After is %q", a.Header.Get("Retry-After"))
	}
	s.want(s.try("192.0.2.7", "alice", right, "Accept", "text/html"), http.StatusTooManyRequests, "Try again in 1 second")
	held := newSite(t, nil, mw.Hold(5e9))
	for i := range 3 {
		held.want(held.try("192.0.2.7", "alice", fmt.Sprint(i)), http.StatusUnauthorized, "")
	}
	held.want(held.try("192.0.2.7", "alice", right), http.StatusOK, "welcome")
}

func TestAPageOfAnotherSiteSendsNoLogin(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, mw.Origins("https://app.example.org"))
	s.want(s.try("192.0.2.7", "alice", right, "Origin", "https://evil.example"), http.StatusForbidden, "another site")
	s.want(s.try("192.0.2.7", "alice", right, "Origin", "https://app.example.org"), http.StatusOK, "")
}

func TestTheHandlersWriterDoesWhatTheServersDoes(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		if err := mw.Succeeded(r); err != nil {
			t.Error(err)
		}
		mw.Note(r, "second factor: totp")
		_, _ = io.WriteString(w, "one")
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		w.(http.Flusher).Flush()
		if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
			t.Error(err)
		}
		if d, ok := mw.Decision(r); !ok || d.Account != "alice" {
			t.Errorf("%+v %v", d, ok)
		}
	})
	a := s.try("192.0.2.7", "alice", right)
	s.want(a, http.StatusOK, "one")
	if len(a.Cookies()) != 1 || len(a.TransferEncoding) != 1 {
		t.Errorf("cookies %v, %v", a.Cookies(), a.TransferEncoding)
	}
}

func TestANoteIsToldWithTheEvent(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(_ http.ResponseWriter, r *http.Request) {
		mw.Note(r, "no such user"+strings.Repeat("é", guard.MaxNote))
	})
	s.try("192.0.2.7", "alice", "x")
	if got := s.last().Note; !strings.HasPrefix(got, "no such useré") || len(got) != guard.MaxNote {
		t.Errorf("the note is %q (%d)", got, len(got))
	}
}

func TestOneOwnsTheAnswerToWhatIsStopped(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, mw.OnRefusal(func(w http.ResponseWriter, r *http.Request, f *mw.Refusal) {
		if f.Type == "challenge-required" {
			w.WriteHeader(http.StatusTeapot)
			fmt.Fprint(w, f.Challenge.Kind, " ", f.Decision.Action, " ", f.Form != "")
			return
		}
		f.Write(w, r)
	}))
	s.want(s.send(http.MethodPost, "/", "192.0.2.7", formType, ""), http.StatusBadRequest, "send the fields username and password")
	s.guesses("alice", 5)
	s.want(s.try("203.0.113.9", "alice", right), http.StatusTeapot, "image challenge true")
}

func TestAWrongOptionIsSeenWhenTheProgramStarts(t *testing.T) {
	t.Parallel()
	g, err := guard.Default([]byte("sixteen bytes or more"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	for name, one := range map[string]struct {
		guard  *guard.Guard
		option mw.Option
		want   string
	}{
		"no guard":      {nil, mw.Basic(), "a guard is required"},
		"no field":      {g, mw.Account(""), "Account: must not be empty"},
		"a bad network": {g, mw.Proxies("10.0.0.0/99"), "Proxies: must be an IP address or a network"},
		"a bad origin":  {g, mw.Origins("example.org"), "origin"},
		"a long hold":   {g, mw.Hold(3600e9), "Hold: must be from 0 to 1m"},
		"no judge":      {g, mw.Outcome(nil), "Outcome: must be a function"},
		"by status":     {g, mw.ByStatus(), "need SignedIn"},
		"not a session": {g, mw.SignedIn(nil), "SignedIn: must be a function"},
		"another place": {g, mw.Account("json:/name"), "password"},
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, one.want) {
					t.Errorf("%s: %s", name, got)
				}
			}()
			mw.Protect(one.guard, http.NotFoundHandler(), one.option)
		}()
	}
}

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

func TestAHandlerSeesNoPasswordOfWhoIsPretendedTo(t *testing.T) {
	t.Parallel()
	var got error
	var saw string
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("username") == "alice" {
			saw, got = r.FormValue("password"), mw.Succeeded(r)
		}
		w.WriteHeader(http.StatusUnauthorized)
	})
	p := s.guard.Policy()
	p.Address = []guard.Limit{{Failures: 1, Window: time.Hour, Action: guard.FakeFailure}}
	if err := s.guard.SetPolicy(p); err != nil {
		t.Fatal(err)
	}
	s.try("203.0.113.9", "bob", "wrong")
	s.try("203.0.113.9", "alice", "right")
	if saw == "right" || !errors.Is(got, guard.ErrInsufficient) {
		t.Errorf("the handler saw %q, and Succeeded said %v", saw, got)
	}
}

// While the site is under attack, the right and the wrong password get the same page, and the owner a code.
func TestR32TheOwnerIsSentACode(t *testing.T) {
	t.Parallel()
	type mail struct{ account, code string }
	sent := make(chan mail, 2)
	send := mw.OnVerificationCode(func(_ context.Context, account, code string) { sent <- mail{account, code} })
	s := &site{t: t}
	s.protect(func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "session", Value: r.FormValue("username")})
		if r.FormValue("username") == "down" {
			mw.Abandoned(r)
			return
		}
		if r.FormValue("password") != right {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_ = mw.Succeeded(r) // even without a look at the error, the cookie does not get out
		_, _ = io.WriteString(w, "welcome")
	}, func(d *guard.Defaults) { d.Policy.ThrottleDelay = time.Millisecond }, send)
	for i := range 11 {
		s.try(fmt.Sprintf("198.51.%d.1", i), fmt.Sprint("user", i), fmt.Sprint("wrong", i))
	}
	page := s.try("203.0.113.9", "alice", right, "Accept", "text/html")
	wrong := s.try("203.0.113.10", "bob", "wrong", "Accept", "text/html")
	form := regexp.MustCompile(`name="authguard_form" value="[^"]+"`)
	if a, b := form.ReplaceAllString(page.body, ""), form.ReplaceAllString(wrong.body, ""); a != b {
		t.Errorf("right:\n%s\nwrong:\n%s", a, b)
	}
	if page.StatusCode != http.StatusForbidden || page.Header.Get("Set-Cookie") != "" || !strings.Contains(page.body, `name="code"`) {
		t.Fatalf("%d %v %s", page.StatusCode, page.Header, page.body)
	}
	got := <-sent
	if got.account != "alice" {
		t.Errorf("sent to %q", got.account)
	}
	program := s.try("203.0.113.12", "bob", "other")
	s.want(program, http.StatusForbidden, `"type":"code-required"`)
	down := s.try("203.0.113.11", "down", right)
	if s.want(down, http.StatusServiceUnavailable, "overloaded"); down.Header.Get("Set-Cookie") != "" {
		t.Errorf("a handler that writes no response has set %v", down.Header)
	}
	fields := filled(page.body, "")
	fields.Set("code", got.code)
	s.want(s.send(http.MethodPost, "/login", "203.0.113.9", formType, fields.Encode()), http.StatusOK, "welcome")
	s.want(s.try("203.0.113.9", "alice", right), http.StatusOK, "welcome") // known from then on
	if len(sent) != 0 {
		t.Errorf("another code: %v", <-sent)
	}
}

// With a list of leaked passwords, every wrong password at an unknown client is answered alike.
func TestR32AWrongPasswordDoesNotShowTheList(t *testing.T) {
	t.Parallel()
	sent := make(chan string, 1)
	s := &site{t: t}
	s.protect(func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "visit", Value: "1"})
		if got := r.FormValue("password"); got != right && got != "leaked" || mw.Succeeded(r) != nil {
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, "welcome")
	}, func(d *guard.Defaults) {
		d.Leaked = new(guard.LeakedPasswords)
		d.Leaked.Set(func(password string) bool { return strings.HasPrefix(password, "leaked") })
		d.Policy.PairDelay = guard.PairDelay{}
	}, mw.OnVerificationCode(func(_ context.Context, _, code string) { sent <- code }))
	var all []string
	for i, password := range []string{"other wrong", "leaked wrong", "leaked"} {
		a := s.try(fmt.Sprintf("203.0.%d.9", i), "alice", password)
		s.want(a, http.StatusForbidden, "code-required")
		a.Header.Del("Date")
		all = append(all, fmt.Sprint(a.StatusCode, a.Header, a.body))
	}
	if all[0] != all[1] || all[0] != all[2] {
		t.Errorf("%s", strings.Join(all, "\n"))
	}
	s.want(s.try("203.0.2.9", "alice", "leaked", "Authguard-Code", <-sent), http.StatusOK, "welcome")
	a := s.try("203.0.3.9", "bob", right)
	if s.want(a, http.StatusOK, "welcome"); a.Header.Get("Set-Cookie") == "" {
		t.Errorf("the right password's answer: %v", a.Header)
	}
	s.want(s.try("203.0.3.9", "bob", "other wrong"), http.StatusUnauthorized, "") // a known client
}

// A handler that is judged by its response has signed the user in before the code is required.
func TestR32AJudgedHandlerSendsNoCode(t *testing.T) {
	t.Parallel()
	g, err := guard.Default([]byte("sixteen bytes or more"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	defer func() {
		if got := fmt.Sprint(recover()); !strings.Contains(got, "calls Succeeded") {
			t.Error(got)
		}
	}()
	mw.Protect(g, http.NotFoundHandler(), mw.ByStatus(), mw.SignedIn(func(*http.Request) bool { return false }),
		mw.OnVerificationCode(func(context.Context, string, string) {}))
}

// A wire records what is sent, and can be hijacked.
type wire struct {
	*httptest.ResponseRecorder
	statuses []int
}

func (w *wire) WriteHeader(status int) {
	w.statuses = append(w.statuses, status)
	w.ResponseRecorder.WriteHeader(status)
}

func (w *wire) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, nil }

// A discarded response leaves nothing: no early hint, no connection. The headers of middleware around it stay.
func TestR32ADiscardedResponseLeavesNothing(t *testing.T) {
	t.Parallel()
	g, err := guard.Default([]byte("sixteen bytes or more"), func(d *guard.Defaults) {
		d.Leaked = new(guard.LeakedPasswords)
		d.Leaked.Set(func(string) bool { return true })
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	login := mw.Protect(g, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Set-Cookie", "session=alice")
		w.Header().Set("X-Around", "changed")
		w.WriteHeader(http.StatusEarlyHints)
		if _, _, err := http.NewResponseController(w).Hijack(); !errors.Is(err, http.ErrNotSupported) {
			t.Errorf("hijacked: %v", err)
		}
		if mw.Succeeded(r) == nil {
			t.Error("the leaked password is enough")
		}
		_, _ = io.WriteString(w, "welcome")
	}), mw.OnVerificationCode(func(context.Context, string, string) {}))
	r := httptest.NewRequest(http.MethodPost, "/login", strings.NewReader("username=alice&password=x"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := &wire{ResponseRecorder: httptest.NewRecorder()}
	w.Header().Set("X-Around", "yes")
	login.ServeHTTP(w, r)
	if h := w.Header(); !slices.Equal(w.statuses, []int{http.StatusForbidden}) || h.Get("Set-Cookie") != "" || h.Get("X-Around") != "yes" {
		t.Errorf("%v %v %s", w.statuses, h, w.Body)
	}
}
