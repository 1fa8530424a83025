package web_test

import (
	"crypto/tls"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"authguard/internal/accounts"
	"authguard/internal/passwords"
	"authguard/web"
)

func prefix(text string) netip.Prefix { return netip.MustParsePrefix(text) }

func TestVerifyNamesWhoHasASession(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	b := h.browser(page)
	if w := b.get("/auth/verify"); w.Code != http.StatusUnauthorized || w.Header().Get("Remote-User") != "" {
		t.Errorf("without a session: %d %v", w.Code, w.Header())
	}
	b.login("alice", right)
	if w := b.get("/auth/verify"); w.Code != http.StatusOK || w.Header().Get("Remote-User") != "alice" || w.Body.Len() > 0 {
		t.Errorf("with one: %d %v", w.Code, w.Header())
	}
	forged := h.browser(page)
	forged.cookies["authguard_login"] = &http.Cookie{Name: "authguard_login", Value: "made-up"}
	want(t, forged.get("/auth/verify"), http.StatusUnauthorized)
}

func TestLoggingOutEndsTheSessionEverywhere(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	b := h.browser(page)
	b.login("alice", right)
	stolen := h.browser(page)
	stolen.cookies["authguard_login"] = b.cookies["authguard_login"]
	w := b.post("/logout")
	if want(t, w, http.StatusSeeOther); w.Header().Get("Location") != "/login?signed-out=1" || b.cookies["authguard_login"] != nil {
		t.Errorf("to %s with %v", w.Header().Get("Location"), b.cookies)
	}
	want(t, b.get("/login?signed-out=1"), http.StatusOK, "You are signed out")
	want(t, stolen.get("/auth/verify"), http.StatusUnauthorized)
	want(t, h.browser(page).post("/logout"), http.StatusSeeOther)
}

// After session.domain has changed, a browser sends the old cookie before the new one of the same name (RFC 6265, 5.4).
func TestAnOldCookieHidesNoSession(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	b, other := h.browser(page), h.browser(page)
	b.login("alice", right)
	other.login("alice", right)
	sends := func(method, path string, values ...string) *httptest.ResponseRecorder {
		r, w := httptest.NewRequest(method, path, nil), httptest.NewRecorder()
		r.RemoteAddr = "198.51.100.7:1234"
		for _, value := range values {
			r.AddCookie(&http.Cookie{Name: "authguard_login", Value: value})
		}
		b.to.ServeHTTP(w, r)
		return w
	}
	live, second := b.cookies["authguard_login"].Value, other.cookies["authguard_login"].Value
	want(t, sends("GET", "/auth/verify", "dead", live), http.StatusOK)
	want(t, sends("GET", "/auth/verify", "dead", "gone", "past", live), http.StatusUnauthorized) // not without an end
	want(t, sends("POST", "/logout", "dead", live, second), http.StatusSeeOther)
	for _, value := range []string{live, second} {
		want(t, sends("GET", "/auth/verify", value), http.StatusUnauthorized)
	}
}

// A sibling host may plant cookies, which the browser sends before the new one.
func TestPlantedSessionsAreIgnored(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	mallory := h.people.all["alice"]
	mallory.Account = "mallory"
	h.people.all["mallory"] = mallory
	var planted []string
	for range 2 {
		b := h.browser(page)
		b.login("mallory", right)
		planted = append(planted, b.cookies["authguard_login"].Value)
	}
	owner := h.browser(page)
	r, w := httptest.NewRequest("POST", "/login", strings.NewReader("username=alice&password="+url.QueryEscape(right))), httptest.NewRecorder()
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	sends := func(r *http.Request, values ...string) {
		r.RemoteAddr = "198.51.100.7:1234"
		for _, value := range values {
			r.AddCookie(&http.Cookie{Name: "authguard_login", Value: value})
		}
		owner.to.ServeHTTP(w, r)
	}
	sends(r, planted...)
	var fresh string
	for _, c := range w.Result().Cookies() {
		if c.Name == "authguard_login" {
			fresh = c.Value
		}
	}
	other := h.browser(page) // planted after the login
	other.login("mallory", right)
	for _, c := range []struct {
		sent []string
		want string
	}{{append(planted, fresh), "alice"}, {[]string{other.cookies["authguard_login"].Value, fresh}, ""}} {
		w = httptest.NewRecorder()
		sends(httptest.NewRequest("GET", "/auth/verify", nil), c.sent...)
		if got := w.Header().Get("Remote-User"); got != c.want {
			t.Errorf("%d cookies: %q, want %q", len(c.sent), got, c.want)
		}
	}
}

func TestLoggingInEndsTheSessionThatCameAlong(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	b := h.browser(page)
	b.login("alice", right)
	fixed := h.browser(page)
	fixed.cookies["authguard_login"] = b.cookies["authguard_login"]
	b.login("alice", right)
	if b.cookies["authguard_login"].Value == fixed.cookies["authguard_login"].Value {
		t.Error("the token is the old one")
	}
	want(t, fixed.get("/auth/verify"), http.StatusUnauthorized)
}

