package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"time"

	"authguard/internal/accounts"
	"authguard/internal/audit"
	"authguard/internal/duration"
	"authguard/internal/tokens"
)

// An Operation is a change by an administrator. The API, forms and commands decode the same request; Do checks it,
// carries it out and records it. OpenAPI and the commands' help follow from the entry.
type Operation struct {
	Name  string // its code in the audit log
	Did   string // the code in words
	Route string // method and path below /api; empty: not in the API
	Scope tokens.Scope
	Where Where
	// Reason says why a reason is required. Empty: it is optional.
	Reason   string
	Created  bool  // the API answers 201
	MaxBody  int64 // in bytes; 0 is 64 KiB
	Forms    []Form
	Commands []Command
	Request  func() Request // returns a pointer to an empty request
}

// A Request has the fields of an operation, with their names in JSON, queries and forms, and with tags for package kong.
// If it has a method May, that decides who may do this, after the scope.
type Request interface {
	// Do makes the change. It returns nil if nothing was changed. A Change with an error is incomplete.
	Do(ctx context.Context, c *Control, by By) (*Change, error)
}

// Where is what an operation applies to.
type Where int

const (
	OneRealm   Where = iota // the request's realm; tokens of one realm may do it there
	NamedRealm              // the request's realm, but no token of one realm may do it
	AllRealms               // all realms, recorded in the request's
	MainRealm               // the default realm only
)

// A Form is an operation on a page.
type Form struct {
	Path   string
	Notice string // shown with the subject of the change, unless the Change has a notice
	Users  bool   // administrators' accounts are rejected
	// Set are fixed fields, empty for those that this form must not set. Default are those of empty ones, Alias other names
	// of fields in this form.
	Set, Default, Alias map[string]string
}

// A Command is an operation on the command line.
type Command struct {
	Name, Help, Example string
	// Says is the answer, a template over the flags and the API's answer.
	Says string
	// Set are fixed fields of the request, Flags a pointer to other flags than the request's fields.
	Set    map[string]string
	Flags  func() any
	Reason bool // a reason must be given
}

// A Change is what an operation did. Who, Realm and the defaults of What and Why are set by Operation.Do.
type Change struct {
	audit.Action
	Answer  any     // of the API; nil: {"ok": true}
	Preview bool    // nothing was changed
	Notice  Notice  // of a form
	Secret  Secret  // shown only once
	Also    *Change // recorded afterwards
}

// A Notice is the outcome on a page.
type Notice struct {
	Text, Subject string
	Bad           bool
}

// A Secret is shown in the response itself, because it must not be stored.
type Secret struct{ What, Name, Text, Hint string }

// By is the sender of a request.
type By struct {
	Who     string        // for the audit log
	Why     string        // the request's reason, set by Operation.Do
	Token   *tokens.Token // nil: an administrator's session, or a command
	Fresh   bool          // a recent sign-in, or a command
	Maker   string        // the administrator who creates a token
	Address netip.Addr    // of a browser: it must not be blocked
	Named   bool          // the request names its realm
	Users   bool          // administrators' accounts are rejected
}

// May reports whether the sender has a scope. Only tokens are restricted.
func (b By) May(scope tokens.Scope) bool { return b.Token == nil || b.Token.May(scope) }

// Refused means that the sender may not do this.
type Refused struct{ Type, Title, Detail string }

func (r Refused) Error() string { return r.Title + ": " + r.Detail }

// Needs returns an error if a token lacks a scope.
func (b By) Needs(scope tokens.Scope) error {
	if b.May(scope) {
		return nil
	}
	return OutOfScope(*b.Token, "this requires the scope "+string(scope))
}

// OutOfScope is the error for a token with insufficient scope.
func OutOfScope(t tokens.Token, why string) error {
	all := make([]string, len(t.Scopes))
	for i, one := range t.Scopes {
		all[i] = string(one)
	}
	return Refused{"scope", "Insufficient scope", why + "; this token has: " + strings.Join(all, ", ")}
}

// FreshRequired is the type of Refused for a session without a recent sign-in, and StaleSession its text.
const (
	FreshRequired = "fresh-login-required"
	StaleSession  = "Your last sign-in was more than ten minutes ago. Sign in again first."
)

// MayChangeSignIn protects tokens, administrators and their credentials, through which an attacker could gain permanent
// access. A session needs a recent sign-in, a token the scope.
func (b By) MayChangeSignIn() error {
	if err := b.Needs(tokens.Admin); err != nil {
		return err
	}
	if b.Token == nil && !b.Fresh {
		return Refused{FreshRequired, "Recent sign-in required", StaleSession}
	}
	return nil
}

