package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"authguard/captchamode/challenge"
	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/database"
	"authguard/internal/database/databasetest"
	"authguard/internal/testing/apitest"
	"authguard/internal/testing/browsertest"
	"authguard/internal/testing/postgrestest"
)

// product is the binary under test, built as it is shipped: a race detector in
// it would make a bcrypt take a second. The same code runs under the detector
// in the packages' own tests.
var product string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "ag")
	if err != nil {
		panic(err)
	}
	if product = os.Getenv("TEST_PRODUCT"); product == "" { // built already: doctest.Alone
		product = filepath.Join(dir, "authguard")
		build := exec.Command("go", "build", "-trimpath", "-o", product, ".") // as deploy does: compiled once for both
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			panic(string(out))
		}
		_ = os.Setenv("TEST_PRODUCT", product)
	}
	browsertest.Share()
	code := postgrestest.Run(m)
	browsertest.Close()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// rightPassword is every test account's.
const rightPassword = "correct horse"

// rightHash is its bcrypt, of cost 10: under the race detector one takes a second.
const rightHash = "$2a$10$Xws/EiE/QOkX8.mdpScSFOtBH.4802WYbAQbI1SiJ6bKIKTQI96rW"

// otherPassword is that of the users whose names begin with "other", and otherHash its bcrypt.
const (
	otherPassword = "battery staple"
	otherHash     = "$2a$10$kyVaIok/uQSASMhEUwHH/OapNbmcC1XOXhCk1ggY5iaXIoScDCeka"
)

// A server is a running authguard: a process of its own.
type server struct {
	t        *testing.T
	dir      string
	base     string // http://127.0.0.1:port
	admin    string
	banner   string // what it printed on standard output until then
	password string // the administrator's temporary password, if it was printed
	cmd      *exec.Cmd
	log      logFile
	probes   bool // the app's routes
}

// A logFile is the file that a process writes its log to, not a pipe: what was logged before an answer is
// in it when the answer arrives.
type logFile string

func (l logFile) has(what string) bool { return strings.Contains(l.String(), what) }

func (l logFile) String() string {
	content, err := os.ReadFile(string(l))
	if err != nil {
		return err.Error()
	}
	return string(content)
}

// logBuffer keeps what a program writes to its log.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) has(what string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Contains(l.b.Bytes(), []byte(what))
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// quiet is the part of a configuration that keeps CAPTCHA mode out of a test
// that is about something else.
const quiet = "captcha_mode: {threshold: 1000000}\n"

// long marks a test that takes more than some eight seconds, of which the machine works for most: a botnet, a full disk,
// a killed node, a story in a browser. Only "make attacks" runs it.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("make attacks runs it")
	}
}

// newServer starts a server with a configuration and these users, each with
// rightPassword. It is stopped when the test ends.
func newServer(t *testing.T, yaml string, users ...string) *server {
	t.Helper()
	return newServerIn(t, func(string) {}, yaml, users...)
}

