package proxy_test

import (
	"crypto/rand"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"authguard/guard"
	"authguard/internal/route"
	"authguard/trusted"
)

// A guestApp turns a signed-in visitor away from its login without checking the password,
// as Devise, Laravel and Django do.
type guestApp struct {
	keeps  bool   // the session's identifier at sign-in
	renews bool   // the cookie in every answer, as Laravel
	token  string // of the form: none, many (outstanding at once) or one (per session)
	alone  bool   // has no page: an API

	mu       sync.Mutex
	users    map[string]string          // of sessions
	tokens   map[string]map[string]bool // of sessions
	checked  []string                   // the passwords
	requests int
}

func (a *guestApp) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.requests++
	if a.users == nil {
		a.users, a.tokens = map[string]string{}, map[string]map[string]bool{}
	}
	id, set := "", a.renews
	if c, err := r.Cookie("session"); err == nil {
		id = c.Value
	} else if one := r.Header.Get("X-Session"); one != "" {
		id = one
	} else if id = r.URL.Query().Get("session"); id == "" {
		id, set = rand.Text(), true
	}
	send := func(status int, body string) {
		if set {
			http.SetCookie(w, &http.Cookie{Name: "session", Value: id, Path: "/"})
		}
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
	home := func() {
		w.Header().Set("Location", "/home")
		send(http.StatusFound, "")
	}
	switch {
	case r.URL.Path == "/account":
		if a.users[id] == "" {
			w.Header().Set("Location", "/login")
			send(http.StatusFound, "")
			return
		}
		send(http.StatusOK, "Hello "+a.users[id])
	case a.alone && r.Method != http.MethodPost:
		send(http.StatusMethodNotAllowed, "")
	case a.users[id] != "":
		home()
	case r.Method != http.MethodPost:
		token := rand.Text()
		if a.tokens[id] == nil || a.token == "one" {
			a.tokens[id] = map[string]bool{}
		}
		a.tokens[id][token] = true
		send(http.StatusOK, `<form><input type="password" name="password"> token=`+token)
	case a.token != "none" && !a.tokens[id][r.PostFormValue("token")]:
		send(http.StatusForbidden, "the form is too old")
	default:
		delete(a.tokens[id], r.PostFormValue("token"))
		if anybody.MatchString(r.PostFormValue("username")) {
			a.checked = append(a.checked, r.PostFormValue("password"))
		}
		if r.PostFormValue("password") != right || !anybody.MatchString(r.PostFormValue("username")) {
			send(http.StatusOK, "the password is wrong")
			return
		}
		if set = true; !a.keeps {
			delete(a.users, id)
			id = rand.Text()
		}
		a.users[id] = r.PostFormValue("username")
		home()
	}
}

func (a *guestApp) seen() (passwords, requests int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.checked), a.requests
}

// signedIn is a visitor's session, after the app's own form.
func (a *guestApp) signedIn(user string) (id string) {
	id = rand.Text()
	a.signIn(id, user)
	return id
}

func (a *guestApp) signIn(id, user string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.users == nil {
		a.users, a.tokens = map[string]string{}, map[string]map[string]bool{}
	}
	a.users[id], a.tokens[id] = user, map[string]bool{"known": true}
}

func guestRoute(change func(*route.Spec)) route.Spec {
	s := route.Spec{Name: "login", Path: "/login", Account: "form:username", Password: "form:password", Success: []string{"status 302", "cookie session"}}
	if change != nil {
		change(&s)
	}
	return s
}

// browser signs in as people do: it gets the page, keeps the cookies, and sends the form.
func (d *door) browser(t *testing.T, from, user, password string) *http.Response {
	t.Helper()
	page := d.send(t, from, offer{"GET", "/login", "", ""}, "Cookie", "theme=dark; session=of-last-week")
	id := "of-last-week"
	for _, c := range page.Cookies() {
		id = c.Value
	}
	_, token, _ := strings.Cut(text(t, page), "token=")
	return d.send(t, from, form(url.Values{"username": {user}, "password": {password}, "token": {token}}.Encode()), "Cookie", "theme=dark; session="+id)
}

// device is whether an answer makes its client a known one.
func device(r *http.Response) bool {
	return strings.Contains(strings.Join(r.Header.Values("Set-Cookie"), " "), "authguard_device")
}

// With a session of their own, attackers get the answer to a right password from an app
// that checks none. It is no success, however the session travels.
func TestAnAttackersSessionProvesNoPassword(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		app    *guestApp
		change func(*route.Spec)
	}{
		"renewed at each answer":      {&guestApp{token: "many", renews: true}, nil},
		"one that stays at a sign-in": {&guestApp{token: "many", renews: true, keeps: true}, nil},
		"no token":                    {&guestApp{token: "none"}, func(s *route.Spec) { s.Success = []string{"status 302"} }},
		"a location":                  {&guestApp{token: "none"}, func(s *route.Spec) { s.Success = []string{"location /home"} }},
		"no page":                     {&guestApp{token: "none", alone: true, renews: true}, nil},
		"a folder":                    {&guestApp{token: "none", renews: true}, func(s *route.Spec) { s.Path = "/*" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDoor(t, redirects, nil)
			app := c.app
			d.behind(t, guestRoute(c.change), app.ServeHTTP)
			for i := range 30 {
				id := app.signedIn("mallory")
				o, headers := form(fmt.Sprintf("username=alice&password=guess-%d&token=known", i)), [][]string{
					{"Cookie", "session=" + id}, {"X-Session", id}, {},
				}[i%3]
				if len(headers) == 0 {
					o.path += "?session=" + id
				}
				if i%5 == 0 { // what a GET alone would be answered otherwise for
					headers = append(headers, "If-None-Match", "*", "Range", "bytes=0-0", "Sec-Purpose", "prefetch")
				}
				answer := d.send(t, fmt.Sprintf("198.18.%d.1", i), o, headers...)
				if device(answer) || answer.StatusCode != http.StatusConflict {
					t.Fatalf("guess %d: %d, %v", i, answer.StatusCode, answer.Header)
				}
				if got := d.Status(t, "alice", fmt.Sprintf("198.18.%d.1", i)); got != trusted.Unknown {
					t.Fatalf("guess %d: the client is %v", i, got)
				}
			}
			if n, _ := app.seen(); n > 0 {
				t.Errorf("the app has checked %d passwords", n)
			}
		})
	}
}

