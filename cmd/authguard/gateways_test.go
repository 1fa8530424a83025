package main

import (
	"fmt"
	"html"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/goccy/go-yaml"

	"authguard/internal/testing/doctest"
	"authguard/internal/testing/redistest"
)

// A toldApp is an app behind a gateway, which shows what it was told: every header that
// some app takes for Remote-*, as those do for which _ and - are one. In Forged it names
// the headers that hold "forged".
type toldApp struct {
	*httptest.Server
	mu    sync.Mutex
	asked []string
}

func newToldApp(t *testing.T) *toldApp {
	t.Helper()
	a := new(toldApp)
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var told []string
		for name, values := range r.Header {
			if text := strings.Join(values, ""); strings.Contains(text, "forged") || strings.Contains(text, "h2c") {
				w.Header().Add("Forged", name)
			}
			if name = strings.ToLower(strings.ReplaceAll(name, "_", "-")); strings.HasPrefix(name, "remote-") && strings.Join(values, "") != "" {
				told = append(told, name+"="+strings.Join(values, "+"))
			}
		}
		slices.Sort(told)
		body, _ := io.ReadAll(r.Body)
		a.mu.Lock()
		a.asked = append(a.asked, r.RequestURI)
		a.mu.Unlock()
		fmt.Fprintf(w, "%s %s %s %d", r.Method, r.RequestURI, strings.Join(told, " "), len(body))
	}))
	t.Cleanup(a.Close)
	return a
}

// saw are the requests that reached it and begin so.
func (a *toldApp) saw(prefix string) (all []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, uri := range a.asked {
		if strings.HasPrefix(uri, prefix) {
			all = append(all, uri)
		}
	}
	return all
}

