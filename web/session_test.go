package web_test

import (
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
