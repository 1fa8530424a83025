package web

import (
	"bufio"
	"bytes"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/gaissmai/bart"
	"github.com/pires/go-proxyproto"
)

// SetBalancers sets the peers that must send a PROXY protocol header (version 1 or 2). Without it, all clients behind a
// load balancer would share its address. From other peers such a header is invalid HTTP and rejected. Accepted
// connections keep the previous setting. It may be called at any time.
func (l *Listener) SetBalancers(peers []netip.Prefix) {
	var table bart.Lite
	for _, p := range peers {
		table.Insert(p.Masked())
	}
	l.balancers.Store(&table)
}

// Unintroduced returns the number of balancer connections without a valid PROXY header.
func (l *Listener) Unintroduced() uint64 { return l.unintroduced.Load() }

func (l *Listener) balances(peer net.Addr) bool {
	tcp, ok := peer.(*net.TCPAddr)
	table := l.balancers.Load()
	return ok && table != nil && table.Contains(tcp.AddrPort().Addr().Unmap().WithZone(""))
}

// introducedWithin is how long a balancer may take to send its header.
const introducedWithin = 5 * time.Second

// introduce reads the PROXY header, once. Without a valid one every Read fails, with an error that net/http does not
// answer.
func (c *Conn) introduce() error {
	c.opened.Do(func() {
		_ = c.Conn.SetReadDeadline(time.Now().Add(introducedWithin))
		r := bufio.NewReader(c.Conn)
		_, err := r.Peek(1)
		silent := err != nil // a health check that only connects
		if !silent {
			c.client, err = clientOf(r)
		}
		_ = c.Conn.SetReadDeadline(time.Time{})
		rest, _ := r.Peek(r.Buffered())
		c.buffer = bytes.Clone(rest)
		if err != nil {
			c.unintroduced = &net.OpError{Op: "read", Net: "tcp", Err: err}
			if !silent {
				c.from.unintroducedBy(c.Conn.RemoteAddr(), err)
			}
		}
	})
	return c.unintroduced
}

var errNoClient = errors.New("web: the PROXY header has no TCP client address")

// clientOf parses a header. The client is nil for the balancer's own health checks (LOCAL, and UNKNOWN in version 1).
func clientOf(r *bufio.Reader) (net.Addr, error) {
	h, err := proxyproto.Read(r)
	if err != nil || h.Command.IsLocal() {
		return nil, err
	}
	client, ok := h.SourceAddr.(*net.TCPAddr)
	if !ok || !client.AddrPort().IsValid() || client.IP.IsUnspecified() {
		return nil, errNoClient
	}
	return client, nil
}

// unintroducedBy counts the connection and logs at most once a minute: a balancer without the header locks out every
// client.
func (l *Listener) unintroducedBy(peer net.Addr, why error) {
	l.unintroduced.Add(1)
	now := time.Now().Unix()
	if last := l.logged.Load(); now-last >= 60 && l.logged.CompareAndSwap(last, now) {
		l.Log.Warn("connection closed: a peer in proxy_protocol_from sent no valid PROXY header", "peer", peer, "error", why)
	}
}