// runGateway starts one in its folder and waits until it listens.
func runGateway(t *testing.T, dir, front, program string, args ...string) {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		path = filepath.Join("/usr/sbin", program) // not in everybody's path
	}
	log := new(logBuffer)
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	cmd.Env = append(os.Environ(), "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir)
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v: .ci/need installs it", err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-ended
		if t.Failed() {
			t.Logf("%s said:\n%s", program, log)
		}
	})
	redistest.Until(t, program+" to listen", func() bool {
		select {
		case <-ended:
			t.Fatalf("%s has ended:\n%s", program, log)
		default:
		}
		c, err := net.Dial("tcp", front)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
}

// gateways start what the documents say, at a test's addresses.
var gateways = map[string]func(t *testing.T, dir, front string, blocks []string){
	"nginx": func(t *testing.T, dir, front string, blocks []string) {
		conf := fmt.Sprintf("pid %s/pid;\nerror_log stderr;\nevents {}\nhttp {\naccess_log off;\n", dir)
		for _, one := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
			conf += fmt.Sprintf("%s_temp_path %s/%[1]s;\n", one, dir)
		}
		write(t, dir, "nginx.conf", conf+blocks[0]+"}\n")
		write(t, dir, "authguard.conf", blocks[1])
		runGateway(t, dir, front, "nginx", "-p", dir, "-c", filepath.Join(dir, "nginx.conf"), "-g", "daemon off;")
	},
	"caddy": func(t *testing.T, dir, front string, blocks []string) {
		write(t, dir, "Caddyfile", "{\nadmin off\n}\n"+blocks[0])
		write(t, dir, "authguard.caddy", blocks[1])
		runGateway(t, dir, front, "caddy", "run", "--config", "Caddyfile", "--adapter", "caddyfile")
	},
	"haproxy": func(t *testing.T, dir, front string, blocks []string) {
		write(t, dir, "haproxy.cfg", strings.ReplaceAll(blocks[0], "/etc/haproxy/", dir+"/"))
		write(t, dir, "authguard.lua", blocks[1])
		runGateway(t, "/", front, "haproxy", "-db", "-f", filepath.Join(dir, "haproxy.cfg")) // as systemd does
	},
	// Debian has no Traefik: .ci/traefik builds one, and TRAEFIK says where it is.
	"traefik": func(t *testing.T, dir, front string, blocks []string) {
		real := os.Getenv("TRAEFIK")
		if real == "" {
			asTraefik(t, front, blocks)
			return
		}
		write(t, dir, "authguard-routes.yml", blocks[0])
		write(t, dir, "traefik.yml", blocks[1])
		runGateway(t, dir, front, real, "--configfile=traefik.yml")
		redistest.Until(t, "Traefik to have its routes", func() bool {
			r, err := http.Get("http://" + front + "/.authguard/login")
			if err == nil {
				_ = r.Body.Close()
			}
			return err == nil && r.StatusCode != http.StatusNotFound
		})
	},
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// besides are the files that the pages of gateways have their readers copy.
var besides = map[string]string{
	"nginx": "authguard.nginx.conf", "caddy": "authguard.caddy", "haproxy": "authguard.haproxy.lua",
}

// blocksOf are the configuration files that a gateway's page prints, then the one to copy.
func blocksOf(t *testing.T, name string) (blocks []string) {
	t.Helper()
	for _, b := range doctest.Read(t, "docs/how-to/"+name+".md").Blocks {
		if slices.Contains(b.Tests, "TestGatewaysLetPeopleInAfterLogin") {
			blocks = append(blocks, b.Text)
		}
	}
	if file := besides[name]; file != "" {
		text, err := os.ReadFile(filepath.Join(doctest.Root(t), "deploy/gateways", file))
		if err != nil {
			t.Fatal(err)
		}
		blocks = append(blocks, string(text))
	}
	return blocks
}

// startGateway starts one with what its page says, before the app at 127.0.0.1 and the one
// at wiki.localhost, and with these changes. It returns where it listens.
func startGateway(t *testing.T, front, name string, s *server, app, wiki string, changes ...string) *server {
	t.Helper()
	dir := t.TempDir()
	_, port, _ := net.SplitHostPort(front)
	at := strings.NewReplacer(":8000", ":"+port, "listen 8000", "listen "+port, "127.0.0.1:9000", strings.TrimPrefix(app, "http://"),
		"127.0.0.1:9001", strings.TrimPrefix(wiki, "http://"), "127.0.0.1:8080", strings.TrimPrefix(s.base, "http://"))
	var blocks []string
	for _, b := range blocksOf(t, name) {
		blocks = append(blocks, at.Replace(strings.NewReplacer(changes...).Replace(b)))
	}
	gateways[name](t, dir, front, blocks)
	through := *s
	through.base = "http://" + front
	return &through
}

// send asks for an address with these headers, as a browser unless they say otherwise. The
// target goes out as it is written.
func (p *person) send(t *testing.T, at *server, method, target, body string, headers ...string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, at.base, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	path, query, _ := strings.Cut(target, "?")
	if strings.HasPrefix(path, "//") {
		path = "//" + r.URL.Host + path
	}
	r.URL.Opaque, r.URL.RawQuery = path, query
	r.Header.Set("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	for i := 0; i < len(headers); i += 2 {
		r.Header[headers[i]] = append(r.Header[headers[i]], headers[i+1])
	}
	if headers := r.Header["Accept"]; len(headers) > 1 {
		r.Header["Accept"] = headers[1:]
	}
	return p.do(t, r)
}

// TestGatewaysLetPeopleInAfterLogin does with each gateway what docs/how-to/forward-auth.md
// promises, with the configuration that is printed.
func TestGatewaysLetPeopleInAfterLogin(t *testing.T) {
	t.Parallel()
	app := newToldApp(t)
	s := newServer(t, quiet+doctest.Claimed(t, "docs/how-to/forward-auth.md")[0].Text)
	for _, add := range [][]string{{"alice", "--email", "alice@example.org", "--groups", "staff"}, {"bob", "--groups", "staff,admins"}} {
		if said := say(t, s.command(append([]string{"user", "create", "--password-stdin"}, add...)...), rightPassword+"\n"); said.status != 0 {
			t.Fatalf("%+v", said)
		}
	}
	for i, name := range slices.Sorted(maps.Keys(gateways)) {
		address := fmt.Sprintf("127.%d.0.", 40+i)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := startGateway(t, redistest.FreeAddress(t), name, s, app.URL, app.URL)
			alice, bob := from(address+"9"), from(address+"10")
			for _, one := range []struct {
				p       *person
				account string
			}{{alice, "alice"}, {bob, "bob"}} {
				comesBack(t, one.p, at, one.account)
			}
			for _, who := range []string{"9", "10"} {
				if !s.log.has("address=" + address + who + " integration=login") {
					t.Errorf("%s%s is not in the log", address, who)
				}
			}
			if s.log.has("203.0.113.") {
				t.Error("a made-up address is in the log")
			}
			forgedHeadersReachNoApp(t, alice, from(address+"11"), at, name)
			anyQueryIsTaken(t, from(address+"13"), at, name)
			scriptsAreTold(t, from(address+"12"), at)
			rulesHold(t, alice, bob, at, app, fmt.Sprint("/", i))
			if want := alice.send(t, at, "POST", "/.authguard/logout", ""); want.status != http.StatusSeeOther {
				t.Errorf("signing out: %d %s", want.status, want.body)
			}
			if got := alice.send(t, at, "GET", "/shop", ""); got.status != http.StatusSeeOther {
				t.Errorf("signed out: %d", got.status)
			}
		})
	}
	t.Run("not named", func(t *testing.T) {
		t.Parallel()
		doctorFindsAGatewayThatIsNotNamed(t, app)
	})
	t.Run("away", func(t *testing.T) { // nobody gets through to the app of an authguard that is not there
		t.Parallel()
		gone := &server{t: t, base: "http://" + redistest.FreeAddress(t)}
		for name := range gateways {
			at := startGateway(t, redistest.FreeAddress(t), name, gone, app.URL, app.URL)
			if got := from("127.0.0.1").send(t, at, "GET", "/away", ""); got.status < 500 || got.body == "" && name == "haproxy" {
				t.Errorf("%s: %d %q", name, got.status, got.body)
			}
		}
		if got := app.saw("/away"); len(got) > 0 {
			t.Errorf("the app was asked for %v", got)
		}
	})
}

