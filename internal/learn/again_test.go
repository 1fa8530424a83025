package learn

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"authguard/internal/route"
)

const (
	wrongOne = "tYped-wrong-4711"
	rightOne = "tYped-right-0815"
)

// learned is what is learned of an app whose login form is at a path, and what the app
// was sent after it had been shown two logins. The path is that of the page and the login, or of both with a space.
func learned(t *testing.T, path string, fields url.Values, passwords [2]string, app http.HandlerFunc) (p Proposal, later []string, err error) {
	t.Helper()
	ask := func(r *http.Request) *http.Response {
		w := httptest.NewRecorder()
		app(w, r)
		return w.Result()
	}
	w := New()
	var logins []*Login
	opened, path, two := strings.Cut(path, " ")
	if !two {
		path = opened
	}
	for _, password := range passwords {
		page := ask(httptest.NewRequest(http.MethodGet, opened, nil))
		shown, _ := io.ReadAll(page.Body)
		form := url.Values{"username": {"alice"}, "password": {password}}
		for name, value := range fields {
			form[name] = value
		}
		for at, value := range hidden(shown) {
			form.Set(strings.TrimPrefix(at, "form:"), value)
		}
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Referer", "http://"+r.Host+opened)
		for _, c := range keep(nil, route.Answer{Header: page.Header}) {
			r.AddCookie(c)
		}
		login := w.Login(r, []byte(form.Encode()))
		answer := ask(r)
		body := make([]byte, 1<<16)
		n, _ := answer.Body.Read(body)
		login.Answered(route.Answer{Status: answer.StatusCode, Header: answer.Header, Body: body[:n], Whole: true})
		logins = append(logins, login)
	}
	p, err = Check(t.Context(), func(r *http.Request) (*http.Response, error) {
		clone := r.Clone(t.Context())
		clone.Body, _ = r.GetBody()
		_ = clone.ParseForm()
		later = append(later, r.Method+" "+r.URL.Path+" "+clone.Form.Encode())
		return ask(r), nil
	}, logins[0], logins[1])
	if strings.Contains(fmt.Sprint(later), wrongOne) {
		t.Errorf("the wrong password that was typed is sent: %q", later)
	}
	for _, secret := range passwords {
		if strings.Contains(fmt.Sprintf("%+v %v %+v", p, err, logins[1]), secret) {
			t.Errorf("a password that was typed is kept: %+v %v %+v", p, err, logins[1])
		}
	}
	if strings.Contains(YAML(p), "alice") {
		t.Errorf("the name is repeated: %s", YAML(p))
	}
	return p, later, err
}

var inOrder = [2]string{wrongOne, rightOne}

// sets sets a session's cookie if the request has none, or if it is to be a new one.
func sets(w http.ResponseWriter, r *http.Request, anew bool) {
	if _, err := r.Cookie("wiki_session"); err != nil || anew {
		http.SetCookie(w, &http.Cookie{Name: "wiki_session", Value: "abc"})
	}
}

// MediaWiki sets its session's cookie on every request without one. A rule of that
// cookie takes each guess without cookies for a success.
func TestLearnOfAnAppThatSetsItsSessionAlways(t *testing.T) {
	t.Parallel()
	p, later, err := learned(t, "/w/api.php", url.Values{"action": {"clientlogin"}}, inOrder, func(w http.ResponseWriter, r *http.Request) {
		right := r.PostFormValue("password") == rightOne
		sets(w, r, right)
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		switch {
		case r.PostFormValue("action") != "clientlogin":
			fmt.Fprint(w, `{"batchcomplete":""}`)
		case right:
			fmt.Fprint(w, `{"clientlogin":{"status":"PASS","username":"Alice"}}`)
		default:
			fmt.Fprint(w, `{"clientlogin":{"status":"FAIL","message":"Incorrect username or password.","messagecode":"wrongpassword"}}`)
		}
	})
	if want := []string{"status 200", `json /clientlogin/status "PASS"`}; err != nil || !slices.Equal(p.Success, want) {
		t.Errorf("success is %q, %v; want %q", p.Success, err, want)
	}
	if !strings.Contains(YAML(p), "    # Other forms at "+p.Path+" are rejected until") {
		t.Errorf("nothing says that other forms are rejected:\n%s", YAML(p))
	}
	if p.Folder != "/*" || !slices.Equal(p.Also, []string{"/w", "/"}) || !strings.Contains(YAML(p), "    # The app takes the same login at /w, / too") {
		t.Errorf("a front controller: %q, %q", p.Folder, p.Also)
	}
	later = slices.DeleteFunc(later, func(asked string) bool { return strings.HasPrefix(asked, "GET") })
	if len(later) > 16 {
		t.Errorf("the app was asked to log in %d times: %q", len(later), later)
	}
}