// newServerIn is newServer with a data folder that prepare makes.
func newServerIn(t *testing.T, prepare func(data string), yaml string, users ...string) *server {
	t.Helper()
	dir, err := os.MkdirTemp("", "ag") // short, for the socket's sake
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	config := "listen: 127.0.0.1:0\nadmin: {listen: '127.0.0.1:0'}\ndata: " + filepath.Join(dir, "data") + "\n"
	if !strings.Contains(yaml, "passwords:") {
		config += "passwords: {cost: 10, queue_timeout: 1m}\n"
	}
	if !strings.Contains(yaml, "shutdown:") {
		config += "shutdown: {delay: 0s}\n"
	}
	config += yaml
	if err := os.WriteFile(filepath.Join(dir, "authguard.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, dir: dir, probes: strings.Contains(yaml, "probe: true")}
	prepare(filepath.Join(dir, "data"))
	if !strings.Contains(yaml, "database: ") {
		s.addUsers(filepath.Join(dir, "data", "authguard.db"), users)
	}
	s.start()
	t.Cleanup(s.stop)
	return s
}

// addUsers fills the account table before the server opens it, which is a new file where there is none.
// shop/ann is the ann of the realm shop.
func (s *server) addUsers(dsn string, names []string) {
	s.t.Helper()
	if _, err := os.Stat(dsn); err != nil && !strings.HasPrefix(dsn, "postgres") {
		if err := os.MkdirAll(filepath.Dir(dsn), 0o700); err != nil {
			s.t.Fatal(err)
		}
		databasetest.SQLiteFile(s.t, dsn)
	}
	if len(names) == 0 {
		return
	}
	ctx := s.t.Context()
	db, err := database.Open(ctx, dsn)
	if err != nil {
		s.t.Fatal(err)
	}
	defer db.Close()
	if _, err := database.Migrate(ctx, db); err != nil {
		s.t.Fatal(err)
	}
	tables := map[string]*accounts.Table{}
	for _, name := range names {
		realm, own, other := strings.Cut(name, "/")
		if !other {
			realm, own = guard.DefaultRealm, name
		}
		if tables[realm] == nil {
			tables[realm], err = accounts.New(ctx, accounts.Config{
				DB: db, Realm: realm, Normalise: guard.NormaliseAccount, Hash: func(password string) (string, error) {
					return map[string]string{rightPassword: rightHash, otherPassword: otherHash}[password], nil
				},
			})
			if err != nil {
				s.t.Fatal(err)
			}
		}
		table, name := tables[realm], own
		role := accounts.User
		if strings.HasPrefix(name, "admin") {
			role = accounts.Admin
		}
		password := rightPassword
		if strings.HasPrefix(name, "other") {
			password = otherPassword
		}
		if _, err := table.Add(ctx, accounts.Addition{Username: name, Password: password, Role: role}); err != nil {
			s.t.Fatal(err)
		}
	}
}

// noProbe leaves the app to the logins of a test, which counts them.
const noProbe = "AUTHGUARD_PROXY_PROBE=false"

// command is a command line of the product with this server's configuration.
func (s *server) command(args ...string) *exec.Cmd {
	cmd := exec.Command(product, args...)
	cmd.Env = append(os.Environ(), "AUTHGUARD_CONFIG="+filepath.Join(s.dir, "authguard.yaml"))
	if !s.probes {
		cmd.Env = append(cmd.Env, noProbe)
	}
	cmd.Dir = s.dir
	return cmd
}

// writesLog opens the file of s.log, which a restart appends to.
func (s *server) writesLog() *os.File {
	s.t.Helper()
	s.log = logFile(filepath.Join(s.dir, "stderr"))
	f, err := os.OpenFile(string(s.log), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = f.Close() })
	return f
}

// start starts the process and waits until it says where it listens.
func (s *server) start(flags ...string) {
	s.t.Helper()
	s.cmd = s.command(append([]string{"serve"}, flags...)...)
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	s.cmd.Stderr = s.writesLog()
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.read(out)
}

var said = regexp.MustCompile(`(?m)(^  login page|^  the app|^  administration|temporary password|^  data)\s+(\S+)`)

func (s *server) read(out io.Reader) {
	s.t.Helper()
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		text := lines.Text()
		s.banner += text + "\n"
		if line := (struct{ Msg string }{}); json.Unmarshal([]byte(text), &line) == nil {
			text = line.Msg // where the log is JSON, all of it is one line
		}
		for _, m := range said.FindAllStringSubmatch(text, -1) {
			switch strings.TrimSpace(m[1]) {
			case "login page", "the app":
				s.base = strings.TrimSuffix(strings.TrimSuffix(m[2], "/login"), "/")
			case "administration":
				s.admin = strings.TrimSuffix(m[2], "/")
			case "temporary password":
				s.password = m[2]
			case "data":
				go func() { _, _ = io.Copy(io.Discard, out) }()
				return
			}
		}
	}
	_ = s.cmd.Wait()
	s.t.Fatalf("the server did not start:\n%s", s.log)
}

