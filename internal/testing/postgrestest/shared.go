package postgrestest

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
)

// shared is the one server of this process. A test cannot know that it is the
// last one, so Main ends it.
var shared struct {
	main  atomic.Bool
	once  sync.Once
	mu    sync.Mutex
	one   *Server
	err   error
	names atomic.Int64
}

// Main runs a package's tests, ends the shared server after them, and exits.
func Main(m *testing.M) { os.Exit(Run(m)) }

// Run is Main for who has more to end: it returns the exit status.
func Run(m *testing.M) (code int) {
	shared.main.Store(true)
	code = m.Run()
	shared.mu.Lock()
	if shared.one != nil {
		shared.one.remove()
	}
	shared.mu.Unlock()
	return code
}

// Shared is the server that all tests of this process share. It is started by
// the first who asks.
func Shared(t testing.TB) *Server {
	t.Helper()
	shared.once.Do(func() { startShared(t) })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.one
}

func startShared(t testing.TB) {
	t.Helper()
	if !shared.main.Load() {
		shared.err = errors.New("postgrestest: the package needs func TestMain(m *testing.M) { postgrestest.Main(m) }")
		return
	}
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.one, shared.err = newServer(t); shared.err == nil {
		shared.err = shared.one.start(t)
	}
}

// Database makes an empty database for one test and is how to connect to it.
func (s *Server) Database(t testing.TB) (url string) {
	t.Helper()
	return s.Copy(t, "template0")
}

// Copy makes a database for one test like another one, which nobody is
// connected to.
func (s *Server) Copy(t testing.TB, of string) (url string) {
	t.Helper()
	name := fmt.Sprintf("test%d", shared.names.Add(1))
	s.Do(t, "postgres", "CREATE DATABASE "+name+" TEMPLATE "+of)
	t.Cleanup(func() { _ = s.do("postgres", "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)") })
	return s.URL(name)
}
