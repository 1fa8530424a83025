package main

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/config"
	"authguard/internal/notices"
	"authguard/internal/operation"
	"authguard/internal/policy"
)

// openWired opens a site with these settings, and no listener.
func openWired(t *testing.T, settings string) *site {
	t.Helper()
	text := "data: " + filepath.Join(t.TempDir(), "data") + "\ncounters: {memory: 16MiB}\npasswords: {cost: 10}\n" + settings
	loaded, err := config.Parse("test", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := openSite(t.Context(), loaded, new(slog.LevelVar), slog.New(slog.DiscardHandler), opening{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.parts.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// R12: administrators and disabled accounts get no link, whatever is asked at the public login. A link has the configured
// origin, never a request's.
func TestR12ResetLinksAreForEnabledUsers(t *testing.T) {
	t.Parallel()
	mail := openPostbox(t, false)
	server := "mail: {server: 'smtp://" + mail.Addr().String() + "', from: login@example.org}\n"
	s := openWired(t, "origin: https://login.example.org\n"+server)
	r := s.main()
	for name, role := range map[string]accounts.Role{"alice": accounts.User, "gone": accounts.User, "root": accounts.Admin} {
		if _, err := r.people.accounts.Add(t.Context(), accounts.Addition{Username: name, Email: name + "@example.org", Password: "long enough", Role: role}); err != nil {
			t.Fatal(err)
		}
	}
	do := func(q any) {
		t.Helper()
		if _, err := r.control.Do(t.Context(), operation.By{Who: "admin:eve", Fresh: true}, q); err != nil {
			t.Fatal(err)
		}
	}
	do(accounts.DisableUser{OfAccount: operation.OfAccount{Username: "gone"}})
	for _, name := range []string{"gone", "root", "root@example.org", "none", "alice"} {
		r.people.Resets.Notify(notices.Login{Account: name, Address: "192.0.2.1", At: s.storage.clock.Now()})
	}
	r.people.Resets.SendDue(t.Context())
	if len(mail.letters) != 1 {
		t.Fatalf("%d emails", len(mail.letters))
	}
	letter := strings.NewReplacer("=\r\n", "", "=\n", "").Replace(<-mail.letters)
	link := forgotLink.FindStringSubmatch(letter)
	if link == nil || !strings.Contains(letter, "alice@example.org") {
		t.Fatal(letter)
	}
	token := strings.TrimPrefix(link[1], "/login/reset/")
	if l, err := r.people.Resets.Of(t.Context(), token); err != nil || l.Account != "alice" {
		t.Errorf("%+v %v", l, err)
	}
	do(accounts.DisableUser{OfAccount: operation.OfAccount{Username: "alice"}})
	if _, err := r.people.Resets.Of(t.Context(), token); err == nil {
		t.Error("valid for a disabled account")
	}
	w := httptest.NewRecorder()
	console := s.listeners.administration()
	console.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/login/forgot", nil))
	if w.Code != http.StatusNotFound {
		t.Errorf("the admin console: %d", w.Code)
	}
	for _, off := range []string{server, "origin: https://login.example.org\n" + strings.Replace(server, "}", ", password_reset: false}", 1)} {
		if openWired(t, off).main().people.Resets != nil {
			t.Errorf("links with %s", off)
		}
	}
}

// Only the demo has a link that signs in without a password.
func TestAServerHasNoLinkThatSignsIn(t *testing.T) {
	t.Parallel()
	var links []string
	for _, link := range []string{"", "/demo/x"} {
		s := openWired(t, "")
		s.how.link = link
		for _, route := range s.listeners.administration().(*echo.Echo).Routes() {
			if strings.HasPrefix(route.Path, "/demo") {
				links = append(links, route.Path)
			}
		}
	}
	if len(links) != 1 {
		t.Errorf("%q", links)
	}
}

// An override of the site's limits leaves a route's own as they are.
func TestARouteKeepsItsOwnLimits(t *testing.T) {
	t.Parallel()
	s := openWired(t, "proxy:\n  upstream: http://127.0.0.1:1\n  routes:\n    - {name: second, path: /second, methods: [POST], "+
		"account: 'form:user', password: 'form:code', success: [status 302], failure: [body Try again], limits: {account: [3/24h challenge]}}\n")
	r := s.main()
	limits := func() (account, address int) {
		t.Helper()
		p := (*r.routes.Load())["second"].Policy()
		return p.Account[0].Failures, p.Address[0].Failures
	}
	if err := r.control.Limits.EnactNow(); err != nil {
		t.Fatal(err)
	}
	account, address := limits()
	for name, text := range map[string]string{"account": "8/24h challenge, 100/24h block", "address": "9/1m challenge, 20/1h challenge, 50/24h challenge, 900/24h block"} {
		if _, err := r.control.Do(t.Context(), operation.By{Who: "admin:ann", Fresh: true, Now: time.Now()}, policy.SetLimits{LimitSet: name, Limits: text, Because: operation.Because{Reason: "drill"}}); err != nil {
			t.Fatal(err)
		}
	}
	if a, b := limits(); account != 3 || a != 3 || address != guard.DefaultPolicy().Address[0].Failures || b != 9 {
		t.Errorf("account %d, then %d; address %d, then %d", account, a, address, b)
	}
}
