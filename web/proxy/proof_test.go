package proxy_test

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"authguard/internal/route"
	"authguard/trusted"
)

const plainForm = "application/x-www-form-urlencoded"

// A forgery is an app that takes something else than a password for a login, and an attempt that has it.
type forgery struct {
	success, signedIn []string
	app               func(w http.ResponseWriter, r *http.Request) (forged bool)
	body              string
	headers           []string
	password          string // besides this guess; empty: guess-N
}

var forgeries = map[string]forgery{
	// WordPress, DokuWiki and phpMyAdmin do that with a body that PHP does not read.
	"a session that is renewed": {
		success: []string{"cookie session"}, signedIn: []string{"never"},
		app: func(w http.ResponseWriter, r *http.Request) bool {
			c, err := r.Cookie("session")
			if err != nil || c.Value != "mallorys" || r.Header.Get("Content-Type") == plainForm {
				return false
			}
			http.SetCookie(w, &http.Cookie{Name: "session", Value: "mallorys-new"})
			return true
		},
		headers: []string{"Cookie", "session=mallorys", "Content-Type", plainForm + ";charset=utf-8"},
	},
	"a header": {
		success: []string{"status 302", "not location /login*"},
		app: func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.UserAgent(), "Mobile") {
				return false
			}
			http.Redirect(w, r, "/m/", http.StatusFound)
			return true
		},
		headers: []string{"User-Agent", "Mobile Safari"},
	},
	"another grant": {
		success: []string{"status 200", `match "access_token"`},
		app: func(w http.ResponseWriter, r *http.Request) bool {
			if r.PostFormValue("grant_type") != "refresh_token" {
				return false
			}
			fmt.Fprint(w, `{"access_token": "x"}`)
			return true
		},
		body: "&grant_type=refresh_token",
	},
	"another action": {
		success: []string{"status 302", "location /"},
		app: func(w http.ResponseWriter, r *http.Request) bool {
			if r.PostFormValue("action") != "delete" {
				return false
			}
			http.Redirect(w, r, "/", http.StatusFound)
			return true
		},
		body: "&action=delete",
	},
	"a link by email": {
		success:  []string{"status 302"},
		app:      redirectsTo("/check-your-mail", regexp.MustCompile(`^\s*$`)),
		password: " \t",
	},
	"no password": {
		success:  []string{"status 302"},
		app:      redirectsTo("/check-your-mail", regexp.MustCompile(`^$`)),
		password: "-",
	},
	"a filter": {
		success:  []string{"status 302"},
		app:      redirectsTo("/blocked", regexp.MustCompile(`<script|union\s+select|\.\./etc`)),
		password: "<script>alert(1)</script>",
	},
	"a filter of words": {
		success:  []string{"status 302"},
		app:      redirectsTo("/blocked", regexp.MustCompile(`<script|union\s+select|\.\./etc`)),
		password: "union select",
	},
	"a filter of a single word": {
		success:  []string{"status 302"},
		app:      redirectsTo("/blocked", regexp.MustCompile(`sqlite_master`)),
		password: "sqlite_master",
	},
	"zero is empty": {
		success:  []string{"status 302"},
		app:      redirectsTo("/check-your-mail", regexp.MustCompile(`^0?$`)),
		password: " 0",
	},
	"a mark is blank": {
		success:  []string{"status 302"},
		app:      redirectsTo("/check-your-mail", regexp.MustCompile("^\ufeff*$")),
		password: "\ufeff",
	},
	"a text that a visitor has stored": {
		success: []string{"status 200", "body Sign out"},
		app: func(w http.ResponseWriter, _ *http.Request) bool {
			fmt.Fprint(w, "<li>Sign out</li>")
			return true
		},
	},
}

// redirectsTo is an app that answers some passwords without looking at them.
func redirectsTo(page string, passwords *regexp.Regexp) func(w http.ResponseWriter, r *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if !passwords.MatchString(r.PostFormValue("password")) {
			return false
		}
		http.Redirect(w, r, page, http.StatusFound)
		return true
	}
}

