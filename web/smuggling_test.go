package web

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A stream is a connection on which somebody has sent all of it, in pieces of a size,
// and then ended their side.
type stream struct {
	net.Conn
	rest  *bytes.Reader
	piece int
	wrote bytes.Buffer
	once  sync.Once
	ended chan struct{}
}

func (s *stream) Read(p []byte) (int, error) { return s.rest.Read(p[:min(len(p), s.piece)]) }
func (s *stream) Write(p []byte) (int, error) {
	return s.wrote.Write(p)
}
func (s *stream) Close() error                     { s.once.Do(func() { close(s.ended) }); return nil }
func (s *stream) RemoteAddr() net.Addr             { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)} }
func (s *stream) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (s *stream) SetDeadline(time.Time) error      { return nil }
func (s *stream) SetReadDeadline(time.Time) error  { return nil }
func (s *stream) SetWriteDeadline(time.Time) error { return nil }

// one is a listener of a single connection.
type one struct {
	net.Listener
	c chan net.Conn
}

func (o one) Accept() (net.Conn, error) {
	if c, ok := <-o.c; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (o one) Close() error   { return nil }
func (o one) Addr() net.Addr { return &net.TCPAddr{} }

// A forwarded is a request as the handler saw it, and the bytes that the app gets of it.
type forwarded struct {
	seen
	bytes []byte
	whole bool
}

// RoundTrip writes a request as http.Transport does to a new connection.
func (f *forwarded) RoundTrip(r *http.Request) (*http.Response, error) {
	var b bytes.Buffer
	f.whole = r.Write(&b) == nil
	f.bytes = b.Bytes()
	return nil, errors.New("no answer")
}

// forward returns the requests of a stream that a reverse proxy passes on. It frames and
// filters as web/proxy does.
func forward(raw []byte, piece int) (all []*forwarded) {
	s := &stream{rest: bytes.NewReader(raw), piece: piece, ended: make(chan struct{})}
	l := &Listener{Listener: one{c: make(chan net.Conn, 1)}, Log: slog.New(slog.DiscardHandler)}
	l.Listener.(one).c <- s
	close(l.Listener.(one).c)
	quiet := slog.NewLogLogger(slog.DiscardHandler, 0)
	server := &http.Server{
		MaxHeaderBytes: 1 << 10, ErrorLog: quiet,
		Handler: l.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Host == "" {
				return // which web/proxy refuses
			}
			f, body := &forwarded{seen: seen{r.Method, r.RequestURI, strings.ToLower(r.Host), "", ""}}, new(bytes.Buffer)
			r.Body = struct {
				io.Reader
				io.Closer
			}{io.TeeReader(r.Body, body), r.Body}
			app := httputil.ReverseProxy{Transport: f, ErrorLog: quiet, Rewrite: func(pr *httputil.ProxyRequest) {
				pr.SetURL(&url.URL{Scheme: "http", Host: "app"})
				pr.Out.Host, pr.Out.Trailer, pr.Out.Close = pr.In.Host, nil, pr.In.ContentLength != 0
				for name := range pr.Out.Header {
					if !consistsOf(strings.ReplaceAll(name, "_", " "), capitals+smalls+digits+"-") || name == "Remote-User" || name == "Upgrade" {
						pr.Out.Header.Del(name)
					}
				}
			}}
			app.ServeHTTP(w, r)
			f.body = body.String()
			all = append(all, f)
		})),
	}
	_ = server.Serve(l)
	<-s.ended
	return all
}

// differ is how a lenient parser reads a forwarded request differently than the handler;
// empty if it does not. It must see nothing of a body that was
// cut off, unless it cuts lengths: no length tells whether an app does.
func differ(raw []byte, piece int, l lenient) string {
	for _, f := range forward(raw, piece) {
		got := l.read(f.bytes)
		f.target = strings.Replace(f.target, "http://app", "", 1)
		if f.whole && len(got) == 1 && got[0] == f.seen || !f.whole && (len(got) == 0 || l.is(lengths32)) {
			continue
		}
		return fmt.Sprintf("%q in pieces of %d\nleniency %v reads %q\nof %q\nthe handler saw %q", raw, piece, l, got, f.bytes, f.seen)
	}
	return ""
}

