package config

import (
	"cmp"
	"fmt"
	"net/netip"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"authguard/guard"
	"authguard/internal/route"
)

// DefaultRealm is the realm that the top-level settings describe. It gets every request that no other realm claims.
const DefaultRealm = guard.DefaultRealm

// MaxRealms is the maximum number of further realms: each keeps images, a CAPTCHA mode and metrics of its own.
const MaxRealms = 100

// Realm is another site, or another tier of customers, with its own policy. Requests select it by decision API token,
// by host, or by path of the proxy. It inherits settings that its section omits.
type Realm struct {
	Name   string   // used by commands, logs, metrics and counters
	Hosts  []string `reload:"live"` // host names; *.example.org is every name below example.org
	Tokens []Secret `reload:"live"` // bearer tokens of its decision API
	Paths  []string `reload:"live"` // of the proxied app, such as /shop/*, at hosts that no realm claims
	// Origin is the public base URL. If it is empty, the top-level origin applies with the first of Hosts; see
	// [Config.In].
	Origin      string
	Session     Session
	Access      []route.AccessRule `reload:"live"`
	Accounts    Accounts
	Monitor     bool        `reload:"live"`
	Limits      Limits      `reload:"live"`
	Fingerprint Fingerprint `reload:"live"`
	CAPTCHAMode CAPTCHAMode `key:"captcha_mode" reload:"live"`
	StepUp      StepUp      `reload:"live"`
	Challenge   Challenge   `reload:"live"`
	Pages       Pages       `reload:"live"`
	Proxy       Proxy       `reload:"live"`
	Events      []Event     `reload:"live"`
	Lists       []List      `reload:"live"`
}

// In returns the settings as they apply in a realm.
func (c Config) In(r Realm) Config {
	c.Origin = cmp.Or(r.Origin, originAt(c.Origin, r.Hosts))
	c.Session, c.Access, c.Monitor = r.Session, r.Access, r.Monitor
	c.Accounts, c.Limits, c.Fingerprint, c.CAPTCHAMode, c.Challenge, c.Pages, c.Proxy, c.Events, c.Lists = r.Accounts,
		r.Limits, r.Fingerprint, r.CAPTCHAMode, r.Challenge, r.Pages, r.Proxy, r.Events, r.Lists
	c.StepUp, c.API.Tokens, c.Realms = r.StepUp, r.Tokens, nil
	return c
}

// originAt replaces the host of origin by the first host that is not a wildcard. There is none if all are: the host of
// origin belongs to another realm.
func originAt(origin string, hosts []string) string {
	i := slices.IndexFunc(hosts, func(h string) bool { return !strings.HasPrefix(h, "*.") })
	u, err := url.Parse(origin)
	switch {
	case err != nil || origin == "" || len(hosts) == 0:
		return origin
	case i < 0:
		return ""
	}
	u.Host = strings.Replace(u.Host, u.Hostname(), hosts[i], 1)
	return u.String()
}

// inherited is a realm with an empty section.
func (c Config) inherited() Realm {
	return Realm{Session: c.Session, Access: c.Access, Accounts: c.Accounts, Monitor: c.Monitor, Limits: c.Limits,
		Fingerprint: c.Fingerprint, CAPTCHAMode: c.CAPTCHAMode, StepUp: c.StepUp, Challenge: c.Challenge,
		Pages: c.Pages, Proxy: c.Proxy, Events: c.Events, Lists: c.Lists}
}

// postponed is the list of realms, read after all other settings because realms inherit them.
type postponed struct {
	node ast.Node
	from Origin
	list setting
}

var (
	realmsType   = reflect.TypeFor[[]Realm]()
	realmPattern = regexp.MustCompile(`^[a-z0-9-]{1,40}$`)
)

// readRealms reads the realms and validates each like a complete configuration.
func (l *loader) readRealms() {
	if l.realms.node == nil {
		return
	}
	l.value(l.realms.node, l.realms.from, l.realms.list)
	l.known = slices.Clone(l.problems)
	all := l.loaded.Config.Realms
	l.unless(len(all) <= MaxRealms, "realms", "", "must be at most %d", MaxRealms)
	seen := map[string]string{DefaultRealm: "the rest of the settings"}
	for i, t := range l.loaded.API.Tokens {
		seen[t.Reveal()] = fmt.Sprintf("api.tokens[%d]", i)
	}
	for i := range all {
		l.realmClaims(i, &all[i], seen)
		l.realmSettings(i)
	}
	l.listsOfRealms()
}