func (s *server) stop() {
	if s.cmd.ProcessState != nil {
		return
	}
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	if err := s.cmd.Wait(); err != nil {
		s.t.Errorf("the server ended badly: %v\n%s", err, s.log)
	}
}

// kill is kill -9.
func (s *server) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// A person is a client with an address and cookies.
type person struct {
	http http.Client
	host string // that is asked for; empty: the server's address
	jar  map[string]string
	mu   sync.Mutex
	// daring: a server may be killed under a request, whose answer is the zero
	// one then.
	daring bool
}

// from is a client that dials from a loopback address.
func from(address string) *person {
	dialer := &net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(address), 0))}
	return &person{
		jar: map[string]string{},
		http: http.Client{
			Transport:     &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// at has the person ask for a host.
func (p *person) at(host string) *person {
	p.host = host
	return p
}

// An answer is what came back.
type answer struct {
	status  int
	header  http.Header
	body    string
	problem struct {
		Type      string `json:"type"`
		Challenge *struct {
			ID, Kind, Image string
			PoW             *challenge.PoW
		} `json:"challenge"`
	}
}

func (p *person) do(t *testing.T, r *http.Request) answer {
	t.Helper()
	p.mu.Lock()
	for name, value := range p.jar {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	p.mu.Unlock()
	if p.host != "" {
		r.Host = p.host
	}
	client := p.http
	client.Transport = apitest.Transport{T: t, By: p.http.Transport}
	response, err := client.Do(r)
	if err != nil {
		if !p.daring {
			t.Errorf("%s %s: %v", r.Method, r.URL, err)
		}
		return answer{}
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil && !p.daring {
		t.Errorf("%s %s: %v", r.Method, r.URL, err)
	}
	p.mu.Lock()
	for _, c := range response.Cookies() {
		p.jar[c.Name] = c.Value
	}
	p.mu.Unlock()
	a := answer{status: response.StatusCode, header: response.Header, body: string(body)}
	if strings.Contains(response.Header.Get("Content-Type"), "json") {
		_ = json.Unmarshal(body, &a.problem)
	}
	return a
}

// login posts the login form, asking for JSON. "wrong" is another password each
// time: the same one counts once (R28).
func (p *person) login(t *testing.T, s *server, user, password string, more ...string) answer {
	t.Helper()
	if password == "wrong" {
		password += rand.Text()
	}
	form := url.Values{"username": {user}, "password": {password}}
	for i := 0; i+1 < len(more); i += 2 {
		form.Set(more[i], more[i+1])
	}
	r, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodPost, s.base+"/login", strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "application/json")
	return p.do(t, r)
}

func (p *person) get(t *testing.T, url string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p.do(t, r)
}

// tally counts answers by status, so many requests at a time.
func tally(n, atATime int, request func(i int) int) map[int]int {
	var mu sync.Mutex
	counts := map[int]int{}
	next := make(chan int)
	var all sync.WaitGroup
	for range atATime {
		all.Go(func() {
			for i := range next {
				status := request(i)
				mu.Lock()
				counts[status]++
				mu.Unlock()
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	all.Wait()
	return counts
}

// loopback is the nth of many loopback addresses, in a /24 of its own while
// there are any.
func loopback(block, n int) string {
	return fmt.Sprintf("127.%d.%d.%d", block, n%256, 1+n/256)
}

// configure changes the configuration and starts the server anew.
func (s *server) configure(t *testing.T, was, is string) {
	t.Helper()
	file := filepath.Join(s.dir, "authguard.yaml")
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(text), was) {
		t.Fatalf("%s, %v", text, err)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(text), was, is, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	s.stop()
	s.start()
}

// measuring reports whether times are looked at: then Redis has the product's own
// timeout, and else the longest there is, since a busy machine must not look like
// a lost Redis.
func measuring() bool { return os.Getenv("FAULT_GUESSES") != "" }
