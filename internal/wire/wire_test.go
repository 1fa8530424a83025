package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"
)

// served serves behind a Listener until the test ends.
func served(t testing.TB, h http.HandlerFunc) *Listener {
	t.Helper()
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &Listener{Listener: socket, MaxHead: 4 << 10, http2: true, Log: slog.New(slog.DiscardHandler)}
	server := &http.Server{Handler: h, MaxHeaderBytes: l.MaxHead, ReadHeaderTimeout: time.Minute, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	server.ConnState = func(c net.Conn, state http.ConnState) {
		if state == http.StateHijacked {
			c.(*Conn).Hijacked()
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close(); <-ended })
	return l
}

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
	answer, err := io.ReadAll(c)
	if err != nil {
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
		"Content-Length: 5\r\nTransfer-Encoding: chunked", "Transfer-Encoding: chunked\r\nContent-Length: 5", "Transfer-Encoding: chunked\r\nContent-Length: 0",
		"Content-Length: 5\r\nContent-Length: 5", "Content-Length: 5, 5", "Content-Length: 5,", "Content-Length:", "Content-Length: +5", "Content-Length: -5", "Content-Length: 5a",
		"Content-Length: 05", "Content-Length: 0x5", "Content-Length: 5_0", "Content-Length: 5 ", "Content-Length:\t5", "Content-Length:  5", "Content-Length: 1234567890123456789", "Content-Length: \u0665",
		"Content-Length : 5", "Content_Length: 5", "content_length: 5",
		"Transfer-Encoding: Chunked", "Transfer-Encoding: xchunked", "Transfer-Encoding: gzip, chunked", "Transfer-Encoding: chunked, chunked", "Transfer-Encoding: chunked, identity", "Transfer-Encoding: identity", "Transfer-Encoding:",
		"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", "Transfer-Encoding: \"chunked\"", "Transfer-Encoding:\tchunked", "Transfer-Encoding: chunked\t",
		"Transfer-Encoding: \x0bchunked", "Transfer-Encoding : chunked", "Transfer_Encoding: chunked", "Transfer-Encoding:\r\n chunked",
		"X: a\r\n b", "X: a\r\n\tb", " X: a", "\tX: a", "X: a\nY: b", "X: a\rY: b", "X: a\r\r\nY: b", "X: a\x00b", "X: a\x7fb", "X\x00: a", "X Y: a", "X\t: a", ": a", "X", "X;: a", "X(: a", "\xff: a", "(): a",
		"Host: a", "Host: b", "Host : a", "Connection: Remote-User", "Connection: close, X-Forwarded-For", "Connection: Content-Length", "Connection: Transfer-Encoding", "Connection: Authorization", "Connection: Host", "Connection: close;",
		"Upgrade: websocket, h2c", "Upgrade: TLS/1.0", "Upgrade: HTTP/2.0",
		"Upgrade: websocket\r\nContent-Length: 5", "Upgrade: websocket\r\nTransfer-Encoding: chunked", "Trailer: Remote-User", "Trailer: Content-Digest, Host", "X: " + strings.Repeat("x", 9<<10),
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
		"GET / HTTP/1.1", "GET / HTTP/1.1\r\nX: a", "GET / HTTP/1.0\r\nHost: a\r\nHost: a", "GET / HTTP/1.1\r\nHost: a b", "GET / HTTP/1.1\r\nHost: a,b", "GET / HTTP/1.1\r\nHost: a/b", "GET / HTTP/1.1\r\nHost: u@a", "GET / HTTP/1.1\r\nHost:\ta",
		"GET / HTTP/1.1\r\nHost: a:1:2", "GET / HTTP/1.1\r\nHost: a:80]", "GET http://a:80]/ HTTP/1.1\r\nHost: a:80]", "GET / HTTP/1.1\r\nHost: a:x",
		"POST / HTTP/1.0\r\nTransfer-Encoding: chunked", "GET / HTTP/1.0\r\nUpgrade: websocket", "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5", "HEAD / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked", "GET / HTTP/1.1\nHost: a", "GET / HTTP/1.1\r\nHost: a\n",
		"PRI * HTTP/2.0\r\nHost: a", "PRI * HTTP/2.0\r\n\r\nSN", "PRI * HTTP/2.0\r\n\r\nSM\r\nx", "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\nGET / HTTP/1.1\r\nHost: a", "\x0d\x0a\x0d\x0a\x00\x0d\x0a\x51\x55\x49\x54\x0a\x21\x11\x00\x0c",
	} {
		l := served(t, func(http.ResponseWriter, *http.Request) { t.Errorf("%.60q was handed on", raw) })
		l.refuses(t, raw+"\r\n\r\nhello")
	}
}

// refuses says that raw gets one 400 (or 431), is counted once, and ends the connection.
func (l *Listener) refuses(t *testing.T, raw string) {
	t.Helper()
	got := l.say(t, raw)
	if !strings.HasPrefix(got, "HTTP/1.1 400 Bad Request\r\n") && !strings.HasPrefix(got, "HTTP/1.1 431 ") || !strings.Contains(got, "\r\nConnection: close\r\n") || strings.Count(got, "HTTP/1.1 4") != 1 {
		t.Errorf("%.80q: answered %.80q", raw, got)
	}
	if got := l.Refused(); got != 1 {
		t.Errorf("%.80q: %d were counted as refused, want 1", raw, got)
	}
}

