package postgrestest_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"authguard/internal/testing/postgrestest"
	"authguard/internal/testing/redistest"
)

// victim is set in a process that starts a server to be killed with it.
const victim = "POSTGRESTEST_VICTIM"

func TestAProcessThatIsKilledLeavesNoServerRunning(t *testing.T) {
	t.Parallel()
	if os.Getenv(victim) != "" {
		s := postgrestest.Shared(t)
		fmt.Println("\nlistens:" + s.Address())
		select {}
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), victim+"=1", "TMPDIR="+openFolder(t))
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	address := ""
	for lines := bufio.NewScanner(out); address == "" && lines.Scan(); {
		_, address, _ = strings.Cut(lines.Text(), "listens:")
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if address == "" {
		t.Fatal("no server was started")
	}
	redistest.Until(t, "the server to end", func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
}

// openFolder takes what the killed process could not remove. PostgreSQL's own
// user must get through it.
func openFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "victim")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
