package web

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// say sends it all and reads until the other side ends.
func (l *Listener) say(t testing.TB, raw string) string {
	t.Helper()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, raw); err != nil {
		t.Fatal(err)
	}
	_ = c.(*net.TCPConn).CloseWrite()
	answer, err := io.ReadAll(c)
	if err != nil && !errors.Is(err, syscall.ECONNRESET) { // net/http closes under what it has not read
		t.Errorf("%q: %v", raw, err)
	}
	return string(answer)
}

const (
	get    = "GET / HTTP/1.1\r\nHost: a\r\n"
	post   = "POST / HTTP/1.1\r\nHost: a\r\n"
	chunky = post + "Transfer-Encoding: chunked\r\n\r\n"
	end    = "\r\n0\r\n\r\n"
)

func TestWhatParsersCouldReadDifferentlyIsRefused(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		"Content-Length: 5, 5", "Content-Length: 5,", "Content-Length:", "Content-Length: +5", "Content-Length: -5", "Content-Length: 5a",
		"Content-Length: 05", "Content-Length: 0x5", "Content-Length: 5_0", "Content-Length: \u0665",
		"Content-Length : 5",
		"Transfer-Encoding: xchunked", "Transfer-Encoding: gzip, chunked", "Transfer-Encoding: chunked, chunked", "Transfer-Encoding: chunked, identity", "Transfer-Encoding: identity", "Transfer-Encoding:",
		"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", "Transfer-Encoding: \"chunked\"",
		"Transfer-Encoding: \x0bchunked", "Transfer-Encoding : chunked",
		" X: a", "\tX: a", "X: a\rY: b", "X: a\r\r\nY: b", "X: a\x00b", "X: a\x7fb", "X\x00: a", "X Y: a", "X\t: a", ": a", "X", "X;: a", "X(: a", "\xff: a", "(): a",
		"Host: a", "Host: b", "Host : a", "Connection: Remote-User", "Connection: close, X-Forwarded-For", "Connection: Content-Length", "Connection: Transfer-Encoding", "Connection: Authorization", "Connection: Host", "Connection: close;",
		"Upgrade: websocket, h2c", "Upgrade: TLS/1.0", "Upgrade: HTTP/2.0",
		"Upgrade: websocket\r\nContent-Length: 5", "Upgrade: websocket\r\nTransfer-Encoding: chunked", "X: " + strings.Repeat("x", 9<<10),
	} {
		l := served(t, func(http.ResponseWriter, *http.Request) { t.Errorf("%.60q was handed on", raw) })
		l.refuses(t, post+raw+"\r\n\r\nhello")
	}
	for _, raw := range []string{
		"\r\nGET / HTTP/1.1\r\nHost: a", "\nGET / HTTP/1.1\r\nHost: a", " GET / HTTP/1.1\r\nHost: a", "GET  / HTTP/1.1\r\nHost: a", "GET /  HTTP/1.1\r\nHost: a", "GET / HTTP/1.1 \r\nHost: a", "GET\t/ HTTP/1.1\r\nHost: a",
		"GET / a HTTP/1.1\r\nHost: a", "GET /", "GET / http/1.1\r\nHost: a", "GET / HTTP/1.2\r\nHost: a", "GET / HTTP/2.0\r\nHost: a", "GET / HTTP/01.1\r\nHost: a", "GET / HTTP/1.10\r\nHost: a", "GET / HTTP/1.\r\nHost: a", "GET / HTTP/0.9",
		"get / HTTP/1.1\r\nHost: a", "Post /login HTTP/1.1\r\nHost: a", "G@T / HTTP/1.1\r\nHost: a", " / HTTP/1.1\r\nHost: a", "GET  HTTP/1.1\r\nHost: a", "CONNECT a:80 HTTP/1.1\r\nHost: a:80", "CONNECT / HTTP/1.1\r\nHost: a",
		"GET login HTTP/1.1\r\nHost: a", "GET * HTTP/1.1\r\nHost: a", "GET /a#b HTTP/1.1\r\nHost: a", "GET /\xc3\xa9 HTTP/1.1\r\nHost: a", "GET /\x00 HTTP/1.1\r\nHost: a", "GET /\x7f HTTP/1.1\r\nHost: a", "GET ftp://a/ HTTP/1.1\r\nHost: a",
		"GET http://b/ HTTP/1.1\r\nHost: a", "GET http:///x HTTP/1.1\r\nHost: a", "GET http://u@a/ HTTP/1.1\r\nHost: a", "GET http://a:80/ HTTP/1.1\r\nHost: a", "GET http:/a HTTP/1.1\r\nHost: a",
		"GET / HTTP/1.1", "GET / HTTP/1.1\r\nX: a", "GET / HTTP/1.0\r\nHost: a\r\nHost: a", "GET / HTTP/1.1\r\nHost: a b", "GET / HTTP/1.1\r\nHost: a,b", "GET / HTTP/1.1\r\nHost: a/b", "GET / HTTP/1.1\r\nHost: u@a",
		"GET / HTTP/1.1\r\nHost: a:1:2", "GET / HTTP/1.1\r\nHost: a:80]", "GET http://a:80]/ HTTP/1.1\r\nHost: a:80]", "GET / HTTP/1.1\r\nHost: a:x",
		"GET / HTTP/1.0\r\nUpgrade: websocket", "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5", "HEAD / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked",
		"PRI * HTTP/2.0\r\nHost: a", "PRI * HTTP/2.0\r\n\r\nSN", "PRI * HTTP/2.0\r\n\r\nSM\r\nx", "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\nGET / HTTP/1.1\r\nHost: a", "\x0d\x0a\x0d\x0a\x00\x0d\x0a\x51\x55\x49\x54\x0a\x21\x11\x00\x0c",
	} {
		l := served(t, func(http.ResponseWriter, *http.Request) { t.Errorf("%.60q was handed on", raw) })
		l.refuses(t, raw+"\r\n\r\nhello")
	}
}

