package doctor

import (
	"context"
	"strings"

	"authguard/internal/config"
)

// settings looks at the configuration itself.
func settings(ctx context.Context, c Config) []Check {
	return lookAt(ctx, c.Within, "config", "", func(ctx context.Context, n *notes) {
		if c.Invalid != nil {
			for _, p := range config.Problems(c.Invalid) {
				n.problem("config", "Mend the setting; `authguard config check` looks again.", "%s", p.Error())
			}
			return
		}
		n.ok("config", "The configuration is good.")
		doors(ctx, c, n)
		admin(ctx, c, n)
	})
}

func doors(ctx context.Context, c Config, n *notes) {
	s := c.Settings
	if c.reachOf(ctx, hostOf(s.Listen)) <= loopback {
		n.ok("listen", "The doors listen on this machine only: %s.", s.Listen)
		return
	}
	secure := s.SecureCookies == config.SecureAlways || s.SecureCookies == config.SecureAuto && strings.HasPrefix(s.Origin, "https://")
	if secure {
		n.ok("listen.cookies", "Cookies are sent over HTTPS only.")
	} else {
		n.advice("listen.cookies", "Put a proxy that speaks HTTPS in front, and set secure_cookies: always.",
			"The doors listen beyond this machine (%s), over plain HTTP: cookies may cross the network unencrypted.", s.Listen)
	}
	if len(s.Proxies) == 0 {
		n.advice("listen.proxies", "If a proxy is in front, name its address in proxies; if none is, put one there for HTTPS.",
			"The doors listen beyond this machine (%s) and no proxy is named: behind one, everybody would have the proxy's address.", s.Listen)
	} else {
		n.ok("listen.proxies", "Proxies are named.")
	}
}

func admin(ctx context.Context, c Config, n *notes) {
	listen := c.Settings.Admin.Listen
	switch {
	case listen == "":
		n.ok("admin.listen", "The administrator's pages are off.")
	case c.reachOf(ctx, hostOf(listen)) <= loopback:
		n.ok("admin.listen", "The administrator's pages are for this machine only: %s.", listen)
	default:
		n.advice("admin.listen", "Set admin.listen: 127.0.0.1:8081 and come through ssh -L 8081:127.0.0.1:8081, or keep it behind a firewall and a proxy that speaks HTTPS.",
			"The administrator's pages, metrics and health listen beyond this machine (%s), over plain HTTP.", listen)
	}
}
