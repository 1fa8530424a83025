package main

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"authguard/internal/testing/doctest"
	"authguard/internal/testing/redistest"
)

// The doors' proxies are not the administration's: they may say for whom they
// speak at the doors, and neither lift the check of the Host nor speak for
// administrators.
func TestR9TheAdministrationBelievesItsOwnProxiesOnly(t *testing.T) {
	t.Parallel()
	s := newServer(t, quiet+"trusted_proxies: [127.0.0.1]\n", "admin1")
	ask := func(host string) answer {
		r, err := http.NewRequest(http.MethodPost, s.admin+"/login", strings.NewReader(url.Values{"username": {"admin1"}, "password": {"wrong"}}.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Accept", "application/json")
		r.Header.Set("X-Forwarded-For", "203.0.113.7")
		return from("127.0.0.1").do(t, r)
	}
	if got := ask("evil.example"); got.status != http.StatusMisdirectedRequest {
		t.Errorf("a page of evil.example that means 127.0.0.1: %d %s", got.status, got.body)
	}
	logged := func(what string) {
		t.Helper()
		redistest.Until(t, what+" in the log", func() bool { return s.log.has(what) })
	}
	if got := ask("localhost"); got.status != http.StatusUnauthorized {
		t.Errorf("a wrong password: %d %s", got.status, got.body)
	}
	logged("address=127.0.0.1 integration=admin")
	if s.log.has("203.0.113.7") {
		t.Error("the doors' proxy is believed at the administration")
	}
	yaml := filepath.Join(s.dir, "authguard.yaml")
	config, err := os.ReadFile(yaml)
	if err != nil {
		t.Fatal(err)
	}
	config = []byte(strings.Replace(string(config), "admin: {", "admin: {trusted_proxies: [127.0.0.1], urls: ['https://admin.example.org'], ", 1))
	if err := os.WriteFile(yaml, config, 0o600); err != nil {
		t.Fatal(err)
	}
	_ = s.cmd.Process.Signal(syscall.SIGHUP)
	logged("configuration reloaded")
	if got := ask("admin.example.org"); got.status != http.StatusUnauthorized {
		t.Errorf("by its own name, through its own proxy: %d %s", got.status, got.body)
	}
	logged("address=203.0.113.7 integration=admin")
	if got := ask("evil.example"); got.status != http.StatusMisdirectedRequest {
		t.Errorf("evil.example, through its own proxy: %d %s", got.status, got.body)
	}
}

// Twelve people behind a proxy that nobody configured, with forwarding headers or
// without: the log, an alert, the overview and doctor say so, and none of them is
// known there, also after a restart.
func TestR9AForgottenProxyIsLoudAndNobodysPlace(t *testing.T) {
	t.Parallel()
	var people []string
	for i := range 12 {
		people = append(people, fmt.Sprint("person", i))
	}
	s := newServer(t, quiet, people...)
	for i, name := range people {
		p := from("127.0.0.1")
		if got := p.login(t, s, name, rightPassword); got.status != http.StatusOK {
			t.Fatalf("%s: %d %s", name, got.status, got.body)
		}
		if i == 1 && s.log.has("unconfigured-proxy") {
			t.Error("two accounts on one machine are a proxy")
		}
	}
	for _, says := range []string{"alert raised", "kind=unconfigured-proxy", "add it to trusted_proxies", "direct_clients"} {
		if !s.log.has(says) {
			t.Errorf("%q is not in the log:\n%s", says, lastLines(s.log.String(), 5))
		}
	}
	if found := say(t, s.command("doctor"), ""); found.status == 0 || !strings.Contains(found.out, "Unconfigured proxy") {
		t.Errorf("doctor: %d %s", found.status, found.out)
	}
	s.stop()
	s.start()
	if got := s.must("explain", "--account", "person0", "--address", "127.0.0.1"); strings.Contains(got, "has logged in to this account from this place before") {
		t.Errorf("person0 is known at the proxy: %s", got)
	}
}

// A real nginx that proxies names, and that sets no header, passes on what clients send: one
// client is as many as it likes. Ordinary clients behind it have the nginx's own address. That
// is reported once three accounts have logged in from there, or ten have failed.
func TestR9AConfiguredProxyWithoutAHeaderIsReported(t *testing.T) {
	t.Parallel()
	const line = "proxy_set_header X-Forwarded-For $remote_addr;"
	names := make([]string, 10)
	for i := range names {
		names[i] = fmt.Sprint("person", i)
	}
	for _, of := range []struct {
		way, password string
		accounts      int
		reported      bool
	}{
		{"", rightPassword, 3, true},
		{"proxy_set_header X-Forwarded-For '';", "wrong", 10, true},
		{line, "wrong", 10, false},
	} {
		t.Run(of.way+of.password, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, quiet+"trusted_proxies: [127.0.0.1]\n", names...)
			client, through := from("127.0.0.2"), &server{base: front(t, s.base, of.way)[0]}
			want := map[bool]int{true: http.StatusOK, false: http.StatusUnauthorized}[of.password == rightPassword]
			for i := range of.accounts {
				if s.log.has("kind=proxy-names-no-client") {
					t.Errorf("reported after %d accounts", i)
				}
				if got := client.login(t, through, names[i], of.password); got.status != want {
					t.Fatalf("%s: %d %s", names[i], got.status, got.body)
				}
			}
			redistest.Until(t, "each attempt in the log", func() bool { return strings.Count(s.log.String(), " integration=login ") == of.accounts })
			if of.reported {
				redistest.Until(t, "the alert", func() bool { return s.log.has("kind=proxy-names-no-client") })
			}
			if s.log.has("kind=proxy-names-no-client") != of.reported || of.reported && !s.log.has(line) || s.log.has("unconfigured-proxy") {
				t.Errorf("the log:\n%s", lastLines(s.log.String(), 5))
			}
			found := say(t, s.command("doctor"), "")
			if strings.Contains(found.out, "Proxy does not forward client IP addresses") != of.reported || strings.Contains(found.out, line) != of.reported {
				t.Errorf("doctor: %d %s", found.status, found.out)
			}
		})
	}
}

