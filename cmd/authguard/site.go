package main

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"authguard/captchamode"
	"authguard/captchamode/challenge"
	"authguard/captchamode/challenge/image"
	"authguard/captchamode/challenge/pow"
	"authguard/failures"
	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/alerts"
	"authguard/internal/audit"
	"authguard/internal/background"
	"authguard/internal/changes"
	"authguard/internal/config"
	"authguard/internal/control"
	"authguard/internal/database"
	"authguard/internal/events"
	"authguard/internal/lists"
	"authguard/internal/modestore"
	"authguard/internal/passwords"
	"authguard/internal/secrets"
	"authguard/internal/sessions"
	"authguard/trusted"
	"authguard/trusted/sqlplaces"
	"authguard/web"
	"authguard/web/admin"
)

// realm is the one site of this process.
const realm = "default"

// A site is everything that serves one realm, wired together. It is built from
// the bottom up in build, started by start and taken down by stop.
type site struct {
	loaded *config.Loaded // at the start: for what only a restart changes
	// reloaded is what was read last; only reload touches it.
	reloaded *config.Loaded
	log      *slog.Logger
	level    *slog.LevelVar

	// builtIn draws the built-in challenge; build sets it unless it is set.
	builtIn challenge.Illustrated

	db         *sql.DB
	changes    *changes.Watcher // by other nodes
	keys       secrets.Keys
	counters   *failures.Memory // all of them, or this node's replica
	shared     *shared          // with the other nodes; nil: there are none
	places     *sqlplaces.Store // with other nodes only when all of an account's were forgotten
	modes      *modestore.Store
	mode       *captchamode.Mode
	switching  background.Group // the mode, and what saves it
	proofs     *pow.Provider
	challenges *challenge.Desk
	lists      *guard.Lists
	guard      *guard.Guard
	settled    challenge.Spent // tickets of the decision API

	accounts  *accounts.Table
	source    accounts.Source
	checker   *passwords.Checker
	gate      *passwords.Gate
	sessions  *sessions.Store
	blocklist *lists.Table

	control *control.Control
	tops    *control.Tops
	metrics *control.Metrics

	bus    *events.Bus
	audit  *audit.Log
	alerts *alerts.Alerter

	edge *web.Edge
	api  *web.API
	hold atomic.Int64 // nanoseconds
	keep atomic.Int64 // nanoseconds that the audit log is kept
	rows atomic.Int64 // that it may have

	snapshot string
	stopSave chan struct{}
	saved    chan struct{}
	// stopUpkeep ends the deleting of what is old.
	stopUpkeep func()
}

// build wires a site for a data folder that this process has locked.
func (s *site) build(ctx context.Context) error {
	for _, step := range []func(context.Context) error{
		s.openDatabase, s.openCounters, s.openPlaces, s.openShared, s.openEvents, s.openMode, s.openChallenges,
		s.openAccounts, s.openGuard, s.openControl, s.openDoors,
	} {
		if err := step(ctx); err != nil {
			if s.db != nil {
				err = errors.Join(err, s.db.Close())
			}
			return err
		}
	}
	return nil
}

func (s *site) path(name string) string { return filepath.Join(s.loaded.Data, name) }

func (s *site) openDatabase(ctx context.Context) (err error) {
	file := cmp.Or(s.loaded.KeysFile, s.path("keys"))
	if s.keys, err = loadKeys(file); err != nil {
		return err
	}
	if s.db, err = database.Open(ctx, s.dsn()); err != nil {
		return err
	}
	applied, err := database.Migrate(ctx, s.db)
	if len(applied) > 0 {
		s.log.Info("database migrated", "migrations", len(applied))
	}
	if err == nil && s.loaded.Database != "" {
		err = secrets.Agree(ctx, s.db, s.keys, file)
	}
	if err != nil {
		return err
	}
	s.changes, err = changes.New(changes.Config{DB: s.db, Log: s.log})
	return err
}

// loadKeys reads the secrets, or makes them where there are none: the first
// node does so for all that share the file.
func loadKeys(file string) (secrets.Keys, error) {
	keys, err := secrets.Read(file)
	if errors.Is(err, fs.ErrNotExist) {
		return secrets.Load(file)
	}
	return keys, err
}