// Without the session, a made-up password fails for the form's token, and so it does for a token that is valid once. So
// the page of signed_in must show that the attempt has signed in: a button such as Cancel leads home, too.
func TestAButtonThatLeadsHomeProvesNoPassword(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct{ keeps, replaces, without bool }{
		"a new session": {}, "the same session": {keeps: true}, "another cookie is replaced": {replaces: true},
		"no cookies": {without: true},
	} {
		d, app := newDoor(t, redirects, nil), &guestApp{token: "many", keeps: one.keeps}
		spec := guestRoute(func(s *route.Spec) {
			s.Success, s.SignedIn = []string{"status 302", "location /home"}, []string{"page /account", "status 200"}
		})
		canceled := false
		d.behind(t, spec, func(w http.ResponseWriter, r *http.Request) {
			if r.PostFormValue("cancel") != "" && !canceled { // its form token is used up now
				canceled = true
				if one.replaces {
					w.Header().Set("Set-Cookie", "lang=fr")
				}
				w.Header().Set("Location", "/home")
				w.WriteHeader(http.StatusFound)
				return
			}
			app.ServeHTTP(w, r)
		})
		for i, body := range []string{"username=alice&password=guess&cancel=1", "username=alice&password=" + url.QueryEscape(right)} {
			from := fmt.Sprintf("198.18.%d.1", i)
			page := d.send(t, from, offer{"GET", "/login", "", ""})
			_, token, _ := strings.Cut(text(t, page), "token=")
			cookies := []string{"Cookie", "session=" + page.Cookies()[0].Value + "; lang=en"}
			if one.without && i == 0 {
				cookies = nil
			}
			answer := d.send(t, from, form(body+"&token="+token), cookies...)
			if answer.StatusCode != http.StatusFound || device(answer) != (i == 1) {
				t.Errorf("%s, %s: %d %v", name, body, answer.StatusCode, answer.Header)
			}
		}
	}
}

// A cache between the proxy and the app answers every client with the page of the first.
func TestACacheHidesNoSession(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		signedIn []string
		key      func(*url.URL) string
		hit      string // header of cached responses
	}{
		"the form":              {nil, (*url.URL).String, ""},
		"a page":                {[]string{"page /account", "status 200"}, (*url.URL).String, ""},
		"regardless of a query": {nil, func(u *url.URL) string { return u.Path }, "X-Cache"},
		"a page, regardless":    {[]string{"page /account", "status 200"}, func(u *url.URL) string { return u.Path }, "Age"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, app, cache := newDoor(t, redirects, nil), &guestApp{token: "none"}, map[string]*httptest.ResponseRecorder{}
			spec := guestRoute(func(s *route.Spec) { s.Success, s.SignedIn = []string{"status 302"}, c.signedIn })
			d.behind(t, spec, func(w http.ResponseWriter, r *http.Request) {
				key := c.key(r.URL)
				if r.Method != http.MethodGet {
					app.ServeHTTP(w, r)
					return
				}
				if cache[key] == nil {
					cache[key] = httptest.NewRecorder()
					app.ServeHTTP(cache[key], r)
				} else if c.hit != "" {
					w.Header().Set(c.hit, map[string]string{"Age": "3", "X-Cache": "HIT from edge"}[c.hit])
				}
				maps.Copy(w.Header(), cache[key].Header())
				w.WriteHeader(cache[key].Code)
				_, _ = w.Write(cache[key].Body.Bytes())
			})
			for i := range 3 {
				for _, path := range []string{"/login", "/account"} {
					d.send(t, "198.18.9.1", offer{"GET", path, "", ""})
				}
				answer := d.send(t, fmt.Sprintf("198.18.%d.1", i), form(fmt.Sprintf("username=alice&password=guess-%d", i)),
					"Cookie", "session="+app.signedIn("mallory"), "Accept-Language", "en")
				if device(answer) || answer.StatusCode != http.StatusConflict {
					t.Errorf("guess %d: %d, %v", i, answer.StatusCode, answer.Header)
				}
			}
		})
	}
}

