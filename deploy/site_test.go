package deploy_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"authguard/internal/testing/postgrestest"
	"authguard/internal/testing/redistest"
)

// A site is what compose.yaml describes, on this machine's loopback.
type site struct {
	t     *testing.T
	image *image
	nodes []*node
	base  string // nginx
	nginx *exec.Cmd
	conf  string // its file
	log   *output
}

type node struct {
	site    *site
	env     []string
	address string
	cmd     *exec.Cmd
	ended   chan struct{} // closed when the process has ended
	log     *output
}

// output keeps what a process writes.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// up starts all of it, in the order of depends_on.
func up(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, image: theImage(t), log: new(output)}
	c := compose(t, secretsOf)
	postgres, redis := postgrestest.Own(t), redisOf(t, c.Services["redis"])
	postgres.Do(t, "postgres", "CREATE ROLE authguard LOGIN PASSWORD '"+secretsOf["POSTGRES_PASSWORD"]+"'")
	postgres.Do(t, "postgres", "CREATE DATABASE authguard OWNER authguard")
	for _, name := range []string{"node1", "node2"} {
		env := maps.Clone(s.image.env)
		maps.Copy(env, c.Services[name].Environment)
		n := &node{site: s, address: redistest.FreeAddress(t), log: new(output)}
		maps.Copy(env, map[string]string{
			"AUTHGUARD_LISTEN": n.address, "AUTHGUARD_ADMIN_LISTEN": redistest.FreeAddress(t),
			"AUTHGUARD_DATA":            s.image.path("/data/" + name), // here they share a root
			"AUTHGUARD_KEYS_FILE":       s.image.path(env["AUTHGUARD_KEYS_FILE"]),
			"AUTHGUARD_DATABASE":        strings.Replace(env["AUTHGUARD_DATABASE"], "postgres:5432", postgres.Address(), 1),
			"AUTHGUARD_REDIS_ADDRESSES": redis,
			"AUTHGUARD_REDIS_TIMEOUT":   "5s", // the most there is: for a busy machine
			"AUTHGUARD_TRUSTED_PROXIES": "127.0.0.1",
			"AUTHGUARD_PASSWORDS_COST":  "10",
		})
		n.env = environ(env)
		s.nodes = append(s.nodes, n)
		n.start()
		t.Cleanup(n.stop)
	}
	s.startNginx(c)
	return s
}

// redisOf runs the command of compose.yaml and returns where it listens.
func redisOf(t *testing.T, one service) string {
	t.Helper()
	where := redistest.FreeAddress(t)
	_, port, _ := net.SplitHostPort(where)
	dir := openFolder(t)
	args := append([]string{}, one.Command...)
	args[2] = strings.Replace(args[2], "redis-server -", "redis-server - --bind 127.0.0.1 --port "+port+" --dir "+dir, 1)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "REDIS_PASSWORD="+one.Environment["REDIS_PASSWORD"])
	run(t, cmd, new(output))
	redistest.Until(t, "Redis", func() bool {
		c, err := net.Dial("tcp", where)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	return where
}

// run starts a process that ends with the test.
func run(t *testing.T, cmd *exec.Cmd, log *output) {
	t.Helper()
	cmd.Stdout, cmd.Stderr = log, log
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
}

// startNginx runs nginx with nginx.conf, the addresses of the containers
// replaced by those here.
func (s *site) startNginx(c composed) {
	t := s.t
	t.Helper()
	nginx, err := exec.LookPath("nginx")
	if err != nil {
		nginx, err = exec.LookPath("/usr/sbin/nginx") // not in everybody's path
	}
	if err != nil {
		t.Fatal("nginx is missing: apt-get install nginx-light")
	}
	where, dir := redistest.FreeAddress(t), openFolder(t)
	conf := read(t, "nginx.conf")
	for i, name := range []string{"node1", "node2"} {
		conf = strings.Replace(conf, c.Services[name].Networks["front"].Address+":8080", s.nodes[i].address, 1)
	}
	conf = strings.ReplaceAll(strings.Replace(conf, "listen 8080;", "listen "+where+";", 1), " /tmp/", " "+dir+"/")
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(nginx, "-t", "-e", "stderr", "-c", file).CombinedOutput(); err != nil || strings.Contains(string(out), "[warn]") {
		t.Fatalf("nginx -t: %v\n%s", err, out)
	}
	s.nginx, s.conf = exec.Command(nginx, "-e", "stderr", "-c", file, "-g", "daemon off;"), file
	run(t, s.nginx, s.log)
	s.base = "http://" + where
	redistest.Until(t, "nginx", func() bool {
		response, err := http.Get(s.base + "/login")
		if err == nil {
			_ = response.Body.Close()
		}
		return err == nil && response.StatusCode == http.StatusOK
	})
}

// start starts the node and waits until it is healthy, as Docker does.
func (n *node) start() {
	n.site.t.Helper()
	n.cmd = n.site.image.command(n.env, "serve")
	n.cmd.Stdout, n.cmd.Stderr = n.log, n.log
	if err := n.cmd.Start(); err != nil {
		n.site.t.Fatal(err)
	}
	ended := make(chan struct{})
	cmd := n.cmd
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	n.ended = ended
	redistest.Until(n.site.t, "the node to get healthy", func() bool {
		select {
		case <-ended:
			n.site.t.Fatalf("the node has ended:\n%s", n.log)
		default:
		}
		return n.site.image.command(n.env, n.site.image.check[1:]...).Run() == nil
	})
}

func (n *node) stop() {
	_ = n.cmd.Process.Signal(syscall.SIGTERM)
	<-n.ended
	if !n.cmd.ProcessState.Success() {
		n.site.t.Errorf("a node ended badly: %v\n%s", n.cmd.ProcessState, n.log)
	}
}

// attempts are the lines of the log about attempts of an account.
func (n *node) attempts(account string) (all []attempt) {
	for line := range strings.Lines(n.log.String()) {
		var one attempt
		if json.Unmarshal([]byte(line), &one) == nil && one.Account == account {
			all = append(all, one)
		}
	}
	return all
}

type attempt struct{ Msg, Address, Account string }

// user adds an account as an operator does.
func (s *site) user(name string) {
	s.t.Helper()
	cmd := s.image.command(s.nodes[0].env, "user", "create", name, "--password-stdin")
	cmd.Stdin = strings.NewReader(password + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		s.t.Fatalf("user create: %v\n%s", err, out)
	}
}

const password = "correct horse"

// from is a client with an address of its own.
func from(address string) *http.Client {
	dialer := &net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(address), 0))}
	jar, _ := cookiejar.New(nil)
	return &http.Client{
		Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}, Jar: jar,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// login tries a password, and claims to come from somewhere else.
