package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"authguard/captchamode"
	"authguard/captchamode/challenge"
	"authguard/captchamode/challenge/pow"
	"authguard/captchamode/challenge/remote"
	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/alerts"
	"authguard/internal/background"
	"authguard/internal/codes"
	"authguard/internal/config"
	"authguard/internal/control"
	"authguard/internal/counters"
	"authguard/internal/database"
	"authguard/internal/learn"
	"authguard/internal/metrics"
	"authguard/internal/mfa"
	"authguard/internal/outbox"
	"authguard/internal/passwords"
	"authguard/internal/policy"
	"authguard/internal/route"
	"authguard/internal/seal"
	"authguard/internal/sessions"
	"authguard/trusted"
	"authguard/web"
	"authguard/web/admin"
	webclient "authguard/web/client"
	"authguard/web/pages"
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
	access  atomic.Pointer[route.AccessRules] // of forward auth
	hold    atomic.Int64                      // nanoseconds for which an attempt may be held
	clients webclient.Identity                // headers of the client fingerprint
	proxy   *proxy.Proxy
	app     atomic.Pointer[proxy.Proxy]             // proxy while an app is configured, else nil
	prober  *learn.Prober                           // of its routes
	routes  atomic.Pointer[map[string]*guard.Guard] // of the proxy's routes with their own counters
}

func (s *site) openRealm(ctx context.Context, name string, c config.Config) (*realm, error) {
	r := &realm{name: name, site: s, config: c, log: s.log, publicPart: publicPart{look: web.NewLook()}}
	if name != guard.DefaultRealm {
		r.log = s.log.With("realm", name)
	}
	r.prober = learn.NewProber(func(route string) { s.watch.alerts.LooseRoute(name, route) }, r.log)
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
	r.people.forget = r.people.users.OnNewPassword(r.forget)
	r.adopt(c)
	if err = r.openMailer(); err != nil {
		return err
	}
	r.Add(background.Run(r.control.Lists.Run), background.Run(r.control.Limits.Run),
		background.Run(r.prober.Run))
	r.handler = r.public(s.listeners)
	return nil
}

func (r *realm) dress(c config.Config) error {
	look, missing, err := pages.OpenLook(c.Pages)
	if err != nil {
		return err
	}
	for _, one := range missing {
		r.log.Warn("pages.texts: a translation is incomplete; missing texts are shown in English", "file", one)
	}
	r.look.Set(look)
	return nil
}

// mode is CAPTCHA mode and its challenges.
type mode struct {
	*captchamode.Mode
	saved      *policy.ModeStore
	work       [2]*pow.Provider // without and with an image CAPTCHA
	remote     *remote.Provider // on the web
	widget     web.Widget       // remote's, if it is configured
	challenges *challenge.Issuer
}

func openMode(ctx context.Context, r *realm) (m *mode, err error) {
	on, shared := r.site.storage, r.site.counting.shared
	m = &mode{saved: policy.NewModeStore(policy.ModeConfig{DB: on.db, Realm: r.name, Bus: r.site.watch.bus, Log: r.log})}
	if m.Mode, err = captchamode.NewMode(r.config.CAPTCHAMode.Mode(), on.clock.Now, m.saved.Switched); err != nil {
		return nil, err
	}
	if err := m.saved.Load(ctx, m.Mode); err != nil {
		return nil, err
	}
	r.Add(background.Undo(on.changes.On(database.ModeChanged(r.name), m.saved.Sync)))
	if shared != nil {
		joined, err := shared.Join(r.name, m.Mode)
		if err != nil {
			return nil, err
		}
		r.Add(joined)
	}
	if err := m.openChallenges(r); err != nil {
		return nil, err
	}
	r.Add(background.Run(m.saved.Run), background.Run(m.Mode.Run), background.Run(m.remote.Run))
	return m, nil
}

// picturesKept is the number of bytes of images, and of sounds, that a realm caches besides the default one: there may
// be many realms.
const picturesKept = 2 << 20

