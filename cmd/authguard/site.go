package main

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"authguard/captchamode/challenge"
	"authguard/captchamode/challenge/image"
	"authguard/guard"
	"authguard/internal/background"
	"authguard/internal/changes"
	"authguard/internal/config"
	"authguard/internal/control"
	"authguard/internal/database"
	"authguard/internal/lists"
	"authguard/internal/mfa"
	"authguard/internal/policy"
	"authguard/internal/tokens"
	"authguard/web"
)

// site is everything that one process serves: the realms and what they share. Its parts are opened and started in
// order, and stopped in reverse.
type site struct {
	settings
	parts background.Group
	log   *slog.Logger
	level *slog.LevelVar
	// stopping: the signal has arrived; serving for shutdown.delay.
	stopping atomic.Bool

	storage  *storage
	watch    *watch
	counting *counting
	health   *database.Health // whether sessions can be written
	ipLists
	overrides *policy.Table
	credentials
	realms    atomic.Pointer[[]*realm] // the first is the default one; only reload changes them
	leaving   []*realm                 // removed
	listeners *listeners
}

// settings are the configuration and how the site was opened.
type settings struct {
	loaded  *config.Loaded // in force; only reload changes it
	started config.Config  // as opened; settings that need a restart keep these values
	how     opening
}

// ipLists are the allowlists and blocklists of all realms.
type ipLists struct {
	lists    *guard.Lists
	listings *lists.Table
	named    *lists.Files
	proxies  atomic.Pointer[[]netip.Prefix] // all configured
}

// credentials of programs and administrators.
type credentials struct {
	tokens web.Tokens // of the decision API
	issued *tokens.Table
	mfa    *mfa.Table // MFA of administrators
}

// opening configures how a site is opened. The zero value is the normal way.
type opening struct {
	anew    bool                  // start empty where data is missing
	builtIn challenge.Illustrated // draws the built-in image CAPTCHA
	clock   func() time.Time      // this machine's clock
	flags   []string              // settings from flags, as variables
}

func (o opening) environment() []string { return append(os.Environ(), o.flags...) }

// openSite locks the data folder and opens a site.
func openSite(ctx context.Context, loaded *config.Loaded, level *slog.LevelVar, log *slog.Logger,
	how opening) (*site, error) {
	s := &site{settings: settings{loaded, loaded.Config, how}, log: log, level: level,
		ipLists: ipLists{lists: new(guard.Lists)}}
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, s.parts.Stop())
	}
	return s, nil
}