// honest answers a login as the route says.
func (f forgery) honest(w http.ResponseWriter, r *http.Request) {
	if r.PostFormValue("password") != right || !anybody.MatchString(r.PostFormValue("username")) {
		fmt.Fprint(w, "wrong")
		return
	}
	http.SetCookie(w, &http.Cookie{Name: "session", Value: "bobs"})
	switch f.success[0] {
	case "status 302":
		http.Redirect(w, r, "/", http.StatusFound)
	default:
		fmt.Fprint(w, `{"access_token": "x"} Sign out`)
	}
}

// What would be a success with any password is none: it is charged like a wrong password, and makes no client known.
func TestWhatAMadeUpPasswordGetsProvesNoPassword(t *testing.T) {
	t.Parallel()
	for name, f := range forgeries {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDoor(t, redirects, nil)
			var stored atomic.Bool
			stored.Store(true)
			spec := guestRoute(func(s *route.Spec) { s.Success, s.SignedIn = f.success, f.signedIn })
			d.behind(t, spec, func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodPost {
					fmt.Fprint(w, "<form>")
				} else if !stored.Load() || !f.app(w, r) {
					f.honest(w, r)
				}
			})
			for i := range 8 {
				from := fmt.Sprintf("198.18.%d.8", i)
				password := cmp.Or(f.password, fmt.Sprint("guess-", i))
				body := url.Values{"username": {"alice"}, "password": {strings.TrimPrefix(password, "-")}, "n": {fmt.Sprint(i)}}
				answer := d.send(t, from, form(body.Encode()+f.body), f.headers...)
				if device(answer) || (answer.StatusCode == http.StatusForbidden) != (i >= 5) {
					t.Fatalf("guess %d: %d %v", i, answer.StatusCode, answer.Header)
				}
				if got := d.Status(t, "alice", from); got != trusted.Unknown {
					t.Fatalf("guess %d: the client is %v", i, got)
				}
			}
			stored.Store(f.body+f.password+strings.Join(f.headers, "") != "")
			for i, password := range []string{"wrong", right} {
				answer := d.send(t, "198.19.0.8", form(url.Values{"username": {"bob"}, "password": {password}}.Encode()))
				if device(answer) != (i == 1) {
					t.Errorf("bob, %s: %d %v", password, answer.StatusCode, answer.Header)
				}
			}
		})
	}
}

// The question after a success goes to the app alone: its answer reaches no client, it is sent once, and a known client
// is not asked about. One that the app does not answer proves nothing.
func TestAProofIsOneRequestMore(t *testing.T) {
	t.Parallel()
	d := newDoor(t, redirects, nil)
	var passwords []string
	var broken atomic.Bool
	d.behind(t, guestRoute(nil), func(w http.ResponseWriter, r *http.Request) {
		passwords = append(passwords, r.PostFormValue("password"))
		made := r.PostFormValue("password") != right || r.PostFormValue("username") != "alice"
		if made && broken.Load() {
			panic(http.ErrAbortHandler)
		}
		http.SetCookie(w, &http.Cookie{Name: "session", Value: map[bool]string{false: "alices", true: "after a wrong password"}[made]})
		w.Header().Set("Location", "/home")
		w.WriteHeader(map[bool]int{false: http.StatusFound, true: http.StatusUnauthorized}[made])
	})
	sign := func(from string) *http.Response {
		return d.send(t, from, form(url.Values{"username": {"alice"}, "password": {right}}.Encode()))
	}
	for i, want := range []int{3, 4} { // the second time the client is known
		answer := sign("198.18.1.9")
		got := strings.Join(answer.Header.Values("Set-Cookie"), " ")
		if answer.StatusCode != http.StatusFound || !strings.Contains(got, "session=alices") || strings.Contains(got, "wrong") || device(answer) != true {
			t.Errorf("%d: %d %s", i, answer.StatusCode, got)
		}
		if len(passwords) != want || passwords[0] != right || passwords[1] == right || len(passwords[1]) != len(right) || passwords[2] != right {
			t.Errorf("%d: the app saw %q", i, passwords)
		}
	}
	broken.Store(true)
	if answer := sign("198.18.2.9"); device(answer) || answer.StatusCode != http.StatusFound || d.Status(t, "alice", "198.18.2.9") != trusted.Unknown {
		t.Errorf("%d %v", answer.StatusCode, answer.Header)
	}
}

