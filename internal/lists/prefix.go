package lists

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// ErrPrefix says that a text is neither an address nor a range.
var ErrPrefix = errors.New("lists: not an address or range")

// ParsePrefix reads an address (one host: /32 or /128) or a range in CIDR form.
// Host bits are cleared, and an IPv4-mapped IPv6 address is the IPv4 address. A
// zone is refused: it means something on one machine only. The error is
// ErrPrefix.
func ParsePrefix(text string) (netip.Prefix, error) {
	text = strings.TrimSpace(text)
	prefix, err := netip.ParsePrefix(text)
	if !strings.Contains(text, "/") {
		var addr netip.Addr
		if addr, err = netip.ParseAddr(text); err == nil && addr.Zone() == "" {
			prefix = netip.PrefixFrom(addr, addr.BitLen())
		}
	}
	if err != nil || !prefix.IsValid() {
		return netip.Prefix{}, fmt.Errorf("%w: %.60q; write 192.0.2.7, 192.0.2.0/24 or 2001:db8::/48", ErrPrefix, text)
	}
	return unmap(prefix).Masked(), nil
}

// unmap leaves a range alone that is wider than ::ffff:0:0/96: it does not hold
// IPv4 addresses only.
func unmap(prefix netip.Prefix) netip.Prefix {
	if prefix.Addr().Is4In6() && prefix.Bits() >= 96 {
		return netip.PrefixFrom(prefix.Addr().Unmap(), prefix.Bits()-96)
	}
	return prefix
}