func TestASessionEndsWithItsPassword(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*accounts.Login){
		"changed":  func(l *accounts.Login) { l.Version++ },
		"disabled": func(l *accounts.Login) { l.Password.Usable = false },
		"deleted":  func(l *accounts.Login) { *l = accounts.Login{} },
	} {
		h := newHouse(t)
		b := h.browser(page)
		b.login("alice", right)
		h.people.change(func() {
			alice := h.people.all["alice"]
			change(&alice)
			h.people.all["alice"] = alice
		})
		if w := b.get("/auth/verify"); w.Code != http.StatusUnauthorized {
			t.Errorf("%s: %d", name, w.Code)
		}
	}
}

func TestAnotherDoorsSessionIsNone(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	b := h.browser(page)
	b.login("alice", right)
	checker, err := passwords.NewChecker(bcrypt.MinCost, nil)
	if err != nil {
		t.Fatal(err)
	}
	other := &web.Public{Login: h.login("other", h.gate, checker), API: new(web.API), Log: quiet}
	b.to = other.Handler()
	want(t, b.get("/auth/verify"), http.StatusUnauthorized)
	c := *b.cookies["authguard_login"]
	c.Name = "authguard_other" // the cookies' names are no secret
	b.cookies[c.Name] = &c
	want(t, b.get("/auth/verify"), http.StatusUnauthorized)
}

func TestR27SessionsThatCannotBeLookedUpAre503(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	b := h.browser(page)
	b.login("alice", right)
	h.sessions.fail = errors.New("the disk is gone")
	if w := b.get("/auth/verify"); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	want(t, b.get("/login"), http.StatusOK, "Sign in")
}

func TestABrowserKeepsTheDevicesOfEightAccounts(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	alice := h.people.all["alice"]
	b := h.browser(page)
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"} {
		login := alice
		login.Account = name
		h.people.change(func() { h.people.all[name] = login })
		want(t, b.login(name, right), http.StatusSeeOther)
		h.Clock.Advance(time.Minute)
	}
	devices := 0
	for name := range b.cookies {
		if name != "authguard_login" {
			devices++
		}
	}
	if devices != 8 {
		t.Errorf("%d device cookies", devices)
	}
}

// Browsers send the cookies that they have had for longest first (RFC 6265,
// section 5.4).
func TestTheDeviceThatABrowserHasHadForLongestGoes(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	r := httptest.NewRequest("POST", "/login", strings.NewReader(url.Values{"username": {"alice"}, "password": {right}}.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for _, tag := range []string{"1", "2", "3", "4", "5", "6", "7", "8", "9"} {
		r.AddCookie(&http.Cookie{Name: "authguard_device_" + tag, Value: tag})
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	var gone []string
	for _, c := range w.Result().Cookies() {
		if c.MaxAge < 0 {
			gone = append(gone, c.Name)
		}
	}
	if want := []string{"authguard_device_1", "authguard_device_2"}; !slices.Equal(gone, want) {
		t.Errorf("%q went, want %q", gone, want)
	}
}

// Over TLS, here or at a proxy that is believed, cookies are this host's alone.
func TestOverTLSCookiesAreTheHostsAlone(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	post := func(secure bool) *httptest.ResponseRecorder {
		r := httptest.NewRequest("POST", "/login", strings.NewReader("username=alice&password="+strings.ReplaceAll(right, " ", "+")))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if r.RemoteAddr = "192.0.2.1:1"; secure {
			r.TLS = new(tls.ConnectionState)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	verify := func(name, value string) int {
		r := httptest.NewRequest("GET", "/auth/verify", nil)
		r.AddCookie(&http.Cookie{Name: name, Value: value})
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	over, plain := post(true), post(false)
	if got := over.Header().Get("Strict-Transport-Security"); got != "max-age=15768000" || plain.Header().Get("Strict-Transport-Security") != "" {
		t.Errorf("HSTS over TLS %q, without %q", got, plain.Header().Get("Strict-Transport-Security"))
	}
	for _, c := range over.Result().Cookies() {
		if !strings.HasPrefix(c.Name, "__Host-authguard_") || !c.Secure || c.Path != "/" || c.Domain != "" || !c.HttpOnly {
			t.Errorf("over TLS: %v", c)
		}
		if name := "authguard_login"; c.Name == "__Host-"+name {
			if in, planted := verify(c.Name, c.Value), verify(name, c.Value); in != http.StatusOK || planted != http.StatusUnauthorized {
				t.Errorf("its session: %d, planted under the other name: %d", in, planted)
			}
		}
	}
	for _, c := range plain.Result().Cookies() {
		if !strings.HasPrefix(c.Name, "authguard_") || c.Secure {
			t.Errorf("without TLS: %v", c)
		}
		if c.Name == "authguard_login" && verify(c.Name, c.Value) != http.StatusOK {
			t.Error("a session of before TLS has ended")
		}
	}
	if n := len(over.Result().Cookies()); n != 2 {
		t.Errorf("%d cookies, want session and device", n)
	}
}
