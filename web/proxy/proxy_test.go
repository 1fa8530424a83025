package proxy_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"authguard/captchamode"
	"authguard/guard"
	"authguard/internal/route"
	"authguard/internal/testing/world"
	"authguard/trusted"
	"authguard/web"
	"authguard/web/client"
	"authguard/web/proxy"
)

const right = "correct horse"

// An app is one that nobody can change. It counts the passwords that it sees.
type app struct {
	*httptest.Server
	mu     sync.Mutex
	seen   []string
	last   *http.Request
	answer func(w http.ResponseWriter, ok bool)
	hangs  chan struct{} // closed: it answers
	away   bool          // it answers requests without a password like those with one
}

// wordpress answers 200 to a wrong password, and a cookie to the right one.
func wordpress(w http.ResponseWriter, ok bool) {
	if ok {
		http.SetCookie(w, &http.Cookie{Name: "logged_in_f3", Value: "alice"})
		w.Header().Set("Location", "/home")
		w.WriteHeader(http.StatusFound)
		return
	}
	fmt.Fprint(w, "<p>The password is wrong.</p>")
}

// redirects answers 302 to both, to different places.
func redirects(w http.ResponseWriter, ok bool) {
	to := "/login?error=1"
	if ok {
		to = "/home"
	}
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusFound)
}

func newApp(t *testing.T, answer func(http.ResponseWriter, bool)) *app {
	t.Helper()
	a := &app{answer: answer}
	a.Server = httptest.NewServer(a)
	t.Cleanup(a.Close)
	return a
}

// ServeHTTP reads fields from wherever they are, as a careless app does.
func (a *app) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	_ = r.ParseMultipartForm(1 << 20)
	password := r.FormValue("password")
	if strings.Contains(r.Header.Get("Content-Type"), "json") {
		if m := regexp.MustCompile(`(?i)"password"\s*:\s*"([^"]*)"`).FindSubmatch(body); m != nil {
			password = string(m[1])
		}
	}
	account := string(body) + r.URL.RawQuery
	if name, p, ok := r.BasicAuth(); ok {
		account, password = name, p
	}
	a.mu.Lock()
	a.last = r
	if password != "" {
		a.seen = append(a.seen, password)
	}
	a.mu.Unlock()
	if a.hangs != nil {
		<-a.hangs
	}
	switch {
	case password != "" || a.away:
		a.answer(w, password == right && anybody.MatchString(account))
	case r.Header.Get("Upgrade") == "websocket":
		a.echo(w)
	default:
		w.Header()["X-App"] = []string{"one", "two"}
		fmt.Fprintf(w, "%s %s %x", r.Method, r.RequestURI, sha256.Sum256(body))
	}
}

// anybody matches the accounts of the tests' apps. A made-up one has no right password.
var anybody = regexp.MustCompile(`(?i)alice|bob|carol|mallory`)

// echo sends back what it gets, as a WebSocket does.
func (a *app) echo(w http.ResponseWriter) {
	w.Header().Set("Connection", "Upgrade")
	w.Header().Set("Upgrade", "websocket")
	w.WriteHeader(http.StatusSwitchingProtocols)
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = io.Copy(conn, rw)
}

func (a *app) passwords() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.seen)
}

// since are the passwords after the first n.
func (a *app) since(n int) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.seen[n:])
}

func (a *app) lastSeen() (string, *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.seen) == 0 {
		return "", a.last
	}
	return a.seen[len(a.seen)-1], a.last
}

// A door is an app behind a proxy.
type door struct {
	leaked *guard.LeakedPasswords
	*world.World
	*httptest.Server
	app    *app
	proxy  *proxy.Proxy
	rivals *proxy.Rivals
	gone   chan struct{} // a request has ended, or its client has hung up
}

var specs = map[string]route.Spec{
	"form":   {Name: "login", Path: "/login", Account: "form:username", Password: "form:password", Success: []string{"cookie logged_in_*"}},
	"302":    {Name: "login", Path: "/login", Account: "form:username", Password: "form:password", Success: []string{"status 302", "not location /login*"}},
	"json":   {Name: "login", Path: "/api/login", Account: "json:/user/username", Password: "json:/user/password", Success: []string{"cookie logged_in_*"}},
	"any":    {Name: "login", Path: "/*", Methods: []string{"GET", "POST"}, Account: "param:username", Password: "param:password", Success: []string{"cookie logged_in_*"}, SignedIn: []string{"never"}},
	"auth":   {Name: "login", Path: "/*", Methods: []string{"GET", "POST"}, Account: "basic", Success: []string{"cookie logged_in_*"}},
	"text":   {Name: "login", Path: "/login", Account: "form:username", Password: "form:password", Success: []string{"status 200"}, Failure: []string{"body wrong"}},
	"xmlrpc": {Name: "login", Path: "/xmlrpc.php", Account: "xmlrpc", Success: []string{"cookie logged_in_*"}},
	"code":   {Name: "verification-code", Path: "/code", Account: "form:username", Password: "form:password", Success: []string{"cookie logged_in_*"}},
}

func newDoor(t *testing.T, answer func(http.ResponseWriter, bool), change func(*proxy.App), names ...string) *door {
	t.Helper()
	return newDoorWith(t, nil, answer, change, names...)
}

