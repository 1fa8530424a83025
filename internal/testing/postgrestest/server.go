package postgrestest

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"authguard/internal/testing/redistest"
)

// Password is that of the role "guarded", the only one that needs one.
const Password = "s3cret-of-guarded"

// A Server is one PostgreSQL.
type Server struct {
	address string
	folder  string
	as      *syscall.Credential // nil: the user of the test

	mu   sync.Mutex
	cmd  *exec.Cmd
	gone chan struct{} // closed when the process has ended
}

// Own starts a server for one test, which may stop and kill it.
func Own(t testing.TB) *Server {
	t.Helper()
	s, err := newServer(t)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.remove)
	if err := s.start(t); err != nil {
		t.Fatal(err)
	}
	return s
}

// newServer makes the files of a server and starts nothing.
func newServer(t testing.TB) (*Server, error) {
	t.Helper()
	initdb, err := binary("initdb")
	if err != nil {
		return nil, err
	}
	s := new(Server)
	if s.as, err = credential(); err != nil {
		return nil, err
	}
	s.address = redistest.FreeAddress(t)
	if s.folder, err = os.MkdirTemp("", "postgres"); err != nil {
		return nil, err
	}
	if s.as != nil {
		err = os.Chown(s.folder, int(s.as.Uid), int(s.as.Gid))
	}
	if err == nil {
		err = s.run(
			initdb,
			"-D",
			s.data(),
			"-U",
			"postgres",
			"--auth=trust",
			"--no-sync",
			"--encoding=UTF8",
			"--locale=C.UTF-8",
		)
	}
	if err == nil {
		err = s.configure()
	}
	if err != nil {
		s.remove()
		return nil, err
	}
	return s, nil
}

func (s *Server) data() string { return filepath.Join(s.folder, "data") }

const accessRules = `host all guarded 127.0.0.1/32 scram-sha-256
host all all 127.0.0.1/32 trust
`

// configure says who may come in. The files stay the server's own.
func (s *Server) configure() error {
	return os.WriteFile(filepath.Join(s.data(), "pg_hba.conf"), []byte(accessRules), 0o600)
}

func (s *Server) run(name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.SysProcAttr = s.folder, &syscall.SysProcAttr{Credential: s.as, Pdeathsig: syscall.SIGKILL}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(name), err, out)
	}
	return nil
}

// Start starts the server again, on the same port, after Kill.
func (s *Server) Start(t testing.TB) {
	t.Helper()
	if err := s.start(t); err != nil {
		t.Fatal(err)
	}
}

func (s *Server) start(t testing.TB) error {
	t.Helper()
	server, err := binary("postgres")
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out, gone := new(bytes.Buffer), make(chan struct{})
	_, port, _ := net.SplitHostPort(s.address)
	s.cmd = exec.Command(server, "-D", s.data(), "-p", port, "-c", "listen_addresses=127.0.0.1",
		"-c", "unix_socket_directories=", "-c", "fsync=off", "-c", "full_page_writes=off",
		"-c", "max_connections=400", "-c", "shared_buffers=32MB", "-c", "autovacuum=off", "-c", "log_min_messages=fatal")
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = s.folder, out, out
	// SIGQUIT makes the server take its children along.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.as, Pdeathsig: syscall.SIGQUIT, Setpgid: true}
	if err := s.cmd.Start(); err != nil {
		s.cmd = nil
		return err
	}
	cmd := s.cmd
	s.gone = gone
	go func() {
		_ = cmd.Wait()
		close(gone)
	}()
	// A server that has just started refuses connections until it has recovered.
	redistest.Until(t, "postgres to answer", func() bool {
		select {
		case <-gone:
			err = fmt.Errorf("postgres has ended:\n%s", out)
			return true
		default:
			err = s.do("postgres", "SELECT 1")
			return err == nil
		}
	})
	return err
}

// URL is how to connect to a database as a role that needs no password.
func (s *Server) URL(database string) string {
	return fmt.Sprintf("postgres://postgres@%s/%s?sslmode=disable", s.address, database)
}

// Address is where the server listens.
func (s *Server) Address() string { return s.address }

// Do runs one statement in a database and fails the test if it fails.
func (s *Server) Do(t testing.TB, database, statement string) {
	t.Helper()
	if err := s.do(database, statement); err != nil {
		t.Fatalf("postgres: %s: %v", statement, err)
	}
}

func (s *Server) do(database, statement string) error {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, s.URL(database))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, statement)
	return err
}

// Stop makes the server and all it has begun hang (SIGSTOP); Continue wakes
// them.
func (s *Server) Stop(t testing.TB) { s.signal(t, syscall.SIGSTOP) }

// Continue ends Stop.
func (s *Server) Continue(t testing.TB) { s.signal(t, syscall.SIGCONT) }

// signal reaches every process: each connection has one of its own.
func (s *Server) signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, pid := range append(children(s.cmd.Process.Pid), s.cmd.Process.Pid) {
		if err := syscall.Kill(pid, sig); err != nil && err != syscall.ESRCH {
			t.Fatal(err)
		}
	}
}

// children are the processes that the server has begun; each makes a group of
// its own, so that there is no group to signal.
func children(parent int) (pids []int) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", parent, parent))
	if err != nil {
		return nil
	}
	for _, field := range bytes.Fields(raw) {
		if pid, err := strconv.Atoi(string(field)); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Kill ends the server at once and waits until it has gone. What was committed
// is there after Start.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil || s.cmd.Process == nil {
		return
	}
	for _, pid := range append(children(s.cmd.Process.Pid), s.cmd.Process.Pid) {
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
	_ = s.cmd.Process.Signal(syscall.SIGQUIT)
	<-s.gone
	s.cmd = nil
}

func (s *Server) remove() {
	s.Kill()
	_ = os.RemoveAll(s.folder)
}

// WriteFile puts a file where the server runs, for it alone to read.
func (s *Server) WriteFile(t testing.TB, name string, content []byte) {
	t.Helper()
	path := filepath.Join(s.data(), name)
	err := os.WriteFile(path, content, 0o600)
	if err == nil && s.as != nil {
		err = os.Chown(path, int(s.as.Uid), int(s.as.Gid))
	}
	if err != nil {
		t.Fatal(err)
	}
}