// refuses says that raw gets one answer of an error, from net/http or counted once by us,
// and ends the connection.
func (l *Listener) refuses(t *testing.T, raw string) {
	t.Helper()
	got := l.say(t, raw)
	errors := regexp.MustCompile(`^(HTTP/1.[01] (400|431|501|505) |$)`).MatchString(got) // none: reset
	if !errors || strings.Contains(got, " 200 OK") || l.Refused() > 1 {
		t.Errorf("%.80q: answered %.80q, %d counted", raw, got, l.Refused())
	}
}

// The app gets one request in one framing, and nothing of what follows on a connection
// whose end another parser could see elsewhere.
func TestWhatNetHTTPReadsAnywayIsFramedAnew(t *testing.T) {
	t.Parallel()
	const next = "GET /next HTTP/1.1\r\nHost: a\r\n\r\n"
	const one = "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
	all := map[string]string{
		"POST / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n":                               "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\n\r\n":                              "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\t5 \r\n\r\nhello":                                                           "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello" + next,
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer_Encoding: chunked\r\n\r\n":                                                         "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n" + next,
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 48\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n":                          "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n":                                            "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"POST / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n": "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5 \r\nhello\r\n0\r\n\r\n":                                 "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nTrailer: Remote-User\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nRemote-User: ann\r\n\r\n":    "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello":                                        "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello" + next,
		"GET / HTTP/1.1\nHost:\ta\n\n": "GET / HTTP/1.1\r\nHost: a\r\n\r\n" + next,
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n5\r\nhello\r\n0\r\n\r\n": "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nRemote-User: ann\r\n\r\n":                "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nContent_Length: 5\r\n\r\n":                                                      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n" + next,
		"GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\tc\r\n\r\n":                                                       "GET / HTTP/1.1\r\nHost: a\r\nX: a b c\r\n\r\n" + next,
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\t\r\n\r\n0\r\n\r\n":                                  "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;\r\nhello\r\n0\r\n\r\n":                     "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n00\r\n\r\n":                                   "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nX: a\nY: b\r\n\r\n":                                                              "GET / HTTP/1.1\r\nHost: a\r\nX: a\r\nY: b\r\n\r\n" + next,
	}
	for _, chunks := range []string{
		"5;a=b\r\nhello\r\n0\r\n", "5;\r\nhello\r\n0;x\r\n", "5 \r\nhello\r\n0\r\n", "5\r\nhello\r\n0\r\nHost: b\r\n", "5\r\nhello\r\n0\r\nRemote-User: ann\r\n", "5\r\nhello\r\n0\r\nremote_user: ann\r\n", "5\r\nhello\r\n0\r\nX-Forwarded-For: 192.0.2.1\r\n",
		"5\r\nhello\r\n0\r\nContent-Length: 5\r\n", "5\r\nhello\r\n0\r\nTransfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\nAuthorization: x\r\n", "5\r\nhello\r\n0\r\nContent-Digest : x\r\n", "5\r\nhello\r\n0\r\nContent-Digest: x\r\n y\r\n", "5\r\nhello\r\n0\r\nContent-Digest: x\n",
	} {
		all[chunky+chunks+"\r\n"] = one
	}
	for raw, want := range all {
		var got string
		for _, f := range forward([]byte(raw+next), len(raw)) {
			got += string(f.bytes)
		}
		got = strings.ReplaceAll(got, "User-Agent: Go-http-client/1.1\r\n", "")
		if got != want {
			t.Errorf("%q:\n%q", raw, got)
		}
	}
}

