package main

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"authguard/captchamode/challenge"
	"authguard/guard"
	"authguard/internal/alerts"
	"authguard/internal/background"
	"authguard/internal/config"
	"authguard/internal/control"
	"authguard/internal/lists"
	"authguard/trusted"
	"authguard/web/admin"
)

// realm is the one site of this process.
const realm = "default"

// A site is everything that serves one realm. openSite makes its parts from the
// bottom up, start sets them going in the same order, and stop ends them in
// reverse.
type site struct {
	loaded  *config.Loaded // what is in force; only reload changes it
	started config.Config  // what it was made with: what needs a restart stays so
	log     *slog.Logger
	level   *slog.LevelVar
	running background.Group
	// stopping: told to, and going on for shutdown.delay.
	stopping atomic.Bool

	storage  *storage
	counting *counting
	watch    *watch
	mode     *mode
	people   *people
	guard    *guard.Guard
	lists    *guard.Lists
	listings *lists.Table
	control  *control.Control
	doors    *doors
}

// An opening is how a site is opened; the zero one is the usual way.
type opening struct {
	anew    bool                  // whatever is missing is given up
	builtIn challenge.Illustrated // draws the built-in challenge
	clock   func() time.Time      // this machine's
}

// openSite makes a site for a data folder that this process has locked.
func openSite(ctx context.Context, loaded *config.Loaded, level *slog.LevelVar, log *slog.Logger, how opening) (*site, error) {
	s := &site{loaded: loaded, started: loaded.Config, log: log, level: level, lists: new(guard.Lists)}
	var err error
	if s.storage, err = openStorage(ctx, loaded, how, log); err != nil {
		return nil, err
	}
	if err := s.open(ctx, how); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *site) open(ctx context.Context, how opening) (err error) {
	if s.watch, err = openWatch(s.loaded, s.storage, s.log); err != nil {
		return err
	}
	if s.counting, err = openCounting(ctx, s.loaded, s.storage, how.anew, s.watch.alerts, s.log); err != nil {
		return err
	}
	if s.mode, err = openMode(ctx, s.loaded, s.storage, s.counting, s.watch, s.log, how.builtIn); err != nil {
		return err
	}
	if s.people, err = openPeople(ctx, s.loaded, s.storage, s.watch.alerts, s.log); err != nil {
		return err
	}
	if err := s.openGuard(ctx); err != nil {
		return err
	}
	s.listings = lists.New(s.storage.db)
	s.control, err = control.New(control.Config{
		Guard: s.guard, Mode: s.mode.Mode, Lists: s.lists, Listings: s.listings, Accounts: s.people.accounts,
		Sessions: s.people.sessions, Passes: s.people.passes, DirectoryOf: s.people.directoryOf, Audit: s.watch.audit, Tops: s.watch.tops, Changes: s.storage.changes,
		Warn: s.warnings, Now: s.storage.clock.Now, Log: s.log, Elsewhere: s.people.elsewhere(s.loaded.Accounts),
	})
	if err != nil {
		return err
	}
	if err := s.people.openMailer(s); err != nil {
		return err
	}
	s.watch.metrics.Watch(control.Gauges{
		Mode: s.mode.Mode, Held: s.guard.Held, HungUp: s.guard.HungUp, Checks: s.people.gate.State, Size: s.counting.counters.Size, Dropped: s.watch.bus.Dropped,
		DeadChannels: func() int { return len(s.watch.alerts.Dead()) }, Redis: s.counting.shared.gauges(),
	})
	s.doors = openDoors(s)
	return nil
}

// warnings is what the overview and doctor say is to be mended.
func (s *site) warnings() []control.Warning {
	return slices.Concat(storageWarning(s.people.storage), s.counting.warn(), s.watch.warn(), s.storage.clock.warn())
}

// ready is why this node should get no requests; nil if it should.
func (s *site) ready(ctx context.Context) error {
	if s.stopping.Load() {
		return errors.New("this server is being stopped")
	}
	if why, _ := s.people.storage.Failed(); why != nil {
		return why // at once: trying takes as long as the database does
	}
	return s.people.storage.Prove(ctx)
}