// openChallenges creates the challenges. All realms share the secret: the challenge's bond is keyed by realm.
func (m *mode) openChallenges(r *realm) (err error) {
	on, spent, wanted := r.site.storage, r.site.counting.spent, r.config.Challenge
	kept := 0 // the default
	if r.name != guard.DefaultRealm {
		kept = picturesKept
	}
	for i, provide := range [...]func(int64) (*pow.Provider, error){pow.New, pow.WithPicture} {
		if m.work[i], err = provide(int64(wanted.PowCost)); err != nil {
			return err
		}
	}
	failed := func(kind string, err error) {
		r.log.Error("challenge provider failed; the built-in image CAPTCHA replaces it", "kind", kind, "error", err)
	}
	changed := func(up bool, why error) {
		if !up {
			failed(challenge.KindRemote, why)
		}
		r.site.watch.alerts.ProviderChanged(r.name, up, why)
	}
	m.remote = remote.New(spent, changed, on.clock.Now)
	if err := m.setRemote(r.config); err != nil {
		return err
	}
	m.challenges, err = challenge.New(challenge.Config{
		Secret: on.keys.Challenges, Now: on.clock.Now, Spent: spent, BuiltIn: r.site.how.builtIn, Kept: kept,
		Others: []challenge.Provider{m.work[0], m.work[1], m.remote}, Preferred: wanted.Preferred(),
		OnFallback: func(kind string, err error) {
			if kind != challenge.KindRemote { // changed reports this, once
				failed(kind, err)
			}
		},
	})
	return err
}

// setRemote configures the provider on the web. While it is off, no login asks it for its widget.
func (m *mode) setRemote(c config.Config) error {
	if err := m.remote.Set(c.Provider()); err != nil {
		return err
	}
	if c.Challenge.Remote() {
		m.widget.Store(m.remote)
	} else {
		m.widget.Store(nil)
	}
	return nil
}

func (m *mode) reload(c config.Config) error {
	return errors.Join(
		m.work[0].SetWork(int64(c.Challenge.PowCost)), m.work[1].SetWork(int64(c.Challenge.PowCost)),
		m.setRemote(c), m.challenges.Set(c.Challenge.Preferred()),
	)
}

// people are the accounts of a realm, and what they sign in with.
type people struct {
	normalise     func(string) (string, error)
	accounts      *accounts.Table    // authguard's own; administrators are always here
	users         *accounts.Public   // of the public login
	checker       *passwords.Checker // for accounts
	sourceChecker *passwords.Checker // for users, if they are not in accounts
	gate          *passwords.Queue
	sessions      *sessions.Store
	codes         *codes.Table // verification codes
	// forget handles an account whose password changed elsewhere; nil: not possible.
	forget func(context.Context, string)
	mailer *codes.Mailer // sends verification codes; nil without a mail server
	web.LoginEmails
	// unusable counts unsupported hashes; told is the time of the last alert about them, in nanoseconds.
	unusable atomic.Uint64
	told     atomic.Int64
}

func openPeople(ctx context.Context, r *realm) (p *people, err error) {
	s, on, notify := r.site, r.site.storage, r.site.watch.alerts
	p = &people{normalise: guard.NormaliseAccount}
	if r.config.Accounts.CaseSensitive {
		p.normalise = guard.NormaliseExact
	}
	checks := r.config.Passwords
	p.gate, err = passwords.NewQueue(passwords.QueueConfig{AtOnce: checks.MaxConcurrent, Queue: checks.MaxQueued,
		MaxWait: checks.QueueTimeout, Hogged: func(h passwords.Heavy) { notify.QueueCrowded(r.name, h) },
		Timed: s.watch.metrics.Checked})
	if err != nil {
		return nil, err
	}
	for _, checker := range []**passwords.Checker{&p.checker, &p.sourceChecker} {
		if *checker, err = passwords.NewChecker(s.loaded.Passwords.Cost, nil); err != nil {
			return nil, err
		}
	}
	if err := accounts.EachHash(ctx, on.db, r.name, passwords.Sample, p.checker.Learn); err != nil {
		return nil, err
	}
	p.accounts, err = accounts.New(ctx, accounts.Config{
		DB: on.db, Realm: r.name, Normalise: p.normalise, Hash: p.checker.Hash, Now: on.clock.Now,
		Leaked: s.rejects,
	})
	if err != nil {
		return nil, err
	}
	if p.sessions, err = s.newSessions(r.name); err != nil {
		return nil, err
	}
	p.codes = codes.New(on.db, on.clock.Now).In(r.name)
	p.users, err = accounts.OpenPublic(ctx, accounts.PublicConfig{Settings: r.config.Accounts, Own: p.accounts,
		Normalise: p.normalise, Learn: p.sourceChecker.Learn,
		Changed: func(failed error) { notify.AccountsChanged(r.name, failed) }, Log: r.log})
	if err != nil {
		return nil, err
	}
	r.Add(background.Run(p.users.Run))
	return p, nil
}