// newDoorWith is a door whose guard takes verification codes.
func newDoorWith(t *testing.T, own guard.Codes, answer func(http.ResponseWriter, bool), change func(*proxy.App), names ...string) *door {
	t.Helper()
	policy := guard.DefaultPolicy()
	policy.PairDelay = guard.PairDelay{}
	leaked := new(guard.LeakedPasswords)
	d := &door{World: world.New(t, world.Options{Policy: &policy, Codes: own, Leaked: leaked}), app: newApp(t, answer), leaked: leaked,
		rivals: proxy.NewRivals()}
	codes := world.New(t, world.Options{Policy: &policy})
	edge := new(web.Edge)
	edge.Set([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, client.XForwardedFor)
	p, err := proxy.New(proxy.Config{
		Edge: edge, Now: d.Clock.Now, Hold: new(atomic.Int64), Secret: make([]byte, 16), Log: slog.New(slog.DiscardHandler),
		Rivals: d.rivals,
		Guard: func(name string) *guard.Guard {
			if name == "login" {
				return d.Guard
			}
			return codes.Guard
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	upstream, _ := url.Parse(d.app.URL)
	one := proxy.App{Upstream: upstream, Timeout: time.Minute, Patience: time.Minute, MaxBody: 4096}
	for _, name := range names {
		r, err := route.Compile(specs[name])
		if err != nil {
			t.Fatal(err)
		}
		one.Routes = append(one.Routes, r)
	}
	if change != nil {
		change(&one)
	}
	p.Set(one)
	d.proxy, d.gone = p, make(chan struct{}, 1000)
	d.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		context.AfterFunc(r.Context(), func() { d.gone <- struct{}{} })
		p.ServeHTTP(w, r)
	}))
	t.Cleanup(d.Close)
	return d
}

// An offer is one request with a password in it.
type offer struct{ method, path, kind, body string }

func form(body string) offer {
	return offer{"POST", "/login", "application/x-www-form-urlencoded", body}
}

// send sends a request from an address, with the path as it is written.
func (d *door) send(t *testing.T, from string, o offer, headers ...string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), o.method, d.URL, strings.NewReader(o.body))
	if err != nil {
		t.Fatal(err)
	}
	path, query, _ := strings.Cut(o.path, "?")
	r.URL.Opaque = path
	if strings.HasPrefix(path, "//") {
		r.URL.Opaque = d.URL + path // absolute, so that it is no host
	}
	r.URL.RawQuery = query
	r.Header.Set("X-Forwarded-For", from)
	r.Header.Set("Accept", "text/html")
	if o.kind != "" {
		r.Header.Set("Content-Type", o.kind)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := (&http.Transport{}).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = answer.Body.Close() })
	return answer
}

func text(t *testing.T, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Whatever the app answers, no more passwords reach it than the limit says, however
// many come at once.
func TestR1TheAppSeesNoMorePasswordsThanTheLimit(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(http.ResponseWriter, bool){"form": wordpress, "302": redirects} {
		d := newDoor(t, answer, nil, name)
		world.Burst(500, 100, func(i int) {
			d.send(t, fmt.Sprintf("198.%d.%d.1", 18+i/250, i%250), form(fmt.Sprintf("username=alice&password=guess-%d", i)))
		})
		if n := d.app.passwords(); n != 5 {
			t.Errorf("%s: the app saw %d passwords, want 5", name, n)
		}
	}
}

func TestCompressedAndOversizedBodiesAreRefused(t *testing.T) {
	t.Parallel()
	d := newDoor(t, wordpress, nil, "form")
	if r := d.send(t, "198.18.0.1", form("username=alice&password=guess"), "Content-Encoding", "gzip"); r.StatusCode != http.StatusUnsupportedMediaType {
		t.Errorf("compressed: %d", r.StatusCode)
	}
	if r := d.send(t, "198.18.0.1", form("username=alice&password="+strings.Repeat("x", 4096))); r.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("oversized: %d", r.StatusCode)
	}
	if d.app.passwords() != 0 {
		t.Error("one reached the app")
	}
}

func TestBasicAuthorisationIsGuardedOnEveryPage(t *testing.T) {
	t.Parallel()
	d := newDoor(t, wordpress, nil, "auth")
	for i := range 12 {
		secret := base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "alice:guess-%d", i))
		secret = []string{"Basic " + secret, "bAsIc " + secret, "Basic " + secret[:4] + "*" + secret[4:], "Basic  " + secret}[i%4]
		d.send(t, fmt.Sprintf("198.18.%d.1", i), offer{"GET", fmt.Sprintf("/page/%d", i), "", ""}, "Authorization", secret)
	}
	if n := d.app.passwords(); n != 5 {
		t.Errorf("the app saw %d passwords, want 5", n)
	}
}

// Codes and passwords are guessed at apart: what is locked for one is not for the
// other.
func TestRoutesCountForThemselves(t *testing.T) {
	t.Parallel()
	d := newDoor(t, wordpress, nil, "form", "code")
	guess := func(path string) {
		for i := range 20 {
			d.send(t, fmt.Sprintf("198.18.%d.1", i), offer{"POST", path, "application/x-www-form-urlencoded", fmt.Sprintf("username=alice&password=%s-%d", path[1:], i)})
		}
	}
	guess("/login")
	if n := d.app.passwords(); n != 5 {
		t.Fatalf("%d passwords", n)
	}
	guess("/code")
	if n := d.app.passwords(); n != 10 {
		t.Errorf("%d passwords and codes, want 5 and 5", n)
	}
}

// Apache's MultiViews run login.php for /login/x. Other forms below the login pass.
func TestBelowASinglePathALoginCounts(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/login/x", "/login/x.php", "/login/2fa"} {
		d := newDoor(t, wordpress, nil, "form")
		for i := range 20 {
			d.send(t, fmt.Sprintf("198.18.%d.1", i), offer{"POST", path, "application/x-www-form-urlencoded", fmt.Sprintf("username=alice&password=p-%d", i)})
		}
		if n := d.app.passwords(); n != 5 {
			t.Errorf("%s: %d passwords", path, n)
		}
		other := offer{"POST", path, "application/x-www-form-urlencoded", "code=123456"}
		if a, b := text(t, d.direct(t, other)), text(t, d.send(t, "198.18.99.1", other)); a != b {
			t.Errorf("%s: another form gets %q, without the proxy %q", path, b, a)
		}
	}
}

