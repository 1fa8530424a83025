package wire

import (
	"net/netip"
	"strings"
)

// Host reports whether a host is a name or an IP address, and perhaps a port: name[:digits]
// or [IPv6][:digits]. Servers cut anything else at different places: nginx takes
// "a.example:1:2" for a.example, net/http for a name of its own.
func Host(host string) bool {
	name, port, hasPort := strings.Cut(host, ":")
	literal := strings.HasPrefix(host, "[")
	if literal {
		inside, rest, ended := strings.Cut(host[1:], "]")
		a, err := netip.ParseAddr(inside)
		if err != nil || !ended || !a.Is6() || a.Zone() != "" || rest != "" && rest[0] != ':' {
			return false
		}
		hasPort, port = rest != "", strings.TrimPrefix(rest, ":")
	}
	if hasPort && (!only(port, digits) || len(port) > len("65535")) {
		return false
	}
	for label := range strings.SplitSeq(strings.TrimSuffix(name, "."), ".") {
		if !literal && !only(label, capitals+smalls+digits+"-_") {
			return false
		}
	}
	return true
}