// The right password signs in from a browser that has old cookies, whatever the app's token
// against forgeries is like, and makes the browser a known client.
func TestVisitorsWithCookiesSignIn(t *testing.T) {
	t.Parallel()
	page := func(s *route.Spec) { s.SignedIn = []string{"page /account", "status 200"} }
	for name, c := range map[string]struct {
		app    *guestApp
		change func(*route.Spec)
	}{
		"no token":                   {&guestApp{token: "none"}, nil},
		"tokens that are good once":  {&guestApp{token: "many"}, nil},
		"renewed at each answer":     {&guestApp{token: "many", renews: true}, nil},
		"the session stays":          {&guestApp{token: "many", keeps: true}, nil},
		"one token for each session": {&guestApp{token: "one"}, page},
		"a page that tells":          {&guestApp{token: "many"}, page},
		"always checked":             {&guestApp{token: "one"}, func(s *route.Spec) { s.SignedIn = []string{"never"} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDoor(t, redirects, nil)
			d.behind(t, guestRoute(c.change), c.app.ServeHTTP)
			for i, password := range []string{"wrong", right} {
				answer := d.browser(t, "198.18.1.1", "alice", password)
				if want := []int{http.StatusOK, http.StatusFound}[i]; answer.StatusCode != want || device(answer) != (i == 1) {
					t.Errorf("%s: %d, %v", password, answer.StatusCode, answer.Header)
				}
			}
			want := 2
			if c.app.token == "none" { // nothing keeps the app from checking the made-up one after the success
				want = 3
			}
			if n, _ := c.app.seen(); n != want {
				t.Errorf("the app has checked %d passwords, want %d", n, want)
			}
		})
	}
}

// A stuckApp is a guestApp in which each session that has failed three times, or waits for its second step, is redirected
// before its password is looked at, while the login page still shows the form.
type stuckApp struct {
	guestApp
	failed map[string]int
}

func (a *stuckApp) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := ""
	if c, err := r.Cookie("session"); err == nil {
		id = c.Value
	}
	if r.Method == http.MethodPost && id != "" && a.failed[id] >= 3 {
		http.Redirect(w, r, "/slow-down", http.StatusFound)
		return
	}
	if r.Method == http.MethodPost && r.PostFormValue("password") != right {
		a.failed[id]++
	}
	a.guestApp.ServeHTTP(w, r)
}

// A session in a state of its own makes a redirect of every attempt. The same session with a made-up password shows that,
// and a page without a form spares the app that check.
func TestASessionThatRedirectsEveryAttemptProvesNoPassword(t *testing.T) {
	t.Parallel()
	for name, keeps := range map[string]bool{"a new identifier at the login": false, "the session stays": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDoor(t, redirects, nil)
			app := &stuckApp{guestApp: guestApp{token: "none", keeps: keeps}, failed: map[string]int{}}
			d.behind(t, guestRoute(func(s *route.Spec) { s.Success = []string{"status 302"} }), app.ServeHTTP)
			const cookie = "session=of-mallory"
			for i := range 3 {
				d.send(t, fmt.Sprintf("198.18.4.%d", i), form(url.Values{"username": {fmt.Sprint("nobody", i)}, "password": {"x"}}.Encode()), "Cookie", cookie)
			}
			answer := d.send(t, "198.18.3.1", form(url.Values{"username": {"alice"}, "password": {"guess"}}.Encode()), "Cookie", cookie)
			if device(answer) || d.Status(t, "alice", "198.18.3.1") != trusted.Unknown {
				t.Errorf("%d %v: known without the password", answer.StatusCode, answer.Header)
			}
			if answer := d.browser(t, "198.18.3.2", "alice", right); !device(answer) {
				t.Errorf("the owner: %d %v", answer.StatusCode, answer.Header)
			}
		})
	}
}

// A pickyApp is a guestApp whose pages depend on more than the session, as of most apps.
func pickyApp(app *guestApp) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		accept, q := r.Header.Get("Accept"), r.URL.Query()
		status := 0
		switch {
		case r.Method != http.MethodGet:
		case accept != "" && !strings.Contains(accept, "html"), r.Header.Get("X-Format") != "":
			status = http.StatusNotAcceptable
		case q.Get("format") != "", strings.Contains(r.URL.Path, ";format"):
			status = http.StatusNotFound
		case r.Header.Get("X-Requested-With") != "":
			status = http.StatusUnauthorized
		case r.Header.Get("X-Tenant") != "": // where nobody is signed in
			w.Header().Set("Location", "/login")
			status = http.StatusFound
		case strings.HasPrefix(r.Header.Get("User-Agent"), "old"):
			w.Header().Set("Location", "/unsupported")
			status = http.StatusFound
		case r.Header.Get("Accept-Language") != "", strings.Contains(r.Header.Get("Accept-Encoding"), "br"):
			fmt.Fprint(w, "Hallo")
			return
		}
		if status > 0 {
			w.WriteHeader(status)
			return
		}
		r.URL.Path, _, _ = strings.Cut(r.URL.Path, ";")
		app.ServeHTTP(w, r)
	}
}