func TestWhatIsNotGuardedPassesUntouched(t *testing.T) {
	t.Parallel()
	d := newDoor(t, wordpress, func(a *proxy.App) { a.Routes = append(a.Routes, others(t, "/forms")) }, "form")
	for _, o := range []offer{
		{"GET", "/", "", ""}, {"GET", "/a%2Fb//c;d=1?x=%zz&y=;", "", ""}, {"POST", "/upload", "multipart/form-data; boundary=x", strings.Repeat("data ", 100_000)},
		{"DELETE", "/thing", "", ""}, {"POST", "/forms", "application/x-www-form-urlencoded", "zz=alice"},
		{"OPTIONS", "/login", "", ""},
	} {
		direct := d.direct(t, o)
		through := d.send(t, "198.18.0.1", o)
		if a, b := text(t, direct), text(t, through); a != b {
			t.Errorf("%s %s: %q through the proxy, %q without it", o.method, o.path, b, a)
		}
		for _, h := range []http.Header{direct.Header, through.Header} {
			h.Del("Date")
		}
		if a, b := fmt.Sprint(direct.Header), fmt.Sprint(through.Header); a != b {
			t.Errorf("%s %s: headers %s, without the proxy %s", o.method, o.path, b, a)
		}
	}
}

// direct sends the same to the app itself.
func (d *door) direct(t *testing.T, o offer) *http.Response {
	t.Helper()
	proxied := d.URL
	defer func() { d.URL = proxied }()
	d.URL = d.app.URL
	return d.send(t, "198.18.0.1", o)
}

func TestAConnectionThatIsUpgradedPasses(t *testing.T) {
	t.Parallel()
	d := newDoor(t, wordpress, nil, "form")
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", d.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "GET /socket HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	head := make([]byte, len("HTTP/1.1 101 Switching Protocols\r\n"))
	if _, err := io.ReadFull(conn, head); err != nil || !strings.Contains(string(head), "101") {
		t.Fatalf("%q, %v", head, err)
	}
	fmt.Fprint(conn, "hello, socket")
	var got bytes.Buffer
	for b := make([]byte, 64); !strings.Contains(got.String(), "hello, socket"); {
		n, err := conn.Read(b)
		if err != nil {
			t.Fatalf("%q, then %v", got.String(), err)
		}
		got.Write(b[:n])
	}
}

// An app that reads no body of some request takes it for the next request; an upgrade
// to HTTP/2 would be a connection that nobody looks at.
func TestNothingIsSmuggledPastTheGuard(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var requests atomic.Int64
	go func() { // an app that ignores bodies
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					if strings.HasSuffix(lines.Text(), "HTTP/1.1") {
						requests.Add(1)
					}
					if strings.HasPrefix(lines.Text(), "Upgrade:") {
						requests.Add(1000)
					}
					if closes := strings.EqualFold(lines.Text(), "Connection: close"); closes || lines.Text() == "" {
						fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
						if closes {
							return
						}
					}
				}
			}()
		}
	}()
	d := newDoor(t, wordpress, func(a *proxy.App) { a.Upstream, _ = url.Parse("http://" + l.Addr().String()) }, "form")
	for range 5 {
		d.send(t, "198.18.0.1", offer{"POST", "/style.css", "text/plain", "POST /login HTTP/1.1\r\nContent-Length: 31\r\n\r\nusername=alice&password=guess-1"})
		d.send(t, "198.18.0.1", offer{"GET", "/", "", ""}, "Connection", "Upgrade, HTTP2-Settings", "Upgrade", "h2c", "HTTP2-Settings", "AAMAAABk")
	}
	if n := requests.Load(); n != 10 {
		t.Errorf("the app saw %d requests, want 10", n)
	}
}

// An app that does not read a body takes it for the beginning of the next request on the
// connection (CL.0), whatever is in it: zz=1GET is a method to some.
func TestEveryBodyHasAConnectionOfItsOwn(t *testing.T) {
	t.Parallel()
	d := newDoor(t, wordpress, func(a *proxy.App) { a.Routes = append(a.Routes, others(t, "/forms")) }, "form", "json")
	for _, one := range []offer{
		form("username=alice&password=a"), form("username=alice&password=a%20+%0Db"),
		form("username=bob&password=a&x=GET\t/\tHTTP/1.1\n"),
		{"POST", "/api/login", "application/json", `{"user":{"username":"carol","password":"x"}}`},
		{"POST", "/forms", "application/x-www-form-urlencoded", "zz=1"}, {"POST", "/elsewhere",
			"application/x-www-form-urlencoded", "a=b"},
	} {
		d.app.last = nil
		if got := d.send(t, "198.18.0.7", one); got.StatusCode >= http.StatusBadRequest {
			t.Errorf("%s: %s", one.body, got.Status)
		} else if _, last := d.app.lastSeen(); !last.Close {
			t.Errorf("%s: the connection is used again", one.body)
		}
	}
}

