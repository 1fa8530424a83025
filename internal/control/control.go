// Package control is the one service by which people steer a running server:
// the admin pages, the admin API and the commands all call it and nothing else.
//
// Every change names who asks for it, such as "admin:ann" or "cli:root", and is
// recorded in the audit log. Control decides no login and checks no permission:
// the doors do.
package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"time"

	"authguard/captchamode"
	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/alerts"
	"authguard/internal/attacks"
	"authguard/internal/audit"
	"authguard/internal/changes"
	"authguard/internal/factors"
	"authguard/internal/lists"
	"authguard/internal/passes"
	"authguard/internal/policy"
	"authguard/internal/sessions"
	"authguard/internal/tokens"
)

var (
	// ErrAsked says that what was asked for makes no sense. Its text tells what
	// to ask for instead.
	ErrAsked = errors.New("control: invalid request")
	// ErrUnrecorded says that a change was made and is not in the audit log.
	ErrUnrecorded = errors.New("control: done, but the audit log could not be written")
)

// Config is what a Control steers. All but Realm, Administration, Warn, Now and Log are required.
type Config struct {
	// Realm is the one that is steered; default guard.DefaultRealm. Lists, Listings,
	// Tokens, Audit, Tops and Changes are those of all realms.
	Realm string
	Guard *guard.Guard
	// Administration is the guard of the administrators' sign-in, which counts for itself
	// and has accounts of its own; nil: administrators sign in at another realm.
	Administration *guard.Guard
	// Others are guards that count for themselves beside it: what is unlocked or
	// forgotten is so there too. Nil: there are none.
	Others func() []*guard.Guard
	Mode   *captchamode.Mode
	// Lists are the allow and block lists in memory, Listings those in the
	// database.
	Lists    *guard.Lists
	Listings *lists.Table
	Accounts *accounts.Table
	Sessions *sessions.Store
	Passes   *passes.Table
	Tokens   *tokens.Table
	// Factors are the administrators' second factors.
	Factors *factors.Table
	Audit   *audit.Log
	// Attacks is also a sink of the event bus. Its maker runs it.
	Attacks *attacks.Recorder
	// Alerts is also a sink of the event bus.
	Alerts *alerts.Alerter
	// DirectoryOf is where the account of a canonical name logs in: at the Administration,
	// or empty; accounts.ErrUnknown if there is none.
	DirectoryOf func(ctx context.Context, name string) (directory string, err error)
	// Elsewhere says where the other doors look accounts up, such as "query", if
	// that is not in Accounts: only administrators can be added then.
	Elsewhere string
	// Source is where they look them up then.
	Source accounts.Source
	// App reports whether an app keeps the accounts and checks their passwords, behind the
	// proxy or with the decision API. Nil: it does not.
	App func(ctx context.Context) (bool, error)
	// Tops is also a sink of the event bus.
	Tops *Tops
	// Words are what was said of the policy, and Ledger, also a sink of the event bus, is
	// what it did; both of all realms.
	Overrides *policy.Table
	Ledger    *policy.Ledger
	// Written is the policy as the configuration has it, and Enact puts it in force with
	// these overrides. Nil: the guard's and the mode's as they are now, and both of them.
	Written func() policy.Written
	Enact   func(overrides []policy.Override) error
	// Nodes reports whether other nodes serve the same site.
	Nodes bool
	// Changes has the lists, account names and tokens read again when another node has
	// changed them. Its maker starts and stops it.
	Changes *changes.Watcher
	// Named are the named lists, of all realms; nil: there are none. Direct, if set, are
	// the proxies that are configured: blocking one blocks all who come through it.
	Named  *lists.Files
	Direct func() []netip.Prefix
	// Warn, if set, adds to what the overview warns of.
	Warn func() []Warning
	Now  func() time.Time // default time.Now
	Log  *slog.Logger     // default slog.Default()
}

// A Control steers one realm of a running server. It is safe for concurrent use.
type Control struct {
	config Config
	// reading orders readings of the lists, so that an older one is never set
	// after a newer one. The Controls of all realms share it, as they do the lists.
	reading *sync.Mutex
	closed  func()
	told    listsTold
	said    said

	glance sync.Mutex
	seen   Overview // by Glance
}

