package wire

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

// SetBalancers names the peers that say with the PROXY protocol (version 1 or 2) whom
// they speak for. They must: without it, everybody behind a balancer would be the
// balancer. From anybody else it is no HTTP, and refused. Connections that were accepted
// before keep to what was said then. It may be called at any time.
func (l *Listener) SetBalancers(peers []netip.Prefix) {
	var table bart.Lite
	for _, p := range peers {
		table.Insert(p.Masked())
	}
	l.balancers.Store(&table)
}

// Unintroduced is how many connections of balancers began without a good PROXY header.
func (l *Listener) Unintroduced() uint64 { return l.unintroduced.Load() }

func (l *Listener) balances(peer net.Addr) bool {
	tcp, ok := peer.(*net.TCPAddr)
	table := l.balancers.Load()
	return ok && table != nil && table.Contains(tcp.AddrPort().Addr().Unmap().WithZone(""))
}

// RemoteAddr implements net.Conn: whom the balancer speaks for, if there is one; it waits
// for it to say so.
func (c *Conn) RemoteAddr() net.Addr {
	if c.introduce() == nil && c.client != nil {
		return c.client
	}
	return c.Conn.RemoteAddr()
}

// introducedWithin is how long a balancer has for its header, which it sends first.
const introducedWithin = 5 * time.Second

// introduce reads the PROXY header, once. Without a good one every Read fails, with an
// error that net/http adds no answer to.
func (c *Conn) introduce() error {
	c.opened.Do(func() {
		if !c.balanced {
			return
		}
		_ = c.Conn.SetReadDeadline(time.Now().Add(introducedWithin))
		r := bufio.NewReader(c.Conn)
		_, err := r.Peek(1)
		silent := err != nil // it only looks whether somebody listens
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

var errNoClient = errors.New("wire: the PROXY header has no TCP client address")

// clientOf reads a header. The client is nil for the balancer's own connections, which
// check our health (LOCAL, and UNKNOWN in version 1).
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

// unintroducedBy counts, and tells once a minute: a balancer that was not told to send
// the header keeps everybody out.
func (l *Listener) unintroducedBy(peer net.Addr, why error) {
	l.unintroduced.Add(1)
	now := time.Now().Unix()
	if last := l.told.Load(); now-last >= 60 && l.told.CompareAndSwap(last, now) {
		l.Log.Warn("connection closed: a peer in proxy_protocol_from sent no valid PROXY header", "peer", peer, "error", why)
	}
}
