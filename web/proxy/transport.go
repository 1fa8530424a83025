package proxy

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"time"
)

// A transport is the way to the app: http.Transport's but for a small body. That has a
// connection of its own anyway (CL.0, headers.go), and gets it here without the two
// goroutines, the buffers and the pieces of http.Transport, and so pays for half of it.
// Such a body is read whole before the app is troubled, and sent with its head at once.
type transport struct {
	*http.Transport
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
	buffers buffers
}

// smallBody is how large a small body may be, in bytes. With its head it fits into what
// the kernels of both sides keep, so that an app that answers before it reads is heard.
const smallBody = 64 << 10

// maxHead is how large the head of an answer may be, in bytes, as with http.Transport.
const maxHead = 10 << 20

const alive = 30 * time.Second

func newTransport(patience time.Duration) *transport {
	dialer := net.Dialer{Timeout: 10 * time.Second, KeepAlive: alive}
	brief := net.Dialer{Timeout: dialer.Timeout, KeepAlive: -1} // 9 of 160 µs of a request
	return &transport{
		Transport: &http.Transport{
			DialContext: dialer.DialContext, ForceAttemptHTTP2: true, DisableCompression: true, MaxIdleConnsPerHost: 256, IdleConnTimeout: 30 * time.Second,
			TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: patience, MaxResponseHeaderBytes: maxHead,
			TLSClientConfig: &tls.Config{ClientSessionCache: tls.NewLRUClientSessionCache(0)}, // each body has a connection of its own
		},
		dial: brief.DialContext, buffers: newBuffers(smallBody + 8<<10),
	}
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !r.Close || r.URL.Scheme != "http" || r.ContentLength <= 0 || r.ContentLength > smallBody || r.Header.Get("Upgrade") != "" {
		return t.Transport.RoundTrip(r)
	}
	memory := t.buffers.Get()
	defer t.buffers.Put(memory)
	whole := bytes.NewBuffer(memory[:0])
	sent, body := r.WithContext(context.Background()), &readBody{ReadCloser: r.Body} // without a trace: nothing was sent
	sent.Body = body
	if err := sent.Write(whole); err != nil {
		return nil, cmp.Or(body.failed, err)
	}
	conn, err := t.dial(r.Context(), "tcp", net.JoinHostPort(r.URL.Hostname(), cmp.Or(r.URL.Port(), "80")))
	if err != nil {
		return nil, err
	}
	e := &exchange{conn: conn, ends: context.AfterFunc(r.Context(), func() { _ = conn.Close() })}
	answer, err := e.run(r, whole.Bytes(), t.ResponseHeaderTimeout)
	if err != nil {
		_ = e.Close()
		return nil, cmp.Or(context.Cause(r.Context()), err)
	}
	return answer, nil
}

// A readBody remembers why it could not be read: http.Request.Write says it in an error
// that cannot be unwrapped.
type readBody struct {
	io.ReadCloser
	failed error
}

// Read implements io.Reader.
func (b *readBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	if err != io.EOF {
		b.failed = err
	}
	return n, err
}

// An exchange is one request, and then its answer's body.
type exchange struct {
	conn net.Conn
	ends func() bool // the watch over the request's context
	body io.Reader
}

var errSwitched = errors.New("proxy: the app switched to another protocol without a request")

func (e *exchange) run(r *http.Request, whole []byte, patience time.Duration) (*http.Response, error) {
	trace := httptrace.ContextClientTrace(r.Context())
	if trace != nil && trace.WroteHeaders != nil {
		trace.WroteHeaders()
	}
	if patience > 0 {
		_ = e.conn.SetDeadline(time.Now().Add(patience))
	}
	_, unsent := e.conn.Write(whole) // an app that does not read it may have answered
	head := &io.LimitedReader{R: e.conn, N: maxHead}
	from := bufio.NewReader(head)
	for {
		answer, err := http.ReadResponse(from, r)
		switch {
		case err != nil:
			return nil, cmp.Or(unsent, err)
		case answer.StatusCode == http.StatusSwitchingProtocols:
			return nil, errSwitched
		case answer.StatusCode >= http.StatusOK:
			head.N = math.MaxInt64
			e.begin(answer)
			return answer, nil
		case trace != nil && trace.Got1xxResponse != nil:
			if err := trace.Got1xxResponse(answer.StatusCode, textproto.MIMEHeader(answer.Header)); err != nil {
				return nil, err
			}
		}
	}
}

// begin hands on what is left of the answer. It may be a stream that is silent for long.
func (e *exchange) begin(answer *http.Response) {
	_ = e.conn.SetDeadline(time.Time{})
	if tcp, ok := e.conn.(*net.TCPConn); ok && answer.ContentLength < 0 {
		_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: alive, Interval: alive})
	}
	e.body, answer.Body = answer.Body, e
}

// Read implements io.Reader.
func (e *exchange) Read(b []byte) (int, error) { return e.body.Read(b) }

// Close implements io.Closer.
func (e *exchange) Close() error {
	e.ends()
	return e.conn.Close()
}

// buffers are of one size, and some of them wait for the next who needs one: to make and
// clear 32 KiB for each answer was a sixth of a page's cost.
type buffers struct {
	size int
	free chan []byte
}

func newBuffers(size int) buffers { return buffers{size, make(chan []byte, 64)} }

// Get implements httputil.BufferPool.
func (b buffers) Get() []byte {
	select {
	case one := <-b.free:
		return one
	default:
		return make([]byte, b.size)
	}
}

// Put implements httputil.BufferPool.
func (b buffers) Put(one []byte) {
	select {
	case b.free <- one:
	default:
	}
}
