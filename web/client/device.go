package client

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"authguard/guard"
)

// HostOnly begins the names of cookies that are for TLS: a browser takes them from
// this very host alone, so that no subdomain and nobody on a plain connection can
// plant one (RFC 6265bis, section 4.1.3.2).
const HostOnly = "__Host-"

// SecureOnly begins the names of cookies that are for TLS and for several hosts.
const SecureOnly = "__Secure-"

// deviceCookie begins the names of device cookies; the account's tag follows,
// since several people may use one browser.
const deviceCookie = "authguard_device_"

// mostExpired is how many device cookies one answer expires: 90 made an answer of 4,540
// bytes, which nginx with its default buffers (4,096) turned into 502.
const mostExpired = 5

// Devices are the device cookies of the request, of all accounts.
func Devices(r *http.Request) (all []string) {
	for _, cookie := range r.Cookies() {
		if isDevice(cookie.Name) {
			all = append(all, cookie.Value)
		}
	}
	return all
}

// isDevice knows both names: that of before TLS still vouches, since it is signed.
func isDevice(name string) bool {
	return strings.HasPrefix(strings.TrimPrefix(name, HostOnly), deviceCookie)
}

// SetDevice gives the browser its device cookie for an account, in the headers of an
// answer, and, beyond guard.MaxDevices, expires those that it has had for longest: it
// sends them first (RFC 6265, section 5.4). At most mostExpired are in one answer, since a
// sibling host can plant any number.
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

// Ours reports whether a cookie is one of ours, and no business of an app behind us.
func Ours(cookie string) bool {
	return strings.HasPrefix(strings.TrimPrefix(strings.TrimPrefix(cookie, SecureOnly), HostOnly), "authguard_")
}