// What else an attempt carries, and a page depends on, hides no session: the attackers
// choose it.
func TestNothingInAnAttemptHidesASession(t *testing.T) {
	t.Parallel()
	for name, signedIn := range map[string][]string{
		"the form": nil, "a page": {"page /account", "status 200"}, "a text": {"page /account", "body Hello"},
	} {
		for _, disturber := range [][]string{
			nil,
			{"Accept", "image/png"},
			{"Accept-Language", "de"},
			{"Accept-Encoding", "br"},
			{"X-Requested-With", "XMLHttpRequest"},
			{"X-Format", "xml"},
			{"User-Agent", "old"},
			{"X-Tenant", "other"},
			{"Range", "bytes=0-0"},
			{"?format=xml", ""},
			{";format=xml", ""},
			{"Accept", "image/png", "User-Agent", "old", "X-Format", "xml"},
		} {
			t.Run(fmt.Sprint(name, disturber), func(t *testing.T) {
				t.Parallel()
				d, app := newDoor(t, redirects, nil), &guestApp{token: "many", renews: true}
				d.behind(t, guestRoute(func(s *route.Spec) { s.SignedIn = signedIn }), pickyApp(app))
				for i := range 4 { // each in a session by cookie, by header, and by the query
					if i%3 > 0 && len(disturber) > 0 && disturber[0] == "X-Tenant" {
						continue // a limit of this, in docs/how-to/reverse-proxy.md
					}
					id := app.signedIn("mallory")
					o := form(fmt.Sprintf("username=alice&password=guess-%d&token=known", i))
					headers := [][]string{{"Cookie", "session=" + id}, {"X-Session", id}, {}}[i%3]
					if len(disturber) > 0 && disturber[1] == "" {
						o.path += disturber[0]
					} else {
						headers = append(headers, disturber...)
					}
					if i%3 == 2 {
						o.path += map[bool]string{true: "&", false: "?"}[strings.Contains(o.path, "?")] + "session=" + id
					}
					answer := d.send(t, fmt.Sprintf("198.18.%d.7", i), o, headers...)
					if device(answer) || answer.StatusCode != http.StatusConflict {
						t.Errorf("guess %d: %d, %v", i, answer.StatusCode, answer.Header)
					}
				}
				if n, _ := app.seen(); n > 0 {
					t.Errorf("the app has checked %d passwords", n)
				}
			})
		}
	}
}

// A made-up password stands for the one in the attempt only if the app reads it alike.
func TestAMadeUpPasswordIsLikeTheOneInTheAttempt(t *testing.T) {
	t.Parallel()
	for name, rule := range map[string]string{
		"long ones": `^.{1,20}$`, "short ones": `^.{5,}$`, "capitals": `^[^A-Z]*$`, "others": `^[a-z]+-[0-9]+$`,
	} {
		app := &guestApp{token: "none", alone: true, renews: true}
		d, valid := newDoor(t, redirects, nil), regexp.MustCompile(rule)
		d.behind(t, guestRoute(nil), func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost && !valid.MatchString(r.PostFormValue("password")) {
				w.WriteHeader(http.StatusUnprocessableEntity)
				return
			}
			app.ServeHTTP(w, r)
		})
		id := app.signedIn("mallory")
		answer := d.send(t, "198.18.0.6", form("username=alice&password=guess-17"), "Cookie", "session="+id)
		if device(answer) || answer.StatusCode != http.StatusConflict {
			t.Errorf("%s: %d, %v", name, answer.StatusCode, answer.Header)
		}
	}
}

// What cannot carry a session costs no second request: most guesses.
func TestWhatCarriesNoSessionIsAskedNothing(t *testing.T) {
	t.Parallel()
	d := newDoor(t, redirects, nil)
	app := &guestApp{token: "none"}
	d.behind(t, guestRoute(nil), app.ServeHTTP)
	for i, c := range []struct {
		headers []string
		path    string
		want    int
	}{
		{nil, "", 1},
		{[]string{"User-Agent", "x", "Referer", "http://example.org/", "Sec-Fetch-Mode", "navigate", "X-Forwarded-Proto", "https", "Cookie", "authguard_solve=-"}, "", 1},
		{[]string{"Cookie", "theme=dark"}, "", 3}, // as browsers ask for a page, and with the attempt's own headers
		{[]string{"Authorization", "Bearer x"}, "", 3},
		{[]string{"X-Auth-Token", "x"}, "", 3},
		{nil, "/login;jsessionid=1", 3},
		{nil, "/login?next=/", 3},
		{[]string{"Cookie", "theme=dark"}, "/login?next=/", 4}, // with the query, and without
		{[]string{"Cookie", "theme=dark", "X-Auth-Token", "x"}, "", 4},
	} {
		_, before := app.seen()
		o := form(fmt.Sprintf("username=user%d&password=wrong", i))
		if c.path != "" {
			o.path = c.path
		}
		d.send(t, fmt.Sprintf("198.18.%d.2", i), o, c.headers...)
		if _, after := app.seen(); after-before != c.want {
			t.Errorf("%v %s: the app got %d requests, want %d", c.headers, c.path, after-before, c.want)
		}
	}
}