// doctorFindsAGatewayThatIsNotNamed: where everybody is the gateway's address, it says so through every gateway, as
// docs/how-to/forward-auth.md has it.
func doctorFindsAGatewayThatIsNotNamed(t *testing.T, app *toldApp) {
	t.Helper()
	s := newServer(t, quiet, "alice")
	var typed []string
	for _, span := range doctest.Read(t, "docs/how-to/forward-auth.md").Spans {
		if strings.Contains(span.Text, "doctor --through http") {
			typed = append(typed, span.Text)
		}
	}
	if len(typed) != 1 {
		t.Fatalf("%q", typed)
	}
	for name := range gateways {
		at := startGateway(t, redistest.FreeAddress(t), name, s, app.URL, app.URL)
		words := strings.Fields(strings.Replace(typed[0], "http://127.0.0.1:8000", at.base, 1))
		got := say(t, s.command(words[1:]...), "")
		if got.status == 0 || !strings.Contains(got.out, "The probe came through 127.0.0.1, which is not in trusted_proxies") || !strings.Contains(got.out, "trusted_proxies: [127.0.0.1]") {
			t.Errorf("%s: %d\n%s", name, got.status, got.out)
		}
	}
}

// comesBack follows a browser through the login to the whole address that it asked for.
func comesBack(t *testing.T, p *person, at *server, account string) {
	t.Helper()
	const target = "/shop/a%26b/%C3%BC?x=1&y=%26&q=a+b&u=%C3%BC"
	a := p.send(t, at, "GET", target, "", "X-Forwarded-For", "203.0.113.5", "X-Real-IP", "203.0.113.5")
	way := a.header.Get("Location")
	if a.status != http.StatusSeeOther || !strings.Contains(way, "/.authguard/login?next=") || a.header.Get("Cache-Control") != "no-store" {
		t.Fatalf("a stranger gets %d to %q: %.300s", a.status, way, a.body)
	}
	_, path, _ := strings.Cut(strings.TrimPrefix(way, at.base), "/")
	page := p.send(t, at, "GET", "/"+path, "")
	next := regexp.MustCompile(`name="next" value="([^"]*)"`).FindStringSubmatch(page.body)
	if page.status != http.StatusOK || next == nil {
		t.Fatalf("the login page is %d: %.400s", page.status, page.body)
	}
	if css := p.send(t, at, "GET", "/.authguard/static/authguard.css", ""); css.status != http.StatusOK || !strings.Contains(css.header.Get("Content-Type"), "css") {
		t.Errorf("its looks are %d", css.status)
	}
	form := url.Values{"username": {account}, "password": {rightPassword}, "next": {html.UnescapeString(next[1])}}
	a = p.send(t, at, "POST", "/.authguard/login", form.Encode(), "Content-Type", "application/x-www-form-urlencoded", "X-Forwarded-For", "203.0.113.6")
	if back := strings.TrimPrefix(a.header.Get("Location"), at.base); a.status != http.StatusSeeOther || back != target {
		t.Fatalf("the login of %s is %d to %q, want %q: %.300s", account, a.status, back, target, a.body)
	}
	told := map[string]string{"alice": "remote-email=alice@example.org remote-groups=staff remote-user=alice", "bob": "remote-groups=admins,staff remote-user=bob"}[account]
	if a = p.send(t, at, "GET", target, ""); a.status != http.StatusOK || a.body != "GET "+target+" "+told+" 0" {
		t.Errorf("signed in: %d %q", a.status, a.body)
	}
	const body = "a body that goes to the app, and not to authguard"
	if a = p.send(t, at, "POST", "/shop", body, "Content-Type", "text/plain"); a.body != fmt.Sprint("POST /shop ", told, " ", len(body)) {
		t.Errorf("a form: %d %q", a.status, a.body)
	}
}