// dsn is the database: PostgreSQL, or a file in the data folder.
func (s *site) dsn() string {
	return cmp.Or(s.loaded.Database.Reveal(), s.path("authguard.db"))
}

// openCounters makes the counters and puts back what was saved of them. A
// snapshot that is damaged is set aside, not deleted, and said aloud: without
// it the guard starts from nothing.
func (s *site) openCounters(context.Context) (err error) {
	policy := s.loaded.Policy()
	s.counters, err = failures.NewMemory(failures.Config{
		MaxBytes: int64(s.loaded.Counters.Memory), Retain: policy.Retain(), PendingFor: policy.PendingFor,
	})
	if err != nil {
		return err
	}
	s.snapshot = s.path("counters")
	keys, err := s.counters.Load(s.snapshot)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, failures.ErrBadSnapshot):
		aside := fmt.Sprintf("%s.damaged-%d", s.snapshot, time.Now().Unix())
		s.log.Error("saved counters are damaged: counting starts from nothing", "set_aside", aside, "error", err)
		return os.Rename(s.snapshot, aside)
	case err != nil:
		return err
	}
	s.log.Info("counters restored", "keys", keys)
	return nil
}

func (s *site) openPlaces(ctx context.Context) (err error) {
	s.places, err = sqlplaces.New(ctx, sqlplaces.Config{DB: s.db, Limits: s.loaded.Policy().Places, Log: s.log})
	if err == nil {
		s.changes.On(changes.Places, s.places.Refresh)
	}
	return err
}

func (s *site) openEvents(context.Context) (err error) {
	s.audit = audit.New(s.db, audit.Config{Realm: realm, Logger: s.log})
	s.tops, s.metrics = control.NewTops(), control.NewMetrics()
	s.alerts, err = alerts.New(alertConfig(s.loaded.Config), s.log)
	return err
}

func alertConfig(c config.Config) alerts.Config {
	a := alerts.DefaultConfig()
	for _, to := range c.Alerts.To {
		a.To = append(a.To, to.Reveal())
	}
	a.PerHour, a.Bundle = c.Alerts.PerHour, c.Alerts.Bundle
	return a
}

func (s *site) openMode(ctx context.Context) (err error) {
	s.modes = modestore.New(modestore.Config{DB: s.db, Realm: realm, Log: s.log})
	if s.mode, err = captchamode.NewMode(s.loaded.Mode(), nil, s.switched); err != nil {
		return err
	}
	if err := s.modes.Load(ctx, s.mode); err != nil {
		return err
	}
	s.changes.On(changes.Mode(realm), s.modes.Sync)
	if s.shared != nil {
		return s.shared.join(s.mode, s.loaded.Redis.Prefix)
	}
	return nil
}

// switched passes a switch of the mode on; it must not block. What another node
// has told everybody of already is not told again.
func (s *site) switched(one captchamode.Switch) {
	s.modes.Switched(one)
	if one.Adopted {
		return
	}
	s.bus.Switched(events.ModeSwitch{
		At: one.At, From: one.Was(), To: one.Now(), Attacked: one.Level != captchamode.Calm,
		Cause: string(one.Cause), Who: one.Force.Who, Why: one.Force.Why,
		Pressure: float64(one.Pressure), Threshold: one.Threshold, Until: one.Force.Until,
	})
}

func (s *site) openChallenges(context.Context) (err error) {
	if s.builtIn == nil {
		if s.builtIn, err = image.New(image.Config{}); err != nil {
			return err
		}
	}
	if s.proofs, err = pow.New(int64(s.loaded.Challenge.PowCost)); err != nil {
		return err
	}
	s.challenges, err = challenge.New(challenge.Config{
		Secret: s.keys.Challenges, Spent: s.spentStore(), BuiltIn: s.builtIn,
		Others: []challenge.Provider{s.proofs}, Preferred: string(s.loaded.Challenge.Kind), TTL: s.loaded.Challenge.TTL,
		OnFallback: func(kind string, err error) {
			s.log.Error("challenge provider failed: the built-in image takes its place", "kind", kind, "error", err)
		},
	})
	return err
}

