// Package wire stands between the socket and net/http. A [Listener]'s connections
// hand on HTTP/1 requests that every parser reads alike, and refuse the rest: whatever
// is behind authguard must see the same requests, with the same paths and bodies, as
// the guard did (request smuggling: CVE-2025-22871, CVE-2019-18277, CVE-2019-16276).
// What is refused is answered 400 once, and the connection is closed; net/http never
// sees it.
//
// It follows the framing from one head to the next and holds back no more than a line:
// a body of any size passes as it comes. HTTP/2, and what follows an upgrade to
// WebSocket, passes untouched.
//
// Before that, configured balancers say with the PROXY protocol whom they speak for.
//
// It does not judge paths, and it changes nothing: which headers a client may send is
// for whoever forwards them.
package wire

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gaissmai/bart"
)

// A Listener accepts [Conn]s. Set its fields before the first Accept.
type Listener struct {
	net.Listener
	// MaxHead is how large a head may be in bytes, and the trailers of a chunked body.
	MaxHead int
	Log     *slog.Logger

	http2        bool     // a connection may begin with HTTP/2 instead
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
	return &Conn{Conn: c, from: l, balanced: l.balances(c.RemoteAddr()), message: message{maxHead: l.MaxHead}}, nil
}

func (l *Listener) refuse(peer any, why error) {
	l.refused.Add(1)
	l.Log.Debug("request rejected: parsers could read it differently", "peer", peer, "why", why)
}

// Refused is how many requests were refused since the start.
func (l *Listener) Refused() uint64 { return l.refused.Load() }

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
