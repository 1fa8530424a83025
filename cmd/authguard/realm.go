package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"

	"authguard/guard"
	"authguard/internal/access"
	"authguard/internal/alerts"
	"authguard/internal/background"
	"authguard/internal/config"
	"authguard/internal/control"
	"authguard/internal/policy"
	"authguard/internal/seal"
	"authguard/trusted"
	"authguard/web"
	webclient "authguard/web/client"
	"authguard/web/proxy"
)

// realm is one site that this process serves; shared parts belong to site. All digests are keyed by the realm's name,
// so counters, known clients, challenges and tickets are never valid in another realm.
//
// Each realm has its own queue for password checks: an attack that fills one rejects no logins elsewhere, and does not
// raise the failure rate there.
type realm struct {
	background.Group
	name    string
	site    *site
	config  config.Config // as it applies in this realm; only reload changes it
	log     *slog.Logger
	leaving background.Part // stops the realm after its removal

	mode   *mode
	people *people
	guard  *guard.Guard
	// administration is the guard of the administrators' login; nil except in the default realm.
	administration *administration
	control        *control.Control
	written        atomic.Pointer[written] // the configured policy
	said           atomic.Pointer[[]policy.Override]
	publicPart
}

// publicPart is what a realm serves on the public listener.
type publicPart struct {
	handler http.Handler
	api     web.API
	look    *web.Look
	access  atomic.Pointer[access.Rules] // of forward auth
	hold    atomic.Int64                 // nanoseconds for which an attempt may be held
	clients webclient.Identity           // headers of the client fingerprint
	proxy   *proxy.Proxy
	app     atomic.Pointer[proxy.Proxy]             // proxy while an app is configured, else nil
	routes  atomic.Pointer[map[string]*guard.Guard] // of the proxy's routes with their own counters
}

func (s *site) openRealm(ctx context.Context, name string, c config.Config) (*realm, error) {
	r := &realm{name: name, site: s, config: c, log: s.log, publicPart: publicPart{look: web.NewLook()}}
	if name != guard.DefaultRealm {
		r.log = s.log.With("realm", name)
	}
	if err := r.open(ctx); err != nil {
		return nil, errors.Join(err, r.Stop())
	}
	return r, nil
}

func (r *realm) open(ctx context.Context) (err error) {
	s, c := r.site, r.config
	if err = r.dress(c); err != nil {
		return err
	}
	if r.mode, err = openMode(ctx, r); err != nil {
		return err
	}
	if r.people, err = openPeople(ctx, r); err != nil {
		return err
	}
	r.watchSource()
	if r.guard, err = r.newGuard(ctx, r.name, c.Policy()); err != nil {
		return err
	}
	r.written.Store(writtenIn(c))
	if r.administration, err = openAdministration(ctx, r); err != nil {
		return err
	}
	if err = r.openProxy(ctx); err != nil {
		return err
	}
	if err = r.openControl(); err != nil {
		return err
	}
	r.api = web.API{Guard: r.guard, Settled: s.counting.settled, Tokens: &s.tokens, Realm: r.name,
		Media: r.mode.challenges.Media, Identity: &r.clients}
	r.people.forget = r.people.onNewPassword(forgetting(r.guard, r.people.codes, r.log))
	r.adopt(c)
	if err = r.openMailer(); err != nil {
		return err
	}
	r.Add(background.Run(r.control.RunLists), background.Run(r.control.RunPolicy))
	r.handler = r.public(s.listeners)
	return nil
}

func (r *realm) openControl() (err error) {
	s, open := r.site, control.New
	if r.name != guard.DefaultRealm {
		open = s.main().control.Beside
	}
	r.control, err = open(control.Config{
		Realm: r.name, Guard: r.guard, Administration: r.administration.ofSignIn(), Others: r.others, Mode: r.mode.Mode,
		IPLists: control.IPLists{
			Lists: s.lists, Listings: s.listings, Named: s.named,
			Direct: func() []netip.Prefix { return *s.proxies.Load() },
		},
		Tables: control.Tables{
			Accounts: r.people.accounts, Sessions: r.people.sessions, Codes: r.people.codes, Tokens: s.issued,
			MFA: s.mfa,
		},
		Users: control.Users{
			DirectoryOf: r.directoryOf, Elsewhere: r.people.elsewhere(), Source: r.people.source, App: r.inApp,
		},
		Sinks: control.Sinks{
			Audit: s.watch.audit, Attacks: s.watch.attacks, Alerts: s.watch.alerts, Tops: s.watch.tops,
			Effects: s.watch.effects,
		},
		Policies: control.Policies{
			Overrides: s.overrides, Enact: r.enact,
			Written: func() policy.Written { return r.written.Load().Written },
		},
		Changes: s.storage.changes, Nodes: s.counting.shared != nil, Warn: s.warnings, Now: s.storage.clock.Now,
		Log: r.log,
	})
	if err == nil {
		r.Add(background.Undo(r.control.Close))
	}
	return err
}

