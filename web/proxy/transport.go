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

// A transport is http.Transport, except for small bodies. Those need a connection of their own anyway (CL.0,
// headers.go). Without the two goroutines and the buffers of http.Transport they cost half. A small body is read
// completely before the transport connects to the app, and sent together with the request's headers.
type transport struct {
	*http.Transport
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
	buffers buffers
}

// smallBody is the largest small body, in bytes. With its headers it fits into the kernels' buffers on both sides, so
// the response of an app that answers before it reads is not lost.
const smallBody = 64 << 10

// maxHead is the maximum size of response headers, in bytes, as in http.Transport.
const maxHead = 10 << 20

const alive = 30 * time.Second

func newTransport(patience time.Duration) *transport {
	dialer := net.Dialer{Timeout: 10 * time.Second, KeepAlive: alive}
	brief := net.Dialer{Timeout: dialer.Timeout, KeepAlive: -1} // 9 of 160 µs of a request
	return &transport{
		Transport: &http.Transport{
			DialContext: dialer.DialContext, ForceAttemptHTTP2: true, DisableCompression: true, MaxIdleConnsPerHost: 256,
			IdleConnTimeout:     30 * time.Second,
			TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: patience, MaxResponseHeaderBytes: maxHead,
			// Each body needs a new connection.
			TLSClientConfig: &tls.Config{ClientSessionCache: tls.NewLRUClientSessionCache(0)},
		},
		dial: brief.DialContext, buffers: newBuffers(smallBody + 8<<10),
	}
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !r.Close || r.URL.Scheme != "http" || r.ContentLength <= 0 || r.ContentLength > smallBody ||
		r.Header.Get("Upgrade") != "" {
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

// A readBody records its read error: http.Request.Write wraps it in one that cannot be unwrapped.
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

// An exchange is one request, and then the body of its response.
type exchange struct {
	conn net.Conn
	ends func() bool // stops the cancellation by the request's context
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

// begin passes on the response body. It may be a stream that is silent for long.
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

// buffers is a pool of buffers of one size: to allocate and clear 32 KiB per response was a sixth of a page's cost.
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
