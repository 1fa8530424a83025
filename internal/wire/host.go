package wire

import (
	"bytes"
	"net/netip"
)

// Host reports whether a host is a name or an IP address, and perhaps a port: name[:digits]
// or [IPv6][:digits]. Servers cut anything else at different places: nginx takes
// "a.example:1:2" for a.example, net/http for a name of its own.
func Host(host []byte) bool {
	name, port, hasPort := bytes.Cut(host, []byte(":"))
	if bytes.HasPrefix(host, []byte("[")) {
		end := bytes.IndexByte(host, ']')
		if end < 0 {
			return false
		}
		a, err := netip.ParseAddr(string(host[1:end]))
		if err != nil || !a.Is6() || a.Zone() != "" {
			return false
		}
		name, port, hasPort = nil, host[end+1:], end+1 < len(host)
		if hasPort && port[0] != ':' {
			return false
		}
		port = bytes.TrimPrefix(port, []byte(":"))
	}
	if hasPort && (!digits.all(port) || len(port) > len("65535")) {
		return false
	}
	for label := range bytes.SplitSeq(bytes.TrimSuffix(name, []byte(".")), []byte(".")) {
		if name != nil && !labels.all(label) {
			return false
		}
	}
	return true
}
