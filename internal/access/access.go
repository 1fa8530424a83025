// Package access holds the rules of forward-auth: who may ask for which address of the
// sites behind a gateway. Without a rule whoever is logged in may, and nobody else.
//
// The gateway, authguard and the app may read a path in three ways, and a rule is as
// strong as the loosest. So a rule opens what everybody reads as its path, and closes
// what anybody may read as it: //admin, /%61dmin, /x/../admin and /ADMIN are /admin to
// a rule that asks for a group, and no public page to one that asks for nothing.
package access

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"authguard/internal/route"
)

// A Rule is one rule as it is written in the configuration. What is left out fits
// everything.
type Rule struct {
	Hosts   []string // names, and patterns such as *.example.org
	Paths   []string // one path each, or a folder: /files/*
	Methods []string // GET is HEAD, too
	// Allow is anyone, login or none; empty: login.
	Allow string
	// Groups are those of which somebody must be in one; none: logged in is enough.
	Groups []string
}

// The words of Rule.Allow.
const (
	Anyone = "anyone"
	Login  = "login"
	Nobody = "none"
)

// Rules are rules that were found good, in their order. They do not change; safe for
// concurrent use. Nil has none.
type Rules []compiled

type compiled struct {
	Rule
	paths route.Paths
}

var (
	hostPattern   = regexp.MustCompile(`^(\*\.)?[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$`)
	methodPattern = regexp.MustCompile(`^[A-Z]{1,20}$`)
)

// Compile returns the rules, or everything that is wrong with them: each error begins
// with the number of the rule in brackets, the key that it is about, and a colon.
func Compile(written []Rule) (all Rules, err error) {
	for i, w := range written {
		one, problem := w.compile()
		for _, p := range problem {
			err = errors.Join(err, fmt.Errorf("[%d].%w", i, p))
		}
		all = append(all, one)
	}
	return all, err
}

func (w Rule) compile() (one compiled, problems []error) {
	check := func(ok bool, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	one.Rule = w
	for _, h := range w.Hosts {
		_, literal := netip.ParseAddr(h)
		check(literal == nil || hostPattern.MatchString(h),
			"hosts: must be names such as app.example.org, or *.example.org for every name below it, without a port, not %.60q",
			h)
	}
	for _, m := range w.Methods {
		check(methodPattern.MatchString(m), "methods: must be names such as GET, not %.60q", m)
	}
	for _, g := range w.Groups {
		check(strings.TrimSpace(g) == g && g != "" && !strings.ContainsAny(g, ",\r\n"),
			"groups: must be names of groups, not %.60q", g)
	}
	check(slices.Contains([]string{"", Anyone, Login, Nobody}, w.Allow), "allow: must be anyone, login or none, not %.60q",
		w.Allow)
	check(len(w.Groups) == 0 || w.Allow == "" || w.Allow == Login, "groups: go with login only: leave allow out")
	check(len(w.Groups) > 0 || w.Allow != "", "allow: must be anyone, login or none, unless groups are named")
	var err error
	one.paths, err = route.ParseFolders(w.Paths)
	check(err == nil, "paths: %s", strings.TrimPrefix(fmt.Sprint(err), "path: "))
	return one, problems
}

// A Request is what somebody asks the app for.
type Request struct {
	Host   string // as names are compared: small letters, no port; empty: not known
	Path   string // as it was sent: escaped, without the query; empty: not known
	Method string // empty: not known
	// Overridden: a header or the query says that the method is another one.
	Overridden bool
}

// A Need is what a request needs. The zero Need is a login.
type Need struct {
	nothing, never bool
	groups         [][]string
}

// Of is what a request needs: what the first rule says that surely fits it, and
// everything else that a rule before that says which may fit it.
func (all Rules) Of(r Request) (n Need) {
	named := slices.ContainsFunc(all, func(one compiled) bool { return one.hasHost(r.Host) })
	for _, one := range all {
		surely, perhaps := one.fits(r, named)
		if !perhaps {
			continue
		}
		n.never = n.never || one.Allow == Nobody
		if len(one.Groups) > 0 {
			n.groups = append(n.groups, one.Groups)
		}
		if surely {
			n.nothing = one.Allow == Anyone && !n.never && len(n.groups) == 0
			return n
		}
	}
	return n
}

// A Verdict is what becomes of a request. The zero Verdict refuses.
type Verdict uint8

const (
	// Refused: not for them, whatever they do.
	Refused Verdict = iota
	// Unknown: they have to log in first.
	Unknown
	// Granted: they may.
	Granted
)

// Nothing reports whether the request needs no login.
func (n Need) Nothing() bool { return n.nothing }

// Meets is the verdict on somebody who is in these groups, or not even logged in.
func (n Need) Meets(loggedIn bool, groups []string) Verdict {
	switch {
	case n.never:
		return Refused
	case n.nothing:
		return Granted
	case !loggedIn:
		return Unknown
	}
	for _, one := range n.groups {
		if !slices.ContainsFunc(one, func(g string) bool { return slices.Contains(groups, g) }) {
			return Refused
		}
	}
	return Granted
}

// fits reports whether everybody reads the request as one of the rule's, and whether
// anybody may. A host that no rule names may be any: a gateway may send it to the app of any
// host, as nginx sends it to that of its default server.
func (c *compiled) fits(r Request, named bool) (surely, perhaps bool) {
	surely, perhaps = true, true
	and := func(s, p bool) { surely, perhaps = surely && s, perhaps && p }
	if len(c.Hosts) > 0 {
		is := c.hasHost(r.Host)
		and(is, is || !named)
	}
	if len(c.Paths) > 0 {
		and(r.Path != "" && c.paths.Surely(r.Path), r.Path == "" || c.paths.Perhaps(r.Path))
	}
	if len(c.Methods) > 0 {
		// Django, Werkzeug and others make POST of post, and gateways hand it on.
		is, reads := c.names(r.Method), c.names(strings.ToUpper(r.Method))
		and(is && !r.Overridden, reads || r.Method == "" || r.Overridden)
	}
	return surely, perhaps
}

func (c *compiled) names(method string) bool {
	return slices.Contains(c.Methods, method) || method == http.MethodHead && slices.Contains(c.Methods, http.MethodGet)
}

func (c *compiled) hasHost(host string) bool {
	return slices.ContainsFunc(c.Hosts, func(h string) bool { return isHost(h, host) })
}

// isHost reports whether a host has a name, or one below it for a pattern.
func isHost(pattern, host string) bool {
	pattern = strings.ToLower(pattern)
	if suffix, below := strings.CutPrefix(pattern, "*"); below {
		return strings.HasSuffix(host, suffix)
	}
	return pattern == host
}
