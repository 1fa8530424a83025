package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"authguard/internal/testing/doctest"
	"authguard/internal/testing/redistest"
)

// A legacy is an app with a login form of its own. It counts the passwords that it
// sees.
type legacy struct {
	*httptest.Server
	seen atomic.Int64
}

func newLegacy(t *testing.T, name string) *legacy {
	t.Helper()
	a := new(legacy)
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/form" {
			fmt.Fprint(w, `<!doctype html><form method="post" action="/login" data-sign-in><input id="username" name="username"><input id="password" name="password"><button type="submit">in</button></form>`)
			return
		}
		if r.Method != http.MethodPost {
			fmt.Fprintf(w, "the page of %s at %s", name, r.URL.Path)
			return
		}
		a.seen.Add(1)
		switch name, _, _ := strings.Cut(r.FormValue("username"), "@"); name {
		case "alice", "bob", "carol", "victim", "admin":
		default: // a made-up account
			fmt.Fprint(w, "wrong")
			return
		}
		if r.FormValue("password") != rightPassword {
			fmt.Fprint(w, "wrong")
			return
		}
		http.SetCookie(w, &http.Cookie{Name: "sessionid", Value: "1", Path: "/"})
		http.Redirect(w, r, "/home", http.StatusFound)
	}))
	t.Cleanup(a.Close)
	return a
}

// proxied is the configuration of a proxy before an app.
func proxied(a *legacy) string {
	return "proxy:\n  upstream: " + a.URL + `
  routes:
    - name: login
      path: /login
      account: form:username
      password: form:password
      success: [status 302, cookie sessionid]
`
}

// guess posts the app's login form.
func (p *person) guess(t *testing.T, base, account, password string, headers ...string) answer {
	t.Helper()
	form := url.Values{"username": {account}, "password": {password}}.Encode()
	r, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodPost, base+"/login", strings.NewReader(form))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return p.do(t, r)
}

// forged are headers that name another address, in every form that there is.
func forged(address string) []string {
	return []string{
		"X-Forwarded-For", address, "X-Real-Ip", address, "Forwarded", "for=" + address, "Client-Ip", address, "True-Client-Ip", address, "CF-Connecting-IP", address,
		"X-Client-Ip", address, "X-Cluster-Client-Ip", address, "X_Forwarded_For", address, "X-Forwarded", address, "Remote-Addr", address, "X-Originating-Ip", address,
	}
}

// Behind a real nginx that appends X-Forwarded-For, what the client says of its
// address is worth nothing: no fresh budget, no privilege, nobody else's trouble.
func TestR9ForgedAddressesBehindARealNginx(t *testing.T) {
	t.Parallel()
	app := newLegacy(t, "shop")
	s := newServer(t, "trusted_proxies: [127.0.0.1]\n"+proxied(app))
	nginx := front(t, s.base, "proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;")[0]

	attacker, alice, victim := from("127.0.9.9"), from("127.0.9.8"), from("127.0.9.7")
	if got := alice.guess(t, nginx, "alice", rightPassword); got.status != http.StatusFound {
		t.Fatalf("alice: %d %s", got.status, got.body)
	}
	before := app.seen.Load()
	for i := range 40 {
		attacker.guess(t, nginx, fmt.Sprint("person", i), "guess", forged(fmt.Sprintf("127.0.8.%d", i))...)
	}
	if n := app.seen.Load() - before; n != 10 {
		t.Errorf("with a new forged address each time the app saw %d passwords, want the address's 10", n)
	}
	for i := range 40 {
		attacker.guess(t, nginx, fmt.Sprint("other", i), "guess", forged("127.0.9.7")...)
	}
	if got := victim.guess(t, nginx, "victim", rightPassword); got.status != http.StatusFound {
		t.Errorf("somebody whose address was forged: %d %s", got.status, got.body)
	}
	s.must("captcha", "enable", "--for", "10m", "--reason", "a test")
	before = app.seen.Load()
	alice.jar = map[string]string{} // known by her address alone
	if got := attacker.guess(t, nginx, "alice", "guess", forged("127.0.9.8")...); got.status != http.StatusForbidden || app.seen.Load() != before {
		t.Errorf("with alice's address forged: %d", got.status)
	}
	if got := alice.guess(t, nginx, "alice", rightPassword); got.status != http.StatusFound {
		t.Errorf("alice from her known place: %d %s", got.status, got.body)
	}
}

