package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"authguard/internal/testing/redistest"
)

// A sink is an app that says how many bytes of an upload it read, and counts those of
// a WebSocket until that ends.
type sink struct {
	*httptest.Server
	begun  chan struct{} // the first upload has reached the app
	framed chan int64
}

func newSink(t *testing.T) *sink {
	s := &sink{begun: make(chan struct{}, 1), framed: make(chan int64, 1)}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			select {
			case s.begun <- struct{}{}:
			default:
			}
			n, err := io.Copy(io.Discard, r.Body)
			fmt.Fprintln(w, n, err)
			return
		}
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "websocket")
		w.WriteHeader(http.StatusSwitchingProtocols)
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		n, _ := io.Copy(io.Discard, rw)
		s.framed <- n
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) dial(t *testing.T, sends string) (net.Conn, *bufio.Reader) {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(s.base, "http://"))
	if err == nil {
		_, err = io.WriteString(c, sends)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c, bufio.NewReader(c)
}

// An upload that has begun is finished, and what has arrived on a WebSocket reaches the
// app before it is closed.
func TestARestartLosesNoStreamThatReachedUs(t *testing.T) {
	t.Parallel()
	app := newSink(t)
	s := newServer(t, quiet+"proxy: {preset: django, upstream: "+app.URL+"}\n")
	const size, half = 1 << 20, 1 << 19
	upload, uploaded := s.dial(t, fmt.Sprintf("POST /upload HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", size, strings.Repeat("x", half)))
	socket, framed := s.dial(t, "GET /socket HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	if response, err := http.ReadResponse(framed, nil); err != nil || response.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%v, %v", response, err)
	}
	<-app.begun
	_ = s.cmd.Process.Signal(syscall.SIGSTOP)
	if _, err := io.WriteString(socket, strings.Repeat("\n", 1<<16)); err != nil {
		t.Fatal(err)
	}
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	_ = s.cmd.Process.Signal(syscall.SIGCONT)
	redistest.Until(t, "the server to stop accepting", func() bool {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.base, "http://"))
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	})
	if _, err := io.WriteString(upload, strings.Repeat("x", half)); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(uploaded, nil)
	if err != nil {
		t.Fatal(err)
	}
	if body, _ := io.ReadAll(response.Body); string(body) != fmt.Sprintln(size, nil) || !response.Close {
		t.Errorf("the upload: %q, closes: %v", body, response.Close)
	}
	if _, err := io.Copy(io.Discard, framed); err != nil {
		t.Errorf("the WebSocket's end: %v", err)
	}
	if got := <-app.framed; got != 1<<16 {
		t.Errorf("%d bytes of the WebSocket reached the app, want %d", got, 1<<16)
	}
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, s.log)
	}
}

// A stream that does not end is cut off in time, which is no failure.
func TestAnEndlessRequestIsCutOff(t *testing.T) {
	t.Parallel()
	app := newSink(t)
	s := newServer(t, quiet+"shutdown: {delay: 0s, timeout: 1s}\nproxy: {preset: django, upstream: "+app.URL+"}\n")
	_, answer := s.dial(t, "POST /upload HTTP/1.1\r\nHost: x\r\nContent-Length: 1048576\r\n\r\nx")
	<-app.begun
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	if _, err := answer.ReadByte(); err == nil {
		t.Error("it was answered")
	}
	if err := s.cmd.Wait(); err != nil || !s.log.has("stopped while requests took longer than shutdown.timeout") {
		t.Errorf("%v\n%s", err, s.log)
	}
}

var loaded = regexp.MustCompile(`requests: \d+ total, (\d+) started, (\d+) done`)

// load runs h2load, with 80 requests under way at any time, and returns how many it has
// sent and how many were answered. It calls meanwhile at a tenth of them.
func (s *server) load(t *testing.T, meanwhile func()) (sent, answered string) {
	t.Helper()
	h2load := exec.Command("h2load", "-n", "20000", "-c", "4", "-m", "20", s.base+"/auth/verify")
	out, err := h2load.StdoutPipe()
	if err == nil {
		err = h2load.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.Contains(lines.Text(), "progress: 10% done") {
			meanwhile()
		}
		if m := loaded.FindStringSubmatch(lines.Text()); m != nil {
			sent, answered = m[1], m[2]
		}
	}
	_ = h2load.Wait()
	return sent, answered
}

// h2load is told to go (GOAWAY), and every request is answered that it has sent, also
// over connections that it opens meanwhile.
func TestHTTP2RequestsAroundSIGTERMAreAnswered(t *testing.T) {
	t.Parallel()
	s := newServer(t, quiet+"shutdown: {delay: 1m}\n")
	for run, meanwhile := range []func(){func() { _ = s.cmd.Process.Signal(syscall.SIGTERM) }, func() {}} {
		if sent, answered := s.load(t, meanwhile); sent != answered || sent == "0" {
			t.Errorf("run %d: %s requests were sent, %s answered", run, sent, answered)
		}
	}
	s.kill()
}

// A proxy in front may speak HTTP/2 to us.
func TestALoginOverHTTP2(t *testing.T) {
	t.Parallel()
	s := newServer(t, quiet, "alice")
	p := from("127.5.5.5")
	transport := p.http.Transport.(*http.Transport)
	transport.Protocols = new(http.Protocols)
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	if got := p.login(t, s, "alice", "wrong"); got.status != http.StatusUnauthorized {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := p.login(t, s, "alice", rightPassword); got.status != http.StatusOK {
		t.Errorf("%d %s", got.status, got.body)
	}
	if !s.log.has("address=127.5.5.5 integration=login") {
		t.Error("not by its own address")
	}
}
