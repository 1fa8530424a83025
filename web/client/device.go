package client

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"authguard/guard"
)

// HostOnly is the prefix of Secure cookies for one host. Browsers accept them from that host over TLS only (RFC
// 6265bis, section 4.1.3.2). Neither a subdomain nor an attacker on a plain connection can plant one.
const HostOnly = "__Host-"

// SecureOnly is the prefix of Secure cookies for several hosts.
const SecureOnly = "__Secure-"

// deviceCookie is the prefix of device cookies. The account's tag follows, since several users may share a browser.
const deviceCookie = "authguard_device_"

// mostExpired is how many device cookies one response expires. 90 made a response of 4,540 bytes, more than nginx's
// default buffers (4,096 bytes), so it became 502.
const mostExpired = 5

// Devices returns the request's device cookies, of all accounts.
func Devices(r *http.Request) (all []string) {
	for _, cookie := range r.Cookies() {
		if isDevice(cookie.Name) {
			all = append(all, cookie.Value)
		}
	}
	return all
}

// isDevice accepts both names: a cookie from before the site used TLS is still valid, since it is signed.
func isDevice(name string) bool {
	return strings.HasPrefix(strings.TrimPrefix(name, HostOnly), deviceCookie)
}

// SetDevice sets the device cookie for an account. Beyond guard.MaxDevices it expires the oldest, which browsers send
// first (RFC 6265, section 5.4). One response expires at most mostExpired: a sibling host can plant any number.
func SetDevice(h http.Header, r *http.Request, tag, value string, ttl time.Duration, secure bool) {
	if value == "" {
		return
	}
	own, others := deviceCookie+tag, []string(nil)
	if secure {
		own = HostOnly + own
	}
	for _, cookie := range r.Cookies() {
		if isDevice(cookie.Name) && cookie.Name != own && !slices.Contains(others, cookie.Name) {
			others = append(others, cookie.Name)
		}
	}
	set := func(c http.Cookie) { h.Add("Set-Cookie", c.String()) }
	for _, name := range others[:min(mostExpired, max(0, len(others)+1-guard.MaxDevices))] {
		set(http.Cookie{Name: name, Path: "/", MaxAge: -1, Secure: strings.HasPrefix(name, HostOnly)})
	}
	set(http.Cookie{
		Name: own, Value: value, Path: "/", MaxAge: int(ttl.Seconds()),
		HttpOnly: true, Secure: secure, SameSite: http.SameSiteLaxMode,
	})
}

// Ours reports whether a cookie is authguard's, which the app behind the proxy must not see.
func Ours(cookie string) bool {
	return strings.HasPrefix(strings.TrimPrefix(strings.TrimPrefix(cookie, SecureOnly), HostOnly), "authguard_")
}