// MayChange requires at least the power that the account gives: MayChangeSignIn for an administrator's, the scope for
// one in groups. For a token without the scope, an administrator's account does not exist, so that the token cannot
// enumerate administrators.
func (c *Control) MayChange(ctx context.Context, by By, name string) error {
	if by.Users {
		return c.User(ctx, name)
	}
	held, err := c.Held(ctx, name)
	switch {
	case err != nil || held == "":
		return err
	case held == tokens.Admin && !by.May(tokens.Admin):
		return accounts.ErrUnknown
	case held == tokens.Admin:
		return by.MayChangeSignIn()
	}
	return by.Needs(held)
}

// mayUnlock keeps tokens from administrators' counters and known clients. Otherwise an attacker could reset the limits
// between guesses. The name is trimmed as the operations trim it: with much space around it, Held would not find it.
func (c *Control) mayUnlock(ctx context.Context, by By, name string) error {
	held, err := c.Held(ctx, strings.TrimSpace(name))
	if err != nil || held != tokens.Admin {
		return err
	}
	return by.Needs(held)
}

// Because is an optional reason for the audit log.
type Because struct {
	Reason string `json:"reason" placeholder:"TEXT" help:"Reason, for the audit log"`
}

func (b Because) why() string { return b.Reason }

// Explained is a required reason for the audit log.
type Explained struct {
	Reason string `json:"reason" required:"" placeholder:"TEXT" help:"Reason, for the audit log"`
}

func (b Explained) why() string { return b.Reason }

// OfAccount names the account to change.
type OfAccount struct {
	Username string `json:"username" arg:"" name:"name" help:"User name or email address"`
}

// May implements the check of a Request.
func (q OfAccount) May(ctx context.Context, c *Control, by By) error {
	return c.MayChange(ctx, by, q.Username)
}

// OfAdministrator names the administrator to change.
type OfAdministrator struct {
	Username string `json:"username" arg:"" name:"name" help:"User name of the administrator"`
}

// May implements the check of a Request.
func (OfAdministrator) May(_ context.Context, _ *Control, by By) error { return by.MayChangeSignIn() }

// Do checks a request, makes the change and records it. Errors are ErrAsked for an invalid request, Refused, those of
// the operation, and ErrUnrecorded if only the record failed.
func (o *Operation) Do(ctx context.Context, c *Control, by By, q Request) (*Change, error) {
	if q, ok := q.(interface {
		May(ctx context.Context, c *Control, by By) error
	}); ok {
		if err := q.May(ctx, c, by); err != nil {
			return nil, err
		}
	}
	if q, ok := q.(interface{ why() string }); ok {
		var err error
		if by.Why, err = reason(q.why()); err != nil {
			return nil, err
		}
	}
	if o.Reason != "" && by.Why == "" {
		return nil, fmt.Errorf("%w: missing reason: %s", ErrAsked, o.Reason)
	}
	change, err := q.Do(ctx, c, by)
	switch {
	case change == nil && err == nil:
		return &Change{Preview: true}, nil
	case change == nil || change.Preview:
		return change, err
	}
	for one := change; one != nil; one = one.Also {
		a := one.Action
		a.Who, a.What, a.Why = by.Who, cmp.Or(a.What, o.Name), cmp.Or(a.Why, by.Why)
		err = errors.Join(err, c.record(ctx, a))
	}
	return change, err
}

// Do is Operation.Do for the entry of the table with this request.
func (c *Control) Do(ctx context.Context, by By, q Request) (*Change, error) {
	for _, o := range Operations() {
		if reflect.TypeOf(o.Request()).Elem() == reflect.Indirect(reflect.ValueOf(q)).Type() {
			return o.Do(ctx, c, by, q)
		}
	}
	return nil, fmt.Errorf("control: no operation has a request %T", q)
}

func request[Q any, P interface {
	*Q
	Request
}]() func() Request {
	return func() Request { return P(new(Q)) }
}

// holdOf parses the field for; empty is 0, which selects the default.
func holdOf(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := duration.Parse(text)
	if err == nil && d == 0 {
		err = errors.New("must be greater than zero")
	}
	if err != nil {
		return 0, fmt.Errorf("%w: for: %w", ErrAsked, err)
	}
	return d, nil
}

// AddressOf parses an IP address; an empty text is none. The error is ErrAsked.
func AddressOf(text string) (netip.Addr, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return netip.Addr{}, nil
	}
	a, err := netip.ParseAddr(text)
	if err != nil {
		return a, fmt.Errorf("%w: %.60q is not an IP address; write it like 192.0.2.7 or 2001:db8::7", ErrAsked, text)
	}
	return a.Unmap().WithZone(""), nil
}
