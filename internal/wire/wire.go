// Package wire filters traffic between socket and handlers. [Listener.Handler] rejects requests that another HTTP
// parser, in front of authguard or behind it, could read differently than net/http. The app must see the same path and
// body as the guard (request smuggling: CVE-2025-22871, CVE-2019-18277, CVE-2019-16276). Framing is net/http's; see
// docs/decisions/0049-net-http-reads-requests.md.
//
// A [Listener] reads the PROXY protocol of configured load balancers, and ends WebSockets at shutdown.
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
	told         atomic.Int64 // when unintroduced was last logged, in Unix seconds
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &Conn{Conn: c, from: l, balanced: l.balances(c.RemoteAddr())}, nil
}

// Refused returns the number of requests that Handler has rejected since the start.
func (l *Listener) Refused() uint64 { return l.refused.Load() }

// AllowHTTP2 accepts cleartext HTTP/2 with prior knowledge, which a proxy in front may use. Call it before the server
// serves.
//
// A connection has at most 100 concurrent requests. A client that begins and cancels requests (rapid reset,
// CVE-2023-44487) gets no more handlers. net/http starts one when another returns, and ends the connection at 400
// waiting requests. Endless headers (CVE-2023-45288) end at the server's MaxHeaderBytes.
func AllowHTTP2(s *http.Server) {
	s.Protocols = new(http.Protocols)
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	s.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 100, SendPingTimeout: 30 * time.Second}
}

// End closes the connections that http.Server.Shutdown ignores: hijacked ones, such as WebSockets. Their handlers still
// read what has arrived, so a handler that copies passes everything on. End returns when all are closed or ctx is done.
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
	buffer []byte // read with the PROXY header, not yet returned by Read
	// balanced: the peer must first send a PROXY header with the client's address.
	balanced     bool
	opened       sync.Once
	client       net.Addr
	unintroduced error
}

// Hijacked records that net/http handed the connection over to a handler, as for WebSocket.
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

// CloseWrite closes the sending side.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// ReadFrom implements io.ReaderFrom: the kernel copies from files and sockets.
func (c *Conn) ReadFrom(r io.Reader) (int64, error) { return io.Copy(c.Conn, r) }