func (s *site) openGuard(ctx context.Context) error {
	cookies, err := trusted.NewCookies(s.storage.keys.Cookies...)
	if err != nil {
		return err
	}
	s.guard, err = guard.New(guard.Config{
		Now: s.storage.clock.Now, Policy: s.loaded.Policy(), Secret: s.storage.keys.Counters, Realm: realm, Store: s.counting.store,
		Cookies: cookies, Passes: s.people.passes, Mode: s.mode.Mode, Challenges: s.mode.challenges, Lists: s.lists, Normalise: s.people.normalise,
		Canonical: s.people.canonical(context.WithoutCancel(ctx)), Observer: s.watch.bus, Directories: []string{admin.Directory}, Epoch: s.counting.settled.Epoch(),
		Failed: func(err error) { s.log.Error("a store failed; the decision was made without it", "error", err) },
		Held:   s.loaded.Limits.Held, HeldPerAddress: s.loaded.Limits.HeldPerAddress,
		Crowds: s.counting.crowds, Forgotten: s.forgotten, Crowded: func(address netip.Addr, accounts int) {
			s.log.Info("an address is shared by many accounts: it is no known place any more", "address", address, "accounts", accounts)
		},
	})
	if err == nil {
		s.guard.Direct(s.loaded.AllowDirect)
	}
	return err
}

// forgottenProxy is the kind of an alert.
const forgottenProxy alerts.Kind = "forgotten-proxy"

// forgotten tells of a proxy that is missing from the configuration (R9).
func (s *site) forgotten(f guard.Forgotten) {
	w := control.ForgottenProxy(f)
	s.watch.alerts.Raise(forgottenProxy, w.Title, strings.ReplaceAll(w.Text, ". ", ".\n")+"\n"+w.Setting)
}

// start starts what runs in the background. What receives is started before what
// sends, so that it is stopped after it.
func (s *site) start(ctx context.Context) error {
	if err := s.storage.start(ctx, &s.running); err != nil {
		return err
	}
	s.watch.start(&s.running)
	s.storage.clock.tell(s.watch.alerts)
	s.running.Start(s.storage.clock.Run)
	if err := s.counting.start(ctx, &s.running); err != nil {
		return err
	}
	s.mode.start(&s.running)
	s.running.Start(s.people.storage.Run)
	if s.people.mailer != nil {
		s.running.Start(s.people.mailer.Run)
	}
	s.running.Start(s.upkeep)
	return nil
}

// stop ends what start began, saves, and closes what was opened.
func (s *site) stop() error {
	s.running.Stop()
	return s.close()
}

func (s *site) close() (err error) {
	if s.counting != nil {
		err = s.counting.shared.close()
	}
	return errors.Join(err, s.storage.db.Close())
}

// reload puts a configuration that was found good in force, as far as that needs
// no restart.
func (s *site) reload(loaded *config.Loaded) error {
	policy := loaded.Policy()
	policy.Places = s.guard.Policy().Places // their store was made with them
	changed, _ := config.Diff(s.loaded.Config, loaded.Config)
	_, needRestart := config.Diff(s.started, loaded.Config)
	err := errors.Join(s.counting.reload(loaded), s.guard.SetPolicy(policy), s.mode.reload(loaded), s.watch.reload(loaded))
	s.guard.SetHeld(loaded.Limits.Held, loaded.Limits.HeldPerAddress)
	s.doors.reload(loaded)
	s.level.Set(loaded.Log.Level.Slog())
	if !slices.Equal(s.loaded.Proxies, loaded.Proxies) || !slices.Equal(s.loaded.AllowDirect, loaded.AllowDirect) {
		s.guard.Direct(loaded.AllowDirect)
	}
	s.loaded = loaded
	s.log.Info("configuration reloaded", "changed", changed, "needs_restart", needRestart)
	return err
}
