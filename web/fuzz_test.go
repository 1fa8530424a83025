package web

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"authguard/web/client"
)

// FuzzForwardingHeaders holds that nothing in a header changes the address of
// a client that is no proxy, and that a proxy's client is never the proxy
// because of what stands left of the proxy's own entry.
func FuzzForwardingHeaders(f *testing.F) {
	f.Add("1.2.3.4", "for=1.2.3.4")
	f.Add("1.2.3.4, 10.0.0.1", `for="[2001:db8::1]:443";proto=https, for=unknown`)
	f.Add(strings.Repeat("1.1.1.1,", 500), ";;;=,,,")
	f.Fuzz(func(t *testing.T, xff, forwarded string) {
		for _, header := range []string{client.XForwardedFor, client.Forwarded} {
			var e Edge
			e.Set([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, header)
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.Header[client.XForwardedFor], r.Header[client.Forwarded] = []string{xff}, []string{forwarded}
			r.RemoteAddr = "192.0.2.1:1234"
			if got := e.Client(r); got.Address.String() != "192.0.2.1" || !got.Forwarded {
				t.Fatalf("a stranger's header made him %v", got)
			}
			r.RemoteAddr = "10.0.0.1:1234"
			before := e.Client(r)
			if !before.Address.IsValid() {
				t.Fatalf("no address from %q %q", xff, forwarded)
			}
			// The proxy appends its peer; what a stranger wrote before cannot matter.
			own := map[string]string{client.XForwardedFor: "203.0.113.9", client.Forwarded: "for=203.0.113.9"}[header]
			r.Header.Add(header, own)
			if got := e.Client(r); got.Address.String() != "203.0.113.9" {
				t.Fatalf("with the proxy's own entry last the client is %v", got.Address)
			}
		}
	})
}

func FuzzNextStaysOnThisSite(f *testing.F) {
	for _, seed := range []string{"/", "/a?b=c#d", "//evil", `/\evil`, "/\t/evil", "https://evil", "/%2f/evil", "/a//b", "javascript:1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, next string) {
		got := LocalPath(next)
		base, _ := url.Parse("https://here.example/login")
		u, err := base.Parse(got)
		if err != nil || u.Host != "here.example" || u.Scheme != "https" || !strings.HasPrefix(got, "/") {
			t.Fatalf("%q leads to %v, %v", next, u, err)
		}
	})
}

// FuzzNextStaysOnTheSitesHosts holds that however a browser reads where a login leads, it
// is the login's own host, that of the origin, or one below the domain.
func FuzzNextStaysOnTheSitesHosts(f *testing.F) {
	for _, seed := range []string{
		"/", "https://app.example.org/x", "https://example.org", "https://evil.example/", "https://example.org.evil.example/", "https://app.example.org@evil.example/",
		`https://evil.example\.example.org/`, "https:evil.example", "https:///evil.example/", "https://app.example.org:444/", "http://app.example.org/", "https://evilexample.org/",
		"https://app.example.org\t.evil.example/", "HTTPS://app.example.org/", "https://.example.org/", "https://[::1].example.org/", "https://app.example.org//evil.example", "https://evil%2eexample.org/", "https://app.example.org?@evil.example/", "https://app.example.org#@evil.example/", "https://example.org:", "https://app.example.org:/x", "https://app.example.org./x",
	} {
		f.Add(seed)
	}
	l := &Login{Origin: "https://login.example.org", LoginUsers: LoginUsers{Sessions: NewSessions(SessionConfig{Domain: "example.org"})}}
	f.Fuzz(func(t *testing.T, next string) {
		got := l.next(next)
		scheme, host := asABrowser(got, "https", "login.example.org")
		if scheme != "https" || host != "login.example.org" && host != "example.org" && !strings.HasSuffix(host, ".example.org") || strings.Contains(host, ":") {
			t.Fatalf("%q leads to %q: %s %q", next, got, scheme, host)
		}
		if strings.ContainsFunc(host, func(r rune) bool { return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789-.", r) }) {
			t.Fatalf("%q leads to the host %q", next, host)
		}
		alone := (&Login{LoginUsers: LoginUsers{Sessions: NewSessions(SessionConfig{})}}).next(next)
		if _, host := asABrowser(alone, "https", "here"); host != "here" || !strings.HasPrefix(alone, "/") {
			t.Fatalf("without an origin %q leads to %q", next, alone)
		}
	})
}

// asABrowser reads an address as the URL Standard has it, as far as its host goes, and
// loosely: control characters are dropped, and spaces at both ends; \ is /, any number of
// slashes may stand before a host.
func asABrowser(address, scheme, host string) (string, string) {
	address = strings.Map(func(r rune) rune {
		switch {
		case r < ' ':
			return -1
		case r == '\\':
			return '/'
		}
		return r
	}, address)
	address = strings.Trim(address, " ")
	rest := address
	if before, after, ok := strings.Cut(address, ":"); ok && !strings.ContainsAny(before, "/?#") {
		scheme, rest = strings.ToLower(before), after
		rest = "//" + strings.TrimLeft(rest, "/")
	}
	if !strings.HasPrefix(rest, "//") {
		return scheme, host
	}
	rest = strings.TrimLeft(rest, "/")
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	return scheme, strings.ToLower(rest[strings.LastIndex(rest, "@")+1:])
}