// The app behind the proxy, and what is guarded there, change while it runs. In
// between the doors are our own.
func TestTheAppBehindTheProxyChangesWhileItRuns(t *testing.T) {
	t.Parallel()
	one, two := newLegacy(t, "one"), newLegacy(t, "two")
	s := newServer(t, quiet)
	path := filepath.Join(s.dir, "authguard.yaml")
	config, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	p := from("127.0.9.6")
	becomes := func(more, want string) {
		t.Helper()
		if err := os.WriteFile(path, append(config[:len(config):len(config)], more...), 0o600); err != nil {
			t.Fatal(err)
		}
		_ = s.cmd.Process.Signal(syscall.SIGHUP)
		redistest.Until(t, want, func() bool { return strings.Contains(p.get(t, s.base+"/login").body, want) })
	}
	becomes("", "Sign in")
	becomes(proxied(one), "the page of one at /login")
	becomes(proxied(two), "the page of two at /login")
	becomes(strings.Replace(proxied(two), "path: /login", "path: /signin", 1), "the page of two at /login")
	redistest.Until(t, "the route to move", func() bool { return p.guess(t, s.base, "alice", "guess").body == "wrong" && two.seen.Load() > 20 })
	becomes("", "Sign in")
}

func TestTheProxyIsOneFlagAway(t *testing.T) {
	t.Parallel()
	app := newLegacy(t, "django")
	s := newServer(t, quiet)
	s.stop()
	s.start("--upstream", app.URL, "--preset", "django")
	if got := from("127.0.9.5").get(t, s.base+"/some/page"); got.body != "the page of django at /some/page" {
		t.Errorf("%d %s", got.status, got.body)
	}
	if !strings.Contains(s.must("user", "create-code", "somebody"), "code") {
		t.Error("nobody whom the app alone knows can have a one-time code")
	}
	s.stop()
	if out, err := s.command("serve", "--upstream", app.URL).CombinedOutput(); err == nil || !strings.Contains(string(out), "proxy detect") {
		t.Errorf("an upstream without routes: %v %s", err, out)
	}
}

// The page's nginx ends TLS, and says who the client is: what the client says itself
// counts for nothing.
func TestBeforeAnAppHTTPSIsAsTheDocsSay(t *testing.T) {
	t.Parallel()
	if !doctest.Alone(t) {
		return
	}
	socket, err := net.Listen("tcp", "127.0.0.1:8000")
	if err != nil {
		t.Fatal(err)
	}
	app := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, r.Host, " ", r.Header.Get("X-Forwarded-For"), " ", r.Header.Get("X-Forwarded-Proto"))
	})}
	t.Cleanup(func() { _ = app.Close() })
	go func() { _ = app.Serve(socket) }()
	s := doctest.NewShell(t, product)
	page := doctest.Read(t, "docs/how-to/reverse-proxy.md").Blocks
	said := func(language, holding string) string {
		for _, b := range page {
			if b.Language == language && strings.Contains(b.Text, holding) {
				return b.Text
			}
		}
		t.Fatalf("docs/how-to/reverse-proxy.md has no %s with %s", language, holding)
		return ""
	}
	s.Write("authguard.yaml", "proxy: {upstream: 'http://127.0.0.1:8000', preset: json}\n"+said("yaml", "proxies:"))
	s.Write("nginx.conf", "user root; pid /srv/pid; error_log stderr; events {} http { access_log off; client_body_temp_path /srv/a; "+
		"proxy_temp_path /srv/b; fastcgi_temp_path /srv/c; uwsgi_temp_path /srv/d; scgi_temp_path /srv/e;\n"+said("nginx", "listen 443 ssl;")+"}\n")
	types(t, s, said("sh", "openssl req")+`authguard serve
		nginx -e stderr -c /srv/login/nginx.conf
		trap 'nginx -e stderr -c /srv/login/nginx.conf -s stop; end' EXIT`)
	certificate, err := os.ReadFile("/etc/ssl/site.crt")
	if err != nil {
		t.Fatal(err)
	}
	known := x509.NewCertPool()
	known.AppendCertsFromPEM(certificate)
	for i := range 7 {
		from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(i+1))}}
		client := http.Transport{TLSClientConfig: &tls.Config{RootCAs: known}, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return from.DialContext(ctx, network, "127.0.0.1:443")
		}}
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://www.example.org/login", strings.NewReader(`{"username":"alice","password":"guess `+fmt.Sprint(i)+`"}`))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-Forwarded-For", "192.0.2.66")
		answer, err := client.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		client.CloseIdleConnections()
		want, body := http.StatusUnauthorized, fmt.Sprintf("www.example.org 127.0.1.%d https", i+1)
		if i >= 5 {
			want, body = http.StatusForbidden, string(text)
		}
		if answer.StatusCode != want || string(text) != body {
			t.Errorf("guess %d: %s %s, want %d %s", i, answer.Status, text, want, body)
		}
	}
}
