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
	for name := range pr.Out.Header {
		if claimsIdentity(name) {
			delete(pr.Out.Header, name)
		}
	}
	withoutOurs(pr.Out.Header)
	address := v.client.Address.String()
	pr.Out.Header.Set("X-Forwarded-For", address)
	pr.Out.Header.Set("X-Real-Ip", address)
	pr.Out.Header.Set("X-Forwarded-Host", pr.In.Host)
	pr.Out.Header.Set("X-Forwarded-Proto", "http")
	if v.client.Secure {
		pr.Out.Header.Set("X-Forwarded-Proto", "https")
	}
	if !strings.EqualFold(pr.Out.Header.Get("Upgrade"), "websocket") { // h2c would be HTTP that nobody looks at
		pr.Out.Header.Del("Upgrade")
		pr.Out.Header.Del("Connection")
	}
	// The server has asked for the body, and sends it along; servers differ in what they
	// do where a body is expected.
	pr.Out.Header.Del("Expect")
	// An app that does not read the body of a request would take it for the next one
	// on the connection (CL.0): so there is none, unless the body cannot be one.
	pr.Out.Close = pr.In.ContentLength != 0 && !v.sent.oneWord(pr.In.ContentLength)
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
	own := url.URL{Scheme: pr.Out.Header.Get("X-Forwarded-Proto"), Host: pr.In.Host, Path: pr.In.URL.Path, RawPath: pr.In.URL.RawPath}
	switch {
	case err == nil && from.Host != "":
		if len(pr.In.Header["Referer"]) == 1 && !v.route.Steered(from.RequestURI(), own.RequestURI()) {
			return
		}
		own.Scheme, own.Host = from.Scheme, from.Host
	case http.NewCrossOriginProtection().Check(pr.In) != nil:
		own.Host = "other-site.invalid"
	}
	pr.Out.Header.Set("Referer", own.String())
}

// claimsIdentity reports whether a header says who or where the client is, which
// path it asked for, or through which proxy the app is to go (CVE-2016-5385), or is
// for us: none of that is the client's to say to the app. No header with an
// underscore goes on, as behind nginx: gunicorn takes SCRIPT_NAME for part of the
// path.
func claimsIdentity(name string) bool {
	if strings.Contains(name, "_") {
		return true
	}
	return slices.Contains(claims, name) || slices.ContainsFunc(claimsOf, func(p string) bool { return strings.HasPrefix(name, p) })
}

// The names are as net/http has them, and are compared as they stand: there are many,
// in every request.
var (
	claims = canonical(
		"forwarded", "client-ip", "true-client-ip", "cf-connecting-ip", "fastly-client-ip", "remote-addr", "remote-host",
		"x-real-ip", "x-client-ip", "x-cluster-client-ip", "x-originating-ip", "x-azure-clientip", "x-appengine-user-ip", "x-envoy-external-address",
		"remote-user", "remote-groups", "remote-email", "remote-name", "x-user", "x-groups", "x-email",
		"x-original-url", "x-rewrite-url", "x-original-uri", "x-original-host", "x-host", "x-http-host-override", "proxy",
	)
	claimsOf = canonical("x-forwarded-", "x-remote-", "x-auth-request-", "x-authenticated-", "x-webauth-", "x-authentik-", "x-goog-authenticated-", "x-ms-client-principal", "x-pomerium-", "x-token-", "authguard-")
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
	lines := h["Cookie"]
	if !slices.ContainsFunc(lines, hasOurs) {
		return
	}
	var kept []string
	for _, line := range lines {
		parts := slices.DeleteFunc(strings.Split(line, ";"), isOurs)
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
