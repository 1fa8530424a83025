package web

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"authguard/internal/route"
	"authguard/web/client"
)

// named answers with a realm's name.
type named string

func (n named) ServeHTTP(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(n)) }

func threeRealms(t testing.TB) *Realms {
	t.Helper()
	paths := func(written ...string) route.Paths {
		all, err := route.ParsePaths(written)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	edge := new(Edge)
	edge.Set([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, client.XForwardedFor)
	tokens := new(Tokens)
	tokens.SetConfigured([]Token{
		{SumToken("token-of-default"), "default"}, {SumToken("token-of-gone"), "gone"}, {SumToken("token-of-shop"), "shop"},
		{SumToken("another"), "shop"}, {SumToken("token-of-nowhere"), "nowhere"},
	})
	tokens.SetIssued([]Token{{SumToken("token-of-blog"), "blog"}})
	return &Realms{
		Edge: edge, Tokens: tokens,
		Otherwise: Claim{Realm: "default", Handler: named("default")},
		Claims: []Claim{
			{Realm: "gone", Handler: named("gone"), Leaving: true},
			{Realm: "shop", Hosts: []string{"Shop.example.org", "*.example.org", "192.0.2.1", "2001:db8::1"}, Handler: named("shop")},
			{Realm: "blog", Hosts: []string{"*.blog.example.org"}, Paths: paths("/app/*"), Handler: named("blog")},
			{Realm: "wiki", Paths: paths("/app/wiki/*", "/wiki"), Handler: named("wiki")},
		},
	}
}

// askedOf is the realm that answers, or the status if none does.
func askedOf(t *Realms, r *http.Request) string {
	w := httptest.NewRecorder()
	t.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		return http.StatusText(w.Code)
	}
	return w.Body.String()
}

func TestARequestGoesToTheRealmOfItsTokenItsHostOrItsPath(t *testing.T) {
	t.Parallel()
	realms := threeRealms(t)
	for _, one := range []struct{ host, path, token, want string }{
		{"", "/login", "", "default"},
		{"shop.example.org", "/login", "", "shop"},
		{"SHOP.example.org.:8443", "/login", "", "shop"},
		{"www.example.org", "/login", "", "shop"},
		{"a.b.example.org", "/login", "", "shop"},
		{"example.org", "/login", "", "default"},
		{"evilexample.org", "/login", "", "default"},
		{"a.blog.example.org", "/login", "", "blog"}, // the longer pattern
		{"blog.example.org", "/login", "", "shop"},
		{"192.0.2.1:80", "/login", "", "shop"},
		{"[2001:DB8::1]:80", "/login", "", "shop"},
		{"other", "/app", "", "blog"},
		{"other", "/app/x", "", "blog"},
		{"other", "/App/Wiki/x", "", "wiki"}, // the longer path
		{"other", "/application", "", "default"},
		{"other", "/wiki/x", "", "wiki"},                                                                 // where Apache may run wiki.php
		{"other", "/app.php/wiki", "", "Bad Request"}, {"other", "/login.php/wiki/x", "", "Bad Request"}, // PHP runs the script
		{"other", "/%61pp/x", "", "blog"},
		{"other", "//app/wiki/x", "", "Bad Request"},
		{"other", "/x/../wiki", "", "Bad Request"},
		{"other", "/app%2fwiki/x", "", "Bad Request"},
		{"shop.example.org", "/app/wiki/x", "", "shop"}, // the host comes first
		{"", "/v1/attempts", "token-of-blog", "blog"},
		{"shop.example.org", "/v1/attempts", "token-of-blog", "blog"}, // the token comes first
		{"shop.example.org", "/v1/attempts", "token-of-default", "default"},
		{"shop.example.org", "/v1/attempts", "another", "shop"},
		{"shop.example.org", "/v1/attempts", "unknown", "shop"},
		{"shop.example.org", "/login", "token-of-blog", "shop"}, // which is no question for a decision
		{"", "/v1/attempts", "token-of-gone", "default"},
		{"", "/v1/attempts/settle", "token-of-gone", "gone"},
		{"", "/v1/attempts/settle/batch", "token-of-gone", "gone"},
		{"", "/v1/attempts", "token-of-nowhere", "default"},
		{"", "/v1/openapi.json", "token-of-blog", "blog"},
		{"", "/v1/attempts", "", "default"},
	} {
		r := httptest.NewRequest(http.MethodPost, "http://x"+one.path, nil)
		r.Host = one.host
		if one.token != "" {
			r.Header.Set("Authorization", "Bearer "+one.token)
		}
		if got := askedOf(realms, r); got != one.want {
			t.Errorf("%+v: %s", one, got)
		}
	}
}

// TestForwardAuthIsAskedForASiteByWhomWeBelieveAlone: a proxy passes on what its client
// sends unless it is told otherwise. Whoever has an account at the blog must not open
// the shop with it.
func TestForwardAuthIsAskedForASiteByWhomWeBelieveAlone(t *testing.T) {
	t.Parallel()
	realms := threeRealms(t)
	const blog = "a.blog.example.org"
	for _, one := range []struct {
		peer, host string
		forwarded  []string
		want       string
	}{
		{"10.0.0.1:1", "authguard:8080", []string{"shop.example.org"}, "shop"}, // Traefik
		{"10.0.0.1:1", "authguard:8080", []string{blog + ":443"}, "blog"},
		{"10.0.0.1:1", "authguard:8080", nil, "default"},
		{"10.0.0.1:1", "shop.example.org", nil, "shop"}, // nginx, told to send Host
		{"10.0.0.1:1", "shop.example.org", []string{"www.example.org"}, "shop"},
		{"10.0.0.1:1", "shop.example.org", []string{blog}, "Bad Request"},
		{"10.0.0.1:1", "shop.example.org", []string{"elsewhere"}, "Bad Request"},
		{"10.0.0.1:1", "authguard:8080", []string{blog, "shop.example.org"}, "Bad Request"},
		{"10.0.0.1:1", "authguard:8080", []string{blog + ", shop.example.org"}, "Bad Request"},
		{"10.0.0.1:1", "authguard:8080", []string{blog + ", b.blog.example.org"}, "blog"},
		{"192.0.2.9:1", "shop.example.org", []string{blog}, "shop"},
		{"192.0.2.9:1", "authguard:8080", []string{blog}, "default"},
	} {
		r := httptest.NewRequest(http.MethodGet, "http://x/auth/verify", nil)
		r.RemoteAddr, r.Host, r.Header["X-Forwarded-Host"] = one.peer, one.host, one.forwarded
		if got := askedOf(realms, r); got != one.want {
			t.Errorf("%+v: %s", one, got)
		}
		for _, path := range []string{"/auth/denied", "/auth/address"} {
			if r.URL.Path = path; askedOf(realms, r) != one.want {
				t.Errorf("%+v: at %s it is %s", one, path, askedOf(realms, r))
			}
		}
		r.URL.Path = "/auth/verify"
		for _, forwarded := range one.forwarded { // nginx says it so
			r.Header["X-Forwarded-Host"] = nil
			if r.Header["X-Original-Url"] = []string{"https://" + forwarded + "/x"}; !strings.Contains(forwarded, ",") && len(one.forwarded) == 1 && askedOf(realms, r) != one.want {
				t.Errorf("%+v: by X-Original-URL it is %s", one, askedOf(realms, r))
			}
		}
		r.URL.Path = "/login" // nobody logs in at another host than the one that is called
		if got, want := askedOf(realms, r), realmOfHost(realms, one.host); got != want {
			t.Errorf("%+v: a login goes to %s, want %s", one, got, want)
		}
	}
}

func realmOfHost(t *Realms, host string) string {
	r := httptest.NewRequest(http.MethodGet, "http://x/login", nil)
	r.Host = host
	return askedOf(t, r)
}

// FuzzRealms holds that however a host is spelt, it stands for one realm, and that one
// that is not spelt like a claimed host is the default realm's.
func FuzzRealms(f *testing.F) {
	for _, host := range []string{"", "shop.example.org", "SHOP.example.org.", "shop.example.org:1", "[::1]:1", "*.example.org", "a..example.org", "shop.example.org\x00"} {
		f.Add(host, "/app/wiki")
	}
	realms := threeRealms(f)
	f.Fuzz(func(t *testing.T, host, path string) {
		claim, ok := realms.byHost(&http.Request{Host: host, URL: httptest.NewRequest(http.MethodGet, "/", nil).URL})
		claimed := strings.Contains(strings.ToLower(host), "example.org") || strings.Contains(host, "192.0.2.1") || strings.Contains(strings.ToLower(host), "2001:db8::1")
		if !ok || claim != nil && !claimed {
			t.Errorf("%q is %v", host, claim)
		}
		for _, other := range []string{strings.ToUpper(host), host + "."} {
			if strings.ContainsAny(host, ":[]") || strings.HasSuffix(host, ".") || strings.ToLower(strings.ToUpper(host)) != strings.ToLower(host) {
				continue
			}
			if realms.at(other) != claim {
				t.Errorf("%q and %q are two realms", host, other)
			}
		}
		_, _ = realms.byPath(path)
	})
}
