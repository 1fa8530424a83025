package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"authguard/captchamode/challenge"
	"authguard/captchamode/challenge/image"
	"authguard/failures"
	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/alerts"
	"authguard/internal/attacks"
	"authguard/internal/audit"
	"authguard/internal/background"
	"authguard/internal/config"
	"authguard/internal/control"
	"authguard/internal/counters"
	"authguard/internal/database"
	"authguard/internal/doctor"
	"authguard/internal/events"
	"authguard/internal/known"
	"authguard/internal/lists"
	"authguard/internal/metrics"
	"authguard/internal/mfa"
	"authguard/internal/nodes"
	"authguard/internal/outbox"
	"authguard/internal/passwords"
	"authguard/internal/policy"
	"authguard/internal/redisstore"
	"authguard/internal/seal"
	"authguard/internal/sessions"
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
	leaked    *passwords.LeakedList
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
	origins *atomic.Pointer[config.Loaded] // loaded, for other goroutines
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
	issued *accounts.Tokens
	mfa    *mfa.Table // MFA of administrators
}

// opening configures how a site is opened. The zero value is the normal way.
type opening struct {
	anew    bool                  // start empty where data is missing
	builtIn challenge.Illustrated // draws the built-in image CAPTCHA
	clock   func() time.Time      // this machine's clock
	flags   []string              // settings from flags, as variables
	link    string                // a path that signs in as the first administrator; only the demo has one
}

func (o opening) environment() []string { return append(os.Environ(), o.flags...) }

// openSite locks the data folder and opens a site.
func openSite(ctx context.Context, loaded *config.Loaded, level *slog.LevelVar, log *slog.Logger,
	how opening) (*site, error) {
	s := &site{settings: settings{loaded, loaded.Config, how, new(atomic.Pointer[config.Loaded])}, log: log, level: level,
		ipLists: ipLists{lists: new(guard.Lists)}, leaked: &passwords.LeakedList{Log: log}}
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
	unlock, err := database.LockFolder(s.loaded.Data)
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
	clockChanged := func(bool) { s.watch.alerts.ClockChanged(s.storage.clock.Off()) }
	s.parts.Add(s.watch, background.Ready(func(context.Context) error {
		s.storage.clock.OnWrong = clockChanged
		clockChanged(true)
		return nil
	}), background.Run(s.storage.clock.Run))
	if s.counting, err = openCounting(ctx, s.loaded, s.storage, s.how.anew, s.watch, s.log); err != nil {
		return err
	}
	s.parts.Add(s.counting, background.Ready(s.claim),
		background.Repeat(time.Second, func(ctx context.Context) { _ = s.hold(ctx) })) // Refused returns the reason
	proof, err := s.newSessions(guard.DefaultRealm)
	if err != nil {
		return err
	}
	s.health = database.NewHealth(s.storage.inPlace, proof.Prove, s.watch.alerts.DatabaseChanged)
	s.listings = lists.New(s.storage.db)
	s.listings.Memory, s.listings.Direct = s.lists, func() []netip.Prefix { return *s.proxies.Load() }
	s.overrides = policy.NewTable(s.storage.db)
	s.named = lists.NewFiles(s.lists, s.log, s.storage.clock.Now)
	s.named.Configure(s.loaded.Sources())
	s.leaked.Configure(s.loaded.Passwords.Leaked.File, s.loaded.Passwords.Leaked.Action != "off")
	s.trust(s.loaded)
	s.issued = accounts.NewTokens(s.storage.db)
	s.mfa, err = mfa.New(mfa.Config{DB: s.storage.db, Secret: s.storage.keys.Counters,
		Now: s.storage.clock.Now})
	if err != nil {
		return err
	}
	s.storage.changes.On(database.TokensChanged, s.readTokens)
	s.listeners = openListeners(s)
	s.parts.Add(background.Run(s.health.Run), background.Run(s.named.Run), background.Run(s.leaked.Run),
		background.Close(s.stopRealms))
	if err := s.openRealms(ctx); err != nil {
		return err
	}
	s.parts.Add(background.Ready(s.startRealms), background.Run(s.upkeep), background.Ready(s.listeners.learn),
		background.Run(func(ctx context.Context) {
			background.Save(ctx, cookiesEvery, s.listeners.learn, func(error) {}) // health reports the database
		}))
	s.watch.statsd.Realms = s.gauges
	s.watch.metrics.Watch(metrics.Gauges{
		Realms: s.gauges, Size: s.counting.tables.Memory(counters.Public).Size, Dropped: s.watch.bus.Dropped,
		Channels: s.watch.alerts.Channels, Redis: s.counting.gauges(),
		Database: s.storage.db, DatabaseUp: func() bool { why, _ := s.health.Failed(); return why == nil }, Build: runs(),
		Refused:      func() uint64 { return s.listeners.front.Refused() },
		Unintroduced: func() uint64 { return s.listeners.front.Unintroduced() },
	})
	return nil
}

