package login

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// A server is a program that listens and said where.
type server struct {
	url string
	cmd *exec.Cmd
}

var saysWhere = regexp.MustCompile(`login page\s+(http://\S+)`)

// start runs a program until stop, and waits until it has said where its login
// page is.
func start(ctx context.Context, env []string, program string, args ...string) (*server, error) {
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
			return &server{url: found[1], cmd: cmd}, nil
		}
	}
	return nil, fmt.Errorf("%s did not start: %w\n%s", program, cmd.Wait(), log)
}

func (s *server) stop() error {
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	err := s.cmd.Wait()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return nil // bare dies of the signal
	}
	return err
}

// attempt posts the form that wrk will post, and returns the status.
func (s *server) attempt(accept string) (int, error) {
	form := url.Values{"username": {"nobody-in-particular"}, "password": {"not-the-password"}}
	request, err := http.NewRequest(http.MethodPost, s.url, strings.NewReader(form.Encode()))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Accept", accept)
	client := http.Client{Timeout: 10 * time.Second}
	answer, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	return answer.StatusCode, answer.Body.Close()
}

// expect makes an attempt that must be answered so.
func (s *server) expect(accept string, status int) error {
	got, err := s.attempt(accept)
	if err == nil && got != status {
		err = fmt.Errorf("%s answers %d where %d is to be measured", s.url, got, status)
	}
	return err
}
