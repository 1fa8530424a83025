package proxy_test

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"authguard/guard"
	"authguard/internal/route"
	"authguard/trusted"
	"authguard/web/proxy"
)

// behind puts another app, and one route, behind the door's proxy.
func (d *door) behind(t *testing.T, spec route.Spec, h http.HandlerFunc) {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	upstream, _ := url.Parse(server.URL)
	r, err := route.Compile(spec)
	if err != nil {
		t.Fatal(err)
	}
	d.proxy.Set(proxy.App{Upstream: upstream, Routes: route.Table{r}, Timeout: time.Minute, Patience: time.Minute, MaxBody: 4096})
}

// Express, Rails and Laravel send a wrong password "back", to where the client says that
// it comes from: that must not be where a right one leads.
func TestNobodyChoosesWhereAWrongPasswordLeads(t *testing.T) {
	t.Parallel()
	for _, success := range [][]string{{"status 302", "location /home"}, {"status 302", "not location /login*"}} {
		d := newDoor(t, redirects, nil)
		var from []string
		d.behind(t, route.Spec{Name: "login", Path: "/login", Account: "form:username", Password: "form:password", Success: success}, func(w http.ResponseWriter, r *http.Request) {
			from = append(from, r.Referer())
			back := r.Header.Get("Referrer")
			if back == "" {
				back = r.Referer()
			}
			if back == "" {
				back = "/home" // the page before, of the session
			}
			w.Header().Set("Location", back)
			w.WriteHeader(http.StatusFound)
		})
		host := strings.TrimPrefix(d.URL, "http://")
		ways := [][2]string{
			{"Referer", "http://" + host + "/home"}, {"Referer", "http://evil.example/home"}, {"Referer", "/home"}, {"Referrer", "/home"}, {"Referer", "home"},
			{"Referer", ""}, {"Sec-Fetch-Site", "cross-site"}, {"Referer", "%"},
		}
		for i, way := range ways {
			d.send(t, fmt.Sprintf("198.18.%d.7", i), form(fmt.Sprintf("username=alice&password=%d", i)), way[0], way[1])
		}
		want := []string{"http://" + host + "/login", "http://evil.example/login", "http://" + host + "/login", "http://" + host + "/login", "http://" + host + "/login"}
		if fmt.Sprint(from) != fmt.Sprint(want) {
			t.Errorf("%v: the app saw %d passwords, from %q", success, len(from), from)
		}
	}
}

// A visitor who has just signed out comes from a page whose address has the text of a success, and a script may keep that
// address in a cookie. The app gets neither.
func TestTheRefererHasNoTextOfASuccess(t *testing.T) {
	t.Parallel()
	d := newDoor(t, redirects, nil)
	var from []string
	d.behind(t, guestRoute(func(s *route.Spec) { s.Success = []string{"status 200", "body Logout"} }), func(w http.ResponseWriter, r *http.Request) {
		from = append(from, r.Referer()+r.Header.Get("Cookie"))
		fmt.Fprint(w, "You come from ", r.Referer(), r.Header.Get("Cookie"))
		if r.PostFormValue("password") == right && anybody.MatchString(r.PostFormValue("username")) {
			fmt.Fprint(w, `<a href="/logout">Logout</a>`)
		}
	})
	for password, want := range map[string]bool{right: true, "guess": false} {
		answer := d.send(t, "198.18.1.7", form("username=alice&password="+url.QueryEscape(password)), "Referer", d.URL+"/logout.php", "Cookie", "last_page=%2FLogout; session=of-last-week")
		if device(answer) != want {
			t.Errorf("%s: %d %v", password, answer.StatusCode, answer.Header)
		}
	}
	if n := d.Used(t, "alice", "198.18.1.7", guard.OnAccount); n > 1 {
		t.Errorf("%d failures, want 1 at most", n)
	}
	if strings.Contains(strings.ToLower(fmt.Sprint(from)), "logout") || !strings.Contains(fmt.Sprint(from), d.URL) {
		t.Errorf("the app sees %q", from)
	}
}