// unusable alerts about an unsupported hash, at most once an hour.
func (r *realm) unusable(account string, why error) {
	r.people.unusable.Add(1)
	now, last := r.site.storage.clock.Now().UnixNano(), r.people.told.Load()
	if (last == 0 || now-last >= int64(time.Hour)) && r.people.told.CompareAndSwap(last, now) {
		r.site.watch.alerts.UnusableHash(r.name, account, why)
	}
}

// forget removes all known clients and verification codes of an account with a new password. An administrator of the
// same name keeps theirs.
func (r *realm) forget(ctx context.Context, account string) {
	if err := errors.Join(r.guard.RemoveKnownClients(ctx, account, netip.Addr{}), r.people.codes.RevokeIn(ctx, "",
		account)); err != nil {
		r.log.Error("known clients of an account with a new password could not be removed", "error", err)
	}
}

// openMailer starts the emails to account owners.
func (r *realm) openMailer() error {
	p, m, origin := r.people, r.config.Mail, r.config.Origin
	if m.Server == "" {
		return nil
	}
	server, err := outbox.NewMailServer(m.Server.Reveal(), m.From)
	if err != nil {
		return fmt.Errorf("mail.server: %w", err)
	}
	_, passkeys := mfa.SiteAt(origin)
	resets := m.PasswordReset && origin != "" && p.users.Own()
	for _, one := range []struct {
		to **outbox.Mailer
		on bool
		outbox.MailerConfig
	}{
		{&p.Notices, true, outbox.MailerConfig{Purpose: outbox.AboutNewClient, Code: r.codeFor, Sent: r.noticeSent}},
		{&p.Leaked, true, outbox.MailerConfig{Purpose: outbox.AboutLeakedPassword}},
		{&p.Added, passkeys && p.users.Own(), outbox.MailerConfig{Purpose: outbox.AboutPasskey}},
		{&p.Resets, resets, outbox.MailerConfig{Purpose: outbox.AboutReset, Sent: r.control.Accounts.ResetSent,
			Version: func(ctx context.Context, l outbox.Notice) (int64, error) { return p.users.Version(ctx, l.Account) }}},
		{&p.Changes, resets, outbox.MailerConfig{Purpose: outbox.AboutPasswordChange}},
	} {
		if !one.on {
			continue
		}
		one.Store, one.Realm, one.Secret = r.site.storage.outbox(r.log), r.name, r.site.storage.keys.Counters
		one.Send, one.Find = server.Send, p.users.Email
		one.Write = func(l outbox.Notice, token string) (string, string) {
			return r.look.Email(one.Purpose, m.Language, origin, l, token)
		}
		one.Failed = func(err error) { r.site.watch.alerts.NoticesFailed(r.name, err) }
		if *one.to, err = outbox.NewMailer(one.MailerConfig); err != nil {
			return err
		}
		r.Add(background.Run((*one.to).Run))
	}
	p.NotifyNewClient = m.NotifyNewClient
	p.mailer = codes.NewMailer(codes.MailerConfig{
		Store: r.site.storage.outbox(r.log), Codes: p.codes, Find: p.users.Mailbox, Send: server.Send, Origin: origin,
		Sent:   r.control.Accounts.CodeSent,
		Failed: func(err error) { r.site.watch.alerts.CodesFailed(r.name, err) },
	})
	r.Add(background.Run(p.mailer.Run))
	return nil
}

func (r *realm) noticeSent(ctx context.Context, l outbox.Notice) {
	if l.Stopped {
		r.control.Accounts.CodeSent(ctx, l.Account, r.site.storage.clock.Now().Add(codes.DefaultLife))
	}
}