func (s *site) open(ctx context.Context) (err error) {
	if s.how.builtIn == nil {
		if s.how.builtIn, err = image.New(image.Config{}); err != nil {
			return err
		}
	}
	unlock, err := lockData(s.loaded.Data)
	if err != nil {
		return err
	}
	s.parts.Add(background.Undo(unlock))
	if s.storage, err = openStorage(ctx, s.loaded, s.how, s.log); err != nil {
		return err
	}
	s.parts.Add(s.storage)
	if s.watch, err = openWatch(s.loaded, s.storage, s.attacked, s.log); err != nil {
		return err
	}
	s.parts.Add(s.watch, background.Ready(s.clockAlerts), background.Run(s.storage.clock.Run))
	if s.counting, err = openCounting(ctx, s.loaded, s.storage, s.how.anew, s.watch, s.log); err != nil {
		return err
	}
	s.parts.Add(s.counting, background.Ready(s.claim),
		background.Repeat(time.Second, func(ctx context.Context) { _ = s.hold(ctx) })) // Refused returns the reason
	proof, err := s.newSessions(guard.DefaultRealm)
	if err != nil {
		return err
	}
	s.health = database.NewHealth(s.storage.inPlace, proof.Prove,
		storageChanged(s.watch.alerts, nodeName(s.loaded.Listen), s.log))
	s.listings = lists.New(s.storage.db)
	s.overrides = policy.NewTable(s.storage.db)
	s.named = lists.NewFiles(s.lists, s.log, s.storage.clock.Now)
	s.named.Configure(s.loaded.Sources())
	s.trust(s.loaded)
	s.issued = tokens.New(s.storage.db)
	s.mfa, err = mfa.New(mfa.Config{DB: s.storage.db, Secret: s.storage.keys.Counters,
		Now: s.storage.clock.Now})
	if err != nil {
		return err
	}
	s.storage.changes.On(changes.Tokens, s.readTokens)
	s.listeners = openListeners(s)
	s.parts.Add(background.Run(s.health.Run), background.Run(s.named.Run), background.Close(s.stopRealms))
	if err := s.openRealms(ctx); err != nil {
		return err
	}
	s.parts.Add(background.Ready(s.startRealms), background.Run(s.upkeep))
	s.watch.statsd.Realms = s.gauges
	s.watch.metrics.Watch(control.Gauges{
		Realms: s.gauges, Size: s.counting.tables[public].Size, Dropped: s.watch.bus.Dropped,
		Channels: s.watch.channels, Redis: s.counting.shared.gauges(),
		Database: s.storage.db, DatabaseUp: func() bool { why, _ := s.health.Failed(); return why == nil }, Build: runs(),
		Refused:      func() uint64 { return s.listeners.front.Refused() },
		Unintroduced: func() uint64 { return s.listeners.front.Unintroduced() },
	})
	return nil
}

func (s *site) warnings() []control.Warning {
	all := slices.Concat(storageWarning(s.health), s.counting.warn(), s.watch.warn(), s.storage.clock.warn(),
		control.BrokenLists(s.named.States()))
	for _, r := range *s.realms.Load() {
		all = append(all, r.warn()...)
	}
	return all
}

func (s *site) ready(ctx context.Context) error {
	if s.stopping.Load() {
		return errors.New("this server is shutting down")
	}
	if why, _ := s.health.Failed(); why != nil {
		return why // immediately: a test write takes as long as the database does
	}
	if why := s.main().people.away(); why != nil {
		return why
	}
	if why := s.counting.ready(); why != nil {
		return why
	}
	return s.health.Prove(ctx)
}

func (s *site) clockAlerts(context.Context) error {
	s.storage.clock.tell(s.watch.alerts, nodeName(s.loaded.Listen))
	return nil
}

func (s *site) startedRealms(now []config.Realm) []config.Realm {
	made := slices.Clone(now)
	for i, r := range made {
		if j := slices.IndexFunc(s.started.Realms, func(before config.Realm) bool { return before.Name == r.Name }); j >= 0 {
			made[i] = s.started.Realms[j]
		}
	}
	return made
}

// reload puts a valid configuration in force, except for settings that need a restart.
func (s *site) reload(loaded *config.Loaded) error {
	changed, _ := config.Diff(s.loaded.Config, loaded.Config)
	_, needRestart := config.Diff(s.started, loaded.Config)
	s.named.Configure(loaded.Sources())
	s.trust(loaded)
	err := errors.Join(s.counting.reload(loaded), s.reloadRealms(loaded), s.watch.reload(loaded))
	s.listeners.reload(loaded)
	s.level.Set(loaded.Log.Level.Slog())
	if !slices.Equal(s.loaded.TrustedProxies, loaded.TrustedProxies) || !slices.Equal(s.loaded.ProxyProtocolFrom,
		loaded.ProxyProtocolFrom) || !slices.Equal(s.loaded.DirectClients, loaded.DirectClients) {
		for _, r := range *s.realms.Load() {
			r.guard.Direct(loaded.DirectClients)
			r.guard.Proxies(loaded.TrustedProxies)
		}
	}
	s.loaded, s.started.Realms = loaded, s.startedRealms(loaded.Realms)
	s.log.Info("configuration reloaded", "changed", changed, "needs_restart", needRestart)
	return err
}