// realmClaims checks a realm's name and its selectors (hosts, tokens, paths). Two realms cannot share one.
func (l *loader) realmClaims(i int, r *Realm, seen map[string]string) {
	at := fmt.Sprintf("realms[%d].", i)
	once := func(path, what string) {
		l.unless(seen[what] == "", path, "", "is already used by %s", seen[what])
		seen[what] = path
	}
	l.unless(realmPattern.MatchString(r.Name), at+"name", "", "must be 1 to 40 lower-case letters, digits and -")
	once(at+"name", r.Name)
	_, tokens := l.loaded.origins[at+"tokens"] // [] is set, too
	l.unless(len(r.Hosts)+len(r.Paths) > 0 || tokens, at+"hosts", "",
		"or paths or tokens must be set, or no request reaches this realm; use tokens: [] for tokens made by authguard "+
			"token create")
	for j, h := range r.Hosts {
		path := fmt.Sprintf("%shosts[%d]", at, j)
		name := strings.TrimPrefix(h, "*.")
		_, literal := netip.ParseAddr(h)
		l.unless(literal == nil || hostPattern.MatchString(name) && !strings.HasSuffix(name, "."), path, "",
			"must be a host name such as shop.example.org, or *.example.org for every name below it, without a port, not %.60q",
			h)
		once(path, strings.ToLower(h))
	}
	for j, t := range r.Tokens {
		once(fmt.Sprintf("%stokens[%d]", at, j), t.Reveal())
	}
	l.unless(len(r.Paths) == 0 || r.Proxy.Upstream != "", at+"paths", "",
		"need proxy.upstream: the login page is selected by host")
	_, err := route.ParsePaths(r.Paths)
	l.unless(err == nil, at+"paths", "", "%s", strings.TrimPrefix(fmt.Sprint(err), "path: "))
	for j, p := range r.Paths {
		once(fmt.Sprintf("%spaths[%d]", at, j), strings.ToLower(strings.TrimRight(p, "/")))
	}
}

// realmSettings checks the settings as they apply in a realm. Problems that are inherited are reported once, at the top
// level.
func (l *loader) realmSettings(i int) {
	at := fmt.Sprintf("realms[%d]", i)
	in := &loader{file: l.file, loaded: &Loaded{Config: l.loaded.Config.In(l.loaded.Realms[i]),
		origins: map[string]Origin{}}}
	in.settings = settings(&in.loaded.Config)
	for path, from := range l.loaded.origins {
		if own, ok := strings.CutPrefix(path, at+"."); ok {
			in.loaded.origins[inConfig(own)] = from
		}
	}
	for _, p := range l.problems {
		if own, ok := strings.CutPrefix(p.Path, at+"."); ok {
			in.problems = append(in.problems, Problem{inConfig(own), p.Origin, p.Text})
		}
	}
	before := len(in.problems)
	in.validate()
	in.conflicts()
	for _, p := range in.problems[before:] {
		if p.Source == "" && slices.ContainsFunc(l.problems, func(told Problem) bool { return told.Path == p.Path }) {
			continue
		}
		if p.Source == "" {
			p.Origin = l.loaded.origins[at]
		}
		p.Path = at + "." + strings.Replace(p.Path, "api.tokens", "tokens", 1)
		l.problems = append(l.problems, p)
	}
}

// inConfig maps the path of a realm's setting into [Config.In].
func inConfig(own string) string {
	if partOf(own, "tokens") {
		return "api." + own
	}
	return own
}

// diffRealms is Diff for realms, matched by name.
func diffRealms(old, new []Realm) (reloadable, needsRestart []string) {
	named := func(all []Realm, name string) *Realm {
		if i := slices.IndexFunc(all, func(r Realm) bool { return r.Name == name }); i >= 0 {
			return &all[i]
		}
		return nil
	}
	for i := range new {
		path := "realms." + new[i].Name
		before := named(old, new[i].Name)
		if before == nil {
			reloadable = append(reloadable, path)
			continue
		}
		live, restart := differ(fields(setting{path: path, at: reflect.ValueOf(before).Elem()}),
			fields(setting{path: path, at: reflect.ValueOf(&new[i]).Elem()}))
		reloadable, needsRestart = append(reloadable, live...), append(needsRestart, restart...)
	}
	for _, r := range old {
		if named(new, r.Name) == nil {
			reloadable = append(reloadable, "realms."+r.Name)
		}
	}
	return reloadable, needsRestart
}
