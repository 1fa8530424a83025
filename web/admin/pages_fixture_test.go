package admin_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"golang.org/x/crypto/bcrypt"

	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/alerts"
	"authguard/internal/control"
	"authguard/internal/metrics"
	"authguard/internal/passwords"
	"authguard/internal/sessions"
	"authguard/web"
	"authguard/web/admin"
)

// A counter is an office with its pages, and a browser in front of them that
// follows no redirect.
type counter struct {
	*office
	gate     *passwords.Queue
	check    *web.Passwords
	base     string
	browser  *http.Client
	notReady error
	streams  admin.Streams
	routes   []*echo.Route
	required atomic.Bool // a second factor, of everybody
}

const rightPassword = "correct horse"

func newCounter(t *testing.T, more ...control.Operation) *counter {
	t.Helper()
	c := &counter{office: newOffice(t)}
	c.api.More = more
	checker, err := passwords.NewChecker(bcrypt.MinCost, nil)
	if err != nil {
		t.Fatal(err)
	}
	gate, err := passwords.NewQueue(passwords.QueueConfig{AtOnce: 4, Queue: 16, MaxWait: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	store, err := sessions.New(sessions.Config{DB: c.db})
	if err != nil {
		t.Fatal(err)
	}
	check := &web.Passwords{Source: c.accounts, Gate: gate, Checker: checker, Log: quiet}
	held := web.NewSessions(web.SessionConfig{Store: store, Source: c.accounts, Integration: admin.Integration, Lifetime: time.Hour, Secure: web.SecureNever, Now: c.Clock.Now})
	login := &web.Login{
		Guard: c.inside.Guard, Edge: new(web.Edge), LoginUsers: web.LoginUsers{Passwords: check, Sessions: held, Directory: admin.Directory, Control: c.control}, Integration: admin.Integration, Secure: web.SecureNever, Admin: true, Log: quiet,
		Hold: new(atomic.Int64),
	}
	waiting := web.NewSessions(web.SessionConfig{Store: store, Source: c.accounts, Integration: admin.Integration + "_second", Lifetime: web.SecondLifetime, Secure: web.SecureNever})
	login.Second = &web.Second{Waiting: waiting, Passkeys: web.Passkeys{MFA: c.mfa, Notify: func(ctx context.Context, account, what string) {
		if err := c.control.Accounts.FactorUsed(ctx, "admin:"+account, account, what); err != nil {
			t.Error(err)
		}
	}}}
	login.Passkeys = &login.Second.Passkeys
	all := metrics.New()
	all.Watch(metrics.Gauges{Realms: func() []metrics.RealmGauges {
		return []metrics.RealmGauges{{Realm: guard.DefaultRealm, Mode: c.Mode, Held: c.Held, HungUp: c.HungUp, Checks: gate.State, Events: c.Tallied, Enforced: func() bool { return true }, Unusable: func() uint64 { return 0 }}}
	}, Size: c.Counts.Size, Dropped: func() uint64 { return 0 }, Channels: func() []alerts.Channel { return nil }, Refused: func() uint64 { return 0 }, Unintroduced: func() uint64 { return 0 }, DatabaseUp: func() bool { return true }, Database: c.db})
	e := web.NewEcho("", nil, quiet)
	site := &admin.Site{
		API: c.api, Login: login, Metrics: all.Handler(), Ready: func(context.Context) error { return c.notReady }, Streams: &c.streams,
		SecondRequired: c.required.Load,
	}
	site.Routes(e)
	c.routes = e.Routes()
	server := httptest.NewServer(e)
	t.Cleanup(func() { c.streams.End(); server.Close() })
	c.streams.Every = 5 * time.Millisecond
	c.base, c.browser, c.gate, c.check = server.URL, newBrowser(t), gate, check
	return c
}

func newBrowser(t *testing.T) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// admit adds an account and signs in with it.
func (c *counter) admit(t *testing.T, name string, role accounts.Role, mustChange bool) {
	t.Helper()
	_, err := c.accounts.Add(t.Context(), accounts.Addition{Username: name, Password: rightPassword, Role: role, MustChange: mustChange})
	if err != nil && !errors.Is(err, accounts.ErrTaken) {
		t.Fatal(err)
	}
	if status, to, _ := c.post(t, "/login", url.Values{"username": {name}, "password": {rightPassword}}); status != http.StatusSeeOther {
		t.Fatalf("not signed in: %d %s", status, to)
	}
}

func (c *counter) send(t *testing.T, r *http.Request) (status int, to, body string) {
	t.Helper()
	response, err := c.browser.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, response.Header.Get("Location"), string(text)
}

func (c *counter) request(t *testing.T, method, path, body, kind string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, c.base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	return r
}

func (c *counter) get(t *testing.T, path string) (status int, to, body string) {
	t.Helper()
	return c.send(t, c.request(t, http.MethodGet, path, "", ""))
}

func (c *counter) post(t *testing.T, path string, f url.Values) (status int, to, body string) {
	t.Helper()
	return c.send(t, c.request(t, http.MethodPost, path, f.Encode(), "application/x-www-form-urlencoded"))
}

var csrfField = regexp.MustCompile(`name="csrf" value="([^"]+)"`)

// csrf is the token in a page's forms.
func (c *counter) csrf(t *testing.T, path string) string {
	t.Helper()
	_, _, body := c.get(t, path)
	found := csrfField.FindStringSubmatch(body)
	if found == nil {
		t.Fatalf("no token in %s:\n%s", path, body)
	}
	return found[1]
}

// submit posts a form with the session's token and returns the page that
// follows.
func (c *counter) submit(t *testing.T, path string, f url.Values) string {
	t.Helper()
	f.Set("csrf", c.csrf(t, "/"))
	status, to, body := c.post(t, path, f)
	if status != http.StatusSeeOther || to != "/" {
		t.Fatalf("POST %s: %d to %q\n%s", path, status, to, body)
	}
	_, _, body = c.get(t, "/")
	return body
}