// The same with the Authorization header: a page that is open to all, or that a session
// opens, proves no password. It is shown without the header.
func TestAPageThatIsOpenAnywayProvesNoPassword(t *testing.T) {
	t.Parallel()
	d := newDoor(t, redirects, nil)
	d.behind(t, route.Spec{Name: "login", Path: "/*", Account: "basic", Success: []string{"status 2xx"}}, func(w http.ResponseWriter, r *http.Request) {
		name, password, ok := r.BasicAuth()
		_, err := r.Cookie("session")
		switch {
		case r.Method == http.MethodOptions, r.Method == http.MethodPost && (r.URL.Path == "/ping" || r.URL.Path == "/signup"):
			w.WriteHeader(http.StatusNoContent) // whatever the header says
		case r.URL.Path == "/ping":
			w.WriteHeader(http.StatusMethodNotAllowed)
		case r.URL.Path == "/renew" && (!ok || err != nil && password != right):
			w.WriteHeader(http.StatusUnauthorized) // a wrong header renews a session, as in DokuWiki
		case r.URL.Path == "/open", r.URL.Path == "/optional" && !ok, r.URL.Path != "/optional" && err == nil, ok && password == right,
			r.URL.Path == "/logout" && ok: // whatever the header says
			fmt.Fprintf(w, "hello %s", name)
		default:
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	basic := func(from, method, path, password string, headers ...string) *http.Response {
		r := http.Request{Header: http.Header{}}
		r.SetBasicAuth("alice", password)
		return d.send(t, from, offer{method, path, "", ""}, append(headers, "Authorization", r.Header.Get("Authorization"))...)
	}
	for i := range 20 { // 30 answers of 409 would start CAPTCHA mode
		from := fmt.Sprintf("198.18.%d.3", i)
		for _, answer := range []*http.Response{
			basic(from, "GET", "/open", fmt.Sprint("guess", i)),
			basic(from, "GET", "/inside", fmt.Sprint("guess", i), "Cookie", "session=mallorys"),
			basic(from, "GET", "/renew", fmt.Sprint("guess", i), "Cookie", "session=mallorys"),
		} {
			if body := text(t, answer); device(answer) || answer.StatusCode == http.StatusOK && answer.Request.Method == "GET" && body != "hello " {
				t.Fatalf("guess %d: %d %v %s", i, answer.StatusCode, answer.Header, body)
			}
		}
		if got := d.Status(t, "alice", from); got != trusted.Unknown {
			t.Fatalf("guess %d: the client is %v", i, got)
		}
	}
	for i, c := range []struct {
		method, path, password string
		status                 int
		known                  bool
	}{
		{"GET", "/inside", "wrong", 401, false}, {"GET", "/inside", right, 200, true}, {"POST", "/inside", right, 200, false}, // the next GET makes it known
		{"GET", "/optional", "wrong", 401, false}, {"GET", "/optional", right, 200, true},
	} {
		if answer := basic(fmt.Sprintf("198.19.%d.3", i), c.method, c.path, c.password); answer.StatusCode != c.status || device(answer) != c.known {
			t.Errorf("%+v: %d %v", c, answer.StatusCode, answer.Header)
		}
	}
	if answer := basic("198.19.9.3", "GET", "/logout", "wrong"); device(answer) || answer.StatusCode != http.StatusOK {
		t.Errorf("a page for any header: %d %v", answer.StatusCode, answer.Header)
	}
}

// Apps differ in how they answer a wrong password: a GET that is no success confirms the right one.
func TestAWrongPasswordOfBasicNeedNotGet401(t *testing.T) {
	t.Parallel()
	for _, wrong := range []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusFound} {
		d := newDoor(t, redirects, nil)
		d.behind(t, route.Spec{Name: "login", Path: "/*", Account: "basic", Success: []string{"status 2xx"}}, func(w http.ResponseWriter, r *http.Request) {
			if _, password, ok := r.BasicAuth(); !ok {
				w.WriteHeader(http.StatusUnauthorized)
			} else if password != right {
				w.WriteHeader(wrong)
			}
		})
		r := http.Request{Header: http.Header{}}
		r.SetBasicAuth("alice", right)
		if answer := d.send(t, "198.18.1.21", offer{"GET", "/feed", "", ""}, "Authorization", r.Header.Get("Authorization")); !device(answer) {
			t.Errorf("%d: %d %v", wrong, answer.StatusCode, answer.Header)
		}
	}
}

// At a single path, a POST may be public where a GET is not. Only a 401 to a made-up password proves the one in a POST.
func TestAPublicPOSTProvesNoPassword(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		wrong  int // status of a POST with a wrong password
		cookie string
		known  bool
	}{
		"checked": {http.StatusUnauthorized, "", true}, "checked, with a cookie": {http.StatusUnauthorized, "a=1", true},
		"public": {http.StatusOK, "", false}, "public, with a cookie": {http.StatusOK, "a=1", false},
		"public with a field": {http.StatusBadRequest, "", false}, "busy": {http.StatusServiceUnavailable, "", false},
	} {
		d := newDoor(t, redirects, nil)
		spec := route.Spec{Name: "login", Path: "/status", Account: "basic", Success: []string{"status 200"}}
		d.behind(t, spec, func(w http.ResponseWriter, r *http.Request) {
			_, password, _ := r.BasicAuth()
			body, _ := io.ReadAll(r.Body)
			switch {
			case password == right, r.Method == http.MethodPost && !c.known && string(body) == "x":
			case r.Method == http.MethodPost:
				w.WriteHeader(c.wrong)
			default:
				w.WriteHeader(http.StatusUnauthorized)
			}
		})
		for i, password := range []string{"guess", right} {
			r := http.Request{Header: http.Header{}}
			r.SetBasicAuth("alice", password)
			headers := []string{"Authorization", r.Header.Get("Authorization")}
			if c.cookie != "" {
				headers = append(headers, "Cookie", c.cookie)
			}
			from := fmt.Sprintf("198.20.%d.1", i)
			if answer := d.send(t, from, offer{"POST", "/status", "text/plain", "x"}, headers...); device(answer) != (c.known && i == 1) {
				t.Errorf("%s, %s: %d %v", name, password, answer.StatusCode, answer.Header)
			}
		}
	}
}

// Where nothing shows whether the app has checked the password, a success is charged: the page may greet by name. A safe
// method is asked without the header: the page is public, and gets none.
func TestR1AnUnclearSuccessIsNoFreeGuess(t *testing.T) {
	t.Parallel()
	for method, want := range map[string]int{"POST": 5, "PUT": 5, "OPTIONS": 0, "PROPFIND": 0, "GET": 0} {
		one := offer{method, "/inside", "", ""}
		d := newDoor(t, redirects, nil)
		checked := 0
		d.behind(t, route.Spec{Name: "login", Path: "/*", Account: "basic", Success: []string{"status 2xx"}}, func(w http.ResponseWriter, r *http.Request) {
			if _, password, _ := r.BasicAuth(); strings.HasPrefix(password, "guess") {
				checked++
			}
			fmt.Fprint(w, "hello")
		})
		for n := range 12 {
			r := http.Request{Header: http.Header{}}
			r.SetBasicAuth("alice", fmt.Sprint("guess", n))
			if answer := d.send(t, fmt.Sprintf("198.20.%d.1", n), one, "Authorization", r.Header.Get("Authorization")); device(answer) {
				t.Errorf("%v: a known client", one)
			}
		}
		if checked != want {
			t.Errorf("%v: %d passwords checked, want %d", one, checked, want)
		}
	}
}

// A WebDAV client begins with PROPFIND, and becomes known by it. The app gets no request of another method twice.
func TestAWebDAVClientBecomesKnownByPROPFIND(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"OPTIONS", "PROPFIND", "REPORT"} {
		d := newDoor(t, redirects, nil)
		var changed atomic.Int64
		d.behind(t, route.Spec{Name: "dav", Path: "/*", Account: "basic", Success: []string{"not status 401"}}, func(w http.ResponseWriter, r *http.Request) {
			switch account, password, _ := r.BasicAuth(); {
			case account != "alice" || password != right:
				w.WriteHeader(http.StatusUnauthorized)
			case r.Method == http.MethodPut:
				changed.Add(1)
				w.WriteHeader(http.StatusCreated)
			default:
				w.WriteHeader(http.StatusMultiStatus)
			}
		})
		send := func(method, password string) int {
			r := http.Request{Header: http.Header{}}
			r.SetBasicAuth("alice", password)
			return d.send(t, "198.20.1.1", offer{method, "/files/x", "text/plain", rand.Text()}, "Authorization", r.Header.Get("Authorization")).StatusCode
		}
		if got := send(first, "guess"); got != http.StatusUnauthorized {
			t.Errorf("%s with a wrong password: %d", first, got)
		}
		send(first, right)
		for range 8 {
			if got := send(http.MethodPut, right); got != http.StatusCreated {
				t.Errorf("a PUT after %s: %d", first, got)
			}
		}
		if n := changed.Load(); n != 8 {
			t.Errorf("the app has got %d of 8 PUTs", n)
		}
	}
}