// The app at a path that only begins with the route's may have other users: a success there makes no client known, and is
// not charged. As elsewhere, a success counts as a failure if a made-up password gets the same, or if the probe is unclear.
func TestASiblingsSuccessIsNoSuccess(t *testing.T) {
	t.Parallel()
	const strict, loose = false, true // loose: the app answers every password alike
	for _, one := range []struct {
		account, method, password string
		loose                     bool
		charged                   int
	}{
		{"basic", "GET", right, strict, 0}, {"basic", "GET", "guess", strict, 1}, {"basic", "POST", right, strict, 1}, {"basic", "POST", "guess", loose, 1},
		{"form:username", "POST", right, strict, 0}, {"form:username", "POST", "guess", strict, 1}, {"form:username", "POST", "guess", loose, 1},
	} {
		s := route.Spec{Name: "login", Path: "/admin", Account: one.account, Password: "form:password", Success: []string{"status 200"}}
		o, header := form("username=alice&password="+url.QueryEscape(one.password)), []string{}
		if one.account == "basic" {
			s.Path, s.Password = "/admin/*", ""
			o = offer{one.method, "", "", ""}
			header = []string{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte("alice:"+one.password))}
		}
		d := newDoor(t, redirects, nil)
		d.behind(t, s, func(w http.ResponseWriter, r *http.Request) {
			name, password, _ := r.BasicAuth()
			if !one.loose && name+r.PostFormValue("username")+password+r.PostFormValue("password") != "alice"+right {
				w.WriteHeader(http.StatusUnauthorized)
			}
		})
		o.path = "/admin-api/x"
		answer := d.send(t, "198.18.3.1", o, header...)
		if n := d.Used(t, "alice", "198.18.3.1", guard.OnAccount); device(answer) || n != one.charged || d.Status(t, "alice", "198.18.3.1") != trusted.Unknown {
			t.Errorf("%+v: %d, %d failures, device cookie %v", one, answer.StatusCode, n, device(answer))
		}
	}
}

// A page repeats what was sent to it: that is no sign of a success.
func TestATextThatTheClientSentIsNoSuccess(t *testing.T) {
	t.Parallel()
	for i, body := range []string{
		"next=Log+out", "next=%4cog%20out", "next=%254cog%2520out", "next=%26%2376%3Bog+out", "next=Log%3Cb%3E%3C/b%3E+out", "next=LOG+OUT",
		"next=x", "Log+out=1", "",
	} {
		for j, success := range []string{"body Log out", "match (?i)log\\s+out"} {
			d := newDoor(t, redirects, nil)
			d.behind(t, route.Spec{Name: "login", Path: "/login", Account: "form:username", Password: "form:password", Success: []string{"status 200", success}}, func(w http.ResponseWriter, r *http.Request) {
				if r.PostFormValue("password") == "guess" && r.PostFormValue("username") == "alice" { // whatever else was sent, the page has the text
					fmt.Fprint(w, "<p>Hello</p>Log out")
				}
			})
			o := form("username=alice&password=guess&" + body)
			if known, harmless := device(d.send(t, fmt.Sprintf("198.18.%d.%d", i, j), o)), i > 5; known != harmless {
				t.Errorf("%s, %s: known %v", body, success, known)
			}
		}
	}
}

// Many apps send a wrong password back to the page that it was sent to, spelled as the client spelled it.
func TestASpellingOfTheLoginsPageIsNoSuccess(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		path  string
		rules route.Spec
	}{
		{"/login", route.Spec{Path: "/login", Success: []string{"status 302", "not location /login*"}}},
		{"/login", route.Spec{Path: "/login", Success: []string{"status 302"}, Failure: []string{"location /login*"}}},
		{"/account/login", route.Spec{Path: "/account/*", Success: []string{"status 302", "not location /account/login*"}}},
	} {
		d := newDoor(t, redirects, nil)
		c.rules.Name, c.rules.Account, c.rules.Password = "login", "form:username", "form:password"
		seen := 0
		d.behind(t, c.rules, func(w http.ResponseWriter, r *http.Request) {
			seen++
			to := r.URL.RequestURI()
			if r.URL.Query().Get("back") != "" {
				to = r.Referer()
			}
			w.Header().Set("Location", to)
			w.WriteHeader(http.StatusFound)
		})
		end := strings.TrimPrefix(c.path, "/account")
		for i, spelled := range []string{"/anything", "/anything?back=1", strings.ToUpper(end), "/%6Cogin", "/%6cogin/", end + ";x", "/Login?back=1", "/%6Cogin?back=1", end + "/", end + "?back=1"} {
			o := form(fmt.Sprintf("username=alice%d&password=guess%d", i, i))
			o.path = strings.TrimSuffix(c.path, end) + spelled
			if !strings.HasSuffix(c.rules.Path, "*") && strings.HasPrefix(spelled, "/any") {
				continue // another page
			}
			for _, referer := range []string{"", d.URL + "/home"} {
				if answer := d.send(t, fmt.Sprintf("198.18.%d.7", i), o, "Referer", referer); device(answer) || seen == 0 {
					t.Errorf("%v %s from %q: %d %v", c.rules.Success, o.path, referer, answer.StatusCode, answer.Header)
				}
				seen = 0
			}
		}
	}
}

