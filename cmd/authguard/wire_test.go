package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"authguard/internal/testing/redistest"
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
	if err != nil && !errors.Is(err, syscall.ECONNRESET) { // net/http closes under what it has not read
		t.Error(err)
	}
	return string(answer)
}

// Guesses hidden in what two parsers read differently are neither answered nor
// counted, as they are not read.
func TestAmbiguousRequestsAreRefusedAndCounted(t *testing.T) {
	t.Parallel()
	s := newServer(t, quiet+"log: {level: debug}\n", "alice")
	login := rawLogin("alice")
	for _, ambiguous := range []string{
		"GET / HTTP/1.1\r\nHost: x\r\nConnection: X-Forwarded-For\r\n\r\n",
		fmt.Sprintf("GET / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", len(login)),
		"GET http://y/ HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 010\r\n\r\n",
		// net/http refuses these, and counts nothing.
		fmt.Sprintf("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nContent-Length: %d\r\n\r\n", len(login)),
		"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n",
	} {
		got := s.raw(t, ambiguous+login)
		if !strings.HasPrefix(got, "HTTP/1.1 400 Bad Request\r\n") || strings.Contains(got, " 200 OK") {
			t.Errorf("%q: %q", ambiguous, got)
		}
	}
	// net/http reads these in one way, and the connection ends there.
	for _, ends := range []string{
		fmt.Sprintf("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n", len(login)+5) +
			"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"POST / HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n",
	} {
		got := s.raw(t, ends+login)
		if !strings.Contains(got, "\r\nConnection: close\r\n") || strings.Contains(got, " 200 OK") {
			t.Errorf("%q: %q", ends, got)
		}
	}
	if got := s.raw(t, login); !strings.HasPrefix(got, "HTTP/1.1 200 OK\r\n") {
		t.Errorf("a good request: %q", got)
	}
	for _, line := range []string{
		"\nauthguard_requests_rejected_total 4\n",
		"\nauthguard_attempts_total{cause=\"none\",ending=\"succeeded\",monitored=\"false\",realm=\"default\"} 1\n",
	} {
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

// rawLogin is a request with the right password and these headers.
func rawLogin(account string, headers ...string) string {
	form := "username=" + account + "&password=" + strings.ReplaceAll(rightPassword, " ", "+")
	return fmt.Sprintf("POST /login HTTP/1.1\r\nHost: x\r\nAccept: application/json\r\n"+
		"Content-Type: application/x-www-form-urlencoded\r\nConnection: close\r\n%sContent-Length: %d\r\n\r\n%s",
		strings.Join(headers, ""), len(form), form)
}

// Behind each gateway, a request that is hidden in another one brings its own
// X-Forwarded-For. None is read: neither its address nor its account is in the log.
func TestASmuggledRequestBringsNoAddress(t *testing.T) {
	t.Parallel()
	app := newToldApp(t)
	s := newServer(t, quiet+"trusted_proxies: [127.0.0.1]\n", "alice")
	for name := range gateways {
		at := startGateway(t, redistest.FreeAddress(t), name, s, app.URL, app.URL)
		const chunked, other = "Transfer-Encoding: chunked\r\n", "X-Forwarded-For: 203.0.113.9\r\n"
		const form = "Content-Length: 29\r\n\r\nusername=shown&password=wrong"
		const post = "POST /.authguard/login HTTP/1.1\r\nHost: 127.0.0.1\r\n" +
			"Content-Type: application/x-www-form-urlencoded\r\n"
		hidden := rawLogin("hidden", other)
		chunk := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(hidden), hidden)
		for _, sent := range []string{
			post + "Content-Length: 3\r\n" + chunked + "\r\n" + chunk,                                        // TE.CL
			post + fmt.Sprintf("Content-Length: %d\r\n", len(hidden)+5) + chunked + "\r\n0\r\n\r\n" + hidden, // CL.TE
			post + "Content-Length: 3\r\nTransfer-Encoding: xchunked\r\n\r\n" + chunk,
			post + "X: x\n" + chunked + "Content-Length: 3\r\n\r\n" + chunk,
			post + fmt.Sprintf("X: x\nContent-Length: %d\r\nContent-Length: 0\r\n\r\n", len(hidden)) + hidden,
			post + "X: x\n" + other + form,
			post + chunked + fmt.Sprintf("\r\n2;\nxx\r\n%x\r\n0\r\n\r\n%s\r\n0\r\n\r\n", len(hidden)+5, hidden), // CVE-2025-55315
			post + chunked + "\r\n1;a=\"\n" + chunk,
			post + "Connection: close, X-Forwarded-For\r\n" + other + form,
		} {
			c, err := net.Dial("tcp", strings.TrimPrefix(at.base, "http://"))
			if err == nil {
				_, err = io.WriteString(c, sent)
			}
			if err != nil {
				t.Fatal(err)
			}
			r := bufio.NewReader(c)
			if answer, err := http.ReadResponse(r, nil); err != nil {
				t.Errorf("%s: %q: %v", name, sent, err)
			} else {
				_, _ = io.Copy(io.Discard, answer.Body)
			}
			// The gateway may have closed the connection already.
			_, _ = io.WriteString(c, "GET /.authguard/login HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
			_, _ = io.Copy(io.Discard, r)
			_ = c.Close()
		}
	}
	s.stop()
	shown := s.log.has("address=127.0.0.1 integration=login account=shown")
	if s.log.has("203.0.113.") || s.log.has("account=hidden") || !shown {
		t.Errorf("a smuggled request was read, or none at all:\n%s", s.log)
	}
}