// A wrong password ends the session in some apps: the one that has just begun is not in the question.
func TestAProofEndsNoSession(t *testing.T) {
	t.Parallel()
	d := newDoor(t, redirects, nil)
	var mu sync.Mutex
	users := map[string]string{}
	d.behind(t, guestRoute(func(s *route.Spec) { s.Success = []string{"status 302"} }), func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		id := ""
		if c, err := r.Cookie("session"); err == nil {
			id = c.Value
		}
		switch {
		case r.Method != http.MethodPost:
			fmt.Fprint(w, "hello "+users[id])
		case r.PostFormValue("password") != right, r.PostFormValue("username") != "alice":
			delete(users, id)
			fmt.Fprint(w, "wrong")
		default:
			users[id] = "alice"
			w.Header().Set("Location", "/home")
			w.WriteHeader(http.StatusFound)
		}
	})
	answer := d.send(t, "198.18.1.10", form(url.Values{"username": {"alice"}, "password": {right}}.Encode()), "Cookie", "session=kept")
	home := text(t, d.send(t, "198.18.1.10", offer{"GET", "/home", "", ""}, "Cookie", "session=kept"))
	if !device(answer) || home != "hello alice" {
		t.Errorf("%d %v, then %q", answer.StatusCode, answer.Header, home)
	}
}

