// Package route knows the guarded routes of the reverse proxy: which requests are
// one, what account and password they offer, and what the app's answer says about
// them. It decides nothing and serves nothing.
//
// What a stranger sends may be read by the app in another way than by us. So
// nothing is guessed: a request is read in the one way that every parser shares
// (Read), or refused.
package route

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// A Spec is a guarded route as it is written in the configuration.
type Spec struct {
	// Name names the route and its counters: routes of one name count together.
	// "login" counts with the site's own login.
	Name string
	// Path is one path, or ends in /* for a folder, itself and everything below. What lies
	// below one path is treated as in a folder.
	Path string
	// Methods are those that offer a password; none: POST; ANY: all; GET is HEAD, too. On
	// a single path every other method than GET, HEAD and OPTIONS is refused. With
	// basic, all do.
	Methods []string
	// Account and Password say where they are: form:NAME in a form, param:NAME in a
	// form or in the query, json:/POINTER in a JSON object (RFC 6901), basic in the
	// Authorization header. Without Password, repeated guesses are not recognised
	// (R28).
	Account, Password string
	// Names is a regular expression for the whole of an account's name; every other
	// name is refused. An app that takes "al<b>ice" or "àlice" for alice would
	// otherwise have a counter for each way to write her. Empty: any name.
	Names string
	// Success tells a login that succeeded: all of it holds, and nothing of Failure
	// does. If something of Abandoned holds, the password was not looked at. An
	// answer that is none of these is a failure. See ParseCondition.
	Success, Failure, Abandoned []string
	// SignedIn says how to recognize a visitor who is signed in, whose password the app does
	// not check: "page /account" and conditions for the answer to a GET of it, or "never"
	// if the app checks it all the same. Empty: see Route.Basis.
	SignedIn []string
	// Passes are fields of other forms at the same single path, as form:NAME or
	// param:NAME: a plain form with one of them, and without the account's and the
	// password's field however it is read, is no attempt. Every other request without
	// these is refused.
	Passes []string
}

// A Route is a Spec that was found good. Routes do not change; they are safe for
// concurrent use.
type Route struct {
	Name     string
	path     path
	methods  []string
	account  locator
	password locator // of kind nowhere if there is none
	names    *regexp.Regexp
	rule     rule
	signedIn signedInRule
	passes   []locator
	below    *Route // the same in the folder of a single path's name; nil: see path.below
}

// Compile returns the route, or everything that is wrong with it: each error
// begins with the key that it is about and a colon.
func Compile(s Spec) (*Route, error) {
	r := &Route{Name: s.Name, methods: s.Methods}
	var errs [7]error
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
		errs[4] = fmt.Errorf("names: must match whole names, but matches none of %s, so no account could log in: write one such as [A-Za-z0-9._@+-]+", strings.Join(everyday, ", "))
	}
	errs[5] = r.parseSignedIn(s.SignedIn)
	errs[6] = r.exceptions(s.Passes)
	if r.path.below != nil {
		folder := *r
		folder.path, r.below = *r.path.below, &folder
	}
	return r, errors.Join(errs[:]...)
}

// exceptions reads Passes.
func (r *Route) exceptions(written []string) error {
	for _, one := range written {
		l, err := parseLocator(one)
		if err != nil || l.kind != form && l.kind != param {
			return fmt.Errorf("passes: must be form:NAME or param:NAME, a field of another form, not %.60q", one)
		}
		r.passes = append(r.passes, l)
	}
	if len(written) > 0 && r.path.folder {
		return errors.New("passes: is for a single path only: remove it, because other forms in a folder pass anyway")
	}
	return nil
}

// everyday are names of people. A pattern that fits none of them fits nobody, most likely.
var everyday = []string{"alice", "Alice", "BOB", "alice.smith", "alice_smith", "alice-smith", "a1", "user01", "u1234567", "AB123456", "123456", "alice@example.org", `EXAMPLE\alice`, "Alice Smith"}

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
		return errors.New("account: GraphQL cannot be guarded here: a query may hold the login itself, and many of them; use the decision API in the app")
	}
	if r.password.kind != r.account.kind {
		return fmt.Errorf("password: must be in the same place as the account, %s", strings.SplitN(s.Account, ":", 2)[0])
	}
	return nil
}

// offers reports whether requests with this method offer a password here. Servers look
// at the Authorization header of every request, and answer HEAD like GET.
func (r *Route) offers(method string) bool {
	return r.account.kind == basic || slices.Contains(r.methods, method) || slices.Contains(r.methods, "ANY") ||
		method == http.MethodHead && slices.Contains(r.methods, http.MethodGet)
}

// Basic reports whether the route reads the Authorization header, and no body.
func (r *Route) Basic() bool { return r.account.kind == basic }

// A Table is the guarded routes of an app, in their order. The zero Table has none.
type Table []*Route

// A Place is where a request goes.
type Place uint8

const (
	// Elsewhere is no guarded route.
	Elsewhere Place = iota
	// Here is one.
	Here
	// Ambiguous is for an app that reads the path in one way, and is not for one
	// that reads it in another.
	Ambiguous
)

// At returns the routes at the path of a request, as it was sent: escaped, without
// the query.
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
			at, where = append(at, r), Here
		}
	}
	return at, where
}

// Single reports whether one of the routes is at a single path: everything that is
// sent there is looked at.
func (t Table) Single() bool {
	return slices.ContainsFunc(t, func(r *Route) bool { return !r.path.folder })
}

// Page is the route whose login form a page at this path may be; nil if none.
func (t Table) Page() *Route {
	for _, r := range t {
		if !r.path.folder && (r.account.kind == form || r.account.kind == param) {
			return r
		}
	}
	return nil
}

// MayRead reports whether one of these routes looks for a password in a body. It then
// looks into every body, since apps read bodies of any type.
func (t Table) MayRead() bool {
	return slices.ContainsFunc(t, func(r *Route) bool { return r.account.kind != basic })
}
