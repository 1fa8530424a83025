package web

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gaissmai/bart"
	"github.com/labstack/echo/v4"

	"authguard/internal/control"
)

// An Edge finds the client's address (R9). It is the only place that does. The
// zero Edge believes nobody: the address is the TCP peer. Safe for concurrent
// use.
type Edge struct {
	trust atomic.Pointer[trust]
	hosts atomic.Pointer[[]string]
}

type trust struct {
	proxies bart.Lite
	header  string
}

// Forwarding headers that an Edge can read.
const (
	XForwardedFor = "X-Forwarded-For"
	Forwarded     = "Forwarded" // RFC 7239
)

// maxHops is how many hops of a header are looked at: more were put there by
// somebody who wants the reading to take long.
const maxHops = 32

// Set says whose forwarding header is believed, and which header it is.
func (e *Edge) Set(proxies []netip.Prefix, header string) {
	t := &trust{header: header}
	for _, p := range proxies {
		t.proxies.Insert(p.Masked())
	}
	e.trust.Store(t)
}

// A Client is who sent a request.
type Client struct {
	Address netip.Addr
	// Forwarded: the peer is no configured proxy and sent a forwarding header.
	Forwarded bool
	// Secure: the request came to us, or to a proxy that we believe, over TLS.
	Secure bool
}

// Client is the TCP peer unless that is a configured proxy; then the
// right-most hop that is not one. What cannot be read ends the walk at the
// last address that could be, which is then a proxy's own: stricter, since all
// who come that way share it.
func (e *Edge) Client(r *http.Request) Client {
	peer := peerOf(r)
	t := e.trust.Load()
	if t == nil || !t.believes(peer) {
		return Client{Address: peer, Forwarded: sentForwarding(r.Header), Secure: r.TLS != nil}
	}
	secure := r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
	return Client{Address: t.walk(peer, hops(r.Header, t.header)), Secure: secure}
}

// Believes reports whether a request comes from a configured proxy.
func (e *Edge) Believes(r *http.Request) bool {
	t := e.trust.Load()
	return t != nil && t.believes(peerOf(r))
}

// SetHosts says by which names Local lets a listener be called, beside an IP
// address and localhost.
func (e *Edge) SetHosts(names []string) { e.hosts.Store(&names) }

// Local keeps a listener from being called by a stranger's name: a page whose
// name suddenly means 127.0.0.1 (DNS rebinding) must not reach it. It checks who
// comes over the loopback interface and, once SetHosts has named the listener's
// own names, everybody. Which proxies are believed plays no part: a browser on
// the proxy's machine is rebound as well.
func (e *Edge) Local(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		var names []string
		if set := e.hosts.Load(); set != nil {
			names = *set
		}
		if (len(names) > 0 || peerOf(r).IsLoopback()) && !isLocal(r.Host, names) {
			return echo.NewHTTPError(http.StatusMisdirectedRequest,
				"This listener is for this machine: open it as 127.0.0.1, or add the name that you called it by to admin.hosts.")
		}
		return next(c)
	}
}

// isLocal reports whether a Host header is an IP address or localhost, which no
// stranger's name can be made to mean, or one of these names.
func isLocal(host string, names []string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	if _, err := netip.ParseAddr(name); err == nil || strings.EqualFold(name, "localhost") {
		return true
	}
	name = strings.TrimSuffix(name, ".")
	return slices.ContainsFunc(names, func(own string) bool { return strings.EqualFold(own, name) })
}

func (t *trust) believes(a netip.Addr) bool { return a.IsValid() && t.proxies.Contains(a) }

// walk goes from the peer to the left as long as the hops are proxies.
func (t *trust) walk(from netip.Addr, hops []string) netip.Addr {
	for i := len(hops) - 1; i >= max(0, len(hops)-maxHops) && t.believes(from); i-- {
		hop, ok := parseHop(hops[i])
		if !ok {
			break
		}
		from = hop
	}
	return from
}

func peerOf(r *http.Request) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return peer.Addr().Unmap().WithZone("")
}

func sentForwarding(h http.Header) bool {
	return len(h[XForwardedFor]) > 0 || len(h[Forwarded]) > 0 || len(h["X-Real-Ip"]) > 0
}

// hops are the header's entries from left to right, over all its lines.
func hops(h http.Header, name string) (all []string) {
	for _, line := range h.Values(name) {
		for part := range strings.SplitSeq(line, ",") {
			if name == Forwarded {
				part = forParameter(part)
			}
			all = append(all, strings.TrimSpace(part))
		}
	}
	return all
}

// forParameter is the for= of one element of a Forwarded header, without
// quotes; empty if there is none.
func forParameter(element string) string {
	for pair := range strings.SplitSeq(element, ";") {
		name, value, ok := strings.Cut(strings.TrimSpace(pair), "=")
		if ok && strings.EqualFold(name, "for") {
			return strings.Trim(value, `"`)
		}
	}
	return ""
}

// parseHop reads an address as proxies write it: bare, in brackets, with or
// without a port.
func parseHop(s string) (netip.Addr, bool) {
	if host, _, err := net.SplitHostPort(s); err == nil {
		s = host
	}
	s = strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")
	a, err := netip.ParseAddr(s)
	if err != nil || a.IsUnspecified() {
		return netip.Addr{}, false
	}
	return a.Unmap().WithZone(""), true
}

// probes answers the probes of `authguard doctor --through` in place of the doors,
// and notes what arrived. Whoever does not know the token of one that is expected
// gets the door.
func (e *Edge) probes(expected *control.Probes) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if !e.Probed(expected, c.Request()) {
				return next(c)
			}
			return c.NoContent(http.StatusNoContent)
		}
	}
}

// Probed reports whether a request is a probe that is expected, and notes what
// arrived.
func (e *Edge) Probed(expected *control.Probes, r *http.Request) bool {
	return expected != nil && expected.Take(r.Header.Get(control.ProbeHeader), time.Now(), func() control.Probe { return e.probe(r) })
}

// probe is what an Edge makes of a request.
func (e *Edge) probe(r *http.Request) control.Probe {
	client, t := e.Client(r), e.trust.Load()
	p := control.Probe{Address: client.Address, Secure: client.Secure, Host: r.Host, Hops: []string{}}
	p.Peer, _ = netip.ParseAddrPort(r.RemoteAddr)
	if t != nil {
		p.Header, p.Believed = t.header, t.believes(peerOf(r))
		p.Hops = append(p.Hops, hops(r.Header, t.header)...)
	}
	return p
}
