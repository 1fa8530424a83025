// Package route describes an app's requests: which are logins behind the reverse proxy, which account and password they
// contain, what the app's response means, and which users may send them (AccessRules). It decides no login.
//
// The app may read an attacker's request differently. So a request is read in the one way that all parsers share
// (Table.Find), or rejected.
package route

import (
	"cmp"
	"errors"
	"fmt"
	"html"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// A Spec is a guarded route as configured.
type Spec struct {
	// Name names the route and its counters, which routes with the same name share. "login" shares those of the login
	// endpoint.
	Name string
	// Kind is empty for a login, or SecondFactor for the page where the app asks for a code after the password: Password
	// locates the code, and there is no Account. The account is that of the session's login.
	Kind string
	// Path is a single path, or ends in /* for a folder: itself and everything below. Paths below a single path count as a
	// folder.
	Path string
	// Methods are the methods of a login; empty: POST; ANY: all; GET includes HEAD. On a single path other methods are
	// rejected, except GET, HEAD and OPTIONS. With basic, all methods are logins.
	Methods []string
	// Account and Password locate the fields: form:NAME in a form, param:NAME in a form or the query, json:/POINTER in a
	// JSON object (RFC 6901), basic in the Authorization header. Without Password, repeated passwords are not recognized
	// (R28).
	Account, Password string
	// Names is a regular expression for whole account names; other names are rejected. Otherwise an app that takes
	// "al<b>ice" or "àlice" for alice would give an attacker one counter per spelling. Empty: any name.
	Names string
	// Success describes a successful login: all of it holds, and nothing of Failure. If something of Abandoned holds, the
	// password was not checked. All other responses are failures. See parseCondition.
	Success, Failure, Abandoned []string
	// SecondFactor describes the response to a correct password if the app then asks for a code: all of it holds. The
	// login is complete, and its client known, only after the code.
	SecondFactor []string
	// SignedIn describes a signed-in user, whose password the app does not check: "page /account" and conditions for the
	// response to GET. Use "never" if the app checks the password all the same. Empty: see Route.Basis.
	SignedIn []string
	// Passes are fields of other forms at the same single path, as form:NAME or param:NAME. A plain form with one of them,
	// and without account and password in any reading, is no attempt. Other requests without a login are rejected. A login
	// may have these fields even if they have the name of an account. Only for that, json:/POINTER is possible, too.
	Passes []string
	// SealedCookies are names of cookies that contain a password, with * for any text. The app gets only cookies that it
	// has set itself: the proxy adds a MAC to them. They apply to all paths of the app.
	SealedCookies []string
}

// A Route is a valid Spec. It is immutable and safe for concurrent use.
type Route struct {
	Name string
	// Sibling: the path only begins with the route's name. The app there may have other users: failures count, and
	// successes make no client known.
	Sibling  bool
	path     path
	methods  []string
	account  locator
	password locator // of kind nowhere if there is none
	names    *regexp.Regexp
	rule     rule
	signedIn signedInRule
	second   bool // SecondFactor
	passes   []locator
	sealed   []*regexp.Regexp // names of cookies
	below    *Route           // the same for what is below a single path; nil: see path.below
	input    *regexp.Regexp   // the password's, in a page; nil if it has no name
}

// Compile returns the route, or all errors in s, each with its key and a colon first.
func Compile(s Spec) (*Route, error) {
	r := &Route{Name: s.Name, methods: s.Methods, second: s.Kind == SecondFactor}
	var errs [8]error
	switch {
	case s.Kind != "" && !r.second:
		errs[7] = fmt.Errorf("kind: must be second-factor or empty, not %.60q", s.Kind)
	case r.second && (s.Account != "" || s.Password == "" || len(s.SecondFactor) > 0):
		return r, errors.New("kind: second-factor needs the code's field as password, and no account or second_factor")
	case r.second: // read like a name without a password
		s.Account, s.Password = s.Password, ""
	}
	if !namePattern.MatchString(s.Name) {
		errs[0] = fmt.Errorf("name: must be 1 to 40 lower-case letters, digits and -, not %.60q", s.Name)
	}
	r.path, errs[1] = parsePath(s.Path)
	if len(r.methods) == 0 {
		r.methods = []string{http.MethodPost}
	}
	errs[2] = errors.Join(r.locate(s), r.checkMethods())
	r.rule, errs[3] = parseRule(s)
	if r.names, errs[4] = regexp.Compile(`^(?:` + cmp.Or(s.Names, ".*") + `)$`); errs[4] != nil {
		errs[4] = fmt.Errorf("names: must be a regular expression such as [A-Za-z0-9._@+-]+: %w", errs[4])
	} else if !slices.ContainsFunc(everyday, r.names.MatchString) {
		errs[4] = fmt.Errorf("names: must match whole names, but matches none of %s, so no account could log in: write one "+
			"such as [A-Za-z0-9._@+-]+", strings.Join(everyday, ", "))
	}
	errs[5] = r.parseSignedIn(s.SignedIn)
	errs[6] = r.exceptions(s.Passes)
	for _, name := range s.SealedCookies {
		r.sealed = append(r.sealed, wildcard(CookieName(name), ""))
	}
	if name := html.EscapeString(r.password.name); name != "" {
		r.input = regexp.MustCompile(`(?i)<[a-z-]*input[^>]*\sname\s*=\s*["']?` + regexp.QuoteMeta(name) + `["'\s/>]`)
	}
	r.path.prefix = r.path.folder && r.account.kind == basic // nginx and lighttpd protect /admin and /adminx alike
	if r.path.below != nil {
		r.path.below.prefix = true // Sinatra's /login.?:format?, Django's ^login, rewrite rules
		folder := *r
		folder.path, r.below = *r.path.below, &folder
	}
	return r, errors.Join(errs[:]...)
}

func (r *Route) exceptions(written []string) error {
	for _, one := range written {
		l, err := parseLocator(one)
		if err != nil || l.kind != form && l.kind != param && (l.kind != object || r.account.kind != object) {
			return fmt.Errorf("passes: must be form:NAME or param:NAME, a field of another form, or json:/POINTER on a route "+
				"for JSON, not %.60q", one)
		}
		r.passes = append(r.passes, l)
	}
	if r.path.folder && slices.ContainsFunc(r.passes, func(l locator) bool { return l.kind != object }) {
		return errors.New("passes: is for a single path only: remove it, because other forms in a folder pass anyway")
	}
	return nil
}

// everyday are typical account names. A pattern that matches none of them probably matches no account.
var everyday = []string{"alice", "Alice", "BOB", "alice.smith", "alice_smith", "alice-smith", "a1", "user01",
	"u1234567", "AB123456", "123456", "alice@example.org", `EXAMPLE\alice`, "Alice Smith"}

func (r *Route) checkMethods() error {
	for _, m := range r.methods {
		if m == "" || strings.ContainsFunc(m, func(c rune) bool { return c < 'A' || c > 'Z' }) {
			return fmt.Errorf("methods: must be names such as POST, not %.60q", m)
		}
	}
	return nil
}

func (r *Route) locate(s Spec) (err error) {
	if r.account, err = parseLocator(s.Account); err != nil {
		return fmt.Errorf("account: %w", err)
	}
	if s.Password == "" {
		if r.account.kind == basic {
			r.password = r.account
		}
		return nil
	}
	if r.password, err = parseLocator(s.Password); err != nil {
		return fmt.Errorf("password: %w", err)
	}
	if r.account.kind == object && r.account.pointer[0] == "variables" {
		return errors.New("account: GraphQL cannot be guarded here: a query may hold the login itself, and many of them; " +
			"use the decision API in the app")
	}
	if r.password.kind != r.account.kind {
		return fmt.Errorf("password: must be in the same place as the account, %s", strings.SplitN(s.Account, ":", 2)[0])
	}
	return nil
}

// SecondFactor is the kind of a route for the codes after a password.
const SecondFactor = "second-factor"

// SecondFactor reports whether the route's credentials are codes, as names without a password.
func (r *Route) SecondFactor() bool { return r != nil && r.second }

// SecondFactor reports whether one of the routes is for codes.
func (t Table) SecondFactor() bool { return slices.ContainsFunc(t, (*Route).SecondFactor) }

// offers reports whether requests with this method are logins here. Servers read the Authorization header of every
// request and answer HEAD like GET.
func (r *Route) offers(method string) bool {
	return r.account.kind == basic || slices.Contains(r.methods, method) || slices.Contains(r.methods, "ANY") ||
		method == http.MethodHead && slices.Contains(r.methods, http.MethodGet)
}

// Basic reports whether the route reads the Authorization header, and no body.
func (r *Route) Basic() bool { return r.account.kind == basic }

// A Table is the guarded routes of an app, in their order. The zero Table has none.
type Table []*Route

// A Place is the result of a path lookup.
type Place uint8

const (
	// Elsewhere: the path is not guarded.
	Elsewhere Place = iota
	// Here: the path is guarded.
	Here
	// Ambiguous: some apps read the path as a guarded one, others do not.
	Ambiguous
)

// At returns the routes at the escaped path of a request, without its query.
func (t Table) At(escaped string) (at Table, where Place) {
	plain, readings := read(escaped)
	for _, r := range t {
		in, below := r.path.match(plain, readings)
		if in == Ambiguous {
			return nil, Ambiguous
		}
		if below {
			r = r.below
		}
		if in == Here {
			if r.path.prefix && !r.path.owns(plain, readings) {
				other := *r
				other.Sibling, r = true, &other
			}
			at, where = append(at, r), Here
		}
	}
	if isRoot(escaped) {
		root, _ := t.At("/")
		for _, r := range root {
			if !slices.Contains(at, r) && !r.path.folder {
				other := *r // forms pass, as in a folder
				other.path.folder = true
				at, where = append(at, &other), Here
			}
		}
	}
	// At /app2/x, and at /app/admin/x, the route for /app/* is not what the app asks for.
	slices.SortStableFunc(at, func(a, b *Route) int { return len(b.path.written) - len(a.path.written) })
	return at, where
}

// Single reports whether one of the routes is a single path, where every request is checked.
func (t Table) Single() bool {
	return slices.ContainsFunc(t, func(r *Route) bool { return !r.path.folder })
}

// SealsCookies reports whether there are sealed cookies.
func (t Table) SealsCookies() bool {
	return slices.ContainsFunc(t, func(r *Route) bool { return len(r.sealed) > 0 })
}

// Seals reports whether one of the names, each as CookieName returns it, is that of a sealed cookie.
func (t Table) Seals(names ...string) bool {
	return slices.ContainsFunc(t, func(r *Route) bool {
		return slices.ContainsFunc(r.sealed, func(p *regexp.Regexp) bool { return slices.ContainsFunc(names, p.MatchString) })
	})
}

// CookieName returns a name the same for every spelling: PHP reads my.app and my[app as my_app, and Node trims more
// than white space. An asterisk, which stands for any text, remains.
func CookieName(text string) string {
	return strings.ToLower(strings.Trim(strings.Map(func(c rune) rune {
		if unicode.IsLetter(c) || unicode.IsDigit(c) || c == '*' {
			return c
		}
		return '_'
	}, strings.ToValidUTF8(Decoded(text), "_")), "_"))
}

// ReadsJSON reports whether one of the routes reads JSON, which only scripts and programs send.
func (t Table) ReadsJSON() bool {
	return slices.ContainsFunc(t, func(r *Route) bool { return r.account.kind == object })
}

// MayRead reports whether one of the routes reads passwords from bodies. It then reads every body, since apps ignore
// the type.
func (t Table) MayRead() bool {
	return slices.ContainsFunc(t, func(r *Route) bool { return r.account.kind != basic })
}
