package doctest

import (
	"bufio"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// alone says that this process is one that Alone has started.
const alone = "TEST_ALONE"

// Alone runs a test once more, on a machine of its own as it seems: every port of the
// loopback is free, nobody else can be reached, it is root, what it writes below /etc,
// /usr, /var, /opt and /srv is gone afterwards, and so is every process that it left.
// There Alone is true. In the test itself it is false, and the test is over.
//
//	if !doctest.Alone(t) {
//		return
//	}
func Alone(t *testing.T) bool {
	t.Helper()
	if os.Getenv(alone) != "" {
		setUp(t)
		return true
	}
	again := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	if limit, ok := t.Deadline(); ok {
		again.Args = append(again.Args, "-test.timeout="+time.Until(limit).String())
	}
	again.Env = append(os.Environ(), alone+"=1")
	again.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL,
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID}
	if os.Getuid() != 0 {
		again.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		again.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		again.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	out, err := again.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()+" ") {
		t.Errorf("on a machine of its own: %v (as another user than root it needs user namespaces)\n%s", err, out)
	}
	return false
}

// setUp makes what Alone promises.
func setUp(t *testing.T) {
	t.Helper()
	if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		t.Fatalf("ip, of the package iproute2: %v %s", err, out)
	}
	err := errors.Join(syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""),
		syscall.Mount("tmpfs", "/mnt", "tmpfs", 0, ""))
	for _, dir := range []string{"/etc", "/usr", "/var", "/opt", "/srv"} {
		upper, work := "/mnt/upper"+dir, "/mnt/work"+dir
		err = errors.Join(err, os.MkdirAll(upper, 0o755), os.MkdirAll(work, 0o755),
			syscall.Mount("overlay", dir, "overlay", 0, "lowerdir="+dir+",upperdir="+upper+",workdir="+work))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A Shell is somebody's terminal, in the folder /srv/login of a machine of its own.
// authguard is the program under test. Its serve and make run go to the background
// once they are ready, where a person opens a second terminal.
type Shell struct {
	t   testing.TB
	cmd *exec.Cmd
	in  io.Writer
	out *bufio.Reader
	n   int
}

//go:embed shell.sh
var prelude string

// NewShell opens one. Where is the program under test.
func NewShell(t testing.TB, program string) *Shell {
	t.Helper()
	s := &Shell{t: t, cmd: exec.Command("bash", "--norc")}
	s.cmd.Dir = "/srv/login"
	s.cmd.Env = append(os.Environ(), "HOME=/root", "ROOT="+Root(t), "PRODUCT="+program,
		"AUTHGUARD_PASSWORDS_COST=10", "AUTHGUARD_SHUTDOWN_DELAY=0s")
	in, err := s.cmd.StdinPipe()
	out, err2 := s.cmd.StdoutPipe()
	if err := errors.Join(err, err2, os.RemoveAll(s.cmd.Dir), os.MkdirAll(s.cmd.Dir, 0o755), s.cmd.Start()); err != nil {
		t.Fatal(err)
	}
	s.in, s.out = in, bufio.NewReader(out)
	t.Cleanup(func() {
		_ = in.Close()
		_ = s.cmd.Wait()
	})
	if said, ok := s.Run(prelude); !ok {
		t.Fatal(said)
	}
	return s
}

// Run types in a few lines and returns what is answered. It is not ok if a command
// fails; nothing can be typed in after that.
func (s *Shell) Run(lines string) (said string, ok bool) {
	return s.run("set -eu -o pipefail\n" + lines)
}

// Try is Run for a command that may fail.
func (s *Shell) Try(lines string) (said string) {
	said, _ = s.run("set +eu +o pipefail\n" + lines)
	return said
}

func (s *Shell) run(script string) (said string, ok bool) {
	s.t.Helper()
	s.n++
	base := fmt.Sprint("/mnt/", s.n)
	if err := os.WriteFile(base+".sh", []byte(script), 0o600); err != nil {
		s.t.Fatal(err)
	}
	hangs := time.AfterFunc(5*time.Minute, func() { _ = s.cmd.Process.Kill() })
	defer hangs.Stop()
	_, err := fmt.Fprintf(s.in, ". %s.sh >%[1]s.out 2>&1 </dev/null; echo done\n", base)
	if err == nil {
		_, err = s.out.ReadString('\n')
	}
	text, err2 := os.ReadFile(base + ".out")
	if err2 != nil {
		s.t.Fatal(errors.Join(err, err2))
	}
	return string(text), err == nil
}

// Write makes a file in the shell's first folder, or where an absolute path says.
func (s *Shell) Write(name, text string) {
	s.t.Helper()
	if !filepath.IsAbs(name) {
		name = filepath.Join("/srv/login", name)
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o600)); err != nil {
		s.t.Fatal(err)
	}
}