// newGuard returns a guard whose digests are keyed by name.
func (r *realm) newGuard(
	ctx context.Context, name string, limits guard.Policy, changes ...func(*guard.Config),
) (*guard.Guard, error) {
	on, counting := r.site.storage, r.site.counting
	keys, err := r.cookieKeys()
	if err != nil {
		return nil, err
	}
	cookies, err := trusted.NewCookies(keys...)
	if err != nil {
		return nil, err
	}
	c := guard.Config{
		Now: on.clock.Now, Policy: limits, Secret: on.keys.Counters, Realm: name, Store: counting.stores[public],
		KnownClientConfig: guard.KnownClientConfig{
			KnownClients:    counting.known.Record,
			Cookies:         cookies,
			SharedAddresses: counting.known.SharedAddresses(),
		},
		Codes: r.people.codes, Mode: r.mode.Mode, Challenges: r.mode.challenges, Lists: r.site.lists,
		NameConfig: guard.NameConfig{
			Normalise: r.people.normalise,
			Canonical: r.people.canonical(context.WithoutCancel(ctx)),
		},
		Callbacks: guard.Callbacks{
			Observer:            r.site.watch.bus.In(r.name),
			Failed:              func(err error) { r.log.Error("a store failed; decided without it", "error", err) },
			Timed:               r.site.watch.metrics.Decided,
			OnUnconfiguredProxy: r.unconfiguredProxy,
			OnShared: func(address netip.Addr,
				accounts int) {
				r.log.Info("many accounts use an address: it is a shared address and no longer a known client", "address", address,
					"accounts", accounts)
			},
		},
		Epoch: counting.settled.Epoch(),
	}
	for _, change := range changes {
		change(&c)
	}
	g, err := guard.New(c)
	if err != nil {
		return nil, err
	}
	g.Direct(r.config.DirectClients)
	g.Proxies(r.config.TrustedProxies)
	return g, nil
}

// cookieKeys returns the keys of device cookies. The default realm uses those of the keys file, other realms derive
// theirs: a device cookie of one realm is not even recognized in another.
func (r *realm) cookieKeys() ([][]byte, error) {
	all := slices.Clone(r.site.storage.keys.Cookies)
	for i, key := range all {
		if r.name == guard.DefaultRealm {
			break
		}
		own, err := seal.Key(key, "device cookies of "+r.name, len(key))
		if err != nil {
			return nil, err
		}
		all[i] = own
	}
	return all, nil
}

func (r *realm) raise(kind alerts.Kind, title, body string) {
	r.site.watch.alerts.RaiseIn(r.name, kind, title, body)
}

// unconfiguredProxy alerts about an unconfigured proxy, or one that does not forward the client's IP address (R9).
func (r *realm) unconfiguredProxy(f guard.UnconfiguredProxy) {
	w := control.UnconfiguredProxy(f)
	r.raise(alerts.Kind(w.Code), w.Title, strings.TrimSpace(strings.ReplaceAll(w.Text, ". ", ".\n")+"\n"+w.Setting))
}

// reload puts a valid configuration in force, except for settings that need a restart.
func (r *realm) reload(c config.Config) error {
	err := errors.Join(r.mode.reload(c), r.dress(c))
	r.adopt(c)
	err = errors.Join(err, r.setProxy(context.Background()))
	return errors.Join(err, r.control.EnactPolicy())
}

type written struct {
	policy.Written
	routes map[string]guard.Policy // of routes with their own counters
}

func writtenIn(c config.Config) *written {
	w := &written{policy.Written{Policy: c.Policy(), Mode: c.CAPTCHAMode.Mode(), Enforce: !c.Monitor},
		map[string]guard.Policy{}}
	for _, one := range c.Proxy.Guarded() {
		w.routes[one.Name] = c.PolicyOf(one)
	}
	return w
}

// enact puts the policy in force, with the administrators' overrides.
func (r *realm) enact(overrides []policy.Override) error {
	w := r.written.Load()
	r.said.Store(&overrides)
	p, mode, err := w.With(overrides)
	p.KnownClients = r.guard.Policy().KnownClients // the store was created with these
	err = errors.Join(err, r.guard.SetPolicy(p), r.mode.SetConfig(mode), r.administration.enact(w.Written))
	if guards := r.routes.Load(); guards != nil {
		for name, g := range *guards {
			own := r.overridden(w.routes[name])
			own.KnownClients = g.Policy().KnownClients
			err = errors.Join(err, g.SetPolicy(own))
		}
	}
	return err
}

// overridden applies the realm's overrides to a route's policy.
func (r *realm) overridden(p guard.Policy) guard.Policy {
	overrides := r.said.Load()
	if overrides == nil {
		return p // not read yet
	}
	of := policy.Written{Policy: p, Enforce: r.written.Load().Enforce}
	p, _, _ = of.With(of.Enforceable(*overrides))
	return p
}

// adopt applies settings that cannot fail.
func (r *realm) adopt(c config.Config) {
	r.hold.Store(int64(c.Limits.DelayUpTo))
	rules, _ := access.Compile(c.Access) // validated by the configuration
	r.access.Store(&rules)
	r.clients.Set(clientHeaders(c))
	r.config = c
	r.written.Store(writtenIn(c))
}

// clientHeaders returns the headers of the client fingerprint; none if no limit uses it.
func clientHeaders(c config.Config) []string {
	if len(c.Limits.Fingerprint) == 0 {
		return nil
	}
	return c.Fingerprint.Headers
}

func tokensOf(realm string, c config.Config) (all []web.Token) {
	for _, t := range c.API.Tokens {
		all = append(all, web.Token{Sum: web.SumToken(t.Reveal()), Realm: realm})
	}
	return all
}
