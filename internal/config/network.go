package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

var hostPattern = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$`)

// endpoint is a host and port to listen on.
func endpoint(at *string) value { return text(at, notEmpty, oneLine, listenable) }

// optionalEndpoint is an endpoint, or empty for none.
func optionalEndpoint(at *string) value {
	return text(at, oneLine, func(s string) error {
		if s == "" {
			return nil
		}
		return listenable(s)
	})
}

// endpoints is a list of hosts and ports to connect to.
func endpoints(at *[]string) value {
	return list[string]{at: at, parts: words, item: func(at *string) value {
		return text(at, notEmpty, oneLine, func(s string) error {
			host, port, err := net.SplitHostPort(s)
			if err != nil || host == "" || port == "0" {
				return fmt.Errorf("must be a host and a port such as redis.internal:6379, not %s", quote(s))
			}
			return listenable(s)
		})
	}}
}

// postgres refuses what is no DSN of PostgreSQL, without repeating it.
func postgres(dsn string) error {
	if dsn == "" {
		return nil
	}
	u, err := url.Parse(dsn)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" || u.Host == "" && u.Query().Get("host") == "" {
		return errors.New("must be a URL such as postgres://user:password@host:5432/authguard; leave it out for SQLite in the data folder")
	}
	return nil
}

// noBraces refuses what would decide a key's slot in a Cluster.
func noBraces(s string) error {
	if strings.ContainsAny(s, "{}") {
		return errors.New("must not contain a brace")
	}
	return nil
}

func listenable(s string) error {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return fmt.Errorf("must be a host and a port such as 127.0.0.1:8080, [::1]:8080 or :8080, not %s", quote(s))
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("must end in a port from 0 to 65535, not %s", quote(port))
	}
	if _, err := netip.ParseAddr(host); err != nil && host != "" && !mayBeName(host) {
		return fmt.Errorf("must begin with an IP address or a host name, not %s", quote(host))
	}
	return nil
}

// mayBeName tells host names from mistyped IPv4 addresses.
func mayBeName(host string) bool {
	return hostPattern.MatchString(host) && strings.Trim(host, "0123456789.") != ""
}

// baseURL is where browsers find the service, or empty.
func baseURL(at *string) value {
	return text(at, oneLine, func(s string) error {
		if s == "" {
			return nil
		}
		u, err := url.Parse(s)
		if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" || u.Scheme+"://"+u.Host != s {
			return fmt.Errorf("must be a scheme and a host such as https://login.example.org, without a path, not %s", quote(s))
		}
		return nil
	})
}

// network is a CIDR, or an IP address for a network of one.
func network(at *netip.Prefix) value {
	return scalar[netip.Prefix]{at: at, want: "an IP address or a network such as 10.0.0.0/8",
		parse: parseNetwork, format: netip.Prefix.String, text: true}
}

func parseNetwork(s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	switch {
	case err != nil:
		return p, fmt.Errorf("must be an IP address or a network such as 10.0.0.0/8, not %s", quote(s))
	case p.Addr().Is4In6():
		return p, errors.New("must be written as an IPv4 network, such as 10.0.0.0/8")
	case p.Bits() == 0:
		return p, errors.New("would believe everybody's forwarding header (R9): name the proxies themselves")
	case p != p.Masked():
		return p, fmt.Errorf("has bits beyond its length: write %s or %s", p.Masked(), p.Addr())
	default:
		return p, nil
	}
}

// networks is a list of them.
func networks(at *[]netip.Prefix) value {
	return list[netip.Prefix]{at: at, item: network, parts: words}
}

// words splits a variable at commas and white space.
func words(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(", \t\r\n", r) })
}