// codeFor makes a verification code for the owner of an account whose right password was stopped (R32).
func (r *realm) codeFor(ctx context.Context, l outbox.Notice) (string, func(context.Context) error, error) {
	address, _ := netip.ParseAddr(l.Address)
	from, err := r.guard.CodeFor(l.Account, address)
	if err != nil {
		return "", nil, err
	}
	code, _, err := r.people.codes.Asked(ctx, codes.Grant{Directory: l.Directory, Account: l.Account,
		For: codes.DefaultLife, From: from.Address, RightPassword: true})
	switch {
	case errors.Is(err, codes.ErrEnough):
		return "", nil, nil
	case err != nil:
		return "", nil, err
	}
	return code, func(ctx context.Context) error { return r.people.codes.Forget(ctx, code) }, nil
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
		Now: on.clock.Now, Policy: limits, Secret: on.keys.Counters, Realm: name, Store: counting.stores[counters.Public],
		KnownClientConfig: guard.KnownClientConfig{
			KnownClients:    counting.known.Record,
			Cookies:         cookies,
			SharedAddresses: counting.known.SharedAddresses(),
		},
		Codes: r.people.codes, Leaked: &r.site.leaked.AtLogins, Mode: r.mode.Mode,
		Challenges: r.mode.challenges, Lists: r.site.lists,
		NameConfig: guard.NameConfig{
			Normalise: r.people.normalise,
			Canonical: r.people.users.Canonical(context.WithoutCancel(ctx)),
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

// unconfiguredProxy alerts about an unconfigured proxy, or one that does not forward the client's IP address (R9).
func (r *realm) unconfiguredProxy(f guard.UnconfiguredProxy) {
	w := control.UnconfiguredProxy(f)
	r.site.watch.alerts.RaiseIn(r.name, alerts.Kind(w.Code), w.Title,
		strings.TrimSpace(strings.ReplaceAll(w.Text, ". ", ".\n")+"\n"+w.Setting))
}

// administrationRealm keys the digests of the admin console's guard. No realm or route can have this name.
const administrationRealm = "/" + admin.Directory

// administration is the guard of the administrators' login. It has its own counters, known clients and CAPTCHA mode, so
// no flood at the public login challenges an administrator.
type administration struct {
	guard *guard.Guard
	mode  *captchamode.Mode
}

// openAdministration creates it for the default realm; it returns nil for others.
func openAdministration(ctx context.Context, r *realm) (a *administration, err error) {
	if r.name != guard.DefaultRealm {
		return nil, nil
	}
	limits, config := r.written.Load().ForAdministrators()
	a = new(administration)
	a.mode, err = captchamode.NewMode(config, r.site.storage.clock.Now, r.site.watch.alerts.AdministrationSwitched)
	if err != nil {
		return nil, err
	}
	a.guard, err = r.newGuard(ctx, administrationRealm, limits, func(c *guard.Config) {
		c.Store, c.Mode, c.Codes = r.site.counting.stores[counters.Administrators], a.mode, r.people.codes.Of(admin.Directory)
		c.Canonical = func(name string, _ netip.Addr) (string, error) { return r.people.accounts.Canonical(name), nil }
		c.Shared = r.guard.Shared
	})
	if err != nil {
		return nil, err
	}
	// The admin console has its own trusted proxies and is reached through tunnels.
	a.guard.Direct([]netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")})
	r.Add(background.Run(a.mode.Run))
	return a, nil
}

func (a *administration) enact(w policy.Written) error {
	if a == nil {
		return nil
	}
	limits, config := w.ForAdministrators()
	limits.KnownClients = a.guard.Policy().KnownClients // the store was created with these
	return errors.Join(a.guard.SetPolicy(limits), a.mode.SetConfig(config))
}

func (a *administration) ofSignIn() *guard.Guard {
	if a == nil {
		return nil
	}
	return a.guard
}

func (r *realm) openProxy(ctx context.Context) (err error) {
	d := r.site.listeners
	login := r.login(d, "login", &d.edge, r.config.Session.Lifetime, r.people.users.Source)
	base := proxy.Base
	if r.name != guard.DefaultRealm {
		base = proxy.BaseOf(r.name)
	}
	login.Look = r.look.Below(base)
	var claims challenge.Spent
	var away func() time.Duration
	if s := r.site.counting.shared; s != nil {
		claims, away = s.Sessions, s.Away
	}
	r.proxy, err = proxy.New(proxy.Config{
		Base: base, Edge: &d.edge, Guard: r.guardOf, Login: login, Look: r.look, Challenges: r.mode.challenges,
		Widget: &r.mode.widget, Hold: &r.hold, Identity: &r.clients, Secure: r.secure(d), Origin: r.config.Origin,
		Rivals: d.rivals, Claims: claims, Away: away,
		Secret: slices.Concat(r.site.storage.keys.Challenges, []byte(r.name)), Now: r.site.storage.clock.Now, Log: r.log,
	})
	if err != nil {
		return err
	}
	return r.setProxy(ctx)
}

// setProxy puts the configured app and routes in force. The route named login shares the site's counters; every other
// route has its own.
func (r *realm) setProxy(ctx context.Context) error {
	c := r.config.Proxy
	if c.Upstream == "" {
		r.app.Store(nil)
		r.proxy.Off()
		return nil
	}
	upstream, err := url.Parse(c.Upstream)
	if err != nil {
		return err
	}
	app := proxy.App{Upstream: upstream, Timeout: c.Timeout, Patience: c.ResponseTimeout, MaxBody: int64(c.MaxBody),
		Script: string(c.Script)}
	before, guards := r.routes.Load(), map[string]*guard.Guard{}
	for _, one := range c.Guarded() {
		compiled, err := route.Compile(one.Spec)
		if err != nil {
			return err
		}
		app.Routes = append(app.Routes, compiled)
		if one.Name == loginRoute || guards[one.Name] != nil {
			continue
		}
		policy := r.config.PolicyOf(one)
		if before != nil {
			guards[one.Name] = (*before)[one.Name]
		}
		if guards[one.Name] == nil { // with the configured limits, which it keeps failures for during an override
			if guards[one.Name], err = r.newGuard(ctx, r.name+"/"+one.Name, policy); err != nil {
				return err
			}
		}
		policy = r.overridden(policy)
		policy.KnownClients = guards[one.Name].Policy().KnownClients
		if err := guards[one.Name].SetPolicy(policy); err != nil {
			return err
		}
	}
	r.routes.Store(&guards)
	r.proxy.Set(app)
	r.app.Store(r.proxy)
	r.prober.Set(r.config)
	return nil
}

// loginRoute is the name of the route that shares the site's counters.
const loginRoute = "login"

// guardOf returns the guard of a route's counters.
func (r *realm) guardOf(name string) *guard.Guard {
	if guards := r.routes.Load(); guards != nil && (*guards)[name] != nil {
		return (*guards)[name]
	}
	return r.guard
}

func (r *realm) others() []*guard.Guard {
	if guards := r.routes.Load(); guards != nil {
		return slices.Collect(maps.Values(*guards))
	}
	return nil
}

// directoryOf returns where an account logs in. Only the app behind the proxy knows its accounts.
func (r *realm) directoryOf(ctx context.Context, name string) (string, error) {
	directory, err := r.people.users.DirectoryOf(ctx, name)
	if errors.Is(err, accounts.ErrUnknown) && r.app.Load() != nil {
		return "", nil
	}
	return directory, err
}

// inApp reports whether an app keeps the accounts: one behind the proxy, or a client of the decision API without
// accounts here.
func (r *realm) inApp(ctx context.Context) (bool, error) {
	behind := r.app.Load() != nil
	if behind || !r.api.On() || !r.people.users.Own() {
		return behind, nil
	}
	own, err := r.people.accounts.HasUsers(ctx)
	return !own, err
}

// before serves the proxy if the realm has an app, or else authguard's own pages. Beside an app, the decision API is
// available if a token for it exists.
func (r *realm) before(doors http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch app := r.app.Load(); {
		case app == nil, r.api.Owns(req.URL.Path) && r.api.On():
			doors.ServeHTTP(w, req)
		case r.site.listeners.edge.Probed(&r.site.listeners.probes, req):
			w.WriteHeader(http.StatusNoContent)
		default:
			app.ServeHTTP(w, req)
		}
	})
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
			DirectoryOf: r.directoryOf, Elsewhere: r.people.users.Elsewhere(), Source: r.people.users.Source, App: r.inApp,
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

func (r *realm) warnings() (all []alerts.Warning) {
	for _, name := range r.prober.Loose() {
		all = append(all, alerts.LooseWarning(r.name, name))
	}
	if why, since := r.people.users.Failed(); why != nil {
		all = append(all, alerts.AccountsWarning(r.name, why, since))
	}
	return all
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
	rules, _ := route.CompileAccess(c.Access) // validated by the configuration
	r.access.Store(&rules)
	r.clients.Set(c.ClientHeaders())
	r.config = c
	r.written.Store(writtenIn(c))
}

func tokensOf(realm string, c config.Config) (all []web.Token) {
	for _, t := range c.API.Tokens {
		all = append(all, web.Token{Sum: web.SumToken(t.Reveal()), Realm: realm})
	}
	return all
}
