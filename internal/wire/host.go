package wire

import (
	"net/netip"
	"strings"
)

// Host reports whether a host is name[:digits] or [IPv6][:digits]. Servers parse other forms differently: for nginx
// "a.example:1:2" is a.example, for net/http it is a different name.
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