func TestLearnProposesNothingThatAGuessFulfils(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		passwords [2]string
		err       error
		app       http.HandlerFunc
	}{
		"the same answer": {inOrder, nil, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "as always") }},
		"a session's cookie alone": {inOrder, nil, func(w http.ResponseWriter, r *http.Request) {
			sets(w, r, r.PostFormValue("password") == rightOne)
		}},
		"a cookie that a POST without cookies gets": {inOrder, nil, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				http.SetCookie(w, &http.Cookie{Name: "seen", Value: "1"})
			} else if _, err := r.Cookie("seen"); err != nil || r.PostFormValue("password") == rightOne {
				http.SetCookie(w, &http.Cookie{Name: "sid", Value: "1"})
			}
		}},
		"the right password first": {[2]string{rightOne, wrongOne}, ErrOrder, func(w http.ResponseWriter, r *http.Request) {
			if r.PostFormValue("password") == rightOne {
				w.WriteHeader(http.StatusFound)
			}
		}},
	} {
		p, _, err := learned(t, "/login", nil, c.passwords, c.app)
		if !errors.Is(err, c.err) || err == nil && (!slices.Equal(p.Success, never) ||
			!strings.Contains(YAML(p), "    # The app gives a right and a wrong password the same answer.")) {
			t.Errorf("%s: %q, %v; want never, %v\n%s", name, p.Success, err, c.err, YAML(p))
		}
	}
}

// An app that has locked the account says nothing of what a guess gets.
func TestLearnProposesNothingOfALockOut(t *testing.T) {
	t.Parallel()
	seen := 0
	p, _, err := learned(t, "/login", nil, inOrder, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			seen++
		}
		switch {
		case seen > 2:
			w.WriteHeader(http.StatusTooManyRequests)
		case r.PostFormValue("password") == rightOne:
			w.WriteHeader(http.StatusFound)
		}
	})
	if err == nil || !strings.Contains(err.Error(), "lockout") {
		t.Errorf("%q, %v; want nothing", p.Success, err)
	}
}

// What a guess without cookies gets makes the rule tighter.
func TestLearnTightensARuleByAGuess(t *testing.T) {
	t.Parallel()
	p, _, err := learned(t, "/login", nil, inOrder, func(w http.ResponseWriter, r *http.Request) {
		_, fresh := r.Cookie("wiki_session")
		sets(w, r, false)
		switch {
		case r.Method == http.MethodGet:
		case r.URL.Path != "/login":
			http.NotFound(w, r)
		case fresh != nil:
			http.Redirect(w, r, "/login?expired", http.StatusFound)
		case r.PostFormValue("password") == rightOne:
			http.SetCookie(w, &http.Cookie{Name: "user", Value: "1"})
			http.Redirect(w, r, "/home", http.StatusFound)
		}
	})
	if want := []string{"status 302", "not location /login*", "cookie user"}; err != nil || !slices.Equal(p.Success, want) || p.Folder != "" {
		t.Errorf("success is %q, folder %q, %v; want %q", p.Success, p.Folder, err, want)
	}
}

