// Package operation has what all operations of administrators share: the request, its sender, their permissions, and
// the change. The operations are in the packages that they change; internal/control has their table.
package operation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"

	"authguard/internal/times"
)

var (
	// ErrAsked means an invalid request. Its text says what to send instead.
	ErrAsked = errors.New("operation: invalid request")
	// ErrUnrecorded means that a change was made but is missing from the audit log.
	ErrUnrecorded = errors.New("operation: done, but the audit log could not be written")
)

// A Request has the fields of an operation, with their names in JSON, queries and forms, and with tags for package
// kong. S is what the operation changes. A Request that is Checked restricts who may do this, after the scope.
type Request[S any] interface {
	// Do makes the change. It returns nil if nothing was changed. A Change with an error is incomplete.
	Do(ctx context.Context, s S, by By) (*Change, error)
}

// Uploaded is a Request that reads a file of size bytes from the body, and reports its progress.
type Uploaded interface {
	Upload(file io.Reader, size int64, progress func(done, total int64))
}

// Checked decides who may make a request.
type Checked interface {
	May(ctx context.Context, p Powers, by By) error
}

// Powers says who may change an account.
type Powers interface {
	// MayChange requires at least the power that the account gives.
	MayChange(ctx context.Context, by By, name string) error
	// MayUnlock protects administrators' counters and known clients.
	MayUnlock(ctx context.Context, by By, name string) error
}

// A Change is what an operation did. What and Why of its Action are those of the operation, unless set.
type Change struct {
	Action
	Answer  any     // of the API; nil: {"ok": true}
	Preview bool    // nothing is left to record
	Notice  Notice  // of a form
	Undo    any     // a pointer to the request that restores what was before; nil if there is none
	Secret  Secret  // shown only once
	Alert   string  // the text of the operation's alert; empty for none
	Also    *Change // recorded afterwards
}

// An Action is an operation for the audit log.
type Action struct {
	Who string // required
	// Realm is the realm; default guard.DefaultRealm.
	Realm string
	What  string // a stable code such as "unlock", "block" or "captcha-on"; required
	// Subject is the target, which audit.Filter finds by Network or else by Account. Empty means the whole site.
	Subject string
	Detail  string
	// Why is the administrator's reason; it follows Detail.
	Why string
}

// On returns the Action on an account, an IP address, or an account at an IP address.
func On(account string, address netip.Addr) Action {
	a := Action{Subject: account}
	switch {
	case !address.IsValid():
	case account == "":
		a.Subject = address.String()
	default:
		a.Detail = "at " + address.String()
	}
	return a
}

// A Notice is the outcome on a page.
type Notice struct {
	Text, Subject string
	Bad           bool
	// Note says what Undo does not restore, or why there is no undo.
	Note string
}

// Undone is the reason of an operation that undoes another.
const Undone = "undone"

// A Secret is shown only once, by the page after the form.
type Secret struct{ What, Name, Text, Hint string }

// By is the sender of a request.
type By struct {
	Who     string     // for the audit log
	Token   bool       // an API token with Scopes; false: an administrator's session, or a command
	Scopes  []Scope    // of the token
	Fresh   bool       // a recent sign-in, or a command
	Maker   string     // the signed-in administrator
	Address netip.Addr // of a browser: it must not be blocked
	Named   bool       // the request names its realm
	Users   bool       // administrators' accounts are rejected

	// Set by Control.Operate: the realm, the time, and the request's reason.
	Realm string
	Now   time.Time
	Why   string
}

// May reports whether the sender has a scope. Only tokens are restricted.
func (b By) May(scope Scope) bool { return !b.Token || Includes(b.Scopes, scope) }

// Refused means that the sender may not do this.
type Refused struct{ Type, Title, Detail string }

func (r Refused) Error() string { return r.Title + ": " + r.Detail }

// Needs returns an error if a token lacks a scope.
func (b By) Needs(scope Scope) error {
	if b.May(scope) {
		return nil
	}
	return OutOfScope(b.Scopes, "this requires the scope "+string(scope))
}

// OutOfScope is the error for a token with insufficient scopes.
func OutOfScope(scopes []Scope, why string) error {
	all := make([]string, len(scopes))
	for i, one := range scopes {
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
	if err := b.Needs(Admin); err != nil {
		return err
	}
	return b.Recent()
}

// Recent requires a recent sign-in of a session. A token needs none: it has a scope.
func (b By) Recent() error {
	if !b.Token && !b.Fresh {
		return Refused{FreshRequired, "Recent sign-in required", StaleSession}
	}
	return nil
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

// MaxReason is the longest reason, in bytes.
const MaxReason = 500

// Reason returns the trimmed reason of a request, which may be empty.
func Reason(request any) (string, error) {
	q, ok := request.(interface{ why() string })
	if !ok {
		return "", nil
	}
	return Trimmed(q.why())
}

// Trimmed returns a reason without space around it, or an error if it is too long.
func Trimmed(why string) (string, error) {
	if why = strings.TrimSpace(why); len(why) > MaxReason {
		return "", fmt.Errorf("%w: shorten the reason to at most %d bytes", ErrAsked, MaxReason)
	}
	return why, nil
}

// OfAccount names the account to change.
type OfAccount struct {
	Username string `json:"username" arg:"" name:"name" help:"User name or email address"`
}

// May implements Checked.
func (q OfAccount) May(ctx context.Context, p Powers, by By) error {
	return p.MayChange(ctx, by, q.Username)
}

// OfAdministrator names the administrator to change.
type OfAdministrator struct {
	Username string `json:"username" arg:"" name:"name" help:"User name of the administrator"`
}

// May implements Checked.
func (OfAdministrator) May(_ context.Context, _ Powers, by By) error { return by.MayChangeSignIn() }

// Own is in requests about the sender's own sign-in, the account By.Maker. No token may send them: an attacker could
// set up a TOTP app that outlives the token.
type Own struct{}

// May implements Checked.
func (Own) May(_ context.Context, _ Powers, by By) error { return by.Recent() }

// HoldOf parses the field for; empty is 0, which selects the default.
func HoldOf(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := times.ParseDuration(text)
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

// Scope is a permission of an admin API token. The set is closed.
type Scope string

// The scopes. Only Admin includes others, because it could grant them to itself. Groups extends Accounts.
const (
	Read     Scope = "read"     // see everything except tokens and administrators' MFA
	Unlock   Scope = "unlock"   // reset counters, remove known clients
	Lists    Scope = "lists"    // change the allowlist and the blocklist
	Accounts Scope = "accounts" // add and change users without groups
	Groups   Scope = "groups"   // with Accounts: also users in groups, and their groups
	Mode     Scope = "mode"     // switch CAPTCHA mode
	Alerts   Scope = "alerts"   // change and test alerts
	Policy   Scope = "policy"   // monitor, enforce and override limits
	Admin    Scope = "admin"    // everything, including administrators and tokens
)

// Scopes returns all scopes.
func Scopes() []Scope {
	return []Scope{Read, Unlock, Lists, Accounts, Groups, Mode, Alerts, Policy, Admin}
}

// OverAll returns the scopes that apply to all realms; no token of one realm has them.
func OverAll() []Scope { return []Scope{Lists, Alerts, Admin} }

// Includes reports whether a token's scopes permit what needs a scope.
func Includes(scopes []Scope, scope Scope) bool {
	return slices.Contains(scopes, scope) || slices.Contains(scopes, Admin)
}
