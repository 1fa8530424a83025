package route

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// AccessRule is a rule of forward auth: which users may request which URLs behind a reverse proxy. Empty fields match
// everything.
//
// The reverse proxy, authguard and the app may interpret a path differently, and attackers use the loosest
// interpretation. So a rule grants access only if all interpretations match its path, and restricts access if any may
// match. //admin, /%61dmin, /x/../admin and /ADMIN are /admin to a rule that requires a group, but not to one that
// makes a page public.
type AccessRule struct {
	Hosts   []string // names, and patterns such as *.example.org
	Paths   []string // one path each, or a folder: /files/*
	Methods []string // GET includes HEAD
	// Allow is anyone, login or none; empty: login.
	Allow string
	// Groups allow their members only; none: every logged-in user.
	Groups []string
}

// The values of AccessRule.Allow.
const (
	AllowAnyone = "anyone"
	AllowLogin  = "login"
	AllowNone   = "none"
)

// AccessRules are valid rules, in their order. They are immutable and safe for concurrent use. Without a rule, every
// logged-in user may request every URL, and no other client.
type AccessRules []accessRule

type accessRule struct {
	AccessRule
	paths Paths
}

var (
	hostPattern   = regexp.MustCompile(`^(\*\.)?[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$`)
	methodPattern = regexp.MustCompile(`^[A-Z]{1,20}$`)
)

// CompileAccess returns the rules, or all errors. Each starts with the rule's number in brackets, the key and a colon.
func CompileAccess(written []AccessRule) (all AccessRules, err error) {
	for i, w := range written {
		one, problem := w.compile()
		for _, p := range problem {
			err = errors.Join(err, fmt.Errorf("[%d].%w", i, p))
		}
		all = append(all, one)
	}
	return all, err
}

func (w AccessRule) compile() (one accessRule, problems []error) {
	check := func(ok bool, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	one.AccessRule = w
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
	check(
		slices.Contains([]string{"", AllowAnyone, AllowLogin, AllowNone}, w.Allow),
		"allow: must be anyone, login or none, not %.60q",
		w.Allow,
	)
	check(len(w.Groups) == 0 || w.Allow == "" || w.Allow == AllowLogin, "groups: go with login only: leave allow out")
	check(len(w.Groups) > 0 || w.Allow != "", "allow: must be anyone, login or none, unless groups are named")
	var err error
	one.paths, err = parseFolders(w.Paths)
	check(err == nil, "paths: %s", strings.TrimPrefix(fmt.Sprint(err), "path: "))
	return one, problems
}

// AccessRequest is a request to the app.
type AccessRequest struct {
	Host   string // canonical: lower case, no port; empty: unknown
	Path   string // as sent: escaped, without the query; empty: unknown
	Method string // empty: unknown
	// Overridden: a header or the query overrides the method.
	Overridden bool
}

// Need is what a request requires. The zero Need is a login.
type Need struct {
	nothing, never bool
	groups         [][]string
}

// Of returns what a request requires: the first rule that surely matches it, plus every earlier rule that may match it.
func (all AccessRules) Of(r AccessRequest) (n Need) {
	named := slices.ContainsFunc(all, func(one accessRule) bool { return one.hasHost(r.Host) })
	for _, one := range all {
		surely, perhaps := one.fits(r, named)
		if !perhaps {
			continue
		}
		n.never = n.never || one.Allow == AllowNone
		if len(one.Groups) > 0 {
			n.groups = append(n.groups, one.Groups)
		}
		if surely {
			n.nothing = one.Allow == AllowAnyone && !n.never && len(n.groups) == 0
			return n
		}
	}
	return n
}

// Access is the decision on a request. The zero Access denies it.
type Access uint8

const (
	// AccessDenied: access denied, also after a login.
	AccessDenied Access = iota
	// LoginRequired: a login is required.
	LoginRequired
	// AccessGranted: access allowed.
	AccessGranted
)

// Nothing reports whether the request needs no login.
func (n Need) Nothing() bool { return n.nothing }

// Meets decides on a user in these groups, or on a client that is not logged in.
func (n Need) Meets(loggedIn bool, groups []string) Access {
	switch {
	case n.never:
		return AccessDenied
	case n.nothing:
		return AccessGranted
	case !loggedIn:
		return LoginRequired
	}
	for _, one := range n.groups {
		if !slices.ContainsFunc(one, func(g string) bool { return slices.Contains(groups, g) }) {
			return AccessDenied
		}
	}
	return AccessGranted
}

// fits reports whether the request surely matches the rule, and whether it may match. A host that no rule names may
// match any: a reverse proxy may send it to any app, as nginx does with its default server.
func (c *accessRule) fits(r AccessRequest, named bool) (surely, perhaps bool) {
	surely, perhaps = true, true
	and := func(s, p bool) { surely, perhaps = surely && s, perhaps && p }
	if len(c.Hosts) > 0 {
		is := c.hasHost(r.Host)
		and(is, is || !named)
	}
	if len(c.Paths) > 0 {
		and(r.Path != "" && c.paths.surely(r.Path), r.Path == "" || c.paths.perhaps(r.Path))
	}
	if len(c.Methods) > 0 {
		// Django, Werkzeug and others treat post as POST, and reverse proxies forward it.
		is, reads := c.names(r.Method), c.names(strings.ToUpper(r.Method))
		and(is && !r.Overridden, reads || r.Method == "" || r.Overridden)
	}
	return surely, perhaps
}

func (c *accessRule) names(method string) bool {
	return slices.Contains(c.Methods, method) || method == http.MethodHead && slices.Contains(c.Methods, http.MethodGet)
}

func (c *accessRule) hasHost(host string) bool {
	return slices.ContainsFunc(c.Hosts, func(h string) bool { return isHost(h, host) })
}

func isHost(pattern, host string) bool {
	pattern = strings.ToLower(pattern)
	if suffix, below := strings.CutPrefix(pattern, "*"); below {
		return strings.HasSuffix(host, suffix)
	}
	return pattern == host
}
