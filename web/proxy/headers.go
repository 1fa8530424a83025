package proxy

import (
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"

	"authguard/web/client"
)

// rewrite builds the app's request: the client's, without its claims about its identity, and with what the proxy knows.
func (a *app) rewrite(pr *httputil.ProxyRequest) {
	v := visitOf(pr.In.Context())
	pr.SetURL(a.Upstream)
	pr.Out.Host = pr.In.Host
	pr.Out.URL.RawQuery = pr.In.URL.RawQuery
	withoutClaims(pr.Out.Header)
	withoutOurs(pr.Out.Header)
	v.unsealCookies(pr.Out.Header)
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
	// net/http asks the client for the body itself; apps differ in how they treat Expect.
	pr.Out.Header.Del("Expect")
	// An app that ignores the body of a request takes it for the next request on the connection (CL.0): allow no next one.
	pr.Out.Close = pr.In.ContentLength != 0
	pr.Out.Trailer = nil // apps that merge trailers into the headers would trust them
	if v.in == nil {
		v.in = pr.In
	}
	if v.script = v.scripts(pr.In); v.script {
		askPlain(pr.Out.Header)
	}
	if v.route == nil {
		return
	}
	for name := range pr.Out.Header {
		if slices.Contains(overrides, name) {
			delete(pr.Out.Header, name)
		}
	}
	v.comesFrom(pr)
	keepCookies(pr.Out.Header, func(part string) bool { return !v.route.EchoesText(part) })
	if v.route.NeedsBody() {
		pr.Out.Header.Del("Accept-Encoding") // a compressed response cannot be judged
	}
}

// mayUpgrade reports whether the connection may become a WebSocket. h2c would carry HTTP past the guard, and so would
// an app that answers a login form with 101.
func (v *visit) mayUpgrade(out *http.Request) bool {
	return strings.EqualFold(out.Header.Get("Upgrade"), "websocket") && out.Method == http.MethodGet &&
		out.ContentLength == 0 && (v.route == nil || v.route.Basic())
}

// comesFrom prevents a client from choosing the target of a failed login. Express, Rails and Laravel redirect "back" to
// the Referer (Laravel, without one, to the previous page), which could look like a success. If Location matters, or
// the Referer has the text of a success, it becomes the route's own page. Its site stays, since apps check that.
func (v *visit) comesFrom(pr *httputil.ProxyRequest) {
	echoes := v.route.EchoesText(strings.Join(pr.In.Header["Referer"], " "))
	if !v.route.NeedsLocation() && !echoes {
		return
	}
	pr.Out.Header.Del("Referrer") // Express reads this first
	from, err := url.Parse(pr.In.Referer())
	own := v.route.Page(pr.In.URL) // not as the client spells it
	own.Scheme, own.Host = pr.Out.Header.Get("X-Forwarded-Proto"), pr.In.Host
	switch {
	case err == nil && from.Host != "":
		if len(pr.In.Header["Referer"]) == 1 && !echoes && !v.route.Steered(from, pr.In.URL.EscapedPath()) {
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

// claimsIdentity reports whether the client must not send a header to the app. Such headers name the user, the client's
// address, the requested path, a proxy for the app (CVE-2016-5385), or are meant for authguard. Like nginx it drops
// names with characters other than letters, digits and hyphens.
func claimsIdentity(name string) bool {
	switch {
	case !client.PlainHeader(name):
		return true
	case strings.HasPrefix(name, "Sec-") || strings.HasSuffix(name, "User-Agent") || slices.Contains(notClaims, name):
		return false
	}
	for word := range strings.SplitSeq(name, "-") {
		if word == "Meta" { // chosen by the client, for an object in a store
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

// In canonical form and compared without conversion: there are many, for every request.
var (
	// claimStems mark a header as a claim if any word of its name starts with one.
	claimStems = canonical("cert", "forward", "impersonate", "remote", "shib", "ssl", "tls", "user")
	// claimWords do so as whole words.
	claimWords = canonical(
		"aad", "accel", "appengine", "authelia", "authentik", "authenticated", "authguard", "clientip", "clientcert",
		"consumer", "envoy", "host", "https", "invoke", "middleware", "mtls", "oidc", "original", "osso", "pomerium",
		"principal", "proxy", "proxyuser", "rewrite", "scheme", "script", "sendfile", "sm", "smuser", "socketip",
		"subrequest", "tailscale", "vouch", "webauth",
	)
	// claimEnds do so as the last word.
	claimEnds = canonical("account", "addr", "admin", "assertion", "cn", "creds", "dn", "email", "eppn", "group",
		"groups", "identity", "ip", "login", "mail", "proto", "role", "roles", "sub", "subject", "uid", "verify")
	claimsOf = canonical("x-auth-request-", "x-token-")
	// notClaims are headers of apps' APIs that authenticate their sender.
	notClaims = canonical("x-redmine-switch-user")
	// overrides change the method of a POST.
	overrides = canonical("x-http-method-override", "x-http-method", "x-method-override")
)

func canonical(names ...string) []string {
	for i, name := range names {
		names[i] = http.CanonicalHeaderKey(name)
	}
	return names
}

// withoutOurs removes authguard's cookies and leaves the others as received.
func withoutOurs(h http.Header) {
	if slices.ContainsFunc(h["Cookie"], hasOurs) {
		keepCookies(h, func(part string) bool { return !isOurs(part) })
	}
}

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

func isOurs(part string) bool {
	name, _, _ := strings.Cut(strings.TrimSpace(part), "=")
	return client.Ours(name)
}
