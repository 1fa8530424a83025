package main

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"authguard/internal/redistest"
)

// raw sends bytes over a connection of its own, and returns all that comes back.
func (s *server) raw(t *testing.T, bytes string) string {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(s.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, bytes); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(c)
	if err != nil {
		t.Error(err)
	}
	return string(answer)
}

// Guesses hidden in what two parsers read differently are neither answered nor
// counted, as they are read by nobody.
func TestAmbiguousRequestsAreRefusedAndCounted(t *testing.T) {
	t.Parallel()
	s := newServer(t, quiet+"log: {level: debug}\n", "alice")
	guess := "username=alice&password=" + strings.ReplaceAll(rightPassword, " ", "+")
	login := fmt.Sprintf("POST /login HTTP/1.1\r\nHost: x\r\nAccept: application/json\r\nContent-Type: application/x-www-form-urlencoded\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(guess), guess)
	for _, ambiguous := range []string{
		fmt.Sprintf("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", len(login)+5),
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\nX: a\nY: b\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\nConnection: X-Forwarded-For\r\n\r\n",
		fmt.Sprintf("GET / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", len(login)),
		"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n",
	} {
		if got := s.raw(t, ambiguous+login); !strings.HasPrefix(got, "HTTP/1.1 400 Bad Request\r\n") || strings.Count(got, "\r\n\r\n") != 1 {
			t.Errorf("%q: %q", ambiguous, got)
		}
	}
	if got := s.raw(t, login); !strings.HasPrefix(got, "HTTP/1.1 200 OK\r\n") {
		t.Errorf("a good request: %q", got)
	}
	for _, line := range []string{"\nauthguard_requests_rejected_total 6\n", "\nauthguard_attempts_total{cause=\"none\",ending=\"succeeded\",monitored=\"false\",realm=\"default\"} 1\n"} {
		redistest.Until(t, line+" in the metrics, which are told a moment after the answer", func() bool {
			return strings.Contains(from("127.0.0.1").get(t, s.admin+"/metrics").body, line)
		})
	}
	for _, says := range []string{"request rejected", "one Content-Length", "peer=127.0.0.1:"} {
		if !s.log.has(says) {
			t.Errorf("%q is not in the log", says)
		}
	}
}