// phpMyAdmin begins another session with each page, checks the password of who is signed in,
// too, and answers a token that is not the session's like a wrong password.
func TestLearnTakesALostTokenForNoWrongPassword(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		checks bool // the password of a visitor who is signed in
		shows  bool // them a token
		want   []string
		err    error
	}{
		"checked anyway": {true, true, []string{"never"}, nil},
		"not looked at":  {false, true, nil, ErrSession},
		"no token":       {false, false, nil, ErrSession},
	} {
		users, n := map[string]string{}, 0
		p, _, err := learned(t, "/login", nil, inOrder, func(w http.ResponseWriter, r *http.Request) {
			id := ""
			if one, err := r.Cookie("sid"); err == nil {
				id = one.Value
			}
			begin := func(user string) {
				n++
				http.SetCookie(w, &http.Cookie{Name: "sid", Value: "given up"})
				http.SetCookie(w, &http.Cookie{Name: "sid", Value: fmt.Sprint("session", n)})
				users[fmt.Sprint("session", n)] = user
			}
			w.Header().Set("Content-Type", "text/html")
			_, alive := users[id]
			text, valid := "", alive && r.PostFormValue("token") == "of "+id
			switch inside := users[id] != ""; {
			case r.URL.Path != "/login" && r.URL.Path != "/":
				http.NotFound(w, r)
				return
			case r.Method == http.MethodGet && inside && c.shows:
				fmt.Fprintf(w, `<form><input type=hidden name=token value="of %s">`, id)
				return
			case r.Method == http.MethodGet && inside:
				return
			case r.Method == http.MethodGet:
			case r.URL.Path == "/":
				http.NotFound(w, r)
				return
			case valid && (inside && !c.checks || r.PostFormValue("password") == rightOne):
				delete(users, id)
				begin("alice")
				http.SetCookie(w, &http.Cookie{Name: "user", Value: "1"})
				http.Redirect(w, r, "/", http.StatusFound)
				return
			default:
				text = "<p>The password is wrong.</p>"
			}
			delete(users, id)
			begin("")
			fmt.Fprintf(w, `<form><input name=username><input name=password type=password>`+
				`<input type=hidden name=token value="of session%d">%s`, n, text)
		})
		if !errors.Is(err, c.err) || !slices.Equal(p.SignedIn, c.want) {
			t.Errorf("%s: signed_in %q, %v; want %q, %v\n%s", name, p.SignedIn, err, c.want, c.err, YAML(p))
		}
	}
}

// An app may end a session at a wrong password, or at its login page. It checks every password, and the proxy is not to ask
// in a session.
func TestLearnOfAnAppWhoseLoginEndsSessions(t *testing.T) {
	t.Parallel()
	for method, want := range map[string][]string{
		http.MethodPost: {"never"}, http.MethodGet: {"never"}, http.MethodPut: nil,
	} {
		users, n := map[string]bool{}, 0
		p, _, err := learned(t, "/login", nil, inOrder, func(w http.ResponseWriter, r *http.Request) {
			c, _ := r.Cookie("sid")
			switch {
			case r.URL.Path == "/inside" && (c == nil || !users[c.Value]):
				http.Redirect(w, r, "/login", http.StatusFound)
				return
			case r.URL.Path == "/inside":
				fmt.Fprint(w, "Hello")
				return
			case r.URL.Path != "/login":
				http.NotFound(w, r)
				return
			case c != nil && r.Method == method:
				delete(users, c.Value)
			}
			if r.PostFormValue("password") == rightOne {
				n++
				users[fmt.Sprint("session", n)] = true
				http.SetCookie(w, &http.Cookie{Name: "sid", Value: fmt.Sprint("session", n)})
				http.Redirect(w, r, "/inside", http.StatusFound)
				return
			}
			if c == nil {
				http.SetCookie(w, &http.Cookie{Name: "sid", Value: "anonymous"})
			}
			fmt.Fprint(w, `<form><input name=username><input name=password type=password></form>`)
		})
		if err != nil || !slices.Equal(p.SignedIn, want) {
			t.Errorf("%s: signed_in %q, %v; want %q\n%s", method, p.SignedIn, err, want, YAML(p))
		}
	}
}

