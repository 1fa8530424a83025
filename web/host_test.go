package web

import (
	"strings"
	"testing"
)

func TestAHostIsANameOrAnAddressAndPerhapsAPort(t *testing.T) {
	t.Parallel()
	good := `a a.example.org A.example.org. a_b-c.example:8080 xn--bcher-kva.example 127.0.0.1:80 a.:80
		[::1] [2001:db8::1]:65535`
	bad := `. :80 .a a..b a.. a: a:x a:1:2 a:80] a] a:123456 a,b a%62 a~b u@a a/b a? bücher
		::1 [::1 [::1]80 [::1]: [::1]:80] [::1]:8:0 [a] [127.0.0.1] [fe80::1%25eth0] []`
	for _, host := range strings.Fields(good) {
		if !validHost(host) {
			t.Errorf("%q is refused", host)
		}
	}
	for _, host := range append(strings.Fields(bad), "", "a b") {
		if validHost(host) {
			t.Errorf("%q passes", host)
		}
	}
}