func (s *site) warnings() []alerts.Warning {
	all := slices.Concat(alerts.DatabaseWarning(s.health.Failed()), s.counting.warnings(),
		s.watch.alerts.ChannelWarnings(), alerts.ClockWarning(s.storage.clock.Off()),
		control.BrokenLists(s.named.States()), alerts.LeakedWarning(s.leaked.State()))
	for _, r := range *s.realms.Load() {
		all = append(all, r.warnings()...)
	}
	return all
}

func (s *site) newSessions(realm string) (*sessions.Store, error) {
	return sessions.New(sessions.Config{DB: s.storage.db, Realm: realm, Now: s.storage.clock.Now,
		Ahead: s.storage.clock.Ahead})
}

// rejects reports whether an account may not get a new password, because it is common or known from leaks.
func (s *site) rejects(password string) bool {
	return s.origins.Load().Passwords.Leaked.NewPasswords == "reject" &&
		(s.leaked.Has(password) || passwords.IsCommon(password))
}

func (s *site) ready(ctx context.Context) error {
	if s.stopping.Load() {
		return errors.New("this server is shutting down")
	}
	if why, _ := s.health.Failed(); why != nil {
		return why // immediately: a test write takes as long as the database does
	}
	if why := s.main().people.users.Away(); why != nil {
		return why
	}
	if why := s.counting.tables.Failed(); why != nil {
		return why
	}
	return s.health.Prove(ctx)
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
	limitMemory(loaded.Config)
	s.leaked.Configure(loaded.Passwords.Leaked.File, loaded.Passwords.Leaked.Action != "off")
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

// storage is the data on disk: the database, the keys, and notifications of other nodes' changes.
type storage struct {
	background.Group
	folder  string
	name    string // of the folder, for claims
	keys    seal.Keys
	db      *sql.DB
	inPlace func() error // see database.InPlace
	changes *database.Watcher
	clock   *nodes.Clock
	claim   *database.Claim
}

// openStorage opens the data on disk. Missing data is an error unless anew is set: an attacker would start with fresh
// limits, and account owners would have no known clients.
func openStorage(ctx context.Context, loaded *config.Loaded, how opening, log *slog.Logger) (s *storage, err error) {
	s = &storage{folder: loaded.Data, name: database.FolderName(loaded.Data),
		clock: &nodes.Clock{Local: how.clock, Log: log}}
	if s.db, err = database.Open(ctx, loaded.DSN()); err != nil {
		return nil, err
	}
	s.claim = database.NewClaim(s.db)
	s.Add(background.Close(s.db.Close), background.Undo(s.claim.Close))
	here := loaded.DSN()
	if loaded.Database != "" {
		here = loaded.Data // with the counters and the socket
	}
	if s.inPlace, err = database.InPlace(here); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	if loaded.Database != "" {
		s.clock.Sources = []nodes.TimeSource{{Name: "PostgreSQL", Ask: func(ctx context.Context) (time.Time, error) {
			return database.ServerTime(ctx, s.db)
		}}}
		s.clock.Look(ctx)
	}
	if err = s.open(ctx, loaded, how.anew, log); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	// Everything that is kept in memory is loaded before the first decision.
	s.Add(background.Ready(s.changes.Poll), background.Run(s.changes.Run))
	return s, nil
}

func (s *storage) open(ctx context.Context, loaded *config.Loaded, anew bool, log *slog.Logger) error {
	err := s.startable(ctx, loaded, anew)
	if err != nil {
		return err
	}
	applied, err := database.Migrate(ctx, s.db)
	if len(applied) > 0 {
		log.Info("database migrated", "migrations", len(applied))
		err = errors.Join(err, s.startable(ctx, loaded, anew)) // older tables do not show everything
	}
	if err == nil {
		err = s.readKeys(ctx, loaded, anew)
	}
	s.changes = database.NewWatcher(s.db, s.clock.Now, log)
	return err
}

// outbox is where alerts and emails wait.
func (s *storage) outbox(log *slog.Logger) outbox.Store {
	return outbox.Store{DB: s.db, Alone: !database.IsPostgres(s.db), Now: s.clock.Now, Log: log}
}

func (s *storage) startable(ctx context.Context, loaded *config.Loaded, anew bool) error {
	if anew {
		return nil
	}
	_, err := doctor.Startable(ctx, loaded, s.db)
	if errors.Is(err, redisstore.ErrApart) {
		return nil // counting.agree reports this with an alert
	}
	return err
}

func (s *storage) readKeys(ctx context.Context, loaded *config.Loaded, anew bool) (err error) {
	file := loaded.KeysPath()
	if s.keys, err = seal.Load(file); err != nil {
		return err
	}
	err = database.AgreeOnKeys(ctx, s.db, s.keys, file)
	if loaded.Database == "" && anew && errors.Is(err, database.ErrKeysDiffer) {
		if err = database.AbandonKeys(ctx, s.db); err == nil {
			err = database.AgreeOnKeys(ctx, s.db, s.keys, file)
		}
	}
	return err
}

func (s *storage) path(name string) string { return filepath.Join(s.folder, name) }

// watch is everything that receives events, through one bus: the log, the audit log, the alerts, the overview and the
// metrics.
type watch struct {
	background.Group
	bus     *events.Bus
	audit   *audit.Log
	alerts  *alerts.Alerter
	attacks *attacks.Recorder
	tops    *metrics.Tops
	effects *policy.Effects
	metrics *metrics.Metrics
	statsd  *metrics.StatsD
	traces  *metrics.Traces
}

// openWatch creates a watch. attacked reports whether a realm's detector sees an attack.
func openWatch(loaded *config.Loaded, on *storage, attacked func(realm string) bool,
	log *slog.Logger) (w *watch, err error) {
	effects := policy.NewEffects(on.db, on.keys.Counters, on.clock.Now, log)
	w = &watch{tops: new(metrics.Tops), effects: effects, metrics: metrics.New()}
	w.audit = audit.New(on.db, audit.Config{Logger: log})
	w.attacks = attacks.New(attacks.Config{DB: on.db, Secret: on.keys.Counters, Attacked: attacked,
		Began:   func(b attacks.Beginning) { w.audit.Attack(b.Attack); w.alerts.AttackBegan(b) },
		Ended:   func(e attacks.Ending) { w.audit.Attack(e.Attack); w.alerts.AttackEnded(e) },
		Crowded: func(realm, kind string) { w.alerts.AttacksCrowded(realm, kind) }, Now: on.clock.Now, Log: log})
	if w.alerts, err = alerts.New(w.alertConfig(loaded.Config), on.outbox(log)); err != nil {
		return nil, err
	}
	at, prefix := loaded.Metrics.Server()
	w.statsd = &metrics.StatsD{Address: at, Prefix: prefix, Log: log}
	if w.traces, err = metrics.NewTraces(loaded.Tracing.Endpoint, runs(), log); err != nil {
		return nil, err
	}
	w.metrics.Traces = w.traces
	w.bus = events.NewBus(events.Config{Logger: log}, events.NewLog(log), w.audit, w.attacks, w.alerts, w.tops,
		w.effects, w.metrics, w.statsd)
	w.Add(background.Undo(w.traces.Close))
	for _, run := range []func(context.Context){w.alerts.Run, w.audit.Run, w.attacks.Run, w.effects.Run, w.statsd.Run,
		w.bus.Run} {
		w.Add(background.Run(run))
	}
	return w, nil
}

func (w *watch) alertConfig(c config.Config) alerts.Config {
	a := c.Alerting()
	a.Attack, a.Record = w.attacks.OnSite, w.attacks.SoFar
	return a
}

func (w *watch) reload(loaded *config.Loaded) error {
	return w.alerts.Reconfigure(w.alertConfig(loaded.Config))
}

func (w *watch) forget(realm string) {
	w.alerts.Forget(realm)
	w.attacks.Forget(realm)
	w.tops.Forget(realm)
	w.metrics.Forget(realm)
}

// counting is where attempts are counted: this node's memory or, with several nodes, Redis.
type counting struct {
	background.Group
	tables  *counters.Tables // all counters, or this node's local store beside Redis
	known   *known.Store
	shared  *nodes.Shared                    // with the other nodes; nil: single node
	stores  [len(counters.Files)]guard.Store // over the tables
	spent   challenge.Spent                  // used challenges
	settled challenge.Spent                  // settled tickets of the decision API
	room    *counters.Room                   // of spent and settled
	alerts  *alerts.Alerter
}

func openCounting(ctx context.Context, loaded *config.Loaded, on *storage, anew bool, watch *watch,
	log *slog.Logger) (*counting, error) {
	c := &counting{alerts: watch.alerts}
	if err := c.open(ctx, loaded, on, anew, watch, log); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	c.room = &counters.Room{Stores: []challenge.Spent{c.spent, c.settled}, Alerts: c.alerts}
	c.Add(c.tables, background.Run(c.room.Run))
	if c.shared != nil {
		c.Add(
			background.Run(func(ctx context.Context) {
				background.Save(ctx, loaded.Counters.SaveInterval, c.shared.Save, func(err error) {
					log.Error("the number of nodes could not be saved", "error", err)
				})
			}),
			// Everything else that reads the database reports the error.
			background.Repeat(time.Second, func(ctx context.Context) { _ = c.known.Refresh(ctx) }),
			background.Ready(c.agree), background.Run(c.shared.Run),
		)
	}
	return c, nil
}

func (c *counting) open(ctx context.Context, loaded *config.Loaded, on *storage, anew bool, watch *watch,
	log *slog.Logger) (err error) {
	c.tables, err = counters.Open(ctx, counters.Config{Settings: loaded.Config, DB: on.db, Keys: on.keys,
		Now: on.clock.Counting(), Anew: anew, Alerts: c.alerts, Log: log})
	if err != nil {
		return err
	}
	c.known, err = known.New(ctx, known.Config{DB: on.db, Limits: loaded.Policy().KnownClients, Now: on.clock.Now})
	if err != nil {
		return err
	}
	if loaded.Redis.On() {
		if err = c.openShared(ctx, loaded, on, watch, log); err != nil {
			return fmt.Errorf("redis: %w", err)
		}
		c.spent, c.settled = c.shared.Used, c.shared.Settled
		c.stores[counters.Public] = c.shared.Store
		c.stores[counters.Administrators] = c.shared.Beside(c.tables.Memory(counters.Administrators))
		return nil
	}
	for i := range c.stores {
		local := guard.NewLocal(c.tables.Memory(i), c.known)
		local.Sprays = failures.NewSprays(nil)
		c.stores[i] = local
	}
	c.spent, c.settled = challenge.NewMemorySpent(0, nil), challenge.NewMemorySpent(0, nil)
	return nil
}

// openShared connects the node to the others. An unavailable Redis is no error: the node starts with its local store.
func (c *counting) openShared(ctx context.Context, loaded *config.Loaded, on *storage, watch *watch,
	log *slog.Logger) error {
	r, policy := loaded.Redis, loaded.Policy()
	client, err := r.Connect(watch.metrics.Redis)
	if err != nil {
		return err
	}
	c.Add(background.Close(client.Close))
	_, pendingFor := loaded.Longest()
	c.shared, err = nodes.Open(ctx, nodes.SharedConfig{
		Config: nodes.Config{
			Client: client, Counters: c.tables.Memory(counters.Public), KnownClients: c.known, Budget: r.Timeout, Log: log,
			OnChange: c.alerts.RedisChanged,
			Redis: redisstore.Options{
				Prefix: r.Prefix, PendingFor: pendingFor, KnownClients: policy.KnownClients, Keys: on.keys.Fingerprint(),
				Refused: func() error { return doctor.Elsewhere(loaded, on.claim.Refused()) },
			},
		},
		Clock: on.clock, File: on.path("nodes"), OnEmptied: c.alerts.RedisEmptied,
	})
	return err
}

// agree refuses to start if the node would count apart from the others of its Redis.
func (c *counting) agree(ctx context.Context) error {
	err := c.shared.Agree(ctx)
	if err != nil {
		c.alerts.RedisRefused(err)
	}
	return err
}

func (c *counting) reload(loaded *config.Loaded) (err error) {
	_, pendingFor := loaded.Longest()
	if c.shared != nil {
		err = c.shared.Redis().Configure(pendingFor)
	}
	return errors.Join(err, c.tables.Configure(loaded.Config))
}

func (c *counting) warnings() (all []alerts.Warning) {
	if c.shared != nil && !c.shared.Up() {
		all = append(all, alerts.RedisWarning(c.shared.State()))
	}
	return slices.Concat(all, c.room.Warnings(), c.tables.Warnings())
}

// gauges returns nil with a single node.
func (c *counting) gauges() *metrics.RedisGauges {
	s := c.shared
	if s == nil {
		return nil
	}
	return &metrics.RedisGauges{Up: s.Up, Failures: s.Failures, Unsent: s.Unsent, Nodes: s.Nodes, Closed: s.Redis().Closed}
}

// hold shows the other nodes where this one counts. It fails if they count elsewhere.
func (s *site) hold(ctx context.Context) error {
	name := s.storage.name
	if s.counting.shared != nil {
		name = s.counting.shared.Redis().Name()
	}
	return s.storage.claim.Hold(ctx, name)
}

// claim holds the claim for the first time: two nodes that start together have not seen each other before.
func (s *site) claim(ctx context.Context) error {
	err := doctor.Elsewhere(s.loaded, s.hold(ctx))
	switch {
	case err != nil:
	case s.counting.shared != nil:
		err = database.Mark(ctx, s.storage.db, doctor.InRedis)
	case s.how.anew:
		err = database.Unmark(ctx, s.storage.db, doctor.InRedis)
	}
	return err
}

const (
	// upkeepEvery is the interval of deleting old data.
	upkeepEvery = 10 * time.Minute
	// upkeepWithin is the timeout of one run.
	upkeepWithin = 5 * time.Minute
)

// upkeep deletes expired sessions, known clients and list entries, and audit rows that are too old or too many. It
// alerts about list entries that expire soon.
func (s *site) upkeep(ctx context.Context) {
	s.tidy(ctx)
	background.Every(ctx, upkeepEvery, s.tidy)
}

func (s *site) tidy(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, upkeepWithin)
	defer cancel()
	keep, now := s.origins.Load().Audit, time.Now()
	for _, table := range []struct {
		name  string
		purge func(context.Context) (rows int64, err error)
	}{
		{"audit", func(ctx context.Context) (int64, error) {
			return s.watch.audit.Purge(ctx, audit.Keep{Since: now.Add(-keep.Retention),
				ActionsSince: now.Add(-max(keep.Retention, keep.AdminRetention)), Rows: int64(keep.MaxRows)})
		}},
		{"attacks", func(ctx context.Context) (int64, error) {
			return s.watch.attacks.Purge(ctx, now.Add(-keep.AdminRetention))
		}},
		{"alerts", s.watch.alerts.Purge},
		{"IP list entries about to expire", func(ctx context.Context) (int64, error) {
			return 0, s.listings.AlertExpiring(ctx, s.storage.clock.Now(), s.watch.alerts)
		}},
		{"lists", func(ctx context.Context) (int64, error) { return s.listings.Purge(ctx, s.storage.clock.Now()) }},
		{"hits of limits", s.watch.effects.Purge},
		{"sessions", s.main().people.sessions.Purge},
		{"codes", s.main().people.codes.Purge},
		{"messages", func(ctx context.Context) (int64, error) {
			return outbox.Purge(ctx, s.storage.db, s.storage.clock.Now())
		}},
		{"known clients", s.counting.known.Purge},
	} {
		rows, err := table.purge(ctx)
		if err != nil && ctx.Err() == nil {
			s.log.Error("old records could not be deleted", "table", table.name, "error", err)
		}
		if rows > 0 {
			s.log.Info("old records deleted", "table", table.name, "rows", rows)
		}
	}
}