// An app that reads the fields and not the address is guarded in the smallest folder
// where it does. Its token against forgeries is that of the page.
func TestLearnFindsAFrontController(t *testing.T) {
	t.Parallel()
	for under, want := range map[string]string{"/": "/*", "/index.php": "/index.php/*", "/index.php/user": "/index.php/user/*", "/index.php/user/login/": "/index.php/user/login/*", "/none": ""} {
		p, later, err := learned(t, "/index.php/user/login", url.Values{"token": {"of the page"}}, inOrder, func(w http.ResponseWriter, r *http.Request) {
			sets(w, r, false)
			w.Header().Set("Content-Type", "text/html")
			switch path := r.URL.Path; {
			case r.Method == http.MethodGet:
				fmt.Fprint(w, `<h1>Log in</h1><form><input name=username><input name=password type=password><input type=hidden name=token value="of the page">`)
			case r.PostFormValue("token") != "of the page":
				w.WriteHeader(http.StatusForbidden)
			case path != "/index.php/user/login" && !strings.HasPrefix(path, under):
				fmt.Fprint(w, `<h1>Welcome to this site</h1>`)
			case r.PostFormValue("password") == rightOne:
				http.Redirect(w, r, "/", http.StatusFound)
			default:
				fmt.Fprint(w, `<h1>Log in</h1><p>The password is wrong.</p>`)
			}
		})
		if err != nil || p.Folder != want || !slices.Equal(p.Success, []string{"status 302"}) {
			t.Errorf("below %s: folder %q, success %q, %v; want %q\n%q", under, p.Folder, p.Success, err, want, later)
		}
		for _, part := range strings.SplitAfter(YAML(p), "- name:")[1:] {
			if !strings.Contains(part, "success: [status 302]") {
				t.Errorf("a route without a rule: %s", YAML(p))
			}
		}
	}
}

// MediaWiki finds its login by the field title, wherever it is sent. Its pages have a search form with another title, and
// tabs with the path of the request.
func TestLearnFindsEveryAddressOfMediaWikisLogin(t *testing.T) {
	t.Parallel()
	p, _, err := learned(t, "/index.php?title=Special:UserLogin /index.php/Special:UserLogin", nil, inOrder, func(w http.ResponseWriter, r *http.Request) {
		sets(w, r, false)
		w.Header().Set("Content-Type", "text/html")
		title := strings.TrimPrefix(r.URL.Path, "/index.php/")
		if written := r.FormValue("title"); written != "" {
			title = written
		}
		login := title == "Special:UserLogin"
		if login && r.PostFormValue("password") == rightOne {
			http.SetCookie(w, &http.Cookie{Name: "wikiUserID", Value: "1"})
			http.Redirect(w, r, "/index.php/Main_Page", http.StatusFound)
			return
		}
		fmt.Fprint(w, `<form><input type=search name=search><input type=hidden name=title value=Special:Search></form>`)
		if login {
			fmt.Fprint(w, `<form method=post><input type=hidden name=title value=Special:UserLogin><input name=username>`+
				`<input name=password type=password></form>`)
			if r.Method == http.MethodPost {
				fmt.Fprint(w, "<p>Incorrect username or password entered.</p><p>Please try again.</p>")
			}
		}
		fmt.Fprintf(w, "<form><input type=hidden name=title value=Special:Print></form><a>Tab of %s</a>", r.URL.Path)
	})
	want := []string{"/", "/index.php", "/index.php/Special:UserLogin", "/index.php/Special:UserLogin/x"}
	if err != nil || p.Folder != "/*" || !slices.Equal(p.Counted, want) {
		t.Errorf("%q: folder %q, counted %q, %v", p.Also, p.Folder, p.Counted, err)
	}
}

