// Package client identifies the sender of a request: its IP address behind trusted proxies (R9), its fingerprint and
// whether it used TLS. It also reads the device cookies that a [guard.Guard] has signed (R14). All integrations use it.
// It needs no web framework.
package client

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"

	"github.com/gaissmai/bart"
)

// A Finder determines the client's IP address (R9). The zero Finder trusts no proxy: the address is the TCP peer. It is
// safe for concurrent use.
type Finder struct {
	trust atomic.Pointer[trust]
}

type trust struct {
	proxies bart.Lite
	header  string
}

// Forwarding headers that a Finder can read.
const (
	XForwardedFor = "X-Forwarded-For"
	Forwarded     = "Forwarded" // RFC 7239
)

// maxHops is how many hops of a header are read, from the right: an attacker may send more to waste time.
const maxHops = 32

// Set sets the trusted proxies and their forwarding header.
func (f *Finder) Set(proxies []netip.Prefix, header string) {
	t := &trust{header: header}
	for _, p := range proxies {
		t.proxies.Insert(p.Masked())
	}
	f.trust.Store(t)
}

// A Client is the sender of a request.
type Client struct {
	Address   netip.Addr
	Forwarded bool // the peer is no configured proxy, but sent a forwarding header
	Secure    bool // the request reached the server, or a trusted proxy, over TLS
}

// Client returns the TCP peer unless that is a configured proxy; then the right-most hop that is not one. At an
// unreadable hop it returns the last readable address, a proxy's. That is stricter: all such clients share it.
func (f *Finder) Client(r *http.Request) Client {
	peer := Peer(r)
	t := f.trust.Load()
	if t == nil || !t.believes(peer) {
		return Client{Address: peer, Forwarded: sentForwarding(r.Header), Secure: r.TLS != nil}
	}
	secure := r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
	return Client{Address: t.walk(peer, Hops(r.Header, t.header)), Secure: secure}
}

// Header returns the forwarding header that is read; empty: none.
func (f *Finder) Header() string {
	if t := f.trust.Load(); t != nil {
		return t.header
	}
	return ""
}

// Believes reports whether a request comes from a configured proxy.
func (f *Finder) Believes(r *http.Request) bool {
	t := f.trust.Load()
	return t != nil && t.believes(Peer(r))
}

func (t *trust) believes(a netip.Addr) bool { return a.IsValid() && t.proxies.Contains(a) }

// walk follows the hops from right to left as long as they are proxies.
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

// Peer returns the TCP peer's address; the zero Addr if it has no IP address.
func Peer(r *http.Request) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return peer.Addr().Unmap().WithZone("")
}

func sentForwarding(h http.Header) bool {
	return len(h[XForwardedFor]) > 0 || len(h[Forwarded]) > 0 || len(h["X-Real-Ip"]) > 0
}

// Hops returns the header's entries from left to right, over all its lines.
func Hops(h http.Header, name string) (all []string) {
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

// forParameter returns the unquoted for= parameter of one Forwarded element, or "".
func forParameter(element string) string {
	for pair := range strings.SplitSeq(element, ";") {
		name, value, ok := strings.Cut(strings.TrimSpace(pair), "=")
		if ok && strings.EqualFold(name, "for") {
			return strings.Trim(value, `"`)
		}
	}
	return ""
}

// parseHop parses an IP address as proxies write it: bare or in brackets, with or without a port.
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

// PlainHeader reports whether a header's name has only letters, digits and hyphens. CGI, WSGI and PHP replace all other
// characters by underscores, and hyphens as well: to them Remote.User is Remote-User.
func PlainHeader(name string) bool {
	return !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-'
	})
}

// WantsJSON reports whether a client wants JSON: Accept names it before HTML, or the client sent JSON and does not
// accept HTML.
func WantsJSON(r *http.Request) bool {
	accept := r.Header.Get("Accept")
	json, html := strings.Index(accept, "json"), strings.Index(accept, "html")
	if json >= 0 {
		return html < 0 || json < html
	}
	return html < 0 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/json")
}