func login(t *testing.T, who *http.Client, base, account, password string) int {
	t.Helper()
	form := url.Values{"username": {account}, "password": {password}}
	r, err := http.NewRequest(http.MethodPost, base+"/login", strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "application/json")
	r.Header.Set("X-Forwarded-For", "198.51.100.7")
	r.Header.Set("Forwarded", "for=198.51.100.7")
	response, err := who.Do(r)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode
}

func TestTheSiteBehindNginx(t *testing.T) {
	t.Parallel()
	s := up(t)
	s.user("alice")
	t.Run("a client's own address arrives, whatever it claims", s.addressesArrive)
	t.Run("a session of one node is one of the other", s.sessionsAreShared)
	t.Run("nodes are replaced one after the other and no login is lost", s.nodesAreReplaced)
}

func (s *site) addressesArrive(t *testing.T) {
	want := map[attempt]bool{}
	for i := range 3 {
		at := fmt.Sprintf("127.50.%d.1", i)
		if got := login(t, from(at), s.base, "alice", "wrong"); got != http.StatusUnauthorized {
			t.Errorf("a wrong password from %s: %d, want 401", at, got)
		}
		want[attempt{"attempt failed", at, "alice"}] = true
	}
	if got := login(t, from("127.51.0.1"), s.base, "alice", password); got != http.StatusOK {
		t.Errorf("the right password: %d, want 200", got)
	}
	want[attempt{"attempt succeeded", "127.51.0.1", "alice"}] = true
	// Past nginx, which only what is on its network can do.
	login(t, from("127.52.0.1"), "http://"+s.nodes[0].address, "alice", "wrong")
	want[attempt{"attempt failed", "127.52.0.1", "alice"}] = true
	var logged []attempt
	redistest.Until(t, "the log", func() bool {
		logged = append(s.nodes[0].attempts("alice"), s.nodes[1].attempts("alice")...)
		return len(logged) >= len(want)
	})
	for _, one := range logged {
		if !want[one] {
			t.Errorf("%+v is in the log", one)
		}
	}
	for i, n := range s.nodes {
		if len(n.attempts("alice")) == 0 {
			t.Errorf("nginx sends nothing to node %d", i+1)
		}
	}
}

func (s *site) sessionsAreShared(t *testing.T) {
	who := from("127.51.0.1")
	if got := login(t, who, s.base, "alice", password); got != http.StatusOK {
		t.Fatalf("%d, want 200", got)
	}
	for range 4 {
		response, err := who.Get(s.base + "/auth/verify")
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusOK || response.Header.Get("Remote-User") != "alice" {
			t.Errorf("%d for %q, want 200 for alice", response.StatusCode, response.Header.Get("Remote-User"))
		}
	}
}

// write writes nginx's configuration, and returns when no worker uses the previous one.
func (s *site) write(t *testing.T, conf string) {
	t.Helper()
	workers := func() []string {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", s.nginx.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Fields(string(b))
	}
	old := workers()
	err := os.WriteFile(s.conf, []byte(conf), 0o600)
	if err = errors.Join(err, s.nginx.Process.Signal(syscall.SIGHUP)); err != nil {
		t.Fatal(err)
	}
	redistest.Until(t, "nginx to reload", func() bool {
		return !slices.ContainsFunc(workers(), func(pid string) bool { return slices.Contains(old, pid) })
	})
}

// nodesAreReplaced is an upgrade without downtime. nginx does not watch /readyz, so the
// node is marked down before it stops.
func (s *site) nodesAreReplaced(t *testing.T) {
	stop := make(chan struct{})
	var people sync.WaitGroup
	var mu sync.Mutex
	counts := map[int]int{}
	for i := range 3 {
		people.Go(func() {
			for who := from(fmt.Sprintf("127.53.%d.1", i)); ; {
				select {
				case <-stop:
					return
				default:
				}
				status := login(t, who, s.base, "alice", password)
				mu.Lock()
				counts[status]++
				mu.Unlock()
			}
		})
	}
	b, err := os.ReadFile(s.conf)
	if err != nil {
		t.Fatal(err)
	}
	both := string(b)
	for range 2 {
		for _, n := range s.nodes {
			s.write(t, strings.Replace(both, n.address+" max_fails=0;", n.address+" down;", 1))
			n.stop()
			n.start()
			s.write(t, both)
		}
	}
	close(stop)
	people.Wait()
	if len(counts) != 1 || counts[http.StatusOK] == 0 {
		t.Errorf("logins while the nodes were replaced: %v, want 200 only\n%s", counts, s.log)
	}
	t.Logf("%d logins while both nodes were replaced, twice", counts[http.StatusOK])
}
