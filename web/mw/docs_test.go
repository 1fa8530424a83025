package mw_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"authguard/internal/testing/doctest"
	"authguard/internal/testing/redistest"
)

// A module is one that somebody makes beside the tree.
type module struct {
	t   *testing.T
	dir string
}

func newModule(t *testing.T) module {
	t.Helper()
	return module{t, t.TempDir()}
}

// command is one in the module's folder that asks no network. The tree is where it is,
// so that what was built of it before need not be built again.
func (m module) command(script string) *exec.Cmd {
	script = strings.ReplaceAll(script, "../authguard", doctest.Root(m.t))
	c := exec.CommandContext(m.t.Context(), "bash", "-euc", script)
	c.Dir = m.dir
	c.Env = append(os.Environ(), "GOFLAGS=-ldflags=-w", "GOWORK=", "GOPROXY=off", "GONOSUMDB=*", "GONOSUMCHECK=1", "GOTOOLCHAIN=local")
	return c
}

func (m module) run(script string) {
	m.t.Helper()
	if out, err := m.command(script).CombinedOutput(); err != nil {
		m.t.Fatalf("%s\n%v: %s", script, err, out)
	}
}

var (
	atTop    = regexp.MustCompile(`^// (\w+/main\.go)\n`)
	listener = regexp.MustCompile(`127\.0\.0\.1:80\d\d`)
)

// write writes a program of the page where it says that it belongs, and returns where
// it will listen.
func (m module) write(b doctest.Block) (address string) {
	m.t.Helper()
	name := atTop.FindStringSubmatch(b.Text)
	if name == nil {
		m.t.Fatalf("%s:%d: a program begins with // folder/main.go", b.Doc, b.Line)
	}
	address = redistest.FreeAddress(m.t)
	file := filepath.Join(m.dir, name[1])
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(listener.ReplaceAllString(b.Text, address)), 0o600); err != nil {
		m.t.Fatal(err)
	}
	return address
}

// start starts a program, and waits until it listens.
func (m module) start(script, address string) {
	m.t.Helper()
	c := m.command(script)
	var said strings.Builder
	c.Stdout, c.Stderr = &said, &said
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // go run has a child
	if err := c.Start(); err != nil {
		m.t.Fatal(err)
	}
	over := make(chan struct{})
	go func() { _ = c.Wait(); close(over) }()
	m.t.Cleanup(func() { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL); <-over })
	redistest.Until(m.t, script+" listens", func() bool {
		select {
		case <-over:
			m.t.Fatalf("%s has ended: %s", script, said.String())
		default:
		}
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
}

// login is somebody at an address of this machine who logs in.
func login(t *testing.T, at, from, name, password string) (status int, body string) {
	t.Helper()
	own := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	transport := &http.Transport{DialContext: func(ctx context.Context, network, to string) (net.Conn, error) {
		return own.DialContext(ctx, network, to)
	}}
	defer transport.CloseIdleConnections()
	got, err := (&http.Client{Transport: transport}).PostForm("http://"+at+"/login", url.Values{"username": {name}, "password": {password}})
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer got.Body.Close()
	all, err := io.ReadAll(got.Body)
	if err != nil {
		t.Error(err)
	}
	return got.StatusCode, string(all)
}

// attack guesses at an account from a hundred places at once, and logs in from its
// own.
func attack(t *testing.T, at string) {
	t.Helper()
	if status, body := login(t, at, "127.0.1.1", "alice", "correct horse"); status != http.StatusOK {
		t.Fatalf("at home: %d %s", status, body)
	}
	var wrong, challenged atomic.Int64
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			switch status, _ := login(t, at, fmt.Sprintf("127.0.%d.1", 2+i), "alice", fmt.Sprint("guess", i)); status {
			case http.StatusUnauthorized:
				wrong.Add(1)
			case http.StatusForbidden:
				challenged.Add(1)
			}
		})
	}
	all.Wait()
	if wrong.Load() != 5 || challenged.Load() != 95 {
		t.Errorf("%d of 100 guesses were looked at and %d challenged, want 5 and 95", wrong.Load(), challenged.Load())
	}
	if status, body := login(t, at, "127.0.200.1", "alice", "correct horse"); status != http.StatusForbidden || !strings.Contains(body, "challenge-required") {
		t.Errorf("a stranger with the right password: %d %s", status, body)
	}
	if status, body := login(t, at, "127.0.1.1", "alice", "correct horse"); status != http.StatusOK {
		t.Errorf("at home, afterwards: %d %s", status, body)
	}
}

// Ensure that the programs and the lines of docs/how-to/go-middleware.md make a module that builds, and a
// login that holds.
func TestTheGoPageBuildsAModuleOfItsOwn(t *testing.T) {
	t.Parallel()
	m, at := newModule(t), map[string]string{}
	var scripts []string
	for _, b := range doctest.Claimed(t, "docs/how-to/go-middleware.md") {
		if b.Language == "sh" {
			scripts = append(scripts, b.Text)
			continue
		}
		at[atTop.FindStringSubmatch(b.Text + "\n")[1]] = m.write(b)
	}
	m.run(scripts[0])
	m.run("go vet -mod=mod ./...")
	m.start(scripts[1], at["login/main.go"])
	attack(t, at["login/main.go"])
}

func TestTheGoPageBuildsInAWorkspace(t *testing.T) {
	t.Parallel()
	m := newModule(t)
	blocks := doctest.Claimed(t, "docs/how-to/go-middleware.md")
	m.run(blocks[0].Text)
	m.write(blocks[1])
	m.run("go vet ./login")
}