// A body that goes wrong is not read to its end by whoever handles it.
func TestAChunkThatParsersCouldReadDifferentlyIsRefused(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		"5;a=b\r\nhello" + end, "5;\r\nhello" + end, "5;a\nhello" + end, "5\nhello" + end, "5\rhello" + end, "5 \r\nhello" + end, " 5\r\nhello" + end, "+5\r\nhello" + end, "-5\r\nhello" + end, "0x5\r\nhello" + end, "5_0\r\nhello" + end,
		"00000000000000005\r\nhello" + end, "ffffffffffffffff\r\nhello" + end, "g\r\nhello" + end, "\r\nhello" + end, "5\r\nhelloXX0\r\n\r\n", "5\r\nhelloX\r\n0\r\n\r\n", "5\r\nhello\n0\r\n\r\n", "5\r\nhello0\r\n\r\n", "5\r\nhello\r\n0;x\r\n\r\n", "5\r\nhello\r\n0\n\r\n",
		"0\r\nHost: b\r\n\r\n", "0\r\nRemote-User: ann\r\n\r\n", "0\r\nremote_user: ann\r\n\r\n", "0\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n", "0\r\nContent-Length: 5\r\n\r\n", "0\r\nTransfer-Encoding: chunked\r\n\r\n", "0\r\nAuthorization: x\r\n\r\n",
		"0\r\nContent-Digest : x\r\n\r\n", "0\r\nContent-Digest: x\r\n y\r\n\r\n", "0\r\nContent-Digest: x\n\r\n",
	} {
		var read []string
		l := served(t, func(w http.ResponseWriter, r *http.Request) {
			if body, err := io.ReadAll(r.Body); err == nil {
				read = append(read, string(body))
			}
			w.WriteHeader(http.StatusBadRequest)
		})
		answer := l.say(t, chunky+raw+"GET /next HTTP/1.1\r\nHost: a\r\n\r\n")
		if len(read) > 0 || l.Refused() != 1 || strings.Count(answer, "HTTP/1.1 ") != 1 {
			t.Errorf("%.60q: read %q, %d refused, answered %q", raw, read, l.Refused(), answer)
		}
	}
}

func TestWhatEveryParserReadsAlikeIsHandedOn(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		get + "\r\n": "GET / a ",
		"GET /a/../b?c=d&e=%20|{}\\^ HTTP/1.1\r\nHost: example.org:8080\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64)\r\nAccept-Language: de,en;q=0.5\r\nX-Obs: \xe9\tx\r\nX-Empty:\r\nConnection: keep-alive\r\n\r\n": "GET /a/../b?c=d&e=%20|{}\\^ example.org:8080 ",
		"GET http://A/x HTTP/1.1\r\nHost: a\r\nConnection: Keep-Alive, TE, \r\nTE: trailers\r\n\r\n":                                                                                                                    "GET http://A/x A ",
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
		last := strings.Contains(raw, "HTTP/1.0")
		if !last {
			raw += strings.Replace(get, "/", "/last", 1) + "Connection: close\r\n\r\n" // the framing was followed
		}
		l.say(t, raw)
		if len(read) == 0 || read[0] != want || !last && (len(read) != 2 || read[1] != "GET /last a ") || l.Refused() != 0 {
			t.Errorf("%q: read %q, %d refused", raw, read, l.Refused())
		}
	}
}

// Whoever answers a request before they have read its body goes on answering.
func TestNoRefusalIsWrittenIntoAnAnswer(t *testing.T) {
	t.Parallel()
	l := served(t, func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		if err := errors.Join(control.EnableFullDuplex(), control.Flush()); err != nil {
			t.Error(err)
		}
		_, err := io.ReadAll(r.Body)
		fmt.Fprint(w, "the end: ", err)
	})
	got := l.say(t, chunky+"5;x\r\nhello"+end)
	if strings.Count(got, "HTTP/1.1 ") != 1 || !strings.Contains(got, "the end: read tcp: a chunk must be") || l.Refused() != 1 {
		t.Errorf("%q", got)
	}
}

// net/http reads a byte while it answers, to see a client go away. What is wrong there
// belongs to the next request.
func TestARefusalWaitsForTheAnswerBefore(t *testing.T) {
	t.Parallel()
	for _, next := range []string{"\n", "\r\n", "GET / HTTP/1.1\r\n\r\n", "x"} {
		l := served(t, func(w http.ResponseWriter, r *http.Request) {
			runtime.Gosched() // to that byte
			if err := r.Context().Err(); err != nil {
				t.Errorf("%q after it gave up a good request: %v", next, err)
			}
			fmt.Fprint(w, "good")
		})
		got := l.say(t, get+"\r\n"+next+"\n\n")
		first, second, _ := strings.Cut(got, "good")
		if !strings.HasPrefix(first, "HTTP/1.1 200") || !strings.HasPrefix(second, "HTTP/1.1 400") || l.Refused() != 1 {
			t.Errorf("%q: %q", next, got)
		}
	}
}

