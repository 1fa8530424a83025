package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"authguard/internal/testing/redistest"
)

// balancer is a real HAProxy with one frontend for each of these lines of a server. It
// returns the frontends' addresses.
func balancer(t *testing.T, to string, ways ...string) (urls []string) {
	t.Helper()
	conf := "global\n  log stdout local0 info\ndefaults\n  mode tcp\n  timeout connect 10s\n  timeout client 1m\n  timeout server 1m\n"
	for i, way := range ways {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		at := l.Addr().String()
		_ = l.Close()
		urls = append(urls, "http://"+at)
		conf += fmt.Sprintf("listen l%d\n  bind %s\n  source 127.0.0.1\n  server s %s %s\n", i, at, strings.TrimPrefix(to, "http://"), way)
	}
	path := filepath.Join(t.TempDir(), "haproxy.cfg")
	if err := os.WriteFile(path, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	haproxy := exec.Command("haproxy", "-db", "-f", path)
	if err := haproxy.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = haproxy.Process.Signal(syscall.SIGTERM); _ = haproxy.Wait() })
	redistest.Until(t, "HAProxy to listen", func() bool {
		c, err := net.Dial("tcp", strings.TrimPrefix(urls[len(urls)-1], "http://"))
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	return urls
}

// Whoever comes through HAProxy has an address of their own, with a budget of its own,
// whatever they say about it themselves; and HAProxy's checks are nobody's.
func TestR9ABalancerSaysWithPROXYWhoTheClientIs(t *testing.T) {
	long(t)
	t.Parallel()
	s := newServer(t, quiet+"proxy_protocol_from: [127.0.0.1]\nlimits: {address: [2/1d block], pair_delay: off}\n", "alice", "bob")
	for i, front := range balancer(t, s.base, "send-proxy", "send-proxy-v2", "send-proxy-v2 check inter 100ms", "send-proxy check inter 100ms") {
		through := *s
		through.base = front
		for n := range 2 {
			stranger := fmt.Sprintf("127.%d.%d.9", 60+i, n)
			for guess, want := range []int{http.StatusUnauthorized, http.StatusUnauthorized, http.StatusTooManyRequests} {
				if got := from(stranger).login(t, &through, fmt.Sprint("nobody", i, n, guess), "wrong"); got.status != want {
					t.Errorf("%s, guess %d from %s: %d %s", front, guess, stranger, got.status, got.body)
				}
			}
			if !s.log.has("address=" + stranger + " integration=login") {
				t.Errorf("%s is not in the log", stranger)
			}
		}
		// A client's own header comes after HAProxy's.
		if got := through.raw(t, "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\nGET /login HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 400 ") {
			t.Errorf("a client's own header: %q", got)
		}
	}
	if got := s.raw(t, "GET /login HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); got != "" {
		t.Errorf("a balancer without a header was answered %q", got)
	}
	if got := from("127.5.5.5").login(t, s, "alice", rightPassword); got.status != http.StatusOK {
		t.Errorf("past the balancer: %d %s", got.status, got.body)
	}
	metrics := from("127.0.0.1").get(t, s.admin+"/metrics").body
	for _, line := range []string{"\nauthguard_proxy_headers_missing_total 1\n", "\nauthguard_requests_rejected_total 0\n"} {
		if !strings.Contains(metrics, line) {
			t.Errorf("no %q in the metrics", line)
		}
	}
	if !s.log.has("sent no valid PROXY header") || s.log.has("192.0.2.1") {
		t.Error("the log does not say that a header was missing, or names a made-up client")
	}
}

// Balancers come and go while it runs.
func TestR9BalancersAreReloaded(t *testing.T) {
	t.Parallel()
	s := newServer(t, quiet, "alice")
	const request = "GET /auth/verify HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
	if got := s.raw(t, request); !strings.HasPrefix(got, "HTTP/1.1 401 ") {
		t.Errorf("without balancers: %q", got)
	}
	yaml, err := os.OpenFile(filepath.Join(s.dir, "authguard.yaml"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := yaml.WriteString("proxy_protocol_from: [127.0.0.1]\n"); err != nil {
		t.Fatal(err)
	}
	_ = yaml.Close()
	_ = s.cmd.Process.Signal(syscall.SIGHUP)
	redistest.Until(t, "the reload", func() bool { return s.log.has("configuration reloaded") })
	if got := s.raw(t, request); got != "" {
		t.Errorf("a balancer without a header was answered %q", got)
	}
	if got := s.raw(t, "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n"+request); !strings.HasPrefix(got, "HTTP/1.1 401 ") {
		t.Errorf("a balancer: %q", got)
	}
}