// A gateway between the proxy and the app may answer 502 to what the client sent, after the app has checked the password.
func TestR1AGatewaysErrorAfterTheCheckHasFailed(t *testing.T) {
	t.Parallel()
	for _, spec := range []route.Spec{guestRoute(nil), guestRoute(func(s *route.Spec) { s.Path = "/*" })} {
		d := newDoor(t, redirects, nil)
		checked := 0
		d.behind(t, spec, func(w http.ResponseWriter, r *http.Request) {
			if r.PostFormValue("password") != "" {
				checked++
			}
			if len(r.Referer())+len(r.FormValue("next"))+len(r.Header.Get("Cookie")) > 4000 {
				w.WriteHeader(http.StatusBadGateway) // Location is too long
				return
			}
			fmt.Fprint(w, "the form")
		})
		long := strings.Repeat("x", 5000)
		for n := range 12 {
			from, guess := fmt.Sprintf("198.20.%d.1", n), fmt.Sprintf("username=alice&password=guess%d", n)
			switch n % 2 {
			case 0:
				d.send(t, from, form(guess), "Referer", "http://example.org/"+long)
			default:
				d.send(t, from, form(guess+"&next="+long))
			}
		}
		if checked != 5 {
			t.Errorf("%s: %d passwords checked, want 5", spec.Path, checked)
		}
	}
}

// A gateway answers 504 while the app still checks the password, and while it is busy, to the question whether it is down.
func TestR1AGatewaysTimeoutHasFailed(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(w http.ResponseWriter, password string){
		"504 to all": func(w http.ResponseWriter, _ string) { w.WriteHeader(http.StatusGatewayTimeout) },
		"503, and no answer to the question": func(w http.ResponseWriter, password string) {
			if password == "" {
				panic(http.ErrAbortHandler)
			}
			w.WriteHeader(http.StatusServiceUnavailable)
		},
	} {
		d := newDoor(t, redirects, nil)
		checked := 0
		d.behind(t, guestRoute(nil), func(w http.ResponseWriter, r *http.Request) {
			password := r.PostFormValue("password")
			if password != "" {
				checked++
			}
			answer(w, password)
		})
		for n := range 12 {
			d.send(t, fmt.Sprintf("198.20.%d.1", n), form(fmt.Sprint("username=alice&password=guess", n)))
		}
		if checked != 5 {
			t.Errorf("%s: %d passwords checked, want 5", name, checked)
		}
	}
}

// A gateway that answers every GET with 503, or has marked its servers as failed, seems to be down. An app may lock an
// account only after it has checked the password that fills its own limit. That makes three attempts free, not all.
func TestR1AbandonedAttemptsAreFreeThreeTimes(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusServiceUnavailable, http.StatusTooManyRequests} {
		d := newDoor(t, redirects, nil)
		checked := 0
		spec := guestRoute(func(s *route.Spec) { s.Abandoned = []string{"status 429", "status 502", "status 503"} })
		d.behind(t, spec, func(w http.ResponseWriter, r *http.Request) {
			if r.PostFormValue("password") != "" {
				checked++
			}
			w.WriteHeader(status)
		})
		for n := range 20 {
			d.send(t, fmt.Sprintf("198.20.%d.1", n), form(fmt.Sprint("username=alice&password=guess", n)))
		}
		if checked != 5+3 {
			t.Errorf("%d: %d passwords checked, want 5 and 3 free ones", status, checked)
		}
	}
}

