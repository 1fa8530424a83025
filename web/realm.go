package web

import (
	"net"
	"net/http"
	"strings"

	"authguard/internal/route"
	"authguard/web/client"
)

// Realms finds the realm that a request is for, by the first of these that says: the
// bearer token of the decision API; the host; the path of the app behind the proxy.
// What nobody claims is Otherwise's. It does not change; safe for concurrent use.
type Realms struct {
	// Edge knows whose forwarding headers are believed.
	Edge *Edge
	// Tokens are those of all realms.
	Tokens *Tokens
	// Otherwise is the default realm.
	Otherwise Claim
	// Claims are the other realms. No host or path may be in two of them.
	Claims []Claim
}

// A Claim is what brings requests to one realm, and who serves them.
type Claim struct {
	Realm   string   // whose tokens bring requests here
	Hosts   []string // names, and patterns such as *.example.org
	Paths   route.Paths
	Handler http.Handler
	// Leaving is for a realm that is no more: only attempts that it decided can be
	// settled still.
	Leaving bool
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

// find is false for a request that two parsers could take to two realms.
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

// byToken is nil for a request that has no token of a realm that is here.
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

// byHost is nil for a host that nobody claims. Whoever asks for another's site, by
// forward-auth, is a proxy that we believe, and says for which. A proxy may pass on what
// its client sent in those headers: where the request's own host is a realm's, all must
// agree, or a session of one site would open another.
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

// at is who claims a host; nil for nobody. A name comes before a pattern, and of
// patterns the longest.
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

// hostName is a host as names are compared: without a port, brackets or a dot at the
// end, in small letters.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// byPath is nil for a path that nobody claims, and false for one that some servers
// read as a realm's and others do not.
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
