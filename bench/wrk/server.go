package wrk

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A Server is a running program that listens at a URL.
type Server struct {
	URL string // such as http://127.0.0.1:8080/
	cmd *exec.Cmd
}

var saysWhere = regexp.MustCompile(`(?:login page|the app)\s+(http://[^/]+/)`)

// Build builds a program of a module.
func Build(ctx context.Context, module, program, what string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", program, what)
	cmd.Dir = module
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", what, err, out)
	}
	return nil
}

// Start runs a program until Stop, and waits until it prints the URL of its login page or of the app
// behind it.
func Start(ctx context.Context, env []string, program string, args ...string) (*Server, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), env...)
	log := new(strings.Builder)
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if found := saysWhere.FindStringSubmatch(lines.Text()); found != nil {
			go io.Copy(io.Discard, out)
			return &Server{URL: found[1], cmd: cmd}, nil
		}
	}
	return nil, fmt.Errorf("%s did not start: %w\n%s", program, cmd.Wait(), log)
}

// StartAt is Start for a program that does not print its URL.
func StartAt(ctx context.Context, url, program string, args ...string) (*Server, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%w (Debian and Ubuntu: apt-get install %s)", err, program)
	}
	s := &Server{URL: url, cmd: cmd}
	for range 1000 {
		answer, err := http.Get(url)
		if err == nil {
			return s, answer.Body.Close()
		}
		time.Sleep(10 * time.Millisecond)
	}
	return nil, errors.Join(fmt.Errorf("%s does not answer at %s", program, url), s.Stop())
}

// Stop ends the program.
func (s *Server) Stop() error {
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	err := s.cmd.Wait()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return nil // bare does not handle the signal
	}
	return err
}

// Spent is the CPU time of the program and its child processes. It is 0 on other systems than Linux.
func (s *Server) Spent() time.Duration { return spent(s.cmd.Process.Pid) }

func spent(pid int) (all time.Duration) {
	at := fmt.Sprintf("/proc/%d/", pid)
	stat, _ := os.ReadFile(at + "stat")
	_, rest, _ := strings.Cut(string(stat), ") ") // the name may hold spaces
	if fields := strings.Fields(rest); len(fields) > 12 {
		for _, ticks := range fields[11:13] { // utime and stime, in hundredths of a second
			n, _ := strconv.Atoi(ticks)
			all += time.Duration(n) * 10 * time.Millisecond
		}
	}
	children, _ := os.ReadFile(fmt.Sprintf("%stask/%d/children", at, pid))
	for child := range strings.FieldsSeq(string(children)) {
		n, _ := strconv.Atoi(child)
		all += spent(n)
	}
	return all
}
