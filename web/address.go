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

// An Edge finds the client's address (R9), and keeps strangers' names from a
// listener. Safe for concurrent use.
type Edge struct {
	client.Finder
	hosts atomic.Pointer[[]string]
}

// A Client is who sent a request.
type Client = client.Client

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
		if (len(names) > 0 || client.Peer(r).IsLoopback()) && !isLocal(r.Host, names) {
			return echo.NewHTTPError(http.StatusMisdirectedRequest,
				"This listener is for local access. Open it as 127.0.0.1, or add its host name to admin.hosts.")
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
	from := e.Client(r)
	p := control.Probe{Address: from.Address, Secure: from.Secure, Host: r.Host, Header: e.Header(), Believed: e.Believes(r), Hops: []string{}}
	p.Peer, _ = netip.ParseAddrPort(r.RemoteAddr)
	p.Hops = append(p.Hops, client.Hops(r.Header, e.Header())...)
	return p
}
