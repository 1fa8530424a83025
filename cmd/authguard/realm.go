package main

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"sync/atomic"

	"authguard/captchamode/challenge"
	"authguard/guard"
	"authguard/internal/alerts"
	"authguard/internal/background"
	"authguard/internal/config"
	"authguard/internal/control"
	"authguard/trusted"
	"authguard/web"
	"authguard/web/admin"
	"authguard/web/proxy"
)

// defaultRealm gets every request that no other realm claims.
const defaultRealm = "default"

// A realm is one of the sites that this process serves: what is its own is here,
// what it shares with the others is the site's. All digests are keyed by its name,
// so that no count, place, challenge or ticket of one realm is one in another.
type realm struct {
	name    string
	site    *site
	config  config.Config // as it is in this realm; only reload changes it
	log     *slog.Logger
	running background.Group

	mode    *mode
	people  *people
	guard   *guard.Guard
	proxy   *proxy.Proxy
	routes  atomic.Pointer[map[string]*guard.Guard] // of the proxy's routes that count for themselves
	control *control.Control
	api     web.API
	look    *web.Look
	hold    atomic.Int64 // nanoseconds for which an attempt may be held
}

func (s *site) openRealm(ctx context.Context, name string, c config.Config, builtIn challenge.Illustrated) (r *realm, err error) {
	r = &realm{name: name, site: s, config: c, log: s.log, look: web.NewLook()}
	if err := r.dress(c); err != nil {
		return nil, err
	}
	if r.mode, err = openMode(ctx, r, builtIn); err != nil {
		return nil, err
	}
	if r.people, err = openPeople(ctx, r); err != nil {
		return nil, err
	}
	if r.guard, err = r.newGuard(ctx, name, c.Policy()); err != nil {
		return nil, err
	}
	if err := r.openProxy(ctx); err != nil {
		return nil, err
	}
	r.control, err = control.New(control.Config{
		Guard: r.guard, Others: r.others, Mode: r.mode.Mode, Lists: s.lists, Listings: s.listings, Accounts: r.people.accounts,
		Sessions: r.people.sessions, Passes: r.people.passes, DirectoryOf: r.directoryOf, Audit: s.watch.audit, Tops: s.watch.tops, Changes: s.storage.changes,
		Warn: s.warnings, Now: s.storage.clock.Now, Log: r.log, Elsewhere: r.people.elsewhere(),
	})
	if err != nil {
		return nil, err
	}
	r.api.Guard, r.api.Settled = r.guard, s.counting.settled
	r.people.forget = r.people.onNewPassword(forgetting(r.guard, r.people.passes, r.log))
	r.adopt(c)
	return r, r.openMailer()
}

// newGuard returns a guard that counts under a name.
func (r *realm) newGuard(ctx context.Context, name string, policy guard.Policy) (*guard.Guard, error) {
	on, counting := r.site.storage, r.site.counting
	cookies, err := trusted.NewCookies(on.keys.Cookies...)
	if err != nil {
		return nil, err
	}
	g, err := guard.New(guard.Config{
		Now: on.clock.Now, Policy: policy, Secret: on.keys.Counters, Realm: name, Store: counting.store,
		Cookies: cookies, Passes: r.people.passes, Mode: r.mode.Mode, Challenges: r.mode.challenges, Lists: r.site.lists, Normalise: r.people.normalise,
		Canonical: r.people.canonical(context.WithoutCancel(ctx)), Observer: r.site.watch.bus, Directories: []string{admin.Directory}, Epoch: counting.settled.Epoch(),
		Failed: func(err error) { r.log.Error("a store failed; the decision was made without it", "error", err) },
		Held:   r.config.Limits.Held, HeldPerAddress: r.config.Limits.HeldPerAddress,
		Crowds: counting.crowds, Forgotten: r.forgotten, Crowded: func(address netip.Addr, accounts int) {
			r.log.Info("an address is shared by many accounts: it is no known place any more", "address", address, "accounts", accounts)
		},
	})
	if err != nil {
		return nil, err
	}
	g.Direct(r.config.AllowDirect)
	return g, nil
}

// raise sends an alert of this realm.
func (r *realm) raise(kind alerts.Kind, title, body string) {
	r.site.watch.alerts.Raise(kind, title, body)
}

// forgottenProxy is the kind of an alert.
const forgottenProxy alerts.Kind = "forgotten-proxy"

// forgotten tells of a proxy that is missing from the configuration (R9).
func (r *realm) forgotten(f guard.Forgotten) {
	w := control.ForgottenProxy(f)
	r.raise(forgottenProxy, w.Title, strings.ReplaceAll(w.Text, ". ", ".\n")+"\n"+w.Setting)
}

// start starts what runs in the background for this realm alone.
func (r *realm) start() {
	r.mode.start(&r.running)
	if r.people.mailer != nil {
		r.running.Start(r.people.mailer.Run)
	}
}

// reload puts a configuration that was found good in force, as far as that needs
// no restart.
func (r *realm) reload(c config.Config) error {
	policy := c.Policy()
	policy.Places = r.guard.Policy().Places // their store was made with them
	err := errors.Join(r.guard.SetPolicy(policy), r.mode.reload(c), r.dress(c))
	r.guard.SetHeld(c.Limits.Held, c.Limits.HeldPerAddress)
	r.adopt(c)
	return errors.Join(err, r.setProxy(context.Background()))
}

// adopt takes over what cannot fail.
func (r *realm) adopt(c config.Config) {
	tokens := make([]string, 0, len(c.API.Tokens))
	for _, t := range c.API.Tokens {
		tokens = append(tokens, t.Reveal())
	}
	r.api.SetTokens(tokens)
	r.hold.Store(int64(c.Limits.Hold))
	r.config = c
}