// pieces are what streams are made of: published ways to smuggle requests, split so
// that they combine.
func pieces() []string {
	return []string{
		"GET / HTTP/1.1\r\n", "POST /login HTTP/1.1\r\n", "POST /a HTTP/1.0\r\n", "HEAD /b HTTP/1.1\r\n", "OPTIONS * HTTP/1.1\r\n", "post /c HTTP/1.1\r\n",
		"GET  /d HTTP/1.1\r\n", "GET\t/e HTTP/1.1\r\n", "GET /f\r\n", "GET /g http/1.1\r\n", "GET /h#x HTTP/1.1\r\n", "GET http://a/i HTTP/1.1\r\n", "GET http://b/j?k HTTP/1.1\r\n",
		"Host: a\r\n", "Host: b\r\n", "Host:a\r\n", "host : a\r\n", "Host: a\n", "Host: a\r",
		"Content-Length: 5\r\n", "Content-Length: 0\r\n", "Content-Length: 10\r\n", "Content-Length: 5, 5\r\n", "Content-Length: +5\r\n", "Content-Length: 05\r\n", "Content-Length: 0x5\r\n",
		"Content-Length : 5\r\n", "Content_Length: 5\r\n", "Content-Length:\t5\r\n", "Content-Length: 5 \r\n", "Content-Length: 4294967301\r\n", "Content-Length: 5abc\r\n", " Content-Length: 5\r\n", "Content-Length: \r\n",
		"Transfer-Encoding: chunked\r\n", "Transfer-Encoding: Chunked\r\n", "Transfer-Encoding: xchunked\r\n", "Transfer-Encoding : chunked\r\n", "Transfer-Encoding:\tchunked\r\n", "Transfer-Encoding: \x0bchunked\r\n",
		"Transfer-Encoding: chunked, identity\r\n", "Transfer-Encoding: identity\r\n", "Transfer-Encoding:\r\n chunked\r\n", " Transfer-Encoding: chunked\r\n", "X: x\nTransfer-Encoding: chunked\r\n", "X: x\rTransfer-Encoding: chunked\r\n", "Transfer_Encoding: chunked\r\n",
		": x\r\n", "X\r\n", "X: \x00\r\n", "X: y\r\n", "X: \xff\r\n", "\r\n", "\n", "\r",
		"Connection: close\r\n", "Connection: keep-alive\r\n", "Connection: keep-alive, Remote-User\r\n", "Remote-User: ann\r\n", "Upgrade: h2c\r\n", "Connection: Upgrade\r\n", "Upgrade: websocket\r\n", "Expect: 100-continue\r\n",
		"5\r\nhello\r\n", "5\nhello\r\n", "5;x=y\r\nhello\r\n", "5;x\nhello\r\n", "0x5\r\nhello\r\n", "+5\r\nhello\r\n", "5 \r\nhello\r\n", " 5\r\nhello\r\n", "5_\r\nhello\r\n", "00000000000000005\r\nhello\r\n", "100000005\r\nhello\r\n",
		"5\r\nhelloXX", "5\r\nhello", "0\r\n\r\n", "0\r\n", "0\n\n", "0;x\r\n\r\n", "00\r\n\r\n", "Trailer: Host\r\n", "Content-Digest: x\r\n", "hello", "helloGET /k HTTP/1.1\r\nHost: a\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	}
}

// smuggled are streams as they were published (PortSwigger's academy, the CVEs).
func smuggled() []string {
	const post, next = "POST / HTTP/1.1\r\nHost: a\r\n", "GET /admin HTTP/1.1\r\nHost: a\r\n\r\n"
	return []string{
		post + "Content-Length: 13\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nSMUGGLED",
		post + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n8\r\nSMUGGLED\r\n0\r\n\r\n",
		post + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\nTransfer-encoding: cow\r\n\r\n5c\r\nGPOST / HTTP/1.1\r\nContent-Length: 15\r\n\r\nx=1\r\n0\r\n\r\n",
		post + "Content-Length: 35\r\nTransfer-Encoding\r\n : chunked\r\n\r\n" + next,
		post + "Content-Length: 0\r\nContent-Length: 38\r\n\r\n" + next,
		post + "Content-Length0" + strings.Repeat("a", 260) + ":\r\nContent-Length: 38\r\n\r\n" + next,
		post + "Transfer-Encoding: chunked\r\n\r\n2;\nxx\r\n26\r\n0\r\n\r\n" + next + "\r\n0\r\n\r\n",
		post + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + next,
		post + "Content-Length: 5\r\n\r\nhello" + next,
		"GET /a HTTP/1.1\r\nHost: a\r\nContent-Length: 38\r\n\r\n" + next,
		"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n" + next,
		"GET /a\x00b HTTP/1.1\r\nHost: a\r\n\r\n" + next,
		post + "Connection: close, Content-Length\r\nContent-Length: 38\r\n\r\n" + next,
		post + ":\r\nContent-Length: 38\r\n\r\n" + next,
		"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\nConnection: Upgrade, HTTP2-Settings\r\n\r\nPRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"PRI * HTTP/2.0\r\nHost: a\r\n\r\n" + next,
	}
}

// FuzzParsersReadAlikeWhatIsForwarded holds what a stream makes the app get against what
// parsers with any set of leniencies read.
func FuzzParsersReadAlikeWhatIsForwarded(f *testing.F) {
	for i, s := range append(smuggled(), pieces()...) {
		f.Add([]byte(s), uint8(255), uint64(1)<<(i%leniencies))
		f.Add([]byte("POST / HTTP/1.1\r\nHost: a\r\n"+s+"Content-Length: 5\r\n\r\nhelloGET / HTTP/1.1\r\nHost: a\r\n\r\n"), uint8(3), uint64(1)<<(i%leniencies))
	}
	f.Fuzz(func(t *testing.T, raw []byte, piece uint8, chosen uint64) {
		for _, l := range []lenient{lenient(chosen), lenient(chosen)&(1<<leniencies-1) ^ 1, 0} {
			if how := differ(raw, int(piece)+1, l); how != "" {
				t.Fatal(how)
			}
		}
	})
}

// Every published way, in pieces of every size, and with every leniency alone.
func TestParsersReadAlikeWhatIsForwardedOfPublishedAttacks(t *testing.T) {
	t.Parallel()
	for _, raw := range smuggled() {
		for _, piece := range []int{1, 2, 7, len(raw)} {
			for l := range leniencies {
				if how := differ([]byte(raw), piece, 1<<l); how != "" {
					t.Error(how)
				}
			}
		}
	}
}

// Any pieces in any order, with any leniencies.
func TestParsersReadAlikeWhatIsForwardedOfAnyPieces(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		raw := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces()), 1, 12).Draw(t, "pieces"), "")
		l := lenient(rapid.Uint64Range(0, 1<<leniencies-1).Draw(t, "leniencies"))
		if how := differ([]byte(raw), rapid.IntRange(1, 40).Draw(t, "piece"), l); how != "" {
			t.Fatal(how)
		}
	})
}

// Most random combinations are nonsense, so these are requests that are right but for
// one line, which is put anywhere.
func TestParsersReadAlikeWhatIsForwardedOfOneWrongLine(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 3_000 {
		lines := []string{"POST /a HTTP/1.1\r\n", "Host: a\r\n", "Content-Length: 5\r\n", "\r\n", "hello", "GET /b HTTP/1.1\r\n", "Host: a\r\n", "\r\n"}
		if r.IntN(2) == 0 {
			lines[2], lines[4] = "Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n"
		}
		at := r.IntN(len(lines))
		one := pieces()[r.IntN(len(pieces()))]
		if r.IntN(2) == 0 {
			lines[at] = one
		} else {
			lines[at] = one + lines[at]
		}
		raw := strings.Join(lines, "")
		if how := differ([]byte(raw), 1+r.IntN(200), lenient(r.Uint64())); how != "" {
			t.Fatal(how)
		}
	}
}