func TestWhatFollowsAnUpgradePassesUntouched(t *testing.T) {
	t.Parallel()
	const frames = "\n\x00\r\r POST / HTTP/1.1\nContent-Length: x\r\n\r\n"
	l := served(t, func(w http.ResponseWriter, r *http.Request) {
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\n\r\n")
		got := make([]byte, 2*len(frames))
		if _, err := io.ReadFull(rw, got); err != nil || string(got) != frames+frames {
			t.Errorf("read %q, %v", got, err)
		}
	})
	for _, pieces := range [][]string{{"", frames, frames}, {frames, "", frames}, {frames + frames, ""}} {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, get+"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"+pieces[0])
		if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.Contains(line, "101") {
			t.Fatalf("%q, %v", line, err)
		}
		for _, piece := range pieces[1:] {
			_, _ = io.WriteString(c, piece)
		}
		if _, err := io.Copy(io.Discard, c); err != nil {
			t.Error(err)
		}
		_ = c.Close()
	}
	if l.Refused() != 0 {
		t.Errorf("%d refused", l.Refused())
	}
}

// A kernel that copies bodies for us, and an answer that arrives although the request
// was not read to its end, need these of a connection.
var (
	_ io.ReaderFrom                   = (*Conn)(nil)
	_ interface{ CloseWrite() error } = (*Conn)(nil)
)

// endless is as many bytes as are asked for.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// It counts what the whole process allocates, and so runs alone.
func TestAGibibytePassesInConstantMemory(t *testing.T) {
	const size = 1 << 30
	chunked := make([]io.Reader, 0, 3*256+1)
	for range size / (4 << 20) {
		chunked = append(chunked, strings.NewReader("400000\r\n"), io.LimitReader(endless{}, 4<<20), strings.NewReader("\r\n"))
	}
	for how, sent := range map[string]io.Reader{
		"Content-Length: 1073741824\r\n\r\n": io.LimitReader(endless{}, size),
		"Transfer-Encoding: chunked\r\n\r\n": io.MultiReader(append(chunked, strings.NewReader("0\r\n\r\n"))...),
	} {
		c := &Conn{Conn: &piped{Reader: io.MultiReader(strings.NewReader(post+how), sent)}, from: new(Listener), message: message{maxHead: 1 << 10}}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			t.Fatal(err)
		}
		buffer := make([]byte, 32<<10)
		n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, r.Body, buffer)
		runtime.ReadMemStats(&after)
		if n != size || err != nil || c.message.part != over {
			t.Errorf("%q: %d bytes, %v", how, n, err)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 4<<20 {
			t.Errorf("%q: %d bytes were allocated in all", how, used)
		}
	}
}

// piped reads from somewhere.
type piped struct {
	net.Conn
	io.Reader
}

func (p *piped) Read(b []byte) (int, error) { return p.Reader.Read(b) }

func BenchmarkHead(b *testing.B) {
	head := []byte(get + "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\nAccept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n" +
		"Accept-Language: de,en-US;q=0.7,en;q=0.3\r\nAccept-Encoding: gzip, deflate, br\r\nConnection: keep-alive\r\nCookie: session=0123456789abcdef0123456789abcdef; theme=dark\r\nUpgrade-Insecure-Requests: 1\r\n\r\n")
	m := message{maxHead: 32 << 10}
	b.SetBytes(int64(len(head)))
	b.ReportAllocs()
	for b.Loop() {
		if n, err := m.scan(head); n != len(head) || err != nil || m.part != over {
			b.Fatal(n, err)
		}
	}
}

// BenchmarkServed is a request of 64 KiB over loopback, answered with as much, by a
// bare http.Server and behind a Listener.
func BenchmarkServed(b *testing.B) {
	body := bytes.Repeat([]byte("x"), 64<<10)
	handle := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = w.Write(body[:r.ContentLength])
	}
	for _, size := range []int{0, len(body)} {
		for _, front := range []string{"bare", "wire"} {
			b.Run(fmt.Sprintf("%d/%s", size, front), func(b *testing.B) {
				l := served(b, handle)
				at := l.Addr().String()
				if front == "bare" {
					socket, err := net.Listen("tcp", "127.0.0.1:0")
					if err != nil {
						b.Fatal(err)
					}
					at = socket.Addr().String()
					server := &http.Server{Handler: http.HandlerFunc(handle), ReadHeaderTimeout: time.Minute}
					go func() { _ = server.Serve(socket) }()
					defer server.Close()
				}
				client := &http.Client{Transport: &http.Transport{}}
				defer client.CloseIdleConnections()
				b.SetBytes(int64(2 * size))
				for b.Loop() {
					response, err := client.Post("http://"+at, "text/plain", bytes.NewReader(body[:size]))
					if err != nil {
						b.Fatal(err)
					}
					_, _ = io.Copy(io.Discard, response.Body)
					_ = response.Body.Close()
				}
			})
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