func (s *site) openAccounts(ctx context.Context) (err error) {
	p := s.loaded.Passwords
	if s.checker, err = passwords.NewChecker(p.Cost, nil); err != nil {
		return err
	}
	s.gate, err = passwords.NewGate(passwords.GateConfig{AtOnce: p.AtOnce, Queue: p.Queue, MaxWait: p.Wait})
	if err != nil {
		return err
	}
	s.accounts, err = accounts.New(ctx, accounts.Config{DB: s.db, Normalise: s.normalise(), Hash: s.checker.Hash, Saw: s.checker.Saw})
	if err != nil {
		return err
	}
	cost, err := s.accounts.HighestCost(ctx)
	if err != nil {
		return err
	}
	s.checker.Saw(cost)
	if s.sessions, err = sessions.New(sessions.Config{DB: s.db, Log: s.log}); err != nil {
		return err
	}
	s.source, err = s.accountSource(ctx)
	return err
}

func (s *site) normalise() func(string) (string, error) {
	if s.loaded.Accounts.CaseSensitive {
		return guard.NormaliseExact
	}
	return guard.NormaliseAccount
}

// accountSource is where the public door looks accounts up. Administrators are
// always in our own table.
func (s *site) accountSource(ctx context.Context) (accounts.Source, error) {
	a := s.loaded.Accounts
	switch a.Source {
	case config.SourceHtpasswd:
		source, err := accounts.NewHtpasswdSource(a.Htpasswd, s.normalise(), s.log)
		if err != nil {
			return nil, err
		}
		s.checker.Saw(source.HighestCost())
		return source, nil
	case config.SourceQuery:
		db, err := database.OpenReadOnly(ctx, a.Database.Reveal())
		if err != nil {
			return nil, fmt.Errorf("accounts.database: %w", err)
		}
		return accounts.NewSQLSource(accounts.SQLSourceConfig{DB: db, Query: a.Query, Canonical: a.CanonicalQuery})
	}
	return s.accounts, nil
}

func (s *site) canonical(ctx context.Context) func(string) string {
	switch source := s.source.(type) {
	case *accounts.SQLSource:
		return func(name string) string {
			canonical, err := source.CanonicalOf(ctx, name)
			if err != nil {
				s.log.Error("canonical name could not be asked", "error", err)
				return name
			}
			return canonical
		}
	case *accounts.Table:
		return source.Canonical
	}
	return nil
}

func (s *site) openGuard(ctx context.Context) error {
	cookies, err := trusted.NewCookies(s.keys.Cookies...)
	if err != nil {
		return err
	}
	s.lists, s.blocklist, s.settled = new(guard.Lists), lists.New(s.db), s.settledStore()
	s.bus = events.NewBus(events.Config{Logger: s.log}, events.NewLog(s.log, events.LogConfig{}), s.audit, s.alerts, s.tops, s.metrics)
	s.guard, err = guard.New(guard.Config{
		Policy: s.loaded.Policy(), Secret: s.keys.Counters, Realm: realm, Failures: s.failureStore(), Places: s.placeStore(),
		Cookies: cookies, Mode: s.mode, Challenges: s.challenges, Lists: s.lists, Normalise: s.normalise(),
		Canonical: s.canonical(context.WithoutCancel(ctx)), Observer: s.bus, Directories: []string{admin.Directory}, Epoch: s.settled.Epoch(),
		Failed: func(err error) { s.log.Error("a store failed; the decision was made without it", "error", err) },
		Held:   s.loaded.Limits.Held, HeldPerAddress: s.loaded.Limits.HeldPerAddress,
	})
	if file, ok := s.source.(*accounts.HtpasswdSource); ok {
		file.OnChange(s.forgetPlaces)
	}
	return err
}

// forgetPlaces is for accounts whose password has changed in a file.
func (s *site) forgetPlaces(names []string) {
	for _, name := range names {
		if err := s.guard.ForgetPlaces(context.Background(), name, netip.Addr{}); err != nil {
			s.log.Error("places of an account with a new password could not be forgotten", "error", err)
		}
	}
}

