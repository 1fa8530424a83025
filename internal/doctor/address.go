package doctor

import (
	"context"
	"net"
	"net/netip"
	"strings"
)

// A reach is from where an address can be reached.
type reach uint8

const (
	unknown  reach = iota // a name that nobody knows
	loopback              // this machine
	private               // a network of one's own
	public                // whoever is on the way can listen
)

// reachOf is the widest of a host's addresses.
func (c Config) reachOf(ctx context.Context, host string) reach {
	if host == "" {
		return public
	}
	if strings.HasPrefix(host, "/") { // a unix socket
		return loopback
	}
	addresses, err := c.addresses(ctx, host)
	if err != nil {
		return unknown
	}
	widest := unknown
	for _, a := range addresses {
		widest = max(widest, reachOfAddress(a))
	}
	return widest
}

func (c Config) addresses(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	return c.Lookup(ctx, host)
}

func reachOfAddress(a netip.Addr) reach {
	switch a = a.Unmap(); {
	case a.IsLoopback():
		return loopback
	case a.IsPrivate(), a.IsLinkLocalUnicast():
		return private
	default:
		return public
	}
}

// hostOf is the host of host:port.
func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return host
}
