package web_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/labstack/echo/v4"

	"authguard/web"
	"authguard/web/client"
)

// A page whose name suddenly means 127.0.0.1 (DNS rebinding) sends its own name
// as Host. A proxy that is believed about addresses must not change that.
func TestR9NoProxyLiftsTheHostCheck(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		peer, host string
		hosts      []string
		want       int
	}{
		{"127.0.0.1", "127.0.0.1:8081", nil, 200},
		{"127.0.0.1", "localhost:8081", nil, 200},
		{"::1", "[::1]:8081", nil, 200},
		{"127.0.0.1", "evil.example", nil, 421},
		{"127.0.0.1", "evil.example:8081", nil, 421},
		{"127.0.0.1", "", nil, 421},
		{"192.0.2.1", "node1.internal:8081", nil, 200}, // not on loopback, and no hosts are named
		{"127.0.0.1", "admin.example.org", []string{"admin.example.org"}, 200},
		{"127.0.0.1", "Admin.Example.org.:443", []string{"admin.example.org"}, 200},
		{"127.0.0.1", "evil.example", []string{"admin.example.org"}, 421},
		{"192.0.2.1", "evil.example", []string{"admin.example.org"}, 421},
		{"192.0.2.1", "192.0.2.9:8081", []string{"admin.example.org"}, 200},
	} {
		var e web.Edge
		e.Set([]netip.Prefix{netip.MustParsePrefix("127.0.0.1/32"), netip.MustParsePrefix("::1/128")}, client.XForwardedFor)
		e.SetHosts(one.hosts)
		s := echo.New()
		s.Use(e.Local)
		s.GET("/", func(c echo.Context) error { return c.NoContent(http.StatusOK) })
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host, r.RemoteAddr = one.host, netip.AddrPortFrom(netip.MustParseAddr(one.peer), 1234).String()
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != one.want {
			t.Errorf("%s calls it %q, with the hosts %v: %d, want %d", one.peer, one.host, one.hosts, w.Code, one.want)
		}
	}
}
