// Package control changes and inspects the realms of a running server for the admin console, its API and the commands.
//
// A change by an administrator is an Operation of one table. It names its sender, such as "admin:ann" or "cli:root".
// Control checks what the sender may do, gives the request to the part of the realm that it changes, and records it in
// the audit log.
package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"authguard/captchamode"
	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/alerts"
	"authguard/internal/attacks"
	"authguard/internal/audit"
	"authguard/internal/database"
	"authguard/internal/lists"
	"authguard/internal/metrics"
	"authguard/internal/operation"
	"authguard/internal/policy"
)

// Config is what a Control works on. All but Realm, Administration, Warn, Now and Log are required.
type Config struct {
	// Realm is the realm; default guard.DefaultRealm. Lists, Listings, Tokens, Audit, Tops and Changes are shared.
	Realm string
	Guard *guard.Guard
	// Administration is the admin console's guard with its own counters and accounts; nil if another realm has it.
	Administration *guard.Guard
	// Others returns further guards of the realm with their own counters; resets apply to them too. It may be nil.
	Others func() []*guard.Guard
	Mode   *captchamode.Mode
	IPLists
	accounts.Tables
	accounts.Users
	Sinks
	Policies
	// Nodes is set if other nodes serve the same site.
	Nodes bool
	// Changes reloads lists, account names and tokens after a change by another node. The caller starts and stops it.
	Changes *database.Watcher
	// Warn, if set, adds warnings to the overview.
	Warn func() []alerts.Warning
	Now  func() time.Time // default time.Now
	Log  *slog.Logger     // default slog.Default()
}

// IPLists are the allowlist, the blocklist and IP lists.
type IPLists struct {
	Listings *lists.Table // of all realms, with its copy in memory
	Named    *lists.Files // from files, of all realms; nil for none
}

// Sinks get every event from the event bus. The caller runs them.
type Sinks struct {
	Audit   *audit.Log
	Attacks *attacks.Recorder
	Alerts  *alerts.Alerter
	Tops    *metrics.Tops
	Effects *policy.Effects // counts the effects of limits, of all realms
}

// Policies say which limits apply.
type Policies struct {
	Overrides *policy.Table // of all realms
	// Written returns the configured policy, Enact applies it with overrides. Nil: those of Guard and Mode.
	Written func() policy.Written
	Enact   func(overrides []policy.Override) error
}

// A Control manages one realm of a running server. It is safe for concurrent use.
type Control struct {
	Lists    *lists.Realm   // the allowlist, the blocklist and IP lists
	Limits   *policy.Limits // the limits in force
	Accounts *accounts.Realm
	config   Config
	closed   func()

	glance sync.Mutex
	seen   Overview // by Glance

	isSetUp atomic.Bool // the overview need not check any more
}

// New returns the Control of the first realm. Poll Changes before the first attempt, which needs the blocklist.
func New(c Config) (*Control, error) {
	control, err := Beside(c)
	if err == nil {
		c.Changes.On(database.ListsChanged, func(ctx context.Context) error { return c.Listings.Reload(ctx, control.Now()) })
	}
	return control, err
}

// Realm returns the name of the realm.
func (c *Control) Realm() string { return c.config.Realm }

// Now returns the realm's time.
func (c *Control) Now() time.Time { return c.config.Now() }

// Follow reads other nodes' changes of the realm now, for a realm added at run time.
func (c *Control) Follow(ctx context.Context) error { return c.config.Changes.Poll(ctx) }

// Close ends what New and Beside started.
func (c *Control) Close() { c.closed() }

// Beside returns the Control of another realm of the same server. Close it when the realm is removed.
func Beside(c Config) (*Control, error) {
	var problems []error
	for name, missing := range map[string]bool{
		"Guard": c.Guard == nil, "Mode": c.Mode == nil, "Listings": c.Listings == nil || c.Listings.Memory == nil,
		"Accounts": c.Accounts == nil,
		"Sessions": c.Sessions == nil, "Passes": c.Codes == nil, "Tokens": c.Tokens == nil, "MFA": c.MFA == nil,
		"DirectoryOf": c.DirectoryOf == nil, "Audit": c.Audit == nil, "Attacks": c.Attacks == nil, "Alerts": c.Alerts == nil,
		"Tops": c.Tops == nil, "Changes": c.Changes == nil,
		"Overrides": c.Overrides == nil, "Effects": c.Effects == nil,
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
	c.Tops.Watch(c.Realm, c.Mode.Minutes)
	if c.Written == nil {
		c.Written, c.Enact = enactHere(c)
	}
	control := &Control{config: c}
	control.Accounts = &accounts.Realm{Tables: c.Tables, Users: c.Users, Name: c.Realm, Guards: control.guardsOf,
		Attacks: c.Attacks, Alerts: c.Alerts, Record: control.record, Now: c.Now, Log: c.Log}
	control.Lists = &lists.Realm{Table: c.Listings, Files: c.Named, Name: c.Realm, Guards: control.guards, Now: c.Now,
		Policy: func() []guard.NamedList { return c.Guard.Policy().Lists }, Log: c.Log}
	control.Limits = &policy.Limits{Realm: c.Realm, Table: c.Overrides, Effects: c.Effects, Mode: c.Mode,
		Written: c.Written,
		Enact:   c.Enact, Alerts: c.Alerts, Accounts: control.Accounts, Record: control.record, Now: c.Now, Log: c.Log}
	refresh, overrides := c.Changes.On(database.AccountsChanged, c.Accounts.Refresh), c.Changes.On(database.PolicyChanged(c.Realm),
		control.Limits.Read)
	control.closed = func() { refresh(); overrides() }
	return control, nil
}

// enactHere applies the policy to the one guard and the mode.
func enactHere(c Config) (func() policy.Written, func([]policy.Override) error) {
	written := policy.Written{Policy: c.Guard.Policy(), Mode: c.Mode.Config(), Enforce: true}
	return func() policy.Written { return written }, func(overrides []policy.Override) error {
		p, mode, err := written.With(overrides)
		return errors.Join(err, c.Guard.SetPolicy(p), c.Mode.SetConfig(mode))
	}
}

const recordWithin = 10 * time.Second // time limit of a write to the audit log

// record writes a change to the audit log even if the client has disconnected, because the change was made.
func (c *Control) record(ctx context.Context, a operation.Action) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordWithin)
	defer cancel()
	a.Realm = c.config.Realm
	if err := c.config.Audit.Record(ctx, a); err != nil {
		return fmt.Errorf("%w: %w", operation.ErrUnrecorded, err)
	}
	return nil
}

func (c *Control) guards() []*guard.Guard {
	return append(c.guardsOf(""), c.guardsOf(accounts.Directory)...)
}

// guardsOf returns the guards that count the accounts of a directory.
func (c *Control) guardsOf(directory string) (all []*guard.Guard) {
	if directory != "" {
		if c.config.Administration != nil {
			all = append(all, c.config.Administration)
		}
		return all
	}
	all = append(all, c.config.Guard)
	if c.config.Others != nil {
		all = append(all, c.config.Others()...)
	}
	return all
}