// others is a route at whose path other forms pass that have the field zz.
func others(t *testing.T, path string) *route.Route {
	t.Helper()
	spec := specs["form"]
	spec.Path, spec.Passes = path, []string{"form:zz"}
	r, err := route.Compile(spec)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// An app that answers a form with 101 gets no tunnel through which more could be tried; a
// WebSocket beside the form passes (TestAConnectionThatIsUpgradedPasses).
func TestNoFormBecomesATunnel(t *testing.T) {
	t.Parallel()
	d := newDoor(t, wordpress, nil, "form", "auth")
	for _, one := range []struct {
		method, path, rest string
		passes             bool
	}{
		{"POST", "/login",
			"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 28\r\n\r\nusername=alice&password=aaaa", false},
		{"POST", "/elsewhere", "Content-Length: 0\r\n\r\n", false}, {"GET", "/login", "\r\n", true},
		{"GET", "/x", "Authorization: Basic YWxpY2U6YWFhYQ==\r\n\r\n", true},
	} {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", d.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n%s",
			one.method, one.path, one.rest)
		if _, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil {
			t.Fatal(err)
		}
		if _, last := d.app.lastSeen(); (last.Header.Get("Upgrade") != "") != one.passes {
			t.Errorf("%s %s: the app was asked for %q", one.method, one.path, last.Header["Upgrade"])
		}
	}
}

// What a route cannot read counts for its address: another type of body, no field at
// all, an upload that brings a login along, and a body that is too large.
func TestR11WhatIsNoLoginCountsForItsAddress(t *testing.T) {
	t.Parallel()
	const pairs = "application/x-www-form-urlencoded"
	pad := strings.Repeat("0123456789abcde\n", 1000)
	for name, c := range map[string]struct {
		route  string
		offer  offer
		status int
	}{
		"JSON": {"form", offer{"POST", "/login", "application/json",
			`{"username":"alice","password":"guess"}`}, 415},
		"an array":       {"form", offer{"POST", "/login", "application/json", `[1]`}, 415},
		"JSON as pairs":  {"form", offer{"POST", "/login", pairs, `{"username":"alice","password":"guess"}`}, 415},
		"no field":       {"form", offer{"POST", "/login", pairs, "zz=1"}, 400},
		"nothing":        {"form", offer{"POST", "/login", "", ""}, 400},
		"another method": {"form", offer{"PUT", "/login", pairs, "username=alice&password=guess"}, 405},
		"in the address": {"form", offer{"GET", "/login?username=alice&password=guess", "", ""}, 400},
		"too large":      {"form", offer{"POST", "/login", pairs, "x=" + pad}, 413},
		"an image":       {"any", offer{"POST", "/x", "image/png", "username=alice&password=guess"}, 415},
		"a large image":  {"any", offer{"POST", "/x", "image/png", "x=" + pad + "&username=alice&password=guess"}, 400},
		"a large form":   {"any", offer{"POST", "/x", pairs, "x=" + pad + "&username=alice&password=guess"}, 400},
	} {
		d := newDoor(t, wordpress, nil, c.route)
		for i := range 10 {
			if r := d.send(t, "203.0.113.9", c.offer); r.StatusCode != c.status {
				t.Fatalf("%s: %s, not %d, after %d", name, r.Status, c.status, i)
			}
		}
		if r := d.send(t, "203.0.113.9", c.offer); r.StatusCode != http.StatusForbidden || d.app.passwords() != 0 {
			t.Errorf("%s: %s after ten of them, and %d passwords", name, r.Status, d.app.passwords())
		}
	}
}