// The app's own throttle answers a made-up password with 429, whatever the attempt's answer depends on.
func TestAThrottledConfirmationProvesNoPassword(t *testing.T) {
	t.Parallel()
	f := forgeries["another grant"]
	for _, status := range []int{http.StatusTooManyRequests, http.StatusInternalServerError} {
		d := newDoor(t, redirects, nil)
		asked := 0
		spec := guestRoute(func(s *route.Spec) { s.Success, s.SignedIn = f.success, f.signedIn })
		d.behind(t, spec, func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPost {
				return
			}
			if asked++; asked > 1 {
				w.WriteHeader(status)
				return
			}
			f.app(w, r)
		})
		if answer := d.send(t, "198.20.0.1", form("username=alice&password=guess"+f.body)); device(answer) || asked != 2 {
			t.Errorf("%d: %d requests, %v", status, asked, answer.Header)
		}
	}
}

// An app may take its login form on every page, and show one of them to everyone.
func TestAPageForEveryoneHidesNoSession(t *testing.T) {
	t.Parallel()
	d := newDoor(t, redirects, nil)
	app := &guestApp{token: "none"}
	d.behind(t, guestRoute(func(s *route.Spec) { s.Success = []string{"status 302"} }), func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && r.URL.Query().Get("page") != "" {
			fmt.Fprint(w, "help")
			return
		}
		app.ServeHTTP(w, r)
	})
	o := form("username=alice&password=guess")
	o.path += "?page=help"
	answer := d.send(t, "198.18.0.4", o, "Cookie", "session="+app.signedIn("mallory"))
	if n, _ := app.seen(); n > 0 || device(answer) || answer.StatusCode != http.StatusConflict {
		t.Errorf("%d %v, %d passwords", answer.StatusCode, answer.Header, n)
	}
}

// An app that is away is away before the password is sent, too.
func TestAnAppThatIsAwayIsAskedNothingMore(t *testing.T) {
	t.Parallel()
	d := newDoor(t, redirects, nil)
	d.app.Close()
	d.behind(t, guestRoute(nil), func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	for range 8 {
		if answer := d.send(t, "198.18.0.5", form("username=alice&password=guess"), "Cookie", "session=x"); answer.StatusCode != http.StatusBadGateway {
			t.Fatalf("%d", answer.StatusCode)
		}
	}
}

// An app may end the session at a wrong password, or at its login page: a page of signed_in keeps it.
func TestAPageOfSignedInKeepsTheSession(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ends     string
		signedIn []string
		want     string
	}{
		{http.MethodPost, nil, "[302 302]"}, {http.MethodGet, nil, "[302 302]"}, {http.MethodPut, nil, "[200 200]"},
		{http.MethodPost, []string{"page /account", "status 200"}, "[200 200]"},
		{http.MethodGet, []string{"page /account", "status 200"}, "[200 200]"},
	} {
		var mu sync.Mutex
		users := map[string]string{}
		d := newDoor(t, redirects, nil)
		d.behind(t, guestRoute(func(s *route.Spec) {
			s.Success, s.SignedIn = []string{"status 302", "location /account"}, c.signedIn
		}), func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			sent, _ := r.Cookie("session")
			switch {
			case r.URL.Path == "/account" && (sent == nil || users[sent.Value] == ""):
				http.Redirect(w, r, "/login", http.StatusFound)
				return
			case r.URL.Path == "/account":
				return
			case sent != nil && r.Method == c.ends:
				delete(users, sent.Value)
			}
			if r.PostFormValue("password") == right && anybody.MatchString(r.PostFormValue("username")) {
				id := rand.Text()
				users[id] = r.PostFormValue("username")
				http.SetCookie(w, &http.Cookie{Name: "session", Value: id})
				http.Redirect(w, r, "/account", http.StatusFound)
				return
			}
			fmt.Fprint(w, `<form method="post"><input name="username"><input type="password" name="password"></form>`)
		})
		var out []int
		for i := range 2 {
			answer := d.send(t, fmt.Sprintf("198.18.7.%d", i), form("username=alice&password="+url.QueryEscape(right)), "Cookie", "session=of-last-week")
			for _, c := range answer.Cookies() {
				if c.Name == "session" {
					out = append(out, d.send(t, "198.18.7.99", offer{"GET", "/account", "", ""}, "Cookie", "session="+c.Value).StatusCode)
				}
			}
			if !device(answer) {
				t.Errorf("%v, login %d: %d %v", c, i, answer.StatusCode, answer.Header)
			}
		}
		if fmt.Sprint(out) != c.want {
			t.Errorf("%v: the account page answers %v", c, out)
		}
	}
}

// An app that shows everybody its form, redirects each attempt of a signed-in visitor, and gives the session another
// identifier each time.
func TestASessionThatIsRenewedAtEachAttemptProvesNoPassword(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	users := map[string]string{"mallorys": "mallory"}
	d := newDoor(t, redirects, nil)
	d.behind(t, guestRoute(func(s *route.Spec) { s.Success = []string{"status 302", "location /account"} }), func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		c, _ := r.Cookie("session")
		if r.Method != http.MethodPost {
			fmt.Fprint(w, `<form method="post"><input name="username"><input type="password" name="password"></form>`)
			return
		}
		user := r.PostFormValue("username")
		if c != nil && users[c.Value] != "" {
			user = users[c.Value]
			delete(users, c.Value)
		} else if r.PostFormValue("password") != right {
			return
		}
		id := rand.Text()
		users[id] = user
		http.SetCookie(w, &http.Cookie{Name: "session", Value: id})
		http.Redirect(w, r, "/account", http.StatusFound)
	})
	session := "mallorys"
	for i := range 3 {
		answer := d.send(t, fmt.Sprintf("198.18.8.%d", i), form("username=alice&password=guess"), "Cookie", "session="+session)
		if device(answer) {
			t.Errorf("attempt %d: %d %v", i, answer.StatusCode, answer.Header)
		}
		mu.Lock()
		for session = range users {
		}
		mu.Unlock()
	}
}

