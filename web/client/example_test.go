package client_test

import (
	"fmt"
	"net/http/httptest"
	"net/netip"

	"authguard/web/client"
)

// Only a proxy that was named is believed, and of what it says the last entry.
func ExampleFinder() {
	var f client.Finder
	f.Set([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, client.XForwardedFor)
	r := httptest.NewRequest("POST", "/login", nil)
	r.Header.Set("X-Forwarded-For", "1.2.3.4, 203.0.113.9")
	for _, peer := range []string{"10.0.0.1:4711", "192.0.2.7:4711"} {
		r.RemoteAddr = peer
		fmt.Println(f.Client(r).Address)
	}
	// Output:
	// 203.0.113.9
	// 192.0.2.7
}