func TestR9WhatTheClientSaysItIsNeverReachesTheApp(t *testing.T) {
	t.Parallel()
	d := newDoor(t, wordpress, nil, "form")
	d.send(t, "203.0.113.9", offer{"GET", "/", "", ""},
		"Remote-User", "root", "Remote_User", "root", "X_Forwarded_For", "10.0.0.1", "X-Real-Ip", "10.0.0.1", "X-Forwarded-User", "root", "Forwarded", "for=10.0.0.1",
		"X-Original-Url", "/admin", "Client-Ip", "10.0.0.1", "True-Client-Ip", "10.0.0.1", "Script_Name", "/x", "Proxy", "http://evil.example", "Authguard-Code", "x",
		"Cookie", "theirs=1; authguard_device_x=2; __Host-authguard_device_y=3; other=4", "X-Custom", "kept")
	_, last := d.app.lastSeen()
	host, _ := url.Parse(d.URL)
	for name, want := range map[string]string{
		"Remote-User": "", "Remote_User": "", "X_Forwarded_For": "", "X-Forwarded-User": "", "Forwarded": "", "X-Original-Url": "", "Client-Ip": "", "True-Client-Ip": "", "Script_Name": "",
		"Proxy": "", "Authguard-Code": "", "X-Real-Ip": "203.0.113.9", "X-Forwarded-For": "203.0.113.9", "X-Forwarded-Host": host.Host, "X-Forwarded-Proto": "http", "Cookie": "theirs=1; other=4", "X-Custom": "kept",
	} {
		if got := strings.Join(last.Header.Values(name), ","); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if last.Host != host.Host {
		t.Errorf("the app was asked for %s", last.Host)
	}
}

// PHP and CGI make Remote-User of Remote.User, and apps behind other gateways believe
// names like these. What APIs of apps take from their clients passes.
func TestR9NoNameOfAHeaderClaimsWhoTheClientIs(t *testing.T) {
	t.Parallel()
	d := newDoor(t, wordpress, nil, "form")
	claims := []string{
		"Remote.User", "X.Forwarded.For", "Remote!Groups", "X.Original.URL", "Remote#User", "Remote|User",
		"Remote~User", "Remote$User", "Remote*User", "Remote'User", "Remote`User",
		"Fly-Client-IP", "WL-Proxy-Client-IP", "WL-Proxy-SSL", "X-Username", "X-User-Name", "X-User-Email",
		"X-User-Roles", "SSL-Client-Verify", "SSL-Client-S-DN", "X-SSL-Client-Cert", "X-Client-Cert",
		"X-Script-Name", "X-Middleware-Subrequest", "X-Forward-For", "X-Forwarder-For", "Forwarded-For",
		"X-True-IP", "X-Nf-Client-Connection-Ip", "X-Azure-SocketIP",
		"X-Backend-Host", "Front-End-Https", "X-Url-Scheme", "X-Auth-User", "X-Auth-Email",
		"X-Amzn-Oidc-Identity", "Cf-Access-Authenticated-User-Email", "Tailscale-User-Login",
		"X-Consumer-Username", "Iv-User", "Sm-User", "X-Userinfo", "X-Vouch-User", "X-Invoke-Path",
		"X-Sendfile-Type", "X-Accel-Mapping", "X-Auth-Request-Access-Token", "X-Ms-Client-Principal-Id",
		"X-User-Id", "X-Userid", "X-Auth-Userid", "X-User-Role", "X-Role", "X-Account", "X-Login", "X-Auth-Subject",
		"X-Client-Certificate", "X-Client-Cert-Cn", "X-Client-Cert-Subject", "Client-Cert-Chain", "X-Client-Cn",
		"Sm-Userdn", "Sm-Serversessionid", "Iv-Creds", "Osso-User-Guid", "Osso-Guid", "Impersonate-Uid",
		"Impersonate-Extra-Scopes", "X-Impersonate", "X-Hasura-Role", "X-Hasura-User-Id", "X-Ms-Token-Aad-Id-Token",
		"Cf-Access-Jwt-Assertion", "X-Goog-Iap-Jwt-Assertion", "Eppn", "Uid", "X-Ldap-Uid", "Mail", "X-Mail", "X-Admin",
	}
	kept := []string{
		"User-Agent", "X-User-Agent", "Sec-Fetch-User", "Authorization", "X-Auth-Token", "X-Amz-User-Agent",
		"X-Csrf-Token", "X-Requested-With", "X-Api-Key", "X-Client-Data", "Hx-Current-Url", "Destination",
		"Upgrade-Insecure-Requests", "X-Amz-Meta-Original-User", "X-Redmine-Switch-User",
		"X-Http-Method-Override", "X-Zip", "Traceparent",
		"X-Access-Token", "X-Id-Token", "Private-Token", "Sudo", "Cf-Visitor", "X-Hasura-Admin-Secret",
		"X-Subject-Token", "Access-Token", "Client", "Cf-Ipcountry", "X-Matched-Path", "X-Base-Path",
	}
	for _, name := range append(claims, kept...) {
		d.send(t, "203.0.113.9", offer{"GET", "/", "", ""}, name, "forged")
		var told []string
		_, last := d.app.lastSeen()
		for seen, values := range last.Header {
			if slices.Contains(values, "forged") {
				told = append(told, seen)
			}
		}
		if want := slices.Contains(kept, name); (len(told) > 0) != want {
			t.Errorf("%s: the app was told %q", name, told)
		}
	}
}

// net/http would name the upstream in its place: the app would take it for its own name.
func TestWithoutAHostTheAppIsNotAsked(t *testing.T) {
	t.Parallel()
	d := newDoor(t, wordpress, nil, "form")
	d.app.last = nil
	r := httptest.NewRequest("GET", "/", nil)
	r.Host = ""
	w := httptest.NewRecorder()
	d.proxy.ServeHTTP(w, r)
	if w.Code != http.StatusBadRequest || d.app.last != nil {
		t.Errorf("%d; the app was asked: %t", w.Code, d.app.last != nil)
	}
}

var sealed = regexp.MustCompile(`name="authguard_form" value="([^"]+)"`)
var captcha = regexp.MustCompile(`name="captcha_id" value="([^"]+)"`)

// gate takes a page of ours apart.
func gate(t *testing.T, page string) (form, id string) {
	t.Helper()
	for _, one := range []struct {
		of *regexp.Regexp
		to *string
	}{{sealed, &form}, {captcha, &id}} {
		if m := one.of.FindStringSubmatch(page); m != nil {
			*one.to = m[1]
		}
	}
	return form, id
}

// Whoever is stopped solves our challenge, and what they had typed goes on.
func TestR17AVisitorKeepsTheirFormAndOneSolveIsOneAttempt(t *testing.T) {
	t.Parallel()
	d := newDoor(t, wordpress, nil, "form", "code")
	for i := range 5 {
		d.send(t, fmt.Sprintf("198.18.%d.1", i), form("username=alice&password=guess-"+fmt.Sprint(i)))
	}
	large := strings.Repeat("x", 4000) // sealed it is more than the largest form
	r := d.send(t, "203.0.113.9", form("username=alice&password=correct+horse&remember=yes&x="+large))
	page := text(t, r)
	kept, id := gate(t, page)
	if r.StatusCode != http.StatusForbidden || kept == "" || id == "" || strings.Contains(page, "correct+horse") || strings.Contains(page, "correct horse") {
		t.Fatalf("%d %s", r.StatusCode, page)
	}
	solved := url.Values{"authguard_form": {kept}, "captcha_id": {id}, "captcha_answer": {world.Answer}}.Encode()
	r = d.send(t, "203.0.113.9", form(solved))
	seen := d.app.since(5)
	_, last := d.app.lastSeen()
	if r.StatusCode != http.StatusFound || r.Header.Get("Location") != "/home" || len(seen) != 3 || seen[0] != right || seen[1] == right || last.PostFormValue("remember") != "yes" || last.PostFormValue("x") != large {
		t.Fatalf("%d, %q, %v", r.StatusCode, seen, last.PostForm)
	}
	if device := strings.Join(r.Header.Values("Set-Cookie"), ";"); !strings.Contains(device, "authguard_device_") {
		t.Errorf("no device cookie among %s", device)
	}
	before := d.app.passwords()
	if r = d.send(t, "203.0.113.10", form(solved)); r.StatusCode != http.StatusForbidden || d.app.passwords() != before {
		t.Errorf("a second time: %d, %d passwords more", r.StatusCode, d.app.passwords()-before)
	}
	elsewhere := offer{"POST", "/code", "application/x-www-form-urlencoded", solved}
	if r = d.send(t, "203.0.113.9", elsewhere); r.StatusCode != http.StatusBadRequest || d.app.passwords() != before {
		t.Errorf("at another path than it was sealed for: %d, %d passwords more", r.StatusCode, d.app.passwords()-before)
	}
	d.Clock.Advance(31 * time.Minute)
	if r = d.send(t, "203.0.113.9", form(solved)); r.StatusCode != http.StatusBadRequest {
		t.Errorf("a form that has waited for half an hour: %d", r.StatusCode)
	}
}

// A request that cannot be read has no account, and counts for its address.
func TestR11WhatCannotBeReadCountsForItsAddress(t *testing.T) {
	t.Parallel()
	d := newDoor(t, wordpress, nil, "form")
	for range 10 {
		if r := d.send(t, "203.0.113.9", form("username=a&username=b&password=x")); r.StatusCode != http.StatusBadRequest {
			t.Fatalf("%d", r.StatusCode)
		}
	}
	if r := d.send(t, "203.0.113.9", form("username=carol&password=x")); r.StatusCode != http.StatusForbidden || d.app.passwords() != 0 {
		t.Errorf("after ten of those: %d, %d passwords", r.StatusCode, d.app.passwords())
	}
}

// One request that offers for two accounts is stopped whole, and costs the other nothing.
func TestWhatIsStoppedWithAnotherIsChargedNothing(t *testing.T) {
	t.Parallel()
	d := newDoor(t, wordpress, nil, "form", "xmlrpc")
	guess := func(account string, n int) {
		for i := range n {
			d.send(t, fmt.Sprintf("198.18.%d.1", i), form(fmt.Sprintf("username=%s&password=guess-%d", account, i)))
		}
		d.Clock.Advance(2 * time.Minute) // or strangers are slowed
	}
	guess("alice", 5)
	for i := range 3 {
		call := ""
		for _, account := range []string{"bob", "alice"} {
			call += "<value><struct><member><name>methodName</name><value><string>wp.getUsersBlogs</string></value></member><member><name>params</name><value><array><data>" +
				"<value><string>" + account + "</string></value><value><string>" + fmt.Sprint("other-", i) + "</string></value></data></array></value></member></struct></value>"
		}
		body := "<methodCall><methodName>system.multicall</methodName><params><param><value><array><data>" + call + "</data></array></value></param></params></methodCall>"
		if r := d.send(t, fmt.Sprintf("198.19.%d.1", i), offer{"POST", "/xmlrpc.php", "text/xml", body}); r.StatusCode != http.StatusForbidden {
			t.Fatalf("%d %s", r.StatusCode, text(t, r))
		}
	}
	d.Clock.Advance(2 * time.Minute)
	if guess("bob", 5); d.app.passwords() != 10 {
		t.Errorf("the app saw %d passwords, want alice's 5 and bob's 5", d.app.passwords())
	}
}

// Of a body that was not read whole nobody can say what it has not.
func TestWhatWasNotReadIsNoSuccess(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(http.ResponseWriter, bool){
		"larger than a mebibyte": func(w http.ResponseWriter, _ bool) { fmt.Fprint(w, strings.Repeat(" ", 1<<20), "wrong") },
		"compressed": func(w http.ResponseWriter, _ bool) {
			w.Header().Set("Content-Encoding", "gzip")
			fmt.Fprint(w, "\x1f\x8b")
		},
	} {
		d := newDoor(t, answer, nil, "text")
		d.send(t, "203.0.113.9", form("username=alice&password=guess"))
		if got := d.Status(t, "alice", "203.0.113.9"); got != trusted.Unknown {
			t.Errorf("%s: the place is %v", name, got)
		}
	}
}

func TestAScriptGetsAProblemAndSolvesItInHeaders(t *testing.T) {
	t.Parallel()
	d := newDoor(t, wordpress, nil, "json")
	guess := func(from, password string, headers ...string) *http.Response {
		return d.send(t, from, offer{"POST", "/api/login", "application/json", `{"user":{"username":"alice","password":"` + password + `"}}`}, append(headers, "Accept", "application/json")...)
	}
	for i := range 5 {
		guess(fmt.Sprintf("198.18.%d.1", i), fmt.Sprint(i))
	}
	r := guess("203.0.113.9", right)
	body := text(t, r)
	id := regexp.MustCompile(`"id":"([^"]+)"`).FindStringSubmatch(body)
	if r.StatusCode != http.StatusForbidden || r.Header.Get("Content-Type") != "application/problem+json" || id == nil || !strings.Contains(body, `"image":"/.authguard/captcha/`) {
		t.Fatalf("%d %s", r.StatusCode, body)
	}
	if r = guess("203.0.113.9", right, "Authguard-Captcha-Id", id[1], "Authguard-Captcha-Answer", world.Answer); r.StatusCode != http.StatusFound {
		t.Errorf("solved: %d %s", r.StatusCode, text(t, r))
	}
}

// Without a form to keep, our page stores the solution for the next attempt. No cookie replaces it.
func TestALoginInAHeaderIsSolvedAhead(t *testing.T) {
	t.Parallel()
	d := newDoor(t, wordpress, nil, "auth")
	d.Force(t)
	secret := "Basic " + base64.StdEncoding.EncodeToString([]byte("alice:guess"))
	attempt := func() *http.Response {
		return d.send(t, "203.0.113.9", offer{"GET", "/page", "", ""}, "Authorization", secret, "Cookie", "authguard_solve=x")
	}
	r := attempt()
	page := text(t, r)
	_, id := gate(t, page)
	if r.StatusCode != http.StatusForbidden || !strings.Contains(page, `action="/.authguard/solve"`) || !strings.Contains(page, `name="username" value="alice"`) {
		t.Fatalf("%d %s", r.StatusCode, page)
	}
	page = text(t, d.send(t, "203.0.113.9", solveForm("username", "alice", "route", "login", "captcha_id", id, "captcha_answer", world.Answer)))
	if !strings.Contains(page, "You can sign in now") {
		t.Fatalf("solved: %s", page)
	}
	for i, want := range []int{http.StatusOK, http.StatusForbidden} {
		if r := attempt(); r.StatusCode != want {
			t.Errorf("attempt %d after it: %d", i+1, r.StatusCode)
		}
	}
}

// While CAPTCHA mode is on and the account is under attack, too, its owner meets one challenge: after the form.
func TestALoginMeetsOneChallenge(t *testing.T) {
	t.Parallel()
	d := newDoor(t, wordpress, nil, "form")
	for i := range 5 {
		d.send(t, fmt.Sprintf("198.18.%d.1", i), form("username=alice&password=guess-"+fmt.Sprint(i)))
	}
	d.Force(t)
	if page := text(t, d.send(t, "203.0.113.9", offer{"GET", "/login?next=/home", "", ""})); !strings.HasPrefix(page, "GET /login") {
		t.Fatalf("a challenge before the form: %s", page)
	}
	kept, id := gate(t, text(t, d.send(t, "203.0.113.9", form("username=alice&password=correct+horse"))))
	solved := url.Values{"authguard_form": {kept}, "captcha_id": {id}, "captcha_answer": {world.Answer}}.Encode()
	if r := d.send(t, "203.0.113.9", form(solved)); r.StatusCode != http.StatusFound {
		t.Errorf("after one challenge: %d %s", r.StatusCode, text(t, r))
	}
}

// ways are two bodies of a login: with a space in it it has a connection of its own.
var ways = map[string]string{"kept": "", "of its own": "&x=a b"}

func TestR27AnAppThatIsAwayIsChargedToNobody(t *testing.T) {
	t.Parallel()
	for way, rest := range ways {
		d := newDoor(t, wordpress, nil, "form")
		d.app.Close()
		for i := range 20 {
			r := d.send(t, fmt.Sprintf("198.18.%d.1", i), form(fmt.Sprintf("username=alice&password=guess-%d", i)+rest))
			if body := text(t, r); r.StatusCode != http.StatusBadGateway || !strings.Contains(body, "This site is not responding") {
				t.Fatalf("%s: %d %s", way, r.StatusCode, body)
			}
		}
		if decision, err := d.Begin(t.Context(), world.From("alice", "203.0.113.9")); err != nil || decision.Action != guard.Proceed {
			t.Errorf("%s: %v %v: somebody was charged", way, decision.Action, err)
		}
	}
}

// An app that keeps wrong passwords waiting has looked at them.
func TestR1WhatTheAppNeverAnswersHasFailed(t *testing.T) {
	t.Parallel()
	for way, rest := range ways {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			// Long enough for a busy machine to pass a request on.
			d := newDoor(t, wordpress, func(a *proxy.App) { a.Timeout = 2 * time.Second }, "form")
			d.app.hangs = make(chan struct{})
			t.Cleanup(func() { close(d.app.hangs) })
			var mu sync.Mutex
			statuses := map[int]int{}
			world.Burst(12, 12, func(i int) {
				r := d.send(t, fmt.Sprintf("198.18.%d.1", i), form(fmt.Sprintf("username=alice&password=guess-%d", i)+rest))
				mu.Lock()
				defer mu.Unlock()
				statuses[r.StatusCode]++
			})
			if statuses[http.StatusGatewayTimeout] != 5 || statuses[http.StatusForbidden] != 7 {
				t.Errorf("%v; want 5 × 504 and 7 × 403", statuses)
			}
			if n := d.app.passwords(); n != 5 {
				t.Errorf("the app saw %d passwords", n)
			}
		})
	}
}

