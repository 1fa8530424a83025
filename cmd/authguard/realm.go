package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"authguard/captchamode"
	"authguard/guard"
	"authguard/internal/access"
	"authguard/internal/accounts"
	"authguard/internal/alerts"
	"authguard/internal/background"
	"authguard/internal/config"
	"authguard/internal/control"
	"authguard/internal/metrics"
	"authguard/internal/policy"
	"authguard/internal/seal"
	"authguard/trusted"
	"authguard/web"
	webclient "authguard/web/client"
	"authguard/web/proxy"
)

// main returns the default realm, whose administrators manage all realms.
func (s *site) main() *realm { return (*s.realms.Load())[0] }

func (s *site) realm(name string) *realm {
	all := *s.realms.Load()
	if i := slices.IndexFunc(all, func(r *realm) bool { return r.name == name }); i >= 0 {
		return all[i]
	}
	return nil
}

// attacked reports whether a realm's failure rate is above its baseline.
func (s *site) attacked(name string) bool {
	if s.realms.Load() == nil {
		return false
	}
	r := s.realm(name)
	return r != nil && r.mode.State().Level != captchamode.Calm
}

func (s *site) openRealms(ctx context.Context) error {
	first, err := s.openRealm(ctx, guard.DefaultRealm, s.loaded.Config)
	if err != nil {
		return err
	}
	all := []*realm{first}
	s.realms.Store(&all)
	for _, c := range s.loaded.Realms {
		r, err := s.openRealm(ctx, c.Name, s.loaded.In(c))
		if err != nil {
			return fmt.Errorf("realm %s: %w", c.Name, err)
		}
		all = append(all, r)
	}
	s.realms.Store(&all)
	s.origins.Store(s.loaded)
	s.dispatch(s.loaded)
	return nil
}

func (s *site) startRealms(ctx context.Context) (err error) {
	for _, r := range *s.realms.Load() {
		err = errors.Join(err, r.Start(ctx))
	}
	return err
}

func (s *site) stopRealms() (err error) {
	for _, r := range s.leaving {
		err = errors.Join(err, r.leaving.Stop())
	}
	if all := s.realms.Load(); all != nil {
		for _, r := range slices.Backward(*all) {
			err = errors.Join(err, r.Stop())
		}
	}
	return err
}

func (s *site) reloadRealms(loaded *config.Loaded) (err error) {
	before := *s.realms.Load()
	all := []*realm{before[0]}
	err = before[0].reload(loaded.Config)
	for _, c := range loaded.Realms {
		r := s.realm(c.Name)
		if r == nil {
			added, failed := s.addRealm(c.Name, loaded.In(c))
			if failed != nil {
				err = errors.Join(err, fmt.Errorf("realm %s: %w", c.Name, failed))
				continue
			}
			r = added
		} else {
			err = errors.Join(err, r.reload(loaded.In(c)))
		}
		all = append(all, r)
	}
	s.realms.Store(&all)
	s.origins.Store(loaded)
	for _, r := range before {
		if !slices.Contains(all, r) {
			s.leave(r)
		}
	}
	s.dispatch(loaded)
	return err
}

func (s *site) addRealm(name string, c config.Config) (*realm, error) {
	ctx := context.Background()
	s.leaving = slices.DeleteFunc(s.leaving, func(r *realm) bool {
		if r.name == name { // added again: save what it has learned first
			_ = r.leaving.Stop()
		}
		return r.name == name
	})
	r, err := s.openRealm(ctx, name, c)
	if err != nil {
		return nil, err
	}
	if err = r.control.Follow(ctx); err == nil {
		err = r.Start(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, r.Stop())
	}
	r.log.Info("realm added")
	return r, nil
}

// leaveAfter is when a removed realm stops: no ticket is valid for longer.
const leaveAfter = time.Minute

// leave stops new attempts in a removed realm. Requests in progress and tickets continue; the learned baseline stays in
// the database.
func (s *site) leave(r *realm) {
	r.log.Info("realm removed")
	s.leaving = append(s.leaving, r)
	r.leaving = background.Run(func(ctx context.Context) {
		select {
		case <-ctx.Done():
		case <-time.After(leaveAfter):
		}
		if err := r.Stop(); err != nil {
			r.log.Error("realm not stopped in full", "error", err)
		}
		s.watch.forget(r.name)
	})
	_ = r.leaving.Start(context.Background())
}

