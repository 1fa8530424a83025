package proxy

import (
	"crypto/hmac"
	"encoding/base64"
	"net/http"
	"strings"

	"authguard/internal/route"
	"authguard/internal/seal"
)

// Some apps store the password in a cookie and check it at each request, such as DokuWiki, whose encryption anyone with
// an account can forge. Such a cookie would be a guess that no route reads. So the proxy adds a MAC to these cookies
// (route.Spec.SealedCookies) when the app sets them, and the app receives none without a valid MAC.

// sealCookies adds the MACs to the cookies of a response.
func (v *visit) sealCookies(h http.Header) {
	for i, line := range h["Set-Cookie"] {
		pair, _, _ := strings.Cut(line, ";")
		name, value, _ := strings.Cut(pair, "=")
		if value != "" && v.app.Routes.Seals(route.CookieName(name)) {
			h["Set-Cookie"][i] = pair + "." + v.proxy.cookieMAC(pair) + line[len(pair):]
		}
	}
}

// unsealCookies removes the MACs from the cookies of a request, and every cookie that needs a MAC and has none.
func (v *visit) unsealCookies(h http.Header) {
	if !v.app.Routes.SealsCookies() {
		return
	}
	keepCookies(h, func(part string) bool {
		at := strings.LastIndexByte(part, '.')
		return !v.app.Routes.Seals(cookieNames(part)...) ||
			at > 0 && hmac.Equal([]byte(part[at+1:]), []byte(v.proxy.cookieMAC(part[:at])))
	})
	for i, line := range h["Cookie"] {
		parts := strings.Split(line, ";")
		for k, part := range parts {
			if v.app.Routes.Seals(cookieNames(part)...) {
				parts[k] = part[:strings.LastIndexByte(part, '.')]
			}
		}
		h["Cookie"][i] = strings.Join(parts, ";")
	}
}

// cookieNames returns all names that apps may find in a part of a Cookie header, each as route.CookieName does. Some
// split it at commas or white space, and PHP finds spaces in names.
func cookieNames(part string) (all []string) {
	name, _, _ := strings.Cut(part, "=")
	for _, piece := range append(strings.FieldsFunc(part, isSeparator), name) {
		name, _, _ := strings.Cut(piece, "=")
		all = append(all, route.CookieName(name))
	}
	return all
}

// cookieMAC returns the MAC of a cookie's name and value.
func (p *Proxy) cookieMAC(pair string) string {
	return base64.RawURLEncoding.EncodeToString(seal.MAC(p.Secret, "authguard cookie\x00", strings.TrimSpace(pair))[:16])
}
