package web

import (
	"net"
	"net/http"
	"strings"

	"authguard/internal/route"
	"authguard/web/client"
)

// Realms passes each request to its realm. It looks at the decision API's bearer token, then the host, then the path of
// the app behind the proxy. All other requests go to Otherwise. It is immutable and safe for concurrent use.
type Realms struct {
	Edge      *Edge   // knows the trusted proxies
	Tokens    *Tokens // of all realms
	Otherwise Claim   // the default realm
	Claims    []Claim // the other realms; no host or path may be in two of them
}

// A Claim is the hosts, paths and handler of one realm.
type Claim struct {
	Realm   string   // its tokens bring requests here, too
	Hosts   []string // names, and patterns such as *.example.org
	Paths   route.Paths
	Handler http.Handler
	Leaving bool // a removed realm: its pending attempts can still be settled
}

// Handler is t, or the default realm's handler if there is no other realm.
func (t *Realms) Handler() http.Handler {
	if len(t.Claims) == 0 {
		return t.Otherwise.Handler
	}
	return t
}

// ServeHTTP passes a request to its realm.
func (t *Realms) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	claim, ok := t.find(r)
	if !ok {
		Problem{
			Type: InvalidRequest, Title: "Ambiguous site", Status: http.StatusBadRequest,
			Detail: "The host, the forwarded host or the path is ambiguous. The request was not processed.",
		}.Write(w)
		return
	}
	claim.Handler.ServeHTTP(w, r)
}

// find returns false for a request that two parsers could assign to two realms.
func (t *Realms) find(r *http.Request) (*Claim, bool) {
	if c := t.byToken(r); c != nil {
		return c, true
	}
	c, ok := t.byHost(r)
	if c == nil && ok {
		c, ok = t.byPath(r.URL.EscapedPath())
	}
	if c == nil {
		c = &t.Otherwise
	}
	return c, ok
}

func (t *Realms) byToken(r *http.Request) *Claim {
	if !strings.HasPrefix(r.URL.Path, apiBase) {
		return nil
	}
	realm, ok := t.Tokens.RealmOf(r)
	if !ok {
		return nil
	}
	if realm == t.Otherwise.Realm {
		return &t.Otherwise
	}
	for i := range t.Claims {
		c := &t.Claims[i]
		if c.Realm == realm && (!c.Leaving || strings.HasPrefix(r.URL.Path, settlePath)) {
			return c
		}
	}
	return nil
}

// byHost returns nil for an unclaimed host. In forward auth, a trusted proxy names the requested site. It may pass on
// headers that its client sent: if the request's own host belongs to a realm, all must agree. Otherwise the session of
// one site would open another.
func (t *Realms) byHost(r *http.Request) (*Claim, bool) {
	own := t.at(r.Host)
	if !asksForAnother(r.URL.Path) || !t.Edge.Believes(r) {
		return own, true
	}
	hosts := client.Hops(r.Header, "X-Forwarded-Host")
	for _, original := range r.Header["X-Original-Url"] {
		if _, host, _ := cutURL(original); host != "" {
			hosts = append(hosts, host)
		}
	}
	var asked *Claim
	for i, host := range hosts {
		c := t.at(host)
		if i > 0 && c != asked {
			return nil, false
		}
		asked = c
	}
	if len(hosts) == 0 || asked == own {
		return own, true
	}
	return asked, own == nil
}

// at returns the claim on a host, or nil. Names take precedence over patterns, long patterns over short ones.
func (t *Realms) at(host string) (found *Claim) {
	host, longest := hostName(host), 0
	for i := range t.Claims {
		for _, claimed := range t.Claims[i].Hosts {
			claimed = strings.ToLower(claimed)
			suffix, pattern := strings.CutPrefix(claimed, "*")
			switch {
			case !pattern && claimed == host:
				return &t.Claims[i]
			case pattern && len(suffix) > longest && len(host) > len(suffix) && strings.HasSuffix(host, suffix):
				found, longest = &t.Claims[i], len(suffix)
			}
		}
	}
	return found
}

// hostName normalizes a host for comparison: lower case, without port, brackets or final dot.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// byPath returns nil for an unclaimed path, and false for one that only some servers map to a realm.
func (t *Realms) byPath(escaped string) (found *Claim, ok bool) {
	longest := 0
	for i := range t.Claims {
		if len(t.Claims[i].Paths) == 0 {
			continue
		}
		switch n, where := t.Claims[i].Paths.At(escaped); {
		case where == route.Ambiguous:
			return nil, false
		case where == route.Here && n > longest:
			found, longest = &t.Claims[i], n
		}
	}
	return found, true
}