// anyQueryIsTaken: some browsers and many scripts send letters beyond ASCII as they are.
func anyQueryIsTaken(t *testing.T, stranger *person, at *server, name string) {
	t.Helper()
	got := stranger.send(t, at, "GET", "/shop?q=\u00fc&x=1", "")
	if name == "haproxy" && got.status == http.StatusBadRequest && strings.Contains(got.body, "Your browser sent an invalid request") {
		return // HAProxy itself takes none
	}
	way, err := url.Parse(got.header.Get("Location"))
	if err != nil {
		t.Fatal(err)
	}
	next, _ := url.PathUnescape(way.Query().Get("next"))
	if got.status != http.StatusSeeOther || !strings.HasSuffix(next, "/shop?q=\u00fc&x=1") {
		t.Errorf("a query in UTF-8: %d, back to %q: %.300s", got.status, next, got.body)
	}
}

func scriptsAreTold(t *testing.T, script *person, at *server) {
	t.Helper()
	for _, one := range []struct {
		method, body string
		headers      []string
	}{
		{"GET", "", []string{"Accept", "application/json"}},
		{"GET", "", []string{"Accept", "*/*"}},
		{"GET", "", []string{"X-Requested-With", "XMLHttpRequest"}},
		{"GET", "", []string{"Sec-Fetch-Mode", "cors"}},
		{"POST", `{"a":1}`, []string{"Accept", "application/json", "Content-Type", "application/json"}},
		{"DELETE", "", []string{"Accept", "application/json"}},
		{"GET", "", []string{"Accept", "*/*", "Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="}},
	} {
		got := script.send(t, at, one.method, "/api/x", one.body, one.headers...)
		if got.status != http.StatusUnauthorized || got.problem.Type != "login-required" || got.header.Get("Content-Type") != "application/problem+json" || got.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%+v: %d %v %q", one, got.status, got.header, got.body)
		}
	}
	if got := script.send(t, at, "HEAD", "/api/x", "", "Accept", "*/*"); got.status != http.StatusUnauthorized || got.body != "" {
		t.Errorf("HEAD: %d %q", got.status, got.body)
	}
}

// rulesHold tries to get at /admin and past the login, in other spellings and with what a
// gateway would say.
func rulesHold(t *testing.T, alice, bob *person, at *server, app *toldApp, mark string) {
	t.Helper()
	if got := bob.send(t, at, "GET", "/admin"+mark, ""); got.status != http.StatusOK {
		t.Errorf("an administrator: %d %q", got.status, got.body)
	}
	if got := alice.send(t, at, "GET", "/admin"+mark, ""); got.status != http.StatusForbidden || !strings.Contains(got.body, "Your account is not allowed to open this page") || !strings.Contains(got.body, "/.authguard/static/") {
		t.Errorf("alice: %d %.300q", got.status, got.body)
	}
	if got := alice.send(t, at, "GET", "/admin"+mark, ""); got.header.Get("Cross-Origin-Opener-Policy") != "same-origin" || got.header.Get("Content-Security-Policy") == "" {
		t.Errorf("the page for alice has not its headers: %v", got.header)
	}
	for _, path := range []string{"//admin", "/%61dmin", "/x/../admin", "/x/%2e%2e/admin", "/ADMIN", "/public/..%2fadmin", "/public/../admin", "/public/%2e%2e/admin", `/public/..%5cadmin`, "/admin;x", "/./admin", "/admin%2f", "/public//../admin"} {
		got := alice.send(t, at, "GET", path+mark, "")
		if got.status == http.StatusOK {
			t.Errorf("alice at %s: %d %q", path, got.status, got.body)
		}
	}
	for _, forged := range [][]string{
		{"X-Forwarded-Uri", "/public/x"}, {"X-Original-URL", at.base + "/public/x"}, {"X-Original-Url", "/public/x"}, {"X-Original-URI", "/public/x"}, {"X_Forwarded_Uri", "/public/x"},
		{"X-Rewrite-URL", "/public/x"}, {"X-Forwarded-Host", "other.example.org"}, {"X-Forwarded-Uri", "/public/x", "X-Original-URL", at.base + "/public/x"},
	} {
		if got := alice.send(t, at, "GET", "/admin"+mark+"/forged", "", forged...); got.status < 300 {
			t.Errorf("alice with %v: %d %q", forged, got.status, got.body)
		}
		if got := from("127.0.0.1").send(t, at, "GET", "/shop"+mark+"/forged", "", append(forged, "Accept", "application/json")...); got.status < 300 {
			t.Errorf("a stranger with %v: %d %q", forged, got.status, got.body)
		}
	}
	for _, prefix := range []string{"/admin" + mark + "/forged", "/shop" + mark + "/forged"} {
		if got := app.saw(prefix); len(got) > 0 {
			t.Errorf("the app was asked for %v", got)
		}
	}
}