// A login page tells a signed-in visitor so, without its form, and redirects each attempt. Another draws its form by a
// script.
func TestALoginPageWithoutAFormProvesNothing(t *testing.T) {
	t.Parallel()
	d := newDoor(t, redirects, nil)
	d.behind(t, guestRoute(func(s *route.Spec) { s.Success = []string{"status 302", "location /account"} }), func(w http.ResponseWriter, r *http.Request) {
		c, _ := r.Cookie("session")
		signedIn := c != nil && c.Value == "mallorys"
		switch {
		case r.Method == http.MethodPost && (signedIn || r.PostFormValue("password") == right && anybody.MatchString(r.PostFormValue("username"))):
			http.Redirect(w, r, "/account", http.StatusFound)
		case signedIn:
			fmt.Fprint(w, `You are signed in as mallory. <a href="/logout">Sign out</a>`)
		default:
			fmt.Fprint(w, `<div id="form"></div><script src="/form.js"></script>`)
		}
	})
	for i := range 3 {
		from := fmt.Sprintf("198.18.9.%d", i)
		answer := d.send(t, from, form(fmt.Sprint("username=alice&password=guess", i)), "Cookie", "session=mallorys")
		if answer.StatusCode != http.StatusConflict || device(answer) || d.Status(t, "alice", from) != trusted.Unknown {
			t.Errorf("%d %v", answer.StatusCode, answer.Header)
		}
	}
	if answer := d.send(t, "198.18.9.9", form("username=alice&password="+url.QueryEscape(right)), "Cookie", "session=of-last-week"); !device(answer) {
		t.Errorf("a right login: %d %v", answer.StatusCode, answer.Header)
	}
}

// Devise answers signed-in visitors at /login.json with its form's data, and each attempt there with a success.
func TestAnotherSpellingOfTheLoginPathHidesNoSession(t *testing.T) {
	t.Parallel()
	for status, success := range map[int]string{http.StatusFound: "status 302", http.StatusCreated: "location /home"} {
		d := newDoor(t, redirects, nil)
		d.behind(t, guestRoute(func(s *route.Spec) { s.Success = []string{success} }), func(w http.ResponseWriter, r *http.Request) {
			c, _ := r.Cookie("session")
			signedIn, data := c != nil && c.Value == "mallorys", strings.HasSuffix(r.URL.Path, ".json")
			switch {
			case signedIn && (r.Method == http.MethodPost || !data):
				w.Header().Set("Location", "/home")
				w.WriteHeader(status)
			case data:
				fmt.Fprint(w, `{"email": ""}`)
			default:
				fmt.Fprint(w, `<input type="password" name="password">`)
			}
		})
		guess := offer{"POST", "/login.json", "application/x-www-form-urlencoded", "username=alice&password=guess"}
		if answer := d.send(t, "198.18.9.1", guess, "Cookie", "session=mallorys"); answer.StatusCode == status && device(answer) ||
			d.Status(t, "alice", "198.18.9.1") != trusted.Unknown {
			t.Errorf("%d: %d %v", status, answer.StatusCode, answer.Header)
		}
	}
}

// A page of the same browser polls during the login, and is redirected because it is signed out. So might be a magic link
// that signs in another account: no client becomes known, and three right logins an hour are not charged.
func TestAPageThatPollsChargesNoRightLogin(t *testing.T) {
	t.Parallel()
	d := newDoor(t, redirects, nil)
	d.behind(t, guestRoute(func(s *route.Spec) { s.Success = []string{"location /account"} }), func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodGet && r.URL.Path == "/poll":
			http.Redirect(w, r, "/sign-in", http.StatusFound)
		case r.Method == http.MethodPost:
			d.send(t, "198.18.5.1", offer{"GET", "/poll", "", ""}, "Cookie", "session=of-last-week-0")
			if r.PostFormValue("password") == right && anybody.MatchString(r.PostFormValue("username")) {
				http.Redirect(w, r, "/account", http.StatusFound)
			}
		default:
			fmt.Fprint(w, `<input type="password" name="password">`)
		}
	})
	for i, want := range []int{0, 0, 0, 1} {
		from := fmt.Sprintf("198.18.5.%d", i)
		answer := d.send(t, from, form("username=alice&password="+url.QueryEscape(right)), "Cookie", "session=of-last-week-0")
		if n := d.Used(t, "alice", from, guard.OnAccount); answer.StatusCode != http.StatusFound || device(answer) || n != want {
			t.Errorf("login %d: %d %v, %d failures, want %d", i, answer.StatusCode, answer.Header, n, want)
		}
	}
	d.send(t, "198.18.5.9", form("username=bob&password=guess"), "Cookie", "session=of-last-week-0")
	if n := d.Used(t, "bob", "198.18.5.9", guard.OnAccount); n != 1 {
		t.Errorf("a wrong password: %d failures", n)
	}
}