// A proposal is checked against the wrong logins that were sent: one that it does not count is an error.
func TestLearnProposesNoRouteThatCountsNoGuess(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodPost, "/login", strings.NewReader("username=alice&password=wrong"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	c := checker{ctx: t.Context(), login: New().Login(r, []byte("username=alice&password=wrong"))}
	s := route.Spec{Name: "login", Path: "/login", Account: "form:username", Password: "form:password", Success: []string{"status 302"}}
	failed := map[string]route.Answer{"/login": {Status: http.StatusOK}}
	if all, err := c.counted([]route.Spec{s}, failed); err != nil || !slices.Equal(all, []string{"/login"}) {
		t.Errorf("%q, %v", all, err)
	}
	other := s
	other.Path = "/other"
	for name, specs := range map[string][]route.Spec{"another path": {other}, "a success": {{Name: "login", Path: "/login",
		Account: s.Account, Password: s.Password, Success: []string{"status 200"}}}} {
		if all, err := c.counted(specs, failed); err == nil {
			t.Errorf("%s: %q", name, all)
		}
	}
}

// A login is sent again with a password that was made up, wherever it was.
func TestLearnSendsNoPasswordThatWasTyped(t *testing.T) {
	t.Parallel()
	const parts = "--b\r\nContent-Disposition: form-data; name=\"username\"\r\n\r\nalice\r\n--b\r\nContent-Disposition: form-data; name=\"password\"\r\n\r\n" + wrongOne + "\r\n--b--\r\n"
	for kind, body := range map[string]string{
		"application/json":                  `{"auth":{"username":"alice","password":"` + wrongOne + `","n":12345678901234567890}}`,
		"application/x-www-form-urlencoded": "username=alice&password=" + wrongOne + "&again=" + wrongOne,
		"multipart/form-data; boundary=b":   parts,
		"":                                  "",
	} {
		at := "/login"
		if body == "" {
			at += "?username=alice&password=" + wrongOne
		}
		r := httptest.NewRequest(http.MethodPost, at, nil)
		r.Header.Set("Content-Type", kind)
		r.Header.Set("Cookie", "session=mine")
		l := New().Login(r, []byte(body))
		if l == nil {
			t.Fatalf("%s: no login", kind)
		}
		text := fmt.Sprint(l.again.url, l.again.header, string(l.again.body))
		if strings.Contains(text, wrongOne) || strings.Contains(text, "mine") || !strings.Contains(text, "alice") || !strings.Contains(text, "password") {
			t.Errorf("%s: %s", kind, text)
		}
	}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.SetBasicAuth("alice", wrongOne)
	again := New().Login(r, nil).again
	name, password, ok := (&http.Request{Header: again.header}).BasicAuth()
	if name != "alice" || password == wrongOne || password == "" || !ok {
		t.Errorf("the Authorization header: %q %q", name, password)
	}
}

// A login that also sends another account name is guarded, and its field passes on the single path only.
func TestLearnPermitsTheFieldsOfTheLogin(t *testing.T) {
	t.Parallel()
	p, later, err := learned(t, "/login", url.Values{"mobile": {"7"}, "email": {""}}, inOrder, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodGet:
			fmt.Fprint(w, `<form><input name=mobile><input name=username><input name=password type=password>`)
		case r.PostFormValue("password") == rightOne && r.PostFormValue("mobile") == "7":
			http.Redirect(w, r, "/", http.StatusFound)
		default:
			fmt.Fprint(w, `<p>The password is wrong.</p>`)
		}
	})
	if text := YAML(p); err != nil || !slices.Equal(p.Passes, []string{"form:mobile"}) || p.Folder == "" ||
		strings.Count(text, "passes: [form:mobile] #") != 1 {
		t.Errorf("%q, %v\n%s\n%q", p.Passes, err, text, later)
	}
}