// An attacker signs in, with the cookie of an attempt, between the proxy's question and the attempt. The app keeps the
// session's identifier, and answers the attempt as it answers whoever is signed in.
func TestASignInAtTheSameTimeProvesNoPassword(t *testing.T) {
	t.Parallel()
	password := "username=mallory&password=" + url.QueryEscape(right)
	for name, c := range map[string]struct{ body, cookies string }{
		"the same cookie":              {password, "session=planted"},
		"encoded":                      {password, "other=1; session=plante%64"},
		"quoted":                       {password, `session="planted"`},
		"as Python reads it":           {password, `session="\160lant\ed"`},
		"no success":                   {password + "&ajax=1", "session=planted"},
		"another form, as of a code":   {"code=123456", "session=planted"},
		"no session set since a start": {password, "session=planted"},
	} {
		d, app := newDoor(t, redirects, nil), &guestApp{token: "none", keeps: true}
		asked, signed := make(chan struct{}), make(chan struct{})
		once, done := sync.OnceFunc(func() { close(asked) }), sync.OnceFunc(func() { close(signed) })
		spec := guestRoute(func(s *route.Spec) { s.Success, s.Passes = []string{"status 302"}, []string{"form:code"} })
		d.behind(t, spec, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/lang" {
				w.Header().Set("Set-Cookie", "lang=en; Path=/")
				return
			}
			plain := strings.NewReplacer("%64", "d", `"`, "", `\160`, "p", `\`, "").Replace(r.Header.Get("Cookie"))
			r.Header.Set("Cookie", plain)
			mallory := r.Header.Get("X-Forwarded-For") == "198.18.2.11"
			switch {
			case mallory && r.PostFormValue("code") != "":
				app.signIn("planted", "mallory")
			case mallory && r.PostFormValue("ajax") != "":
				app.ServeHTTP(httptest.NewRecorder(), r)
			default:
				app.ServeHTTP(w, r)
			}
			switch {
			case mallory && r.Method == http.MethodPost:
				done()
			case !mallory && r.Method == http.MethodGet && r.Header.Get("Accept") == "text/html": // the last question
				once()
				<-signed
			}
		})
		if strings.HasPrefix(name, "no session") {
			d.send(t, "198.18.3.11", offer{"GET", "/lang", "", ""})
		}
		answers := make(chan *http.Response)
		go func() {
			answers <- d.send(t, "198.18.1.11", form("username=alice&password=guess"), "Cookie", "session=planted")
		}()
		<-asked
		d.send(t, "198.18.2.11", form(c.body), "Cookie", c.cookies)
		done() // even if the app has not seen it
		answer := <-answers
		if answer.StatusCode != http.StatusFound || device(answer) || d.Status(t, "alice", "198.18.1.11") != trusted.Unknown {
			t.Errorf("%s: %d %v", name, answer.StatusCode, answer.Header)
		}
		if slices.Contains(app.checked, "guess") {
			t.Errorf("%s: the app has checked %q", name, app.checked)
		}
	}
}

// A session behind more cookies than are compared would be overlooked.
func TestALoginHasFewCookies(t *testing.T) {
	t.Parallel()
	d := newDoor(t, redirects, nil)
	spec := guestRoute(func(s *route.Spec) { s.Passes = []string{"form:code"} })
	d.behind(t, spec, func(http.ResponseWriter, *http.Request) {})
	for _, body := range []string{"username=alice&password=guess", "code=123456"} {
		for n, want := range map[int]int{255: http.StatusOK, 256: http.StatusBadRequest} {
			cookies := strings.Repeat("c=1; ", n) + "session=planted"
			if answer := d.send(t, "198.18.1.14", form(body), "Cookie", cookies); answer.StatusCode != want {
				t.Errorf("%s beside %d cookies: %d", body, n, answer.StatusCode)
			}
		}
	}
}

// Sessions are bound to headers of the browser: the question has them, too.
func TestTheQuestionHasTheHeadersOfTheAttempt(t *testing.T) {
	t.Parallel()
	for name, signedIn := range map[string][]string{"the form": nil, "a page": {"page /account", "status 200"}} {
		d, app := newDoor(t, redirects, nil), &guestApp{token: "none"}
		d.behind(t, guestRoute(func(s *route.Spec) { s.SignedIn = signedIn }), func(w http.ResponseWriter, r *http.Request) {
			if h := r.Header; h.Get("Accept-Language") != "en" || h.Get("Accept-Encoding") != "br" || h.Get("Dnt") != "1" {
				h.Set("Cookie", "session=of-another-browser")
			}
			app.ServeHTTP(w, r)
		})
		answer := d.send(t, "198.18.1.12", form("username=alice&password=guess"),
			"Cookie", "session="+app.signedIn("mallory"), "Accept-Language", "en", "Accept-Encoding", "br", "Dnt", "1")
		if n, _ := app.seen(); n > 0 || device(answer) || answer.StatusCode != http.StatusConflict {
			t.Errorf("%s: %d %v, %d passwords", name, answer.StatusCode, answer.Header, n)
		}
	}
}

// WordPress's preset: a call and its answer have the same elements.
func TestARightPasswordInACallSucceeds(t *testing.T) {
	t.Parallel()
	d := newDoor(t, redirects, nil)
	d.behind(t, route.Spec{Name: "login", Path: "/xmlrpc.php", Account: "xmlrpc", Success: []string{"status 200", "body <params>", "not body faultCode"}},
		func(w http.ResponseWriter, r *http.Request) {
			if body, _ := io.ReadAll(r.Body); !strings.Contains(string(body), ">"+right+"<") || !anybody.Match(body) {
				fmt.Fprint(w, "<methodResponse><fault><name>faultCode</name>")
				return
			}
			fmt.Fprint(w, "<methodResponse><params>")
		})
	several := "<methodCall><methodName>system.multicall</methodName><params><param><value><array><data>"
	for _, c := range [][2]string{{"mallory", right}, {"alice", "guess"}} {
		several += "<value><struct><member><name>methodName</name><value>wp.getUsersBlogs</value></member><member><name>params</name>" +
			"<value><array><data><value>" + c[0] + "</value><value>" + c[1] + "</value></data></array></value></member></struct></value>"
	}
	several += "</data></array></value></param></params></methodCall>"
	if answer := d.send(t, "198.18.2.13", offer{"POST", "/xmlrpc.php", "text/xml", several}); device(answer) || answer.StatusCode != http.StatusOK {
		t.Errorf("mallory's password and a guess for alice: %d %v", answer.StatusCode, answer.Header)
	}
	for i, password := range []string{"wrong", right} {
		call := "<methodCall><methodName>wp.getUsersBlogs</methodName><params><param><value>alice</value></param><param><value>" + password +
			"</value></param></params></methodCall>"
		if answer := d.send(t, "198.18.1.13", offer{"POST", "/xmlrpc.php", "text/xml", call}); device(answer) != (i == 1) {
			t.Errorf("%s: %d %v", password, answer.StatusCode, answer.Header)
		}
	}
}