// TestOneLoginIsGoodAtSeveralHostsInABrowser: the form of one host leads to another, which
// Chromium holds to the page's form-action.
func TestOneLoginIsGoodAtSeveralHostsInABrowser(t *testing.T) {
	t.Parallel()
	front := redistest.FreeAddress(t)
	_, port, _ := net.SplitHostPort(front)
	app := newToldApp(t)
	s := newServer(t, quiet+"trusted_proxies: [127.0.0.1]\norigin: http://login.example.test:"+port+
		"\nsession: {domain: example.test}\naccess:\n  - {paths: [/admin/*], groups: [admins]}\n", "alice")
	startGateway(t, front, "caddy", s, app.URL, app.URL, "http://127.0.0.1:8000, http://localhost:8000 {",
		"http://app.example.test:8000, http://other.example.test:8000, http://login.example.test:8000 {")
	b := openTab(t, chromedp.Flag("host-resolver-rules", "MAP *.example.test 127.0.0.1"))
	at := func(host, path string) string { return "http://" + host + ".example.test:" + port + path }
	const path = "/shop?x=1&y=%26&q=%C3%BC"
	b.goTo(at("app", path))
	b.until("the login page of the origin", `location.host.startsWith("login.") && document.querySelector("#password")`)
	b.picture("forward-login")
	b.send("alice", rightPassword)
	b.until("the app, at the whole address", `location.href == "`+at("app", path)+`" && document.body.innerText.includes("remote-user=alice")`)
	b.goTo(at("other", path))
	b.until("another app, with the same login", `location.href == "`+at("other", path)+`" && document.body.innerText.includes("remote-user=alice")`)
	b.goTo(at("other", "/admin/x"))
	b.until("a page for another group", `document.body.innerText.includes("Your account is not allowed to open this page")`)
	b.picture("forward-no-group")
	b.do("the other account", chromedp.Click("a.button"))
	b.until("who is signed in", `document.body.innerText.includes("You are signed in")`)
	b.do("signing out", chromedp.Click(`form[action$="/logout"] button`))
	b.until("to be signed out", `document.body.innerText.includes("You are signed out")`)
	b.goTo(at("app", path))
	b.until("the login page again", `location.host.startsWith("login.") && document.querySelector("#password")`)
}

