// Package client tells who sent a request: from which address, behind the proxies
// that are believed (R9), whether it came over TLS, and on which devices, by the
// cookies that a [guard.Guard] has signed (R14). All doors ask here, and nowhere
// else. It is net/http and nothing more.
package client

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"

	"github.com/gaissmai/bart"
)

// A Finder finds the client's address (R9). The zero Finder believes nobody: the
// address is the TCP peer. Safe for concurrent use.
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

// maxHops is how many hops of a header are looked at: more were put there by
// somebody who wants the reading to take long.
const maxHops = 32

// Set says whose forwarding header is believed, and which header it is.
func (f *Finder) Set(proxies []netip.Prefix, header string) {
	t := &trust{header: header}
	for _, p := range proxies {
		t.proxies.Insert(p.Masked())
	}
	f.trust.Store(t)
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
func (f *Finder) Client(r *http.Request) Client {
	peer := Peer(r)
	t := f.trust.Load()
	if t == nil || !t.believes(peer) {
		return Client{Address: peer, Forwarded: sentForwarding(r.Header), Secure: r.TLS != nil}
	}
	secure := r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
	return Client{Address: t.walk(peer, Hops(r.Header, t.header)), Secure: secure}
}

// Header is the forwarding header that is read; empty: none is.
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

// Peer is the other end of the connection; the zero Addr where that has no IP address.
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

// Hops are the header's entries from left to right, over all its lines.
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

// PlainHeader reports whether a header's name has letters, digits and hyphens only. CGI, WSGI
// and PHP make an underscore of anything else, and of hyphens too: Remote.User is
// Remote-User to them.
func PlainHeader(name string) bool {
	return !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-'
	})
}

// WantsJSON reports whether a client wants JSON: Accept names it before HTML, or what
// it sent was JSON and it did not ask for HTML.
func WantsJSON(r *http.Request) bool {
	accept := r.Header.Get("Accept")
	json, html := strings.Index(accept, "json"), strings.Index(accept, "html")
	if json >= 0 {
		return html < 0 || json < html
	}
	return html < 0 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/json")
}
