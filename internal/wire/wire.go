// Package wire stands between the socket and the handlers. [Listener.Handler] refuses
// requests that another HTTP parser, before or behind authguard, could read differently
// than net/http: the app must see the same request, with the same path and body, as the
// guard did (request smuggling: CVE-2025-22871, CVE-2019-18277, CVE-2019-16276). Framing
// is net/http's; see docs/decisions/0049-net-http-reads-requests.md.
//
// A [Listener] reads the PROXY protocol of configured balancers, and ends WebSockets.
package wire

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gaissmai/bart"
)

// A Listener accepts [Conn]s. Set its fields before the first Accept.
type Listener struct {
	net.Listener
	Log *slog.Logger

	hijacked     sync.Map // of *Conn
	balancers    atomic.Pointer[bart.Lite]
	refused      atomic.Uint64
	unintroduced atomic.Uint64
	told         atomic.Int64 // of unintroduced ones, in Unix seconds
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &Conn{Conn: c, from: l, balanced: l.balances(c.RemoteAddr())}, nil
}

// Refused is how many requests Handler refused since the start.
func (l *Listener) Refused() uint64 { return l.refused.Load() }

// AllowHTTP2 lets connections begin with HTTP/2, as a proxy in front may. Call it before
// the server serves.
//
// A client has 100 requests at a time on a connection. One that begins and cancels them
// (rapid reset, CVE-2023-44487) has no more handlers than that either: net/http starts a
// handler when another has returned, and ends the connection when 400 wait. Endless
// headers (CVE-2023-45288) end at the server's MaxHeaderBytes.
func AllowHTTP2(s *http.Server) {
	s.Protocols = new(http.Protocols)
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	s.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 100, SendPingTimeout: 30 * time.Second}
}

// End ends what http.Server.Shutdown leaves alone: connections that were given to
// handlers, such as WebSockets. What has arrived on them is still read; then they end, so
// that a handler that copies passes all of it on. End returns when they are closed, or
// with ctx.
func (l *Listener) End(ctx context.Context) {
	l.hijacked.Range(func(c, _ any) bool {
		if half, ok := c.(*Conn).Conn.(interface{ CloseRead() error }); ok {
			_ = half.CloseRead()
		}
		return true
	})
	for tick := time.Tick(5 * time.Millisecond); l.upgraded() > 0; {
		select {
		case <-tick:
		case <-ctx.Done():
			return
		}
	}
}

func (l *Listener) upgraded() (n int) {
	l.hijacked.Range(func(any, any) bool { n++; return true })
	return n
}

// A Conn is a connection for an http.Server, which has one reader at a time and closes it.
type Conn struct {
	net.Conn
	from   *Listener
	buffer []byte // read with the PROXY header, and not handed on
	// balanced: the peer has to send a PROXY header first, which names the client.
	balanced     bool
	opened       sync.Once
	client       net.Addr
	unintroduced error
}

// Hijacked notes that net/http gave the connection up to a handler, as for WebSocket.
func (c *Conn) Hijacked() { c.from.hijacked.Store(c, nil) }

// Close implements net.Conn.
func (c *Conn) Close() error {
	c.from.hijacked.Delete(c)
	return c.Conn.Close()
}

// Read implements net.Conn.
func (c *Conn) Read(p []byte) (int, error) {
	if err := c.introduce(); err != nil {
		return 0, err
	}
	if len(c.buffer) > 0 {
		n := copy(p, c.buffer)
		c.buffer = c.buffer[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

// CloseWrite ends our side of the connection.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// ReadFrom implements io.ReaderFrom: the kernel copies from files and sockets.
func (c *Conn) ReadFrom(r io.Reader) (int64, error) { return io.Copy(c.Conn, r) }