// A client that hangs up before the answer has guessed.
func TestR1WhoHangsUpHasGuessed(t *testing.T) {
	t.Parallel()
	d := newDoor(t, wordpress, nil, "form")
	d.app.hangs = make(chan struct{})
	for i := range 5 {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			r, _ := http.NewRequestWithContext(ctx, "POST", d.URL+"/login", strings.NewReader(fmt.Sprintf("username=alice&password=guess-%d", i)))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Header.Set("X-Forwarded-For", fmt.Sprintf("198.18.%d.1", i))
			if answer, err := http.DefaultClient.Do(r); err == nil {
				_ = answer.Body.Close()
			}
		}()
		for d.app.passwords() != i+1 {
			time.Sleep(time.Millisecond)
		}
		cancel()
		<-done
	}
	close(d.app.hangs)
	d.send(t, "198.18.77.1", form("username=alice&password=another"))
	if n := d.app.passwords(); n != 5 {
		t.Errorf("the app saw %d passwords", n)
	}
}

// Whoever hangs up with the right password has logged in.
func TestTheAnswerToWhoHangsUpCounts(t *testing.T) {
	t.Parallel()
	d := newDoor(t, wordpress, nil, "form")
	d.app.hangs = make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		r, _ := http.NewRequestWithContext(ctx, "POST", d.URL+"/login", strings.NewReader("username=alice&password=correct+horse"))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("X-Forwarded-For", "203.0.113.9")
		if answer, err := http.DefaultClient.Do(r); err == nil {
			_ = answer.Body.Close()
		}
	}()
	for d.app.passwords() != 1 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	<-gone
	<-d.gone
	close(d.app.hangs)
	d.Close() // when all requests have ended
	if got := d.Status(t, "alice", "203.0.113.9"); got != trusted.Known {
		t.Errorf("the place is %v", got)
	}
}