func (s *site) openControl(context.Context) (err error) {
	s.control, err = control.New(control.Config{
		Guard: s.guard, Mode: s.mode, Lists: s.lists, Listings: s.blocklist, Accounts: s.accounts,
		Sessions: s.sessions, Audit: s.audit, Tops: s.tops, Changes: s.changes, Warn: s.warn, Log: s.log,
	})
	gauges := control.Gauges{Mode: s.mode, Held: s.guard.Held, Size: s.counters.Size, Dropped: s.bus.Dropped}
	if s.shared != nil {
		gauges.Redis = s.shared.gauges()
	}
	s.metrics.Watch(gauges)
	return err
}

func (s *site) openDoors(context.Context) error {
	s.edge = new(web.Edge)
	s.api = &web.API{Guard: s.guard, Settled: s.settled}
	s.apply(s.loaded.Config)
	return nil
}

// apply puts in force what needs no restart and cannot fail.
func (s *site) apply(c config.Config) {
	header := web.XForwardedFor
	if c.Forwarded == config.Forwarded {
		header = web.Forwarded
	}
	s.edge.Set(c.Proxies, header)
	tokens := make([]string, 0, len(c.API.Tokens))
	for _, t := range c.API.Tokens {
		tokens = append(tokens, t.Reveal())
	}
	s.api.SetTokens(tokens)
	s.hold.Store(int64(c.Limits.Hold))
	s.guard.SetHeld(c.Limits.Held, c.Limits.HeldPerAddress)
	s.keep.Store(int64(c.Audit.Keep))
	s.rows.Store(int64(c.Audit.Rows))
	s.level.Set(c.Log.Level.Slog())
}

// start sets everything going that runs by itself. The lists are read before
// the first attempt is decided.
func (s *site) start(ctx context.Context) error {
	if err := s.control.Start(ctx); err != nil {
		return err
	}
	s.counters.Start()
	if s.shared != nil {
		if err := s.shared.start(ctx, s.guard, s.keys, s.loaded.Redis.Prefix); err != nil {
			s.control.Stop()
			return err
		}
	}
	s.places.Start()
	s.sessions.Start()
	s.audit.Start()
	s.alerts.Start()
	s.bus.Start()
	s.switching.Start(s.modes.Run)
	s.switching.Start(s.mode.Run)
	s.stopSave, s.saved = make(chan struct{}), make(chan struct{})
	go s.saveCounters()
	tidying, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() { defer close(done); s.upkeep(tidying) }()
	s.stopUpkeep = func() { stop(); <-done }
	return nil
}

// stop ends it in the order in which one feeds the next, and saves.
func (s *site) stop(ctx context.Context) error {
	s.stopUpkeep()
	close(s.stopSave)
	<-s.saved
	s.control.Stop()
	s.switching.Stop()
	s.bus.Stop()
	s.audit.Stop(ctx)
	s.alerts.Stop(ctx)
	s.sessions.Stop()
	var err error
	if s.shared != nil {
		err = s.shared.stop()
	}
	s.places.Stop()
	s.counters.Stop()
	return errors.Join(err, s.db.Close())
}

// saveCounters saves the counters every so often and once at the end. A save
// that takes long makes the next one wait longer: saving takes at most a tenth
// of the time.
func (s *site) saveCounters() {
	defer close(s.saved)
	pause := s.loaded.Counters.SaveEvery
	for {
		timer := time.NewTimer(pause)
		select {
		case <-s.stopSave:
			timer.Stop()
			s.save()
			return
		case <-timer.C:
			pause = max(s.loaded.Counters.SaveEvery, 9*s.save())
		}
	}
}

func (s *site) save() (took time.Duration) {
	if s.shared != nil {
		if err := s.shared.saveNodes(s.path(nodesFile)); err != nil {
			s.log.Error("the number of nodes could not be saved", "error", err)
		}
	}
	if !s.counters.Changed() {
		return 0
	}
	began := time.Now()
	if err := s.counters.Save(s.snapshot); err != nil {
		s.log.Error("counters could not be saved: a restart would forget the newest", "error", err)
	}
	return time.Since(began)
}