// readTokens puts tokens created by command in force.
func (s *site) readTokens(ctx context.Context) error {
	issued, err := s.issued.All(ctx)
	if err != nil {
		return err
	}
	all := make([]web.Token, 0, len(issued))
	for _, t := range issued {
		if len(t.Scopes) > 0 {
			continue // of the admin API: the public listener must not accept it
		}
		all = append(all, web.Token{Sum: t.Sum, Realm: t.Realm})
	}
	s.tokens.SetIssued(all)
	return nil
}

// trust records all configured proxies: blocking one may lock out all clients behind it.
func (s *site) trust(loaded *config.Loaded) {
	all := slices.Concat(loaded.TrustedProxies, loaded.ProxyProtocolFrom, loaded.Admin.TrustedProxies)
	s.proxies.Store(&all)
}

func (s *site) controls() (all []*control.Control) {
	for _, r := range *s.realms.Load() {
		all = append(all, r.control)
	}
	return all
}

func (s *site) gauges() (all []metrics.RealmGauges) {
	for _, r := range *s.realms.Load() {
		all = append(all, metrics.RealmGauges{Realm: r.name, Mode: r.mode.Mode, Held: r.guard.Held, HungUp: r.guard.HungUp,
			Checks: r.people.gate.State, Events: r.guard.Tallied, Enforced: r.control.Limits.Enforced,
			Unusable: r.people.unusable.Load})
	}
	return all
}

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
	routed  chan config.Config                      // the newest, whose routes are to be probed
	loose   atomic.Pointer[[]string]                // names of routes whose success matches every login
	routes  atomic.Pointer[map[string]*guard.Guard] // of the proxy's routes with their own counters
}

func (s *site) openRealm(ctx context.Context, name string, c config.Config) (*realm, error) {
	r := &realm{name: name, site: s, config: c, log: s.log, publicPart: publicPart{look: web.NewLook(),
		routed: make(chan config.Config, 1)}}
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
		Media: r.mode.challenges.Media, Identity: &r.clients, Leaked: s.leaked}
	r.people.forget = r.people.onNewPassword(forgetting(r.guard, r.people.codes, r.log))
	r.adopt(c)
	if err = r.openMailer(); err != nil {
		return err
	}
	r.Add(background.Run(r.control.Lists.Run), background.Run(r.control.Limits.Run),
		background.Run(r.probeRoutes))
	r.handler = r.public(s.listeners)
	return nil
}

func (r *realm) openControl() (err error) {
	s, open := r.site, control.New
	if r.name != guard.DefaultRealm {
		open = control.Beside
	}
	r.control, err = open(control.Config{
		Realm: r.name, Guard: r.guard, Administration: r.administration.ofSignIn(), Others: r.others, Mode: r.mode.Mode,
		IPLists: control.IPLists{Listings: s.listings, Named: s.named},
		Tables: accounts.Tables{
			Accounts: r.people.accounts, Sessions: r.people.sessions, Codes: r.people.codes, Tokens: s.issued,
			MFA: s.mfa,
		},
		Users: accounts.Users{
			DirectoryOf: r.directoryOf, Elsewhere: r.people.elsewhere(), Source: r.people.source, App: r.inApp,
		},
		Sinks: control.Sinks{
			Audit: s.watch.audit, Attacks: s.watch.attacks, Alerts: s.watch.alerts, Tops: s.watch.tops,
			Effects: s.watch.effects,
		},
		Policies: control.Policies{
			Overrides: s.overrides, Enact: r.enact,
			Written: r.configured,
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
		Codes: r.people.codes, Leaked: &r.site.leaked.AtLogins, Mode: r.mode.Mode, Challenges: r.mode.challenges, Lists: r.site.lists,
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
	return errors.Join(err, r.control.Limits.EnactNow())
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
	p, _, _ = of.With(of.Enforceable(r.written.Load().Inherited(*overrides, p)))
	return p
}

// configured returns the configured policy, with where its limits are set.
func (r *realm) configured() policy.Written {
	w := r.written.Load().Written
	if loaded := r.site.origins.Load(); loaded != nil {
		w.Origin = func(limitSet string, i int) string { return loaded.LimitOrigin(r.name, limitSet, i).String() }
	}
	return w
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