// front is a real nginx with one server for each of these ways to pass requests
// on. It returns their addresses.
func front(t *testing.T, to string, ways ...string) (urls []string) {
	t.Helper()
	dir := t.TempDir()
	var servers strings.Builder
	for _, way := range ways {
		at := redistest.FreeAddress(t)
		urls = append(urls, "http://"+at)
		fmt.Fprintf(&servers, "server { listen %s; location / { proxy_pass %s; proxy_set_header Host $http_host; %s } }\n", at, to, way)
	}
	conf := fmt.Sprintf("daemon off; pid %[1]s/pid; error_log %[1]s/error.log; events {}\nhttp { access_log off; client_body_temp_path %[1]s/a; proxy_temp_path %[1]s/b; "+
		"fastcgi_temp_path %[1]s/c; uwsgi_temp_path %[1]s/d; scgi_temp_path %[1]s/e;\n%[2]s}", dir, &servers)
	path := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(path, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	if said := say(t, exec.Command("nginx", "-t", "-e", filepath.Join(dir, "error.log"), "-p", dir, "-c", path), ""); said.status != 0 {
		t.Fatalf("%+v\n%s", said, conf)
	}
	nginx := exec.Command("nginx", "-e", filepath.Join(dir, "error.log"), "-p", dir, "-c", path)
	if err := nginx.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nginx.Process.Signal(syscall.SIGTERM); _ = nginx.Wait() })
	redistest.Until(t, "nginx to listen", func() bool {
		c, err := net.Dial("tcp", strings.TrimPrefix(urls[len(urls)-1], "http://"))
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	return urls
}

// Behind a proxy that passes the client's own header on, one client is as many as
// it likes. Nothing in a request tells that from a proxy before the proxy; a probe
// does.
func TestR9DoctorSeesWhatARealProxyLetsThrough(t *testing.T) {
	t.Parallel()
	s := newServer(t, quiet+"trusted_proxies: [127.0.0.1]\n", "alice")
	urls := front(t, s.base,
		"", "proxy_set_header X-Forwarded-For '';",
		"proxy_set_header X-Forwarded-For $remote_addr;", "proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;")
	for i, want := range []struct {
		status int
		says   string
	}{
		{1, "forwards the client's own X-Forwarded-For"}, {1, "does not forward the client's IP address"},
		{0, "were ignored"}, {0, "were ignored"},
	} {
		got := say(t, s.command("doctor", "--through", urls[i]+"/login"), "")
		if got.status != want.status || !strings.Contains(got.out, want.says) {
			t.Errorf("way %d: %d, want %d and %q in\n%s", i, got.status, want.status, want.says, got.out)
		}
	}
	typed := strings.Fields(strings.Replace(doctest.Claimed(t, "docs/how-to/client-ip.md")[0].Text, "https://login.example.org", urls[2], 1))
	if got := say(t, s.command(typed[1:]...), ""); got.status != 0 || !strings.Contains(got.out, "were ignored") {
		t.Errorf("as docs/how-to/client-ip.md says it: %d %s", got.status, got.out)
	}
	if got := say(t, s.command("doctor", "--through", s.base+"/login"), ""); got.status != 0 || !strings.Contains(got.out, "directly from this machine") {
		t.Errorf("with nothing in between: %d %s", got.status, got.out)
	}
	if got := say(t, s.command("doctor", "--through", "http://"+strings.TrimPrefix(s.admin, "http://")+"/login"), ""); got.status == 0 || !strings.Contains(got.out, "did not arrive") {
		t.Errorf("at another door: %d %s", got.status, got.out)
	}
	bare := newServer(t, quiet, "alice")
	if got := say(t, bare.command("doctor", "--through", bare.base+"/login"), ""); got.status != 0 || !strings.Contains(got.out, "arrived as 127.0.0.1") {
		t.Errorf("without any proxy: %d %s", got.status, got.out)
	}
	unnamed := front(t, bare.base, "proxy_set_header X-Forwarded-For $remote_addr;")
	if got := say(t, bare.command("doctor", "--through", unnamed[0]+"/login"), ""); got.status == 0 || !strings.Contains(got.out, "trusted_proxies: [127.0.0.1]") {
		t.Errorf("behind a proxy that is not named: %d %s", got.status, got.out)
	}
}

// What the page has people write into their proxy, the proxy takes.
func TestProxiesTakeWhatTheDocsSay(t *testing.T) {
	t.Parallel()
	var nginx, http, tcp []string
	for _, span := range doctest.Read(t, "docs/how-to/client-ip.md").Spans {
		switch word, _, _ := strings.Cut(span.Text, " "); word {
		case "proxy_set_header":
			if strings.HasSuffix(span.Text, ";") { // and not the name alone
				nginx = append(nginx, span.Text)
			}
		case "option", "http-request":
			http = append(http, "  "+span.Text)
		case "mode", "server":
			if !strings.HasSuffix(span.Text, "}") { // nginx's, for which Debian has a module of its own
				tcp = append(tcp, "  "+span.Text)
			}
		}
	}
	if len(nginx) == 0 || len(http) < 2 || len(tcp) < 2 {
		t.Fatalf("%q %q %q", nginx, http, tcp)
	}
	_ = front(t, "http://127.0.0.1:9", nginx...)
	file := filepath.Join(t.TempDir(), "haproxy.cfg")
	text := "defaults\n  timeout client 1s\n  timeout server 1s\n  timeout connect 1s\nlisten one\n  mode http\n  bind 127.0.0.1:1\n" +
		strings.Join(http, "\n") + "\nlisten two\n  bind 127.0.0.1:2\n" + strings.Join(tcp, "\n") + "\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if said := say(t, exec.Command("haproxy", "-c", "-f", file), ""); said.status != 0 {
		t.Errorf("%+v\n%s", said, text)
	}
}
