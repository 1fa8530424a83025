// Package client identifies the sender of a request: its IP address behind trusted proxies (R9), its fingerprint and
// whether it used TLS. It also reads the device cookies that a [guard.Guard] has signed (R14). All integrations use it.
// It needs no web framework.
package client

import (
	"encoding/binary"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gaissmai/bart"

	"authguard/guard"
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

// HostOnly is the prefix of Secure cookies for one host. Browsers accept them from that host over TLS only (RFC
// 6265bis, section 4.1.3.2). Neither a subdomain nor an attacker on a plain connection can plant one.
const HostOnly = "__Host-"

// SecureOnly is the prefix of Secure cookies for several hosts.
const SecureOnly = "__Secure-"

// deviceCookie is the prefix of device cookies. The account's tag follows, since several users may share a browser.
const deviceCookie = "authguard_device_"

// mostExpired is how many device cookies one response expires. 90 made a response of 4,540 bytes, more than nginx's
// default buffers (4,096 bytes), so it became 502.
const mostExpired = 5

// Devices returns the request's device cookies, of all accounts.
func Devices(r *http.Request) (all []string) {
	for _, cookie := range r.Cookies() {
		if isDevice(cookie.Name) {
			all = append(all, cookie.Value)
		}
	}
	return all
}

// isDevice accepts both names: a cookie from before the site used TLS is still valid, since it is signed.
func isDevice(name string) bool {
	return strings.HasPrefix(strings.TrimPrefix(name, HostOnly), deviceCookie)
}

// SetDevice sets the device cookie for an account. Beyond guard.MaxDevices it expires the oldest, which browsers send
// first (RFC 6265, section 5.4). One response expires at most mostExpired: a sibling host can plant any number.
func SetDevice(h http.Header, r *http.Request, tag, value string, ttl time.Duration, secure bool) {
	if value == "" {
		return
	}
	own, others := deviceCookie+tag, []string(nil)
	if secure {
		own = HostOnly + own
	}
	for _, cookie := range r.Cookies() {
		if isDevice(cookie.Name) && cookie.Name != own && !slices.Contains(others, cookie.Name) {
			others = append(others, cookie.Name)
		}
	}
	set := func(c http.Cookie) { h.Add("Set-Cookie", c.String()) }
	for _, name := range others[:min(mostExpired, max(0, len(others)+1-guard.MaxDevices))] {
		set(http.Cookie{Name: name, Path: "/", MaxAge: -1, Secure: strings.HasPrefix(name, HostOnly)})
	}
	set(http.Cookie{
		Name: own, Value: value, Path: "/", MaxAge: int(ttl.Seconds()),
		HttpOnly: true, Secure: secure, SameSite: http.SameSiteLaxMode,
	})
}

// Ours reports whether a cookie is authguard's, which the app behind the proxy must not see.
func Ours(cookie string) bool {
	return strings.HasPrefix(strings.TrimPrefix(strings.TrimPrefix(cookie, SecureOnly), HostOnly), "authguard_")
}

// An Identity builds client fingerprints from some headers, independent of the IP address. guard.Guard.Identity keys
// the fingerprint and keeps 32 bits. The zero Identity builds none. It is safe for concurrent use.
type Identity struct {
	by atomic.Pointer[identityBy]
}

type identityBy []string // in canonical form

// Set sets the headers. Without any there is no fingerprint, and nothing is counted.
func (i *Identity) Set(headers []string) {
	var by identityBy
	for _, name := range headers {
		by = append(by, http.CanonicalHeaderKey(name))
	}
	i.by.Store(&by)
}

// Of returns the fingerprint of a request; empty if there are no headers to build it from. Two fingerprints are equal
// if and only if the headers are. All clients that omit all of these headers share one.
func (i *Identity) Of(r *http.Request) string {
	by := i.load()
	if by == nil {
		return ""
	}
	return by.text(r.Header)
}

// OfLines is Of for a request that a back end received: its headers as "Name: value". Other lines are ignored.
func (i *Identity) OfLines(lines []string) string {
	by := i.load()
	if by == nil || len(lines) == 0 {
		return ""
	}
	h := http.Header{}
	for _, line := range lines {
		if name, value, ok := strings.Cut(line, ":"); ok {
			h.Add(name, strings.Trim(value, " \t"))
		}
	}
	return by.text(h)
}

// On reports whether fingerprints are built.
func (i *Identity) On() bool { return i.load() != nil }

func (i *Identity) load() identityBy {
	if i == nil {
		return nil
	}
	if by := i.by.Load(); by != nil {
		return *by
	}
	return nil
}

// text prefixes every value with its length, so that one value cannot imitate two.
func (by identityBy) text(h http.Header) string {
	b := make([]byte, 0, 512)
	add := func(s string) { b = append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	for _, name := range by {
		values := h[name]
		b = binary.AppendUvarint(b, uint64(len(values)))
		for _, value := range values {
			if strings.HasPrefix(name, "Sec-Ch-Ua") {
				value = brands(value)
			}
			add(value)
		}
	}
	return string(b)
}

// brands sorts the brands of Sec-CH-UA, which browsers shuffle, and removes the fake one, "Not/A)Brand" (GREASE), which
// changes with the version.
func brands(list string) string {
	var all []string
	for one := range strings.SplitSeq(list, ",") {
		if one = strings.TrimSpace(one); !madeUp(one) {
			all = append(all, one)
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func madeUp(brand string) bool {
	name, _, _ := strings.Cut(brand, `";v=`)
	letters := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return -1
	}, name)
	return strings.EqualFold(letters, "NotABrand")
}