// New makes the Control of the first realm. Call Reload before the first attempt is
// decided: a server without its block list lets everybody in.
func New(c Config) (*Control, error) {
	control, err := newControl(c, new(sync.Mutex))
	if err == nil {
		c.Changes.On(changes.Lists, control.reloadLists)
	}
	return control, err
}

// Beside makes the Control of another realm of the same server. Close it when the
// realm is no more.
func (c *Control) Beside(other Config) (*Control, error) { return newControl(other, c.reading) }

// Realm is the name of the realm that is steered.
func (c *Control) Realm() string { return c.config.Realm }

// Now is the realm's clock.
func (c *Control) Now() time.Time { return c.config.Now() }

// Follow reads what other nodes have changed of the realm, now: for one that is added
// while the others are running.
func (c *Control) Follow(ctx context.Context) error { return c.config.Changes.Poll(ctx) }

// Close ends what New and Beside began.
func (c *Control) Close() { c.closed() }

func newControl(c Config, reading *sync.Mutex) (*Control, error) {
	var problems []error
	for name, missing := range map[string]bool{
		"Guard": c.Guard == nil, "Mode": c.Mode == nil, "Lists": c.Lists == nil, "Listings": c.Listings == nil, "Accounts": c.Accounts == nil,
		"Sessions": c.Sessions == nil, "Passes": c.Passes == nil, "Tokens": c.Tokens == nil, "Factors": c.Factors == nil, "DirectoryOf": c.DirectoryOf == nil, "Audit": c.Audit == nil, "Attacks": c.Attacks == nil, "Alerts": c.Alerts == nil, "Tops": c.Tops == nil, "Changes": c.Changes == nil,
		"Overrides": c.Overrides == nil, "Ledger": c.Ledger == nil,
	} {
		if missing {
			problems = append(problems, fmt.Errorf("control: %s: must be set", name))
		}
	}
	if c.Elsewhere != "" && c.Source == nil {
		problems = append(problems, errors.New("control: Source: must be set with Elsewhere"))
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	c.Realm = cmp.Or(c.Realm, guard.DefaultRealm)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	c.Tops.watch(c.Realm, c.Mode.Minutes)
	if c.Written == nil {
		c.Written, c.Enact = enactHere(c)
	}
	control := &Control{config: c, reading: reading}
	accounts, overrides := c.Changes.On(changes.Accounts, c.Accounts.Refresh), c.Changes.On(changes.Policy(c.Realm), control.ReadPolicy)
	control.closed = func() { accounts(); overrides() }
	return control, nil
}

// enactHere puts the policy in force in the one guard and the mode.
func enactHere(c Config) (func() policy.Written, func([]policy.Override) error) {
	written := policy.Written{Policy: c.Guard.Policy(), Mode: c.Mode.Config(), Enforce: true}
	return func() policy.Written { return written }, func(overrides []policy.Override) error {
		p, mode, err := written.With(overrides)
		return errors.Join(err, c.Guard.SetPolicy(p), c.Mode.SetConfig(mode))
	}
}

// MaxReason is the longest reason, in bytes.
const MaxReason = 500

// reason is why a person asks for a change, as it is put on record; none is no error. It is
// read before anything is changed.
func reason(why string) (string, error) {
	if why = strings.TrimSpace(why); len(why) > MaxReason {
		return "", fmt.Errorf("%w: shorten the reason to at most %d bytes", ErrAsked, MaxReason)
	}
	return why, nil
}

const recordWithin = 10 * time.Second // how long writing the audit log may take

// record puts a change on record, even if the client has hung up meanwhile: the
// change was made.
func (c *Control) record(ctx context.Context, a audit.Action) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordWithin)
	defer cancel()
	a.Realm = c.config.Realm
	if err := c.config.Audit.Record(ctx, a); err != nil {
		return fmt.Errorf("%w: %w", ErrUnrecorded, err)
	}
	return nil
}