// A sprayed password is answered by the app itself as a wrong one is.
func TestR28ASprayedPasswordDoesNotSufficeBehindTheProxy(t *testing.T) {
	t.Parallel()
	d := newDoor(t, wordpress, nil, "form")
	for i := range 10 {
		d.send(t, fmt.Sprintf("198.18.%d.1", i), form(fmt.Sprintf("username=user-%d&password=sprayed", i)))
	}
	d.app.answer = func(w http.ResponseWriter, _ bool) {
		password, last := d.app.lastSeen()
		wordpress(w, password == "sprayed" && anybody.MatchString(last.FormValue("username")))
	}
	for i := range guard.SprayedPerHour + 1 {
		from, carol := fmt.Sprintf("203.0.%d.9", i), fmt.Sprint("carol", i)
		at := form("username=" + carol + "&password=sprayed&remember=1")
		before := d.app.passwords()
		r := d.send(t, from, at, "Accept", "application/json")
		id := regexp.MustCompile(`"id":"([^"]+)"`).FindStringSubmatch(text(t, r))
		if r.StatusCode != http.StatusForbidden || id == nil || d.app.passwords() != before {
			t.Fatalf("%s: %d, the challenge is %v", carol, r.StatusCode, id)
		}
		r = d.send(t, from, at, "Accept", "application/json", "Authguard-Captcha-Id", id[1], "Authguard-Captcha-Answer", world.Answer)
		password := d.app.since(before)[0] // a made-up one comes after a success
		_, last := d.app.lastSeen()
		want := map[bool]int{true: http.StatusFound, false: http.StatusOK}[i < guard.SprayedPerHour]
		if r.StatusCode != want || (password == "sprayed") != (want == http.StatusFound) || last.PostFormValue("remember") != "1" {
			t.Errorf("%s: %d, the app saw %q, %v", carol, r.StatusCode, password, last.PostForm)
		}
	}
}

