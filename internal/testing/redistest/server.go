package redistest

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Server is one redis-server process.
type Server struct {
	Addr string
	args []string
	dir  string

	mu   sync.Mutex
	cmd  *exec.Cmd
	out  *bytes.Buffer
	gone chan struct{} // closed when the process has ended
}

// forever is longer than any suite runs: no timeout of a client or of a server
// decides a test.
const forever = time.Hour

// Standalone starts a server with these arguments on top of: no saving.
func Standalone(t testing.TB, args ...string) *Server {
	t.Helper()
	s := newServer(t, append([]string{"--save", "", "--appendonly", "no"}, args...)...)
	s.Start(t)
	return s
}

func newServer(t testing.TB, args ...string) *Server {
	t.Helper()
	s := inFolder(t, folder(t), args...)
	t.Cleanup(func() { s.end() })
	return s
}

func inFolder(t testing.TB, dir string, args ...string) *Server {
	t.Helper()
	s := &Server{Addr: FreeAddress(t), dir: dir}
	_, port, _ := net.SplitHostPort(s.Addr)
	s.args = append([]string{"--port", port, "--bind", "127.0.0.1", "--dir", s.dir}, args...)
	return s
}

var shared struct {
	once sync.Once
	one  *Server
}

// Shared is the server of all tests of this process that keep to keys of their own, and neither stop nor empty it.
// It writes no file, and ends with the process.
func Shared(t testing.TB) *Server {
	t.Helper()
	shared.once.Do(func() {
		shared.one = inFolder(t, os.TempDir(), "--save", "", "--appendonly", "no")
		shared.one.Start(t)
	})
	return shared.one
}

// folder is a new one with a short path: t.TempDir is removed before a server
// that is being killed has closed its files.
func folder(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "redis")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func binary(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatal("redis-server is missing: apt-get install redis-server")
	}
	return path
}

// FreeAddress is one of 127.0.0.1 whose port is free, and so is the one 10,000 higher, on
// which a Cluster's nodes talk. Both are below those that the system hands out: there, a
// connection of another test may take the port before the server listens.
func FreeAddress(t testing.TB) string {
	t.Helper()
	for range 1000 {
		port := 10_000 + rand.IntN(11_000)
		if isFree(port) && isFree(port+10_000) && reserve(port) {
			return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		}
	}
	t.Fatal("no free port")
	return ""
}

// reserved keeps the locks until the process ends.
var reserved sync.Map

// reserve keeps a port from the tests of this process and of others: it is free in the kernel's eyes until its server
// listens.
func reserve(port int) bool {
	const folder = "/tmp/authguard-ports"
	_ = os.Mkdir(folder, 0o777)
	_ = os.Chmod(folder, 0o777|os.ModeSticky)
	f, err := os.OpenFile(filepath.Join(folder, strconv.Itoa(port)), os.O_CREATE|os.O_RDONLY, 0o644)
	if err != nil {
		return false
	}
	if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return false
	}
	reserved.Store(port, f)
	return true
}

func isFree(port int) bool {
	l, err := net.Listen("tcp", ":"+strconv.Itoa(port))
	if err == nil {
		_ = l.Close()
	}
	return err == nil
}

// Start starts the server again, on the same port, after Kill, with more
// arguments if there are any. It returns when the server answers.
func (s *Server) Start(t testing.TB, more ...string) {
	t.Helper()
	path := binary(t) // fails before the lock, which the clean-up needs too
	s.mu.Lock()
	s.out = new(bytes.Buffer)
	s.cmd = exec.Command(path, append(slices.Clone(s.args), more...)...)
	s.cmd.Stdout, s.cmd.Stderr = s.out, s.out
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	err := s.cmd.Start()
	if err != nil {
		s.cmd = nil
		s.mu.Unlock()
		t.Fatal(err)
	}
	cmd, gone, out := s.cmd, make(chan struct{}), s.out
	s.gone = gone
	s.mu.Unlock()
	go func() {
		_ = cmd.Wait()
		close(gone)
	}()
	o := s.options(s.password())
	o.MaxRetries, o.Protocol, o.DisableIdentity = -1, 2, true
	c := redis.NewClient(o)
	defer c.Close()
	Until(t, "redis-server to answer", func() bool {
		select {
		case <-gone:
			t.Fatalf("redis-server has ended:\n%s", out)
		default:
		}
		return c.Ping(context.Background()).Err() == nil
	})
}

// options are those of a client that is as patient as the test.
func (s *Server) options(password string) *redis.Options {
	return &redis.Options{
		Addr: s.Addr, Password: password,
		DialTimeout: forever, ReadTimeout: forever, WriteTimeout: forever, PoolTimeout: forever,
	}
}

func (s *Server) password() string {
	for i, a := range s.args {
		if a == "--requirepass" {
			return s.args[i+1]
		}
	}
	return ""
}

// Client connects to the server.
func (s *Server) Client(t testing.TB) *redis.Client {
	t.Helper()
	c := redis.NewClient(s.options(s.password()))
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Do sends one command and fails the test if it fails.
func (s *Server) Do(t testing.TB, args ...any) any {
	t.Helper()
	return s.DoAs(t, s.password(), args...)
}

// DoAs is Do with another password than the server was started with.
func (s *Server) DoAs(t testing.TB, password string, args ...any) any {
	t.Helper()
	c := redis.NewClient(s.options(password))
	defer c.Close()
	answer, err := c.Do(context.Background(), args...).Result()
	if err != nil && err != redis.Nil {
		t.Fatalf("redis %v: %v", args, err)
	}
	return answer
}

// Stop makes the server hang (SIGSTOP); Continue wakes it.
func (s *Server) Stop(t testing.TB) { s.signal(t, syscall.SIGSTOP) }

// Continue ends Stop.
func (s *Server) Continue(t testing.TB) { s.signal(t, syscall.SIGCONT) }

func (s *Server) signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// Kill ends the server at once (SIGKILL). What it had not saved is gone.
func (s *Server) Kill() { s.end() }

func (s *Server) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil || s.cmd.Process == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	<-s.gone
	s.cmd = nil
}

// running are those that were not killed.
func running(all []*Server) []*Server {
	return slices.DeleteFunc(slices.Clone(all), func(s *Server) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.cmd == nil
	})
}

// File is the path of a file in the server's folder.
func (s *Server) File(name string) string { return filepath.Join(s.dir, name) }

// Until waits until something is true. It has no deadline of its own: only the
// suite's ends it (go test -timeout), a little early, to say what was waited for.
func Until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	const early = 10 * time.Second
	var suite <-chan time.Time
	if of, has := t.(interface{ Deadline() (time.Time, bool) }); has {
		if end, set := of.Deadline(); set {
			suite = time.After(time.Until(end) - early)
		}
	}
	for !ok() {
		select {
		case <-suite:
			t.Fatalf("waited in vain for %s, until go test's -timeout", what)
		case <-t.Context().Done():
			t.Fatalf("waited in vain for %s: the test is over", what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
