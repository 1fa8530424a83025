package web

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gaissmai/bart"
)

// A Listener accepts [Conn]s. It reads the PROXY protocol of configured load balancers, and ends WebSockets at
// shutdown. Its Handler rejects requests that another HTTP parser, in front of authguard or behind it, could read
// differently than net/http: the app must see the same path and body as the guard (request smuggling: CVE-2025-22871,
// CVE-2019-18277, CVE-2019-16276). Framing is net/http's; see docs/decisions/0049-net-http-reads-requests.md.
//
// Set its fields before the first Accept.
type Listener struct {
	net.Listener
	Log *slog.Logger

	hijacked     sync.Map // of *Conn
	balancers    atomic.Pointer[bart.Lite]
	refused      atomic.Uint64
	unintroduced atomic.Uint64
	logged       atomic.Int64 // when unintroduced was last logged, in Unix seconds
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
	if c.balanced {
		if err := c.introduce(); err != nil {
			return 0, err
		}
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

// RemoteAddr implements net.Conn: the client's address from the PROXY header, if any. It waits for the header.
func (c *Conn) RemoteAddr() net.Addr {
	if c.balanced && c.introduce() == nil && c.client != nil {
		return c.client
	}
	return c.Conn.RemoteAddr()
}

// validHost reports whether a host is name[:digits] or [IPv6][:digits]. Servers parse other forms differently: for
// nginx "a.example:1:2" is a.example, for net/http it is a different name.
func validHost(host string) bool {
	name, port, hasPort := strings.Cut(host, ":")
	literal := strings.HasPrefix(host, "[")
	if literal {
		inside, rest, ended := strings.Cut(host[1:], "]")
		a, err := netip.ParseAddr(inside)
		if err != nil || !ended || !a.Is6() || a.Zone() != "" || rest != "" && rest[0] != ':' {
			return false
		}
		hasPort, port = rest != "", strings.TrimPrefix(rest, ":")
	}
	if hasPort && (!consistsOf(port, digits) || len(port) > len("65535")) {
		return false
	}
	for label := range strings.SplitSeq(strings.TrimSuffix(name, "."), ".") {
		if !literal && !consistsOf(label, capitals+smalls+digits+"-_") {
			return false
		}
	}
	return true
}

type rejection string

func (r rejection) Error() string { return string(r) }

// Reasons for rejection.
const (
	badRequestLine rejection = "the request line must be a method in capitals, a target and HTTP/1.1 or HTTP/1.0"
	badTarget      rejection = "the target must be a path, in ASCII without spaces and #"
	badHost        rejection = "there must be one Host header, with a name and perhaps a port"
	badLength      rejection = "there may be one Content-Length, in digits without leading zeros"
	badConnection  rejection = "Connection may only be close, keep-alive, upgrade, http2-settings and te"
	badUpgrade     rejection = "only an upgrade to websocket, without a body, is possible; for HTTP/2 begin with it, or " +
		"use HTTP/1.1"
	bodyUnexpected rejection = "GET, HEAD and TRACE have no body"
)

// Handler answers requests that parsers could read differently with 400, and counts them.
//
// net/http drops Content-Length beside Transfer-Encoding, and Transfer-Encoding in HTTP/1.0, before a handler sees
// them. A proxy that uses the other header has sent the next request inside this one's body, or the reverse (request
// smuggling). So the connection ends with the response.
func (l *Listener) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := readAlike(r)
		if r.ProtoMajor == 1 && (err != nil || r.ProtoMinor == 0 || len(r.TransferEncoding) > 0) {
			w.Header().Set("Connection", "close")
		}
		if err != nil {
			l.refused.Add(1)
			l.Log.Debug("request rejected: parsers could read it differently", "peer", r.RemoteAddr, "why", err)
			http.Error(w, "400 Bad Request: "+err.Error(), http.StatusBadRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

const capitals, smalls, digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz", "0123456789"

// consistsOf reports whether s is not empty and consists of these characters.
func consistsOf(s, these string) bool { return s != "" && strings.Trim(s, these) == "" }

func readAlike(r *http.Request) error {
	// Django and Werkzeug take "post" for POST; a route's methods do not.
	if !consistsOf(r.Method, capitals+"-") || r.Method == http.MethodConnect || r.ProtoMajor == 1 && r.ProtoMinor > 1 {
		return badRequestLine
	}
	// For a target with a host, net/http has dropped the Host header; other servers use it.
	if !strings.HasPrefix(r.RequestURI, "/") || strings.ContainsFunc(r.RequestURI, func(c rune) bool {
		return c <= ' ' || c > '~' || c == '#'
	}) {
		return badTarget
	}
	hosts := r.Header["Host"] // beside :authority of HTTP/2
	if r.Host != "" && !validHost(r.Host) || len(hosts) > 1 || len(hosts) == 1 && hosts[0] != r.Host {
		return badHost
	}
	lengths := r.Header["Content-Length"] // some parsers read 010 as 8
	if len(lengths) > 1 || len(lengths) == 1 && lengths[0] != strconv.FormatInt(r.ContentLength, 10) {
		return badLength
	}
	// A proxy removes the headers that are named here; ours must stay.
	if !listed(r.Header["Connection"], "close", "keep-alive", "upgrade", "te", "http2-settings", "") {
		return badConnection
	}
	return withoutBody(r)
}

// withoutBody rejects a body where other servers expect none: a server that ignores it takes it for the next request.
func withoutBody(r *http.Request) error {
	bodiless := r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodTrace
	if bodiless && r.ProtoMajor == 2 && r.ContentLength < 0 { // HAProxy ends some GETs after their headers
		if n, _ := io.ReadFull(r.Body, make([]byte, 1)); n == 0 {
			r.Body, r.ContentLength = http.NoBody, 0
		}
	}
	if bodiless && r.ContentLength != 0 {
		return bodyUnexpected
	}
	// Java's HttpClient offers h2c with every request; it is neither accepted nor passed on. Another protocol could carry
	// HTTP past the guard, such as TLS/1.0.
	upgrades := r.Header["Upgrade"]
	if len(upgrades) == 0 || len(upgrades) == 1 && strings.EqualFold(upgrades[0], "h2c") {
		return nil
	}
	if !listed(upgrades, "websocket") || r.ContentLength != 0 || !r.ProtoAtLeast(1, 1) {
		return badUpgrade
	}
	return nil
}

// listed reports whether each element of these lists is one of the words.
func listed(lists []string, words ...string) bool {
	for _, list := range lists {
	next:
		for element := range strings.SplitSeq(list, ",") {
			for _, word := range words {
				if strings.EqualFold(strings.Trim(element, " "), word) {
					continue next
				}
			}
			return false
		}
	}
	return true
}

// Closing makes responses close their connections once stopping is set, also those to earlier requests. For HTTP/2
// net/http sends a GOAWAY instead: requests in flight still get their responses.
func Closing(stopping *atomic.Bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if stopping.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(lastResponse{w, stopping}, r)
	})
}

// A lastResponse closes its connection if the server is stopping when it begins.
type lastResponse struct {
	http.ResponseWriter
	stopping *atomic.Bool
}

// WriteHeader implements http.ResponseWriter.
func (w lastResponse) WriteHeader(status int) {
	if w.stopping.Load() && status >= http.StatusOK {
		w.Header().Set("Connection", "close")
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w lastResponse) Unwrap() http.ResponseWriter { return w.ResponseWriter }
