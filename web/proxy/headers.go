package proxy

import (
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"

	"authguard/web/client"
)

// rewrite makes the request that the app gets: the client's, without what it says
// about who it is, and with what we know.
func (a *app) rewrite(pr *httputil.ProxyRequest) {
	v := visitOf(pr.In.Context())
	pr.SetURL(a.Upstream)
	pr.Out.Host = pr.In.Host
	pr.Out.URL.RawQuery = pr.In.URL.RawQuery
	withoutClaims(pr.Out.Header)
	withoutOurs(pr.Out.Header)
	address := v.client.Address.String()
	pr.Out.Header.Set("X-Forwarded-For", address)
	pr.Out.Header.Set("X-Real-Ip", address)
	pr.Out.Header.Set("X-Forwarded-Host", pr.In.Host)
	pr.Out.Header.Set("X-Forwarded-Proto", "http")
	if v.client.Secure {
		pr.Out.Header.Set("X-Forwarded-Proto", "https")
	}
	if !v.mayUpgrade(pr.Out) {
		pr.Out.Header.Del("Upgrade")
		pr.Out.Header.Del("Connection")
	}
	// The server has asked for the body, and sends it along; servers differ in what they
	// do where a body is expected.
	pr.Out.Header.Del("Expect")
	// An app that does not read the body of a request takes it for the beginning of the
	// next one on the connection (CL.0): so there is no next one.
	pr.Out.Close = pr.In.ContentLength != 0
	pr.Out.Trailer = nil // apps that merge trailers with the headers would take them for ours
	if v.route == nil {
		return
	}
	for name := range pr.Out.Header {
		if slices.Contains(overrides, name) {
			delete(pr.Out.Header, name)
		}
	}
	v.comesFrom(pr)
	if v.route.NeedsBody() {
		pr.Out.Header.Del("Accept-Encoding") // what is compressed cannot be judged
	}
}

// mayUpgrade reports whether the connection may become a WebSocket's: h2c would be HTTP
// that is not looked at, and so would be what an app reads behind a form that it answers
// with 101.
func (v *visit) mayUpgrade(out *http.Request) bool {
	return strings.EqualFold(out.Header.Get("Upgrade"), "websocket") && out.Method == http.MethodGet &&
		out.ContentLength == 0 && (v.route == nil || v.route.Basic())
}

// comesFrom takes care that nobody chooses where a wrong password leads: Express, Rails
// and Laravel send "back" to the Referer (Laravel, without one, to the page before), and
// that could be where a right one leads. If it matters, whoever logs in comes from the
// route's own page. Which site they come from stays, since apps look at that.
func (v *visit) comesFrom(pr *httputil.ProxyRequest) {
	if !v.route.NeedsLocation() {
		return
	}
	pr.Out.Header.Del("Referrer") // Express reads this first
	from, err := url.Parse(pr.In.Referer())
	own := v.route.Page(pr.In.URL) // not as the client spells it
	own.Scheme, own.Host = pr.Out.Header.Get("X-Forwarded-Proto"), pr.In.Host
	switch {
	case err == nil && from.Host != "":
		if len(pr.In.Header["Referer"]) == 1 && !v.route.Steered(from, pr.In.URL.EscapedPath()) {
			return
		}
		own.Scheme, own.Host = from.Scheme, from.Host
	case http.NewCrossOriginProtection().Check(pr.In) != nil:
		own.Host = "other-site.invalid"
	}
	pr.Out.Header.Set("Referer", own.String())
}

func withoutClaims(h http.Header) {
	for name := range h {
		if claimsIdentity(name) {
			delete(h, name)
		}
	}
}

// claimsIdentity reports whether a header says who or where the client is, which
// path it asked for, or through which proxy the app is to go (CVE-2016-5385), or is
// for us: none of that is the client's to say to the app. As behind nginx, a name with
// other signs than letters, digits and hyphens does not go on.
func claimsIdentity(name string) bool {
	switch {
	case !client.PlainHeader(name):
		return true
	case strings.HasPrefix(name, "Sec-") || strings.HasSuffix(name, "User-Agent") || slices.Contains(notClaims, name):
		return false
	}
	for word := range strings.SplitSeq(name, "-") {
		if word == "Meta" { // what a client names as it likes, for an object in a store
			return false
		} else if slices.Contains(claimWords, word) || slices.ContainsFunc(claimStems, func(stem string) bool {
			return strings.HasPrefix(word, stem)
		}) {
			return true
		}
	}
	return slices.Contains(claimEnds, name[strings.LastIndex(name, "-")+1:]) ||
		slices.ContainsFunc(claimsOf, func(p string) bool { return strings.HasPrefix(name, p) })
}

// The names are as net/http has them, and are compared as they stand: there are many,
// in every request.
var (
	// claimStems begin words that make a claim of a header, wherever they stand in its name.
	claimStems = canonical("cert", "forward", "impersonate", "remote", "shib", "ssl", "tls", "user")
	// claimWords do so as whole words.
	claimWords = canonical(
		"aad", "accel", "appengine", "authelia", "authentik", "authenticated", "authguard", "clientip", "clientcert",
		"consumer", "envoy", "host", "https", "invoke", "middleware", "mtls", "oidc", "original", "osso", "pomerium",
		"principal", "proxy", "proxyuser", "rewrite", "scheme", "script", "sendfile", "sm", "smuser", "socketip",
		"subrequest", "tailscale", "vouch", "webauth",
	)
	// claimEnds do so at its end.
	claimEnds = canonical("account", "addr", "admin", "assertion", "cn", "creds", "dn", "email", "eppn", "group",
		"groups", "identity", "ip", "login", "mail", "proto", "role", "roles", "sub", "subject", "uid", "verify")
	claimsOf = canonical("x-auth-request-", "x-token-")
	// notClaims are read by the APIs of apps that check who sends them.
	notClaims = canonical("x-redmine-switch-user")
	// overrides say that a POST is something else.
	overrides = canonical("x-http-method-override", "x-http-method", "x-method-override")
)

func canonical(names ...string) []string {
	for i, name := range names {
		names[i] = http.CanonicalHeaderKey(name)
	}
	return names
}

// withoutOurs takes our own cookies out, and leaves the others as they were sent.
func withoutOurs(h http.Header) {
	if slices.ContainsFunc(h["Cookie"], hasOurs) {
		keepCookies(h, func(part string) bool { return !isOurs(part) })
	}
}

// keepCookies leaves those parts of the Cookie headers that keep is true for, as they were sent.
func keepCookies(h http.Header, keep func(part string) bool) {
	var kept []string
	for _, line := range h["Cookie"] {
		parts := slices.DeleteFunc(strings.Split(line, ";"), func(part string) bool { return !keep(part) })
		if rest := strings.TrimSpace(strings.Join(parts, ";")); rest != "" {
			kept = append(kept, rest)
		}
	}
	if len(kept) == 0 {
		h.Del("Cookie")
		return
	}
	h["Cookie"] = kept
}

func hasOurs(line string) bool {
	for part := range strings.SplitSeq(line, ";") {
		if isOurs(part) {
			return true
		}
	}
	return false
}

// isOurs is about one part of a Cookie header.
func isOurs(part string) bool {
	name, _, _ := strings.Cut(strings.TrimSpace(part), "=")
	return client.Ours(name)
}