// A session in the second step of its own login may name another account, which the app ignores. Its state is gone
// afterwards, so that a repetition fails.
func TestALoginThatContinuesProvesNoOtherAccount(t *testing.T) {
	t.Parallel()
	for _, failure := range [][]string{nil, {"sent login-continue"}} {
		d, pending := newDoor(t, redirects, nil), true
		d.behind(t, route.Spec{Name: "login", Path: "/app/*", Account: "form:username", Password: "form:password",
			Success: []string{"status 302"}, Failure: failure, SignedIn: []string{"never"}}, func(w http.ResponseWriter, r *http.Request) {
			if r.FormValue("action") == "login-continue" && pending {
				pending = false
				w.Header().Set("Location", "/home")
				w.WriteHeader(http.StatusFound)
			}
		})
		o := form("username=alice&password=x&action=login%2Dcontinue")
		o.path = "/app/login"
		answer := d.send(t, "198.18.0.7", o, "Cookie", "sid=0123456789abcdef0123")
		if known := device(answer); known != (failure == nil) {
			t.Errorf("failure %q: a known client: %v (%d)", failure, known, answer.StatusCode)
		}
	}
}

// In a folder, and below a single path, a sign-up may look like a login. Repeated with another password or name, it
// would make an account of somebody else's.
func TestFormsThatChangeAccountsAreNotRepeated(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/app/*", "/login"} {
		d := newDoor(t, redirects, nil)
		var sent []string
		d.behind(t, route.Spec{Name: "login", Path: path, Account: "form:username", Password: "form:password",
			Success: []string{"status 302"}}, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			sent = append(sent, r.FormValue("username")+" "+r.FormValue("password"))
			w.Header().Set("Location", "/home")
			w.WriteHeader(http.StatusFound)
		})
		for i, one := range [][2]string{
			{"/register", ""}, {"/sign-up", ""}, {"/password/change", ""}, {"/users", ""}, {"/x", "&current_password=old"}, {"/x", "&password_confirmation=pw"}, {"/x", "&pass2=pw"}, {"/log-in/reset", ""},
		} {
			sent = nil
			o := form(fmt.Sprintf("username=bob%d&password=pw%s", i, one[1]))
			o.path = strings.TrimSuffix(path, "/*") + one[0]
			answer := d.send(t, fmt.Sprintf("198.18.%d.7", i), o, "Cookie", "sid=0123456789abcdef0123")
			if want := []string{fmt.Sprintf("bob%d pw", i)}; !slices.Equal(sent, want) || device(answer) {
				t.Errorf("%s %v: the app got %q, want %q", path, one, sent, want)
			}
		}
	}
}

// A password with such a word, and such words in the path before a login's own, do not make a login another form.
func TestALoginLooksLikeNoFormThatChangesAccounts(t *testing.T) {
	t.Parallel()
	for i, one := range []struct{ path, at, kind, body string }{
		{"/app/*", "/app/login", "application/x-www-form-urlencoded", "username=alice&password=MyNewPassword-1"},
		{"/app/*", "/app/login", "application/json", `{"password": "MyNewPassword-1", "username": "alice"}`},
		{"/app/*", "/app/login", "multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=\"username\"\r\n\r\nalice\r\n" +
			"--b\r\nContent-Disposition: form-data; name=\"password\"\r\n\r\nMyNewPassword-1\r\n--b--\r\n"},
		{"/*", "/exchange/login", "application/x-www-form-urlencoded", "username=alice&password=MyNewPassword-1"},
		{"/exchange/*", "/exchange/", "application/x-www-form-urlencoded", "username=alice&password=MyNewPassword-1"},
		{"/members/*", "/members/", "application/x-www-form-urlencoded", "username=alice&password=MyNewPassword-1"},
	} {
		d := newDoor(t, redirects, nil)
		spec := route.Spec{Name: "login", Path: one.path, Account: "param:username", Password: "param:password",
			Success: []string{"status 302"}, SignedIn: []string{"never"}}
		if one.kind == "application/json" {
			spec.Account, spec.Password = "json:/username", "json:/password"
		}
		d.behind(t, spec, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if strings.Contains(string(body), "MyNewPassword-1") && strings.Contains(string(body), "alice") {
				w.Header().Set("Location", "/home")
				w.WriteHeader(http.StatusFound)
			}
		})
		answer := d.send(t, fmt.Sprintf("198.18.%d.7", i), offer{"POST", one.at, one.kind, one.body}, "Cookie", "sid=0123456789abcdef0123")
		if answer.StatusCode != http.StatusFound || !device(answer) {
			t.Errorf("%s at %s: %d, no known client", one.kind, one.at, answer.StatusCode)
		}
	}
}

// A session may be renewed by a form for something else, with another account's name beside it, and the old one ends:
// then no repetition can succeed.
func TestARenewedSessionProvesNoOtherAccount(t *testing.T) {
	t.Parallel()
	for cookie, want := range map[string]bool{"sid=0123456789abcdef0123": true, "UserID=7; sid=0123456789abcdef0123": false} {
		d, alive := newDoor(t, redirects, nil), true
		d.behind(t, route.Spec{Name: "login", Path: "/*", Account: "form:username", Password: "form:password",
			Success: []string{"status 302", "cookie UserID"}, SignedIn: []string{"never"}}, func(w http.ResponseWriter, r *http.Request) {
			if alive && r.Method == http.MethodPost {
				alive = false
				http.SetCookie(w, &http.Cookie{Name: "UserID", Value: "7"})
				w.Header().Set("Location", "/home")
				w.WriteHeader(http.StatusFound)
			}
		})
		o := form("username=alice&password=x")
		o.path = "/index.php"
		answer := d.send(t, "198.18.0.7", o, "Cookie", cookie)
		if device(answer) != want {
			t.Errorf("%s: a known client: %v (%d)", cookie, !want, answer.StatusCode)
		}
	}
}

// Only a login that could have started a session shows that the app's sessions do not use cookies.
func TestAnAppWithoutCookiesShowsThatAtALogin(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		account, cookie, sets string
		want                  []string
	}{
		"a form": {"form:username", "", "", []string{" "}}, "with a cookie": {"form:username", "consent=yes", "", nil},
		"a session": {"form:username", "", "sid=1", []string{"sid"}}, "basic": {"basic", "", "", nil},
	} {
		d, spec := newDoor(t, redirects, nil), route.Spec{Name: "login", Path: "/login", Account: c.account, Success: []string{"status 302"}}
		if c.account != "basic" {
			spec.Password = "form:password"
		}
		d.behind(t, spec, func(w http.ResponseWriter, r *http.Request) {
			account, password, _ := r.BasicAuth()
			if cmp.Or(account, r.FormValue("username")) != "alice" || cmp.Or(password, r.FormValue("password")) != right {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			if c.sets != "" {
				w.Header().Set("Set-Cookie", c.sets)
			}
			w.Header().Set("Location", "/home")
			w.WriteHeader(http.StatusFound)
		})
		headers := []string{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte("alice:"+right))}
		if c.account != "basic" {
			headers = nil
		}
		if c.cookie != "" {
			headers = append(headers, "Cookie", c.cookie)
		}
		answer := d.send(t, "198.18.0.7", form("username=alice&password="+url.QueryEscape(right)), headers...)
		if got := d.rivals.Learn(nil); !device(answer) || !slices.Equal(got, c.want) {
			t.Errorf("%s: %d %v, learned %q", name, answer.StatusCode, answer.Header, got)
		}
	}
}

// A page that shows its login form elsewhere, and an app that is not judged by where it
// redirects to, get the Referer as it is.
func TestTheRefererPassesWhereItIsHarmless(t *testing.T) {
	t.Parallel()
	d := newDoor(t, redirects, nil, "302", "code")
	for path, referer := range map[string]string{"/login": d.URL + "/login?next=/home", "/code": "http://evil.example/home", "/other": "/home"} {
		d.send(t, "198.18.0.7", offer{"POST", path, "application/x-www-form-urlencoded", "username=alice&password=x"}, "Referer", referer)
		if _, r := d.app.lastSeen(); r.Referer() != referer {
			t.Errorf("%s: from %s, not %s", path, r.Referer(), referer)
		}
	}
}

// What caches may keep for everybody has no device's cookie in it.
func TestNoDevicesCookieIsCachedForEverybody(t *testing.T) {
	t.Parallel()
	for control, want := range map[string]bool{"": true, "max-age=60": true, "private": true, "Public, max-age=60": false, "s-maxage=60": false, "must-revalidate": false,
		"no-store, no-cache, must-revalidate": true, "max-age=0, must-revalidate, private": true} {
		d := newDoor(t, redirects, nil)
		d.behind(t, route.Spec{Name: "login", Path: "/*", Account: "basic", Success: []string{"status 200"}}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", control)
			if _, password, _ := r.BasicAuth(); password != right {
				w.WriteHeader(http.StatusUnauthorized)
			}
		})
		r, _ := http.NewRequest(http.MethodGet, d.URL+"/style.css", nil)
		r.SetBasicAuth("alice", right)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if got := len(answer.Header["Set-Cookie"]) > 0; got != want {
			t.Errorf("%q: a cookie is set: %v", control, got)
		}
	}
}

// Django, PHP and WordPress send such answers to a login form, which no cache stores.
func TestAFormsAnswerThatMustBeRevalidatedSetsTheDeviceCookie(t *testing.T) {
	t.Parallel()
	d := newDoor(t, redirects, nil)
	d.behind(t, guestRoute(func(s *route.Spec) { s.Success = []string{"location /home"} }), func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-cache, must-revalidate, max-age=0")
		redirects(w, r.PostFormValue("password") == right && anybody.MatchString(r.PostFormValue("username")))
	})
	if answer := d.send(t, "198.18.0.7", form("username=alice&password="+url.QueryEscape(right))); !device(answer) {
		t.Errorf("%d %v", answer.StatusCode, answer.Header)
	}
}

func TestThePageOfAnAppThatIsAwayLeadsNowhereElse(t *testing.T) {
	t.Parallel()
	d := newDoor(t, redirects, nil)
	d.app.Close()
	for path, want := range map[string]string{"//evil.example/x": `href="/"`, "/a?b=c": `href="/a?b=c"`} {
		if page := text(t, d.send(t, "198.18.0.7", offer{"GET", path, "", ""})); !strings.Contains(page, want) || strings.Contains(page, `"//evil`) {
			t.Errorf("%s: %s", path, page)
		}
	}
}

// The app's answer passes as it is: without a type that it does not have, and with no
// second 100 Continue before it.
func TestNothingIsAddedToAnAnswer(t *testing.T) {
	t.Parallel()
	d := newDoor(t, redirects, nil)
	d.behind(t, specs["form"], func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Content-Type"] = nil
		w.Header().Set("X-Expect", r.Header.Get("Expect"))
		_, _ = io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, "<html>")
	})
	for _, path := range []string{"/other", "/login"} {
		asked := 0
		r, _ := http.NewRequest(http.MethodPost, d.URL+path, strings.NewReader("username=alice&password=x"))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Expect", "100-continue")
		answer, err := (&http.Transport{ExpectContinueTimeout: time.Hour}).RoundTrip(r.WithContext(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(int, textproto.MIMEHeader) error { asked++; return nil },
		})))
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if asked != 1 || answer.Header["Content-Type"] != nil || answer.Header.Get("X-Expect") != "" {
			t.Errorf("%s: %d, %v", path, asked, answer.Header)
		}
	}
}

// The app gets no cookie of ours, and all the same a browser keeps no more of them than
// are looked at.
func TestABrowserKeepsFewDevicesCookies(t *testing.T) {
	t.Parallel()
	d := newDoor(t, wordpress, nil, "form")
	var cookies []string
	for i := range guard.MaxDevices + 2 {
		cookies = append(cookies, fmt.Sprintf("authguard_device_%d=x", i))
	}
	answer := d.send(t, "198.18.0.7", form("username=alice&password="+url.QueryEscape(right)), "Cookie", strings.Join(cookies, "; "))
	taken := 0
	for _, c := range answer.Cookies() {
		if c.MaxAge < 0 {
			taken++
		}
	}
	if taken != 3 {
		t.Errorf("%d cookies are taken away: %q", taken, answer.Header["Set-Cookie"])
	}
}