// asTraefik does what Traefik's forwardAuth and headers middlewares do with their
// configuration, by its documentation and its source (3.3, pkg/middlewares/auth).
func asTraefik(t *testing.T, front string, blocks []string) {
	t.Helper()
	var routes struct {
		HTTP struct {
			Routers map[string]struct {
				Rule, Service string
				Priority      int
				EntryPoints   []string `yaml:"entryPoints"`
				Middlewares   []string
			}
			Middlewares map[string]struct {
				ForwardAuth struct {
					Address                  string
					TrustForwardHeader       bool     `yaml:"trustForwardHeader"`
					AuthRequestHeaders       []string `yaml:"authRequestHeaders"`
					AuthResponseHeadersRegex string   `yaml:"authResponseHeadersRegex"`
				} `yaml:"forwardAuth"`
			}
			Services map[string]struct {
				LoadBalancer struct{ Servers []struct{ URL string } } `yaml:"loadBalancer"`
			}
		}
	}
	var static struct {
		EntryPoints map[string]struct{ Address string } `yaml:"entryPoints"`
		Providers   struct{ File struct{ Filename string } }
	}
	if err := yaml.UnmarshalWithOptions([]byte(blocks[0]), &routes, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalWithOptions([]byte(blocks[1]), &static, yaml.Strict()); err != nil || static.EntryPoints["web"].Address == "" {
		t.Fatalf("%v %+v", err, static)
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	through := func(name string) http.Handler {
		to, err := url.Parse(routes.HTTP.Services[name].LoadBalancer.Servers[0].URL)
		if err != nil {
			t.Fatal(err)
		}
		return &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
			host := r.In.Host
			r.SetURL(to)
			r.Out.Host = host
			r.SetXForwarded()
		}, ErrorLog: nil}
	}
	forward := map[string]http.Handler{}
	for name := range routes.HTTP.Services {
		forward[name] = through(name)
	}
	passes := func(w http.ResponseWriter, r *http.Request, name string) bool {
		m := routes.HTTP.Middlewares[name]
		ask, err := http.NewRequestWithContext(r.Context(), http.MethodGet, m.ForwardAuth.Address, nil)
		if err != nil {
			t.Error(err)
			return false
		}
		for _, name := range m.ForwardAuth.AuthRequestHeaders {
			if values := r.Header.Values(name); len(values) > 0 {
				ask.Header[http.CanonicalHeaderKey(name)] = values
			}
		}
		ip, _, _ := net.SplitHostPort(r.RemoteAddr)
		for name, value := range map[string]string{"X-Forwarded-For": ip, "X-Forwarded-Method": r.Method, "X-Forwarded-Proto": "http", "X-Forwarded-Host": r.Host, "X-Forwarded-Uri": r.URL.RequestURI()} {
			ask.Header.Set(name, value)
		}
		said, err := client.Do(ask)
		if err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return false
		}
		defer said.Body.Close()
		if said.StatusCode < 200 || said.StatusCode >= 300 {
			for name, values := range said.Header {
				w.Header()[name] = values
			}
			if to, err := said.Location(); err == nil { // a path is read against the address that was asked
				w.Header().Set("Location", to.String())
			}
			w.WriteHeader(said.StatusCode)
			_, _ = io.Copy(w, said.Body)
			return false
		}
		replaced := regexp.MustCompile(m.ForwardAuth.AuthResponseHeadersRegex).MatchString
		maps.DeleteFunc(r.Header, func(name string, _ []string) bool { return replaced(name) })
		for name, values := range said.Header {
			if replaced(name) {
				r.Header[name] = values
			}
		}
		return true
	}
	l, err := net.Listen("tcp", front)
	if err != nil {
		t.Fatal(err)
	}
	matcher := regexp.MustCompile("(PathPrefix|Host)\\(`([^`]+)`\\)")
	managed := regexp.MustCompile("^X[-_]Forwarded[-_](Proto|For|Host|Port|Server|Uri|Method|Prefix|Tls[-_]Client[-_]Cert([-_]Info)?)$|^X[-_]Real[-_]Ip$")
	gateway := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		maps.DeleteFunc(r.Header, func(name string, _ []string) bool { return managed.MatchString(name) })
		host, _, _ := strings.Cut(r.Host, ":")
		chosen, first := "", 0
		for name, router := range routes.HTTP.Routers {
			rank := max(router.Priority, len(router.Rule)) // a longer rule comes first
			for _, m := range matcher.FindAllStringSubmatch(router.Rule, -1) {
				fits := m[1] == "Host" && strings.EqualFold(strings.TrimSuffix(host, "."), m[2]) || m[1] == "PathPrefix" && strings.HasPrefix(r.URL.Path, m[2])
				if fits && rank > first {
					chosen, first = name, rank
				}
			}
		}
		router, found := routes.HTTP.Routers[chosen]
		if !found {
			http.NotFound(w, r)
			return
		}
		for _, name := range router.Middlewares {
			if !passes(w, r, name) {
				return
			}
		}
		forward[router.Service].ServeHTTP(w, r)
	}))
	_ = gateway.Listener.Close()
	gateway.Listener = l
	gateway.Start()
	t.Cleanup(gateway.Close)
}
