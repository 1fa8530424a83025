package admin

import (
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// What the audit log says of somebody who cannot be told must not be root.
func TestWhoCannotBeToldIsNobody(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	// With no socket behind the descriptor SO_PEERCRED fails.
	_ = raw.Control(func(fd uintptr) { err = syscall.Dup3(int(null.Fd()), int(fd), 0) })
	if who := peer(c); err != nil || who != "cli:unknown" {
		t.Errorf("%s, %v", who, err)
	}
}
