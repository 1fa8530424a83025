package doctor

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"authguard/internal/control"
)

// Forged is the IP address that a probe claims in every forwarding header. It is from a documentation network (RFC
// 5737), so no client has it.
const Forged = "192.0.2.66"

// Prober announces a probe to the running server and returns what arrived; nil if nothing did.
type Prober interface {
	Expect(ctx context.Context, token string) error
	Seen(ctx context.Context, token string) (*control.Probe, error)
}

// Through sends a probe with forged forwarding headers to a public URL, and reports which IP address the server took it
// for.
func Through(ctx context.Context, target string, server Prober) []Check {
	n := &notes{}
	u, err := url.Parse(target)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		n.check("through", "", problem(true, "Write it as https://login.example.org/login.",
			"%.200q is not a URL that a browser can open.", target))
		return n.checks()
	}
	token := rand.Text()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := server.Expect(ctx, token); err != nil {
		n.check("through", "", problem(true, "Start authguard serve, and run doctor on its machine as its user.",
			"The probe could not be prepared: %s.", why(err)))
		return n.checks()
	}
	own, status, err := probe(ctx, target, token)
	if n.check("through", "", problem(err != nil, "Open the URL in a browser: the probe takes the same path as visitors.",
		"The probe could not be sent to %s: %s.", target, why(err))) {
		seen, err := server.Seen(ctx, token)
		judge(n, verdict{target: u, own: own, status: status, seen: seen, err: err})
	}
	return n.checks()
}

func probe(ctx context.Context, target, token string) (own netip.AddrPort, status string, err error) {
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
		own, _ = netip.ParseAddrPort(i.Conn.LocalAddr().String())
	}})
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return own, "", err
	}
	r.Header.Set(control.ProbeHeader, token)
	r.Header.Set("X-Forwarded-For", Forged)
	r.Header.Set("X-Real-IP", Forged)
	r.Header.Set("Forwarded", "for="+Forged)
	// The path matters, not the certificate: rejecting a mismatch is the browser's task. The probe ignores this machine's
	// proxy variables.
	client := http.Client{
		//nolint:gosec // nothing secret is sent
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(r)
	if err != nil {
		return own, "", err
	}
	return own, response.Status, response.Body.Close()
}

type verdict struct {
	target *url.URL
	own    netip.AddrPort // this machine's end of the connection
	status string
	seen   *control.Probe
	err    error
}

// judge reports what is wrong with what arrived, worst first.
func judge(n *notes, v verdict) {
	if !n.check("through", "",
		problem(v.err != nil, "Check the server's log.", "The server does not return what arrived: %s.", why(v.err)),
		problem(v.seen == nil, "Check that the URL leads to this server. With several nodes another one may have received "+
			"the probe: try again there.",
			"The probe did not arrive: %s answered %s.", v.target, v.status)) {
		return
	}
	s, last := v.seen, ""
	if len(s.Hops) > 0 {
		last = s.Hops[len(s.Hops)-1]
	}
	// The proxy added this machine's address. If the proxy runs on this machine too, that address is trusted, and the
	// server reads the forged one to its left. For other clients it does not.
	mine := address(last) == v.own.Addr().Unmap() && s.Believed
	peer := s.Peer.Addr().Unmap()
	direct := s.Peer.Port() == v.own.Port() && peer == v.own.Addr().Unmap()
	const page = "docs/how-to/client-ip.md has the lines for your proxy."
	n.check("through.address", fmt.Sprintf("The probe arrived as %s; its forged forwarding headers were ignored.",
		came(s, last)),
		problem(!direct && !s.Believed,
			fmt.Sprintf("If it is your proxy, set trusted_proxies: [%s] and reload. Otherwise find out what it is.",
				quoted(peer)),
			"The probe came through %s, which is not in trusted_proxies: all of its clients count as %s.", peer, peer),
		problem(!direct && last == "", "Let the proxy send "+cmp.Or(s.Header, "X-Forwarded-For")+
			" with the client's address: "+page,
			"The proxy %s does not forward the client's IP address: all clients count as %s.", peer, s.Address),
		problem(!direct && (address(last).String() == Forged || s.Address.String() == Forged && !mine),
			"Let the proxy set "+s.Header+" itself instead of forwarding the client's: "+page,
			"The probe counted as %s, an IP address that it forged: %s forwards the client's own %s, so every client can "+
				"choose its IP address.", Forged, peer, s.Header),
		advice(direct && s.Believed, "Give the URL that visitors use.",
			"The probe came directly from this machine (%s), which is in trusted_proxies, so it does not show how visitors "+
				"arrive.", peer))
	n.check("through.tls", "", advice(v.target.Scheme == "https" && !s.Secure,
		"Let the proxy set X-Forwarded-Proto to https, or set secure_cookies: always.",
		"The probe came over HTTPS, but the server does not know it, so its cookies are not limited to HTTPS."))
	n.check("through.host", "", advice(!strings.EqualFold(s.Host, v.target.Host) && !sameHost(s.Host, v.target),
		"Let the proxy forward the Host header, or set origin.",
		"The probe was sent to %s and arrived for %.100s, so forms are rejected as cross-site.", v.target.Host, s.Host))
}

// came returns the IP address that the probe was taken for. On the proxy's own machine that is not the decided address,
// but it would be for other clients.
func came(s *control.Probe, last string) string {
	if s.Address.String() == Forged {
		return last
	}
	return s.Address.String()
}

func address(hop string) netip.Addr {
	if host, _, err := net.SplitHostPort(hop); err == nil {
		hop = host
	}
	a, _ := netip.ParseAddr(strings.Trim(hop, "[]"))
	return a.Unmap()
}

func sameHost(host string, u *url.URL) bool {
	name, port, err := net.SplitHostPort(host)
	return err == nil && strings.EqualFold(name, u.Hostname()) && (u.Scheme == "https" && port == "443" ||
		u.Scheme == "http" && port == "80")
}

func quoted(a netip.Addr) string {
	if a.Is6() {
		return `"` + a.String() + `"`
	}
	return a.String()
}