// A leaked password reaches the app: no code can be sent, and a challenge would reveal the list. Administrators see it.
func TestALeakedPasswordIsRecordedBehindTheProxy(t *testing.T) {
	t.Parallel()
	d := newDoor(t, wordpress, nil, "form")
	d.leaked.Set(func(password string) bool { return password == right })
	for password, want := range map[string]bool{right: true, "another": false} {
		d.send(t, "203.0.113.9", form("username=alice&password="+password))
		events := d.Events()
		if e := events[len(events)-1]; e.Reasons.Has(guard.PasswordLeaked) != want || (e.Outcome == guard.Succeeded) != want {
			t.Errorf("%s: %v %v", password, e.Outcome, e.Reasons.Codes())
		}
	}
}

func TestR20AbandonedLoginsArePressure(t *testing.T) {
	t.Parallel()
	d := newDoor(t, func(w http.ResponseWriter, _ bool) { w.WriteHeader(http.StatusServiceUnavailable) }, nil, "form")
	d.app.away = true
	for i := range 20 {
		d.send(t, fmt.Sprintf("198.18.%d.1", i), form(fmt.Sprintf("username=user-%d&password=guess", i)))
	}
	if n := d.app.passwords(); n != 20 {
		t.Errorf("the app was asked %d times", n)
	}
	if d.Mode.State().FailureRate == (captchamode.Counts{}) {
		t.Error("no pressure")
	}
	if got := d.Status(t, "alice", "198.18.19.1"); got != trusted.Unknown { // the newest
		t.Errorf("a place where nobody logged in is %v", got)
	}
}

// Who is pretended to gets the app's own answer to a wrong password.
func TestAnAppAnswersWhoIsPretendedToAsAWrongPassword(t *testing.T) {
	t.Parallel()
	d := newDoor(t, wordpress, nil, "form")
	p := d.Policy()
	p.Account = []guard.Limit{{Failures: 1, Window: time.Hour, Action: guard.FakeFailure}}
	if err := d.SetPolicy(p); err != nil {
		t.Fatal(err)
	}
	d.app.answer = func(w http.ResponseWriter, _ bool) {
		password, _ := d.app.lastSeen()
		wordpress(w, password == "right")
	}
	wrong := d.send(t, "203.0.113.8", form("username=carol&password=wrong&remember=1"))
	r := d.send(t, "203.0.113.9", form("username=carol&password=right&remember=1"))
	password, last := d.app.lastSeen()
	if r.StatusCode != wrong.StatusCode || text(t, r) != text(t, wrong) || len(r.Cookies()) != len(wrong.Cookies()) {
		t.Errorf("%d %v, a wrong one %d %v", r.StatusCode, r.Header, wrong.StatusCode, wrong.Header)
	}
	if password == "right" || last.PostFormValue("remember") != "1" || last.PostFormValue("username") != "carol" {
		t.Errorf("the app saw %q, %v", password, last.PostForm)
	}
}
