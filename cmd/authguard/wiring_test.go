package main

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"authguard/captchamode"
	"authguard/captchamode/challenge"
	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/codes"
	"authguard/internal/config"
	"authguard/internal/operation"
	"authguard/internal/outbox"
	"authguard/internal/policy"
	"authguard/internal/testing/redistest"
	"authguard/web/admin"
	"authguard/web/proxy"
)

// openWired opens a site with these settings, and no listener.
func openWired(t *testing.T, settings string) *site {
	t.Helper()
	return openLogged(t, slog.New(slog.DiscardHandler), settings)
}

func openLogged(t *testing.T, log *slog.Logger, settings string) *site {
	t.Helper()
	text := "data: " + filepath.Join(t.TempDir(), "data") + "\ncounters: {memory: 16MiB}\npasswords: {cost: 10}\n" + settings
	loaded, err := config.Parse("test", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := openSite(t.Context(), loaded, new(slog.LevelVar), log, opening{})
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
	if r.people.Changes == nil || r.people.Added == nil || r.people.Leaked == nil {
		t.Error("emails to account owners are missing")
	}
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
		r.people.Resets.Notify(outbox.Notice{Account: name, Address: "192.0.2.1", At: s.storage.clock.Now()})
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

// A realm's parts fail: each raises its alert, in the realm's name.
func TestFailingPartsOfARealmAreReported(t *testing.T) {
	t.Parallel()
	log := new(logBuffer)
	s := openLogged(t, slog.New(slog.NewTextHandler(log, nil)), "mail: {server: 'smtp://127.0.0.1:1', from: login@example.org}\n"+
		"accounts: {case_sensitive: true, source: ldap, ldap: {url: 'ldap://127.0.0.1:1', base: 'dc=example,dc=org', user: '(uid={name})'}}\n")
	r := s.main()
	if _, err := r.people.accounts.Add(t.Context(), accounts.Addition{Username: "Root", Email: "root@example.org", Password: "long enough", Role: accounts.Admin}); err != nil {
		t.Fatal(err)
	}
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		r.unusable("alice", errors.New("of no known kind"))
	}
	r.people.Notices.Notify(outbox.Notice{Directory: admin.Directory, Account: "Root", Address: "192.0.2.1", At: s.storage.clock.Now()})
	r.people.mailer.Ask(admin.Directory, guard.Code{Account: "Root"})
	if err := r.administration.mode.Force(captchamode.Override{State: captchamode.ForcedOn, Who: "test", Why: "test", Until: s.storage.clock.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"accounts-unavailable", "notifications-failed", "mail-failed", "unusable-hash", "captcha-mode-on"} {
		redistest.Until(t, kind, func() bool { return log.has("kind=" + kind) })
	}
	if n := strings.Count(log.String(), "kind=unusable-hash"); n != 1 || r.people.unusable.Load() != 2 {
		t.Errorf("%d alerts about %d logins to accounts with unsupported hashes", n, r.people.unusable.Load())
	}
	if w := s.warnings(); len(w) != 1 || w[0].Code != "accounts-unavailable" {
		t.Errorf("%+v", w)
	}
	if why := s.ready(t.Context()); why == nil || !errors.Is(why, r.people.users.Away()) {
		t.Errorf("ready: %v", why)
	}
	if name, err := r.people.normalise("Root"); name != "Root" || err != nil {
		t.Errorf("accounts.case_sensitive: %q %v", name, err)
	}
}

// A reload puts these settings in force where they are used.
func TestAReloadReachesEveryPart(t *testing.T) {
	t.Parallel()
	s := openWired(t, "origin: https://login.example.org\n")
	r := s.main()
	text := "origin: https://login.example.org\ndata: " + s.loaded.Data + "\ncounters: {memory: 16MiB}\npasswords: {cost: 10}\nlog: {level: debug}\nadmin: {mfa: required}\n" +
		"shutdown: {delay: 3s, timeout: 4s}\nlimits: {delay_up_to: 2s, fingerprint: [500/1h challenge]}\nchallenge: {kind: pow, pow_cost: 3000}\n" +
		"access: [{hosts: [app.example.org], allow: anyone}]\n"
	issued := func() string {
		one, err := r.mode.challenges.Issue(t.Context(), challenge.Binding{}, false)
		if err != nil {
			t.Fatal(err)
		}
		return one.Kind
	}
	if kind := issued(); kind != challenge.KindBoth {
		t.Errorf("a challenge of kind %s", kind)
	}
	reload := func(text string) {
		t.Helper()
		loaded, err := config.Parse("test", []byte(text), nil)
		if err == nil {
			err = s.reload(loaded)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	reload(text)
	if kind := issued(); kind != challenge.KindPoW || r.mode.work[0].At(0) != 3000 || r.mode.work[1].At(0) != 3000 {
		t.Errorf("a challenge of kind %s, of %d and %d", kind, r.mode.work[0].At(0), r.mode.work[1].At(0))
	}
	d := s.listeners
	if time.Duration(r.hold.Load()) != 2*time.Second || !r.clients.On() || len(*r.access.Load()) != 1 || s.level.Level() != slog.LevelDebug ||
		!d.secondRequired.Load() || time.Duration(d.delay.Load()) != 3*time.Second || time.Duration(d.within.Load()) != 4*time.Second {
		t.Errorf("hold %d, fingerprint %v, %d access rules, log level %v, MFA %v, shutdown %d %d", r.hold.Load(), r.clients.On(), len(*r.access.Load()),
			s.level.Level(), d.secondRequired.Load(), d.delay.Load(), d.within.Load())
	}
	reload(strings.Replace(text, "kind: pow,", "kind: hcaptcha, site_key: a-key-of-ten-letters, secret_key: a-secret-of-many-letters,", 1))
	if kind := issued(); kind != challenge.KindRemote || r.mode.widget.Load() == nil {
		t.Errorf("a challenge of kind %s, widget %v", kind, r.mode.widget.Load())
	}
}

// R14: a new password, chosen in another program, revokes the codes of the old one, but not those of an administrator of the same name.
func TestR14ANewPasswordElsewhereRevokesCodes(t *testing.T) {
	t.Parallel()
	r := openWired(t, "").main()
	for directory, live := range map[string]bool{"": false, admin.Directory: true} {
		if _, _, err := r.people.codes.Issue(t.Context(), codes.Grant{Directory: directory, Account: "al" + directory, For: time.Hour}); err != nil {
			t.Fatal(err)
		}
		r.forget(t.Context(), "al"+directory)
		if got, err := r.people.codes.Live(t.Context(), "al"+directory); got != live || err != nil {
			t.Errorf("%q: %v %v", directory, got, err)
		}
	}
}

// R1: sessions may be older than this process. It knows the cookies that an earlier one, or another node, has seen.
func TestR1SessionCookiesAreKnownAfterARestart(t *testing.T) {
	t.Parallel()
	s := openWired(t, "")
	s.listeners.rivals.Learn([]string{"sid="}) // as if the app had set it
	next := &listeners{site: s, rivals: proxy.NewRivals()}
	for _, d := range []*listeners{s.listeners, s.listeners, next} {
		if err := d.learn(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if own := next.rivals.Learn(nil); !slices.Equal(own, []string{"sid="}) {
		t.Errorf("it knows %q", own)
	}
}

// The list takes 1 GB for 900 million passwords. Without room for it, the garbage collector would run all the time.
func TestTheMemoryLimitHasRoomForTheListOfLeakedPasswords(t *testing.T) {
	t.Parallel()
	c := config.Config{}
	without := memoryLimit(c)
	c.Passwords.Leaked.File = filepath.Join(t.TempDir(), "leaked.bin")
	if err := os.WriteFile(c.Passwords.Leaked.File, make([]byte, 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	if limit := memoryLimit(c); limit != without+2000 {
		t.Errorf("%d, want %d", limit, without+2000)
	}
}