// A body that goes wrong is not read to its end by whoever handles it.
func TestAChunkThatParsersCouldReadDifferentlyIsRefused(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		"5;a\nhello" + end, "5\nhello" + end, "5\rhello" + end, " 5\r\nhello" + end, "+5\r\nhello" + end, "-5\r\nhello" + end, "0x5\r\nhello" + end, "5_0\r\nhello" + end,
		"00000000000000005\r\nhello" + end, "ffffffffffffffff\r\nhello" + end, "g\r\nhello" + end, "\r\nhello" + end, "5\r\nhelloXX0\r\n\r\n", "5\r\nhelloX\r\n0\r\n\r\n", "5\r\nhello\n0\r\n\r\n", "5\r\nhello0\r\n\r\n", "5\r\nhello\r\n0\n\r\n",
	} {
		var read []string
		l := served(t, func(w http.ResponseWriter, r *http.Request) {
			if body, err := io.ReadAll(r.Body); err == nil {
				read = append(read, string(body))
			}
			w.WriteHeader(http.StatusBadRequest)
		})
		answer := l.say(t, chunky+raw+"GET /next HTTP/1.1\r\nHost: a\r\n\r\n")
		if len(read) > 0 || strings.Count(answer, "HTTP/1.1 ") != 1 {
			t.Errorf("%.60q: read %q, %d refused, answered %q", raw, read, l.Refused(), answer)
		}
	}
}

func TestWhatEveryParserReadsAlikeIsHandedOn(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		get + "\r\n": "GET / a ",
		"GET /a/../b?c=d&e=%20|{}\\^ HTTP/1.1\r\nHost: example.org:8080\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64)\r\nAccept-Language: de,en;q=0.5\r\nX-Obs: \xe9\tx\r\nX-Empty:\r\nConnection: keep-alive\r\n\r\n": "GET /a/../b?c=d&e=%20|{}\\^ example.org:8080 ",
		"GET /x HTTP/1.1\r\nHost: A\r\nConnection: Keep-Alive, TE, \r\nTE: trailers\r\n\r\n":                                                                                                                            "GET /x A ",
		"GET / HTTP/1.0\r\n\r\n":                                                        "GET /  ",
		"OPTIONS /x HTTP/1.1\r\nHost: [2001:db8::1]:80\r\n\r\n":                         "OPTIONS /x [2001:db8::1]:80 ",
		"M-SEARCH / HTTP/1.1\r\nHost:\r\n\r\n":                                          "M-SEARCH /  ",
		"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n":                        "GET / a ",
		"POST / HTTP/1.0\r\nHost: a\r\nContent-Length:5\r\n\r\nhello":                   "POST / a hello",
		post + "Content-Length: 5\r\nExpect: 100-continue\r\n\r\nhello":                 "POST / a hello",
		chunky + "5\r\nhello\r\n0005\r\nworld\r\nA\r\n0123456789" + end:                 "POST / a helloworld0123456789",
		chunky + "00\r\nContent-Digest: sha-256=:x:\r\nx-amz-checksum-crc32: y\r\n\r\n": "POST / a ",
		"DELETE /x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n\x00\n":              "DELETE /x a \x00\n",
	} {
		var read []string
		l := served(t, func(_ http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			read = append(read, fmt.Sprintf("%s %s %s %s", r.Method, r.RequestURI, r.Host, body))
			if err != nil {
				t.Errorf("%q: %v", raw, err)
			}
		})
		last := strings.Contains(raw, "HTTP/1.0") || strings.Contains(raw, "chunked") // the connection ends
		if !last {
			raw += strings.Replace(get, "/", "/last", 1) + "Connection: close\r\n\r\n" // the framing was followed
		}
		l.say(t, raw)
		if len(read) == 0 || read[0] != want || !last && (len(read) != 2 || read[1] != "GET /last a ") || l.Refused() != 0 {
			t.Errorf("%q: read %q, %d refused", raw, read, l.Refused())
		}
	}
}

// Java's HttpClient offers h2c with every request. Nobody takes that up.
func TestAnOfferOfHTTP2IsNotTakenUp(t *testing.T) {
	t.Parallel()
	l := served(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %q", r.Proto, body)
	})
	got := l.say(t, post+"Connection: Upgrade, HTTP2-Settings\r\nContent-Length: 5\r\nHTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA\r\nUpgrade: h2c\r\n\r\nhello"+get+"Connection: close\r\n\r\n")
	if !strings.Contains(got, `HTTP/1.1 "hello"`) || !strings.Contains(got, `HTTP/1.1 ""`) || strings.Contains(got, "101") {
		t.Errorf("%q", got)
	}
}

// Also a response to a request that came before closes its connection.
func TestAStoppingServerClosesConnections(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before, during bool
		want           string
	}{"serving": {false, false, ""}, "stopping": {true, true, "close"}, "stops meanwhile": {false, true, "close"}} {
		var stopping atomic.Bool
		stopping.Store(c.before)
		h := Closing(&stopping, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			stopping.Store(c.during)
			w.WriteHeader(http.StatusNoContent)
		}))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		if got := w.Header().Get("Connection"); got != c.want {
			t.Errorf("%s: Connection: %q", name, got)
		}
	}
}
