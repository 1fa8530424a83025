package doctor

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"authguard/guard"
	"authguard/internal/config"
)

func settings(ctx context.Context, c Config, n *notes) {
	if c.Invalid != nil {
		for _, p := range config.Problems(c.Invalid) {
			n.check("config", "", problem(true, "Fix the setting, and run authguard config validate.", "%s", p.Error()))
		}
		return
	}
	n.ok("config", "The configuration is valid.")
	enforced(c, n)
	mail(c, n)
	doors(ctx, c, n)
	if c.Settings.Admin.Listen == "" {
		n.ok("admin.listen", "The admin pages are disabled.")
		return
	}
	listen := c.Settings.Admin.Listen
	n.check("admin.listen", fmt.Sprintf("The admin listener accepts connections from this machine only: %s.", listen),
		advice(
			c.reachOf(ctx, hostOf(listen)) > loopback,
			"Set admin.listen: 127.0.0.1:8081 and connect with ssh -L 8081:127.0.0.1:8081, or use a firewall and an HTTPS proxy.",
			"The admin listener (pages, metrics, health) accepts plain HTTP from other machines (%s).",
			listen,
		))
}

// enforced reports monitoring mode: it is easily forgotten.
func enforced(c Config, n *notes) {
	var watched []string
	if c.Settings.Monitor {
		watched = append(watched, config.DefaultRealm)
	}
	for _, r := range c.Settings.Realms {
		if r.Monitor {
			watched = append(watched, r.Name)
		}
	}
	n.check("monitor", "All limits are enforced.",
		advice(len(watched) > 0, "After a week of data run authguard limit suggest, then set monitor: false or run "+
			"authguard limit enforce all --reason TEXT.",
			"Monitoring mode is on (monitor: true) in: %s. Limits, lists, events and CAPTCHA mode are logged and reported, "+
				"not enforced.", strings.Join(watched, ", ")))
}

// mail says what a mail server would change for owners at unknown clients (R28, R32).
func mail(c Config, n *notes) {
	if c.Settings.Mail.Server != "" {
		n.ok("mail", "During an attack and after password spraying, owners get verification codes by email (mail.server).")
		return
	}
	n.ok("mail", "No mail server (mail.server): during an attack, owners at unknown clients solve a challenge, which attackers "+
		"can buy. With a sprayed password, at most %d of them sign in per hour, and others need an administrator's code. "+
		"With a mail server, they get a code by email.", guard.SprayedPerHour)
}

func doors(ctx context.Context, c Config, n *notes) {
	s := c.Settings
	if c.reachOf(ctx, hostOf(s.Listen)) <= loopback {
		n.ok("listen", "The listeners accept connections from this machine only: %s.", s.Listen)
		return
	}
	secure := s.SecureCookies == config.SecureAlways || s.SecureCookies == config.SecureAuto &&
		strings.HasPrefix(s.Origin, "https://")
	n.check("listen.cookies", "Cookies are sent over HTTPS only.",
		advice(!secure, "Put an HTTPS proxy in front, and set secure_cookies: always.",
			"The listeners accept plain HTTP from other machines (%s), so cookies may cross the network unencrypted.", s.Listen))
	n.check("listen.proxies", "trusted_proxies is set.",
		advice(len(s.TrustedProxies)+len(s.ProxyProtocolFrom) == 0,
			"If a proxy is in front, add its address to trusted_proxies. Otherwise put one there for HTTPS.",
			"The listeners accept connections from other machines (%s), and trusted_proxies is empty. Behind a proxy, all "+
				"clients would share its IP address.", s.Listen))
}

// reach is how widely an address is reachable.
type reach uint8

const (
	unknown  reach = iota // the name does not resolve
	loopback              // this machine
	private               // a private network
	public                // intermediate networks can eavesdrop
)

// reachOf returns the widest reach among a host's addresses.
func (c Config) reachOf(ctx context.Context, host string) reach {
	if host == "" {
		return public
	}
	if strings.HasPrefix(host, "/") { // a Unix socket
		return loopback
	}
	var addresses []netip.Addr
	if a, err := netip.ParseAddr(host); err == nil {
		addresses = []netip.Addr{a}
	} else if addresses, err = c.Lookup(ctx, host); err != nil {
		return unknown
	}
	widest := unknown
	for _, a := range addresses {
		switch a = a.Unmap(); {
		case a.IsLoopback():
			widest = max(widest, loopback)
		case a.IsPrivate(), a.IsLinkLocalUnicast():
			widest = max(widest, private)
		default:
			return public
		}
	}
	return widest
}

// widestReach is the widest reach among several host:port addresses.
func (c Config) widestReach(ctx context.Context, addresses []string) (widest reach) {
	for _, address := range addresses {
		widest = max(widest, c.reachOf(ctx, hostOf(address)))
	}
	return widest
}

func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return host
}
