package web

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"authguard/internal/control"
	"authguard/web/client"
)

// An Edge finds the client's IP address (R9) and rejects foreign host names (DNS rebinding). It is safe for concurrent
// use.
type Edge struct {
	client.Finder
	hosts atomic.Pointer[[]string]
}

// A Client is the origin of a request; see client.Client.
type Client = client.Client

// SetHosts sets the host names that Local accepts besides IP addresses and localhost.
func (e *Edge) SetHosts(names []string) { e.hosts.Store(&names) }

// Local rejects requests with a foreign host name: an attacker's page whose name resolves to 127.0.0.1 must not reach
// this listener (DNS rebinding). It checks requests from the loopback interface and, once SetHosts has set names, all
// requests. Trusted proxies are no exception: a browser on the proxy's machine can be rebound as well.
func (e *Edge) Local(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		var names []string
		if set := e.hosts.Load(); set != nil {
			names = *set
		}
		if (len(names) > 0 || client.Peer(r).IsLoopback()) && !isLocal(r.Host, names) {
			return echo.NewHTTPError(http.StatusMisdirectedRequest,
				"This listener is for local access. Open it as 127.0.0.1, or add its URL to admin.urls.")
		}
		return next(c)
	}
}

// isLocal reports whether a Host header is one of names, localhost or an IP address, which DNS cannot rebind.
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

// probes answers the expected probes of `authguard doctor --through` and records what arrived. A request without the
// token of an expected probe is served as usual.
func (e *Edge) probes(expected *control.Probes) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if r := c.Request(); r.Header.Get(control.ProbeHeader) != "" && e.Probed(expected, r) {
				return c.NoContent(http.StatusNoContent)
			}
			return next(c)
		}
	}
}

// Probed reports whether a request is an expected probe, and records what arrived.
func (e *Edge) Probed(expected *control.Probes, r *http.Request) bool {
	return expected != nil && expected.Take(r.Header.Get(control.ProbeHeader), time.Now(),
		func() control.Probe { return e.probe(r) })
}

func (e *Edge) probe(r *http.Request) control.Probe {
	from := e.Client(r)
	p := control.Probe{Address: from.Address, Secure: from.Secure, Host: r.Host, Header: e.Header(),
		Believed: e.Believes(r), Hops: []string{}}
	p.Peer, _ = netip.ParseAddrPort(r.RemoteAddr)
	p.Hops = append(p.Hops, client.Hops(r.Header, e.Header())...)
	return p
}
