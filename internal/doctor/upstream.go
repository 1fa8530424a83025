package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

	"authguard/internal/config"
	"authguard/internal/learn"
)

type upstream struct {
	*url.URL
	about  string
	origin string
	proxy  config.Proxy
}

// upstreamSubjects lists the apps of all realms, each once.
func (c Config) upstreamSubjects() (all []subject) {
	seen := map[string]bool{}
	add := func(s config.Config, whose string) {
		base := s.Proxy.Upstream
		u, err := url.Parse(base)
		if err != nil || base == "" {
			return
		}
		app := upstream{u, "The app " + u.Redacted() + whose, s.Origin, s.Proxy}
		if probe := fmt.Sprint(base, s.Origin, s.Proxy.Specs()); s.Proxy.Probe && !seen[probe] {
			seen[probe] = true
			all = append(all, subject{"proxy.routes", app.about, app.loose, c.Within})
		}
		if seen[base] {
			return
		}
		seen[base] = true
		within := c.Within * 2 / 5 // 2 s: users wait for it
		all = append(all, subject{"proxy.upstream", app.about, app.answers, within}, subject{"proxy.around", app.about,
			app.around, within})
	}
	add(c.Settings, "")
	for _, r := range c.Settings.Realms {
		add(c.Settings.In(r), " of the realm "+r.Name)
	}
	return all
}

// answers requests the app's base URL the way the proxy does. Any status is fine: the app may only serve its own host
// names.
func (a upstream) answers(ctx context.Context, c Config, n *notes) {
	n.check("proxy.plain", "", advice(a.Scheme == "http" && c.reachOf(ctx, a.Hostname()) == public,
		"Use an https URL in proxy.upstream, or a private network between the two.",
		"is reached without TLS and not on a private network, so passwords are sent unencrypted."))
	status, connected, page, err := a.ask(ctx)
	late := connected && errors.Is(err, context.DeadlineExceeded)
	n.check("proxy.upstream", "answers ("+status+").",
		advice(late, "Check its log for why it is slow: visitors wait as long.",
			"accepts connections, but did not answer a GET within 2 s."),
		problem(err != nil, "Start it, or correct proxy.upstream: from this machine, curl -i "+a.Redacted()+
			" must get an answer.",
			"cannot be reached: %s. Visitors get an error page (502).", why(err)))
	if html := strings.HasPrefix(page.Get("Content-Type"), "text/html"); html && c.Unscripted != nil {
		unscripted := c.Unscripted(a.proxy, page, a.Host)
		n.check("proxy.script", "", advice(unscripted != "", "Allow scripts of 'self' there, or tell users of the page "+
			"/.authguard/solve.", "shows no challenges in its start page, since it gets no script: %s.", unscripted))
	}
}

// loose checks that no route takes a made-up login for a success.
func (a upstream) loose(ctx context.Context, _ Config, n *notes) {
	names, err := learn.Loose(ctx, a.String(), a.origin, a.proxy.Specs())
	if err != nil {
		return // answers reports it
	}
	n.check("proxy.routes", "rejects a made-up login at every route that could be tested.",
		problem(len(names) > 0, "Correct success: authguard proxy detect proposes one.", "takes a login with a made-up "+
			"account and password for a success, so it cannot tell right passwords from wrong ones. Routes: %s.",
			strings.Join(names, ", ")))
}

func (a upstream) ask(ctx context.Context) (status string, connected bool, page http.Header, err error) {
	var dialed atomic.Bool // a dial may end after the request
	transport := &http.Transport{
		DisableKeepAlives: true, ForceAttemptHTTP2: true, DisableCompression: true,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, address)
			dialed.Store(err == nil)
			return conn, err
		},
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, a.String(), nil)
	if err != nil {
		return "", false, nil, err
	}
	r.Header.Set("Accept", "text/html,*/*;q=0.8")
	answer, err := transport.RoundTrip(r)
	if err != nil {
		return "", dialed.Load(), nil, err
	}
	return answer.Status, true, answer.Header, answer.Body.Close()
}

// around checks whether an app meant for this machine only also listens on its other IP addresses. Attackers bypass the
// proxy there.
func (a upstream) around(ctx context.Context, c Config, n *notes) {
	if c.reachOf(ctx, a.Hostname()) != loopback {
		return
	}
	own, err := c.Addresses()
	open := a.open(ctx, c, own)
	n.check("proxy.around", "does not listen on other addresses of this machine.",
		advice(err != nil, "Try its port on this machine's other addresses.",
			"may listen on other addresses of this machine, which could not be checked: %v.", err),
		advice(len(open) > 0, "Let the app listen on 127.0.0.1 only, or close that port with a firewall. If another "+
			"program listens there, no action is needed.",
			"also listens on %s, where attackers can bypass the proxy.", strings.Join(open, ", ")))
}

// open returns this machine's other IP addresses that accept connections on the app's port.
func (a upstream) open(ctx context.Context, c Config, own []netip.Addr) (open []string) {
	port := a.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[a.Scheme]
	}
	for _, one := range own {
		at := net.JoinHostPort(one.Unmap().String(), port)
		if c.ours(at) {
			continue
		}
		if conn, err := new(net.Dialer).DialContext(ctx, "tcp", at); err == nil {
			_ = conn.Close()
			open = append(open, at)
		}
	}
	return open
}

// ours reports whether the server itself may listen at an address: it can use the app's port on addresses that the app
// does not.
func (c Config) ours(at string) bool {
	_, port, _ := net.SplitHostPort(at)
	return slices.ContainsFunc([]string{c.Settings.Listen, c.Settings.Admin.Listen}, func(listen string) bool {
		host, own, err := net.SplitHostPort(listen)
		a, _ := netip.ParseAddr(host)
		return err == nil && own == port && (host == "" || a.IsUnspecified() || listen == at)
	})
}

// ownAddresses returns this machine's IP addresses, without loopback and link-local ones.
func ownAddresses() (own []netip.Addr, err error) {
	all, err := net.InterfaceAddrs()
	for _, one := range all {
		p, err := netip.ParsePrefix(one.String())
		if a := p.Addr(); err == nil && !a.IsLoopback() && !a.IsLinkLocalUnicast() {
			own = append(own, a)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("listing them: %w", err)
	}
	return own, nil
}
