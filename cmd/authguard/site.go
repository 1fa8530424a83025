package main

import (
	"cmp"
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
	"authguard/internal/background"
	"authguard/internal/changes"
	"authguard/internal/config"
	"authguard/internal/control"
	"authguard/internal/database"
	"authguard/internal/known"
	"authguard/internal/leaked"
	"authguard/internal/lists"
	"authguard/internal/metrics"
	"authguard/internal/mfa"
	"authguard/internal/nodes"
	"authguard/internal/outbox"
	"authguard/internal/policy"
	"authguard/internal/redisstore"
	"authguard/internal/seal"
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
	leaked    *leaked.List
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
	issued *tokens.Table
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
		ipLists: ipLists{lists: new(guard.Lists)}, leaked: &leaked.List{Log: log}}
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
	s.listings.Memory, s.listings.Direct = s.lists, func() []netip.Prefix { return *s.proxies.Load() }
	s.overrides = policy.NewTable(s.storage.db)
	s.named = lists.NewFiles(s.lists, s.log, s.storage.clock.Now)
	s.named.Configure(s.loaded.Sources())
	s.leaked.Configure(s.loaded.Passwords.Leaked.File, s.loaded.Passwords.Leaked.Action != "off")
	s.trust(s.loaded)
	s.issued = tokens.New(s.storage.db)
	s.mfa, err = mfa.New(mfa.Config{DB: s.storage.db, Secret: s.storage.keys.Counters,
		Now: s.storage.clock.Now})
	if err != nil {
		return err
	}
	s.storage.changes.On(changes.Tokens, s.readTokens)
	s.listeners = openListeners(s)
	s.parts.Add(background.Run(s.health.Run), background.Run(s.named.Run), background.Run(s.leaked.Run),
		background.Close(s.stopRealms))
	if err := s.openRealms(ctx); err != nil {
		return err
	}
	s.parts.Add(background.Ready(s.startRealms), background.Run(s.upkeep))
	s.watch.statsd.Realms = s.gauges
	s.watch.metrics.Watch(metrics.Gauges{
		Realms: s.gauges, Size: s.counting.tables[public].Size, Dropped: s.watch.bus.Dropped,
		Channels: s.watch.channels, Redis: s.counting.shared.gauges(),
		Database: s.storage.db, DatabaseUp: func() bool { why, _ := s.health.Failed(); return why == nil }, Build: runs(),
		Refused:      func() uint64 { return s.listeners.front.Refused() },
		Unintroduced: func() uint64 { return s.listeners.front.Unintroduced() },
	})
	return nil
}

func (s *site) warnings() []control.Warning {
	all := slices.Concat(storageWarning(s.health), s.counting.warn(), s.watch.warn(), clockWarning(s.storage.clock),
		control.BrokenLists(s.named.States()), leakedWarning(s.leaked.State()))
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
	watchClock(s.storage.clock, s.watch.alerts, nodeName(s.loaded.Listen))
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
	changes *changes.Watcher
	clock   *nodes.Clock
	claim   *database.Claim
}

// openStorage opens the data on disk. Missing data is an error unless anew is set: an attacker would start with fresh
// limits, and account owners would have no known clients.
func openStorage(ctx context.Context, loaded *config.Loaded, how opening, log *slog.Logger) (s *storage, err error) {
	s = &storage{folder: loaded.Data, name: database.FolderName(loaded.Data),
		clock: &nodes.Clock{Local: how.clock, Log: log}}
	if s.db, err = database.Open(ctx, dsn(loaded)); err != nil {
		return nil, err
	}
	s.claim = database.NewClaim(s.db)
	s.Add(background.Close(s.db.Close), background.Undo(s.claim.Close))
	here := dsn(loaded)
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
	if err == nil {
		s.changes, err = changes.New(changes.Config{DB: s.db, Now: s.clock.Now, Log: log})
	}
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
	_, err := startable(ctx, loaded, s.db)
	if errors.Is(err, redisstore.ErrApart) {
		return nil // shared.agree reports this with an alert
	}
	return err
}

func (s *storage) readKeys(ctx context.Context, loaded *config.Loaded, anew bool) (err error) {
	file := keysPath(loaded)
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

func dsn(loaded *config.Loaded) string {
	return cmp.Or(loaded.Database.Reveal(), filepath.Join(loaded.Data, "authguard.db"))
}

func (s *storage) path(name string) string { return filepath.Join(s.folder, name) }

func keysPath(loaded *config.Loaded) string {
	return cmp.Or(loaded.KeysFile, filepath.Join(loaded.Data, "keys"))
}

func openCounting(ctx context.Context, loaded *config.Loaded, on *storage, anew bool, watch *watch,
	log *slog.Logger) (*counting, error) {
	c := &counting{
		saveEvery: loaded.Counters.SaveInterval, alone: !loaded.Redis.On(),
		node:   nodeName(loaded.Listen),
		alerts: watch.alerts, log: log, opened: time.Now(),
	}
	if err := c.open(ctx, loaded, on, anew, watch); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	c.addParts()
	return c, nil
}

func (c *counting) open(ctx context.Context, loaded *config.Loaded, on *storage, anew bool, watch *watch) (err error) {
	retain, pendingFor := longestOf(loaded.Config)
	for i, of := range tables {
		memory := failures.Config{
			MaxBytes: max(failures.MinBytes, int64(loaded.Counters.Memory)/int64(of.part)),
			Retain:   retain, PendingFor: pendingFor,
			Owner: on.keys.Counted(of.file), Now: on.clock.Counting(),
		}
		if err := c.recall(ctx, on, i, memory, anew); err != nil {
			return err
		}
	}
	c.known, err = known.New(ctx, known.Config{DB: on.db, Limits: loaded.Policy().KnownClients, Now: on.clock.Now})
	if err != nil {
		return err
	}
	if loaded.Redis.On() {
		if c.shared, err = openShared(ctx, loaded, on, c, watch); err != nil {
			return fmt.Errorf("redis: %w", err)
		}
		c.spent, c.settled = c.shared.used, c.shared.settled
		c.stores[public] = c.shared.store
		c.stores[administrators] = c.shared.store.Beside(c.tables[administrators].Memory)
		return nil
	}
	for i, t := range c.tables {
		local := guard.NewLocal(t.Memory, c.known)
		local.Sprays = failures.NewSprays(nil)
		c.stores[i] = local
	}
	c.spent, c.settled = challenge.NewMemorySpent(0, nil), challenge.NewMemorySpent(0, nil)
	return nil
}

func (c *counting) addParts() {
	for _, t := range c.tables {
		c.Add(background.Run(t.Run))
	}
	c.Add(
		background.Run(c.saveAgain),
		background.Ready(c.reportLacks),
		background.Repeat(lookEvery, func(context.Context) { c.lookForRoom() }),
		background.Repeat(time.Second, func(context.Context) { c.lookAtSaves() }),
	)
	if c.shared != nil {
		c.Add(
			// Everything else that reads the database reports the error.
			background.Repeat(time.Second, func(ctx context.Context) { _ = c.known.Refresh(ctx) }),
			background.Ready(c.shared.agree), background.Run(c.shared.store.Run),
		)
	}
}

// openShared connects the node to the others. An unavailable Redis is no error: the node starts with its local store.
func openShared(ctx context.Context, loaded *config.Loaded, on *storage, c *counting, watch *watch) (*shared, error) {
	r := loaded.Redis
	client, err := connectRedis(r, watch.metrics.Redis)
	if err != nil {
		return nil, err
	}
	c.Add(background.Close(client.Close))
	s := &shared{
		client: client, clock: on.clock, prefix: r.Prefix, alerts: watch.alerts,
		file: on.path(nodesFile), node: nodeName(loaded.Listen), log: c.log,
	}
	s.before.Store(readNodes(s.file))
	on.clock.Sources = append([]nodes.TimeSource{{Name: "Redis", Ask: func(ctx context.Context) (time.Time, error) {
		return s.client.Time(ctx).Result()
	}}}, on.clock.Sources...)
	on.clock.Look(ctx) // Redis's time comes first: tickets carry it
	policy := loaded.Policy()
	_, pendingFor := longestOf(loaded.Config)
	s.store, err = nodes.New(nodes.Config{
		Client: s.client, Counters: c.tables[public].Memory, KnownClients: c.known, Nodes: s.nodes,
		Budget: r.Timeout, Log: c.log, OnChange: s.changed,
		Redis: redisstore.Options{
			Prefix: r.Prefix, PendingFor: pendingFor, KnownClients: policy.KnownClients,
			Keys: on.keys.Fingerprint(), OnEmptied: s.emptied,
			Refused: func() error { return elsewhere(loaded, on.claim.Refused()) },
		},
	})
	if err != nil {
		return nil, err
	}
	s.used = nodes.NewSpent(redisstore.NewSpent(s.client, r.Prefix+"c:"), on.clock.Now)
	s.settled = nodes.NewSpent(redisstore.NewSpent(s.client, r.Prefix+"s:"), on.clock.Now)
	s.settled.Strict = true // an unsettled ticket raises the failure rate (R20)
	return s, nil
}

// hold shows the other nodes where this one counts. It fails if they count elsewhere.
func (s *site) hold(ctx context.Context) error {
	name := s.storage.name
	if s.counting.shared != nil {
		name = s.counting.shared.store.Redis().Name()
	}
	return s.storage.claim.Hold(ctx, name)
}

// claim holds the claim for the first time: two nodes that start together have not seen each other before.
func (s *site) claim(ctx context.Context) error {
	err := elsewhere(s.loaded, s.hold(ctx))
	switch {
	case err != nil:
	case s.counting.shared != nil:
		err = database.Mark(ctx, s.storage.db, inRedis)
	case s.how.anew:
		err = database.Unmark(ctx, s.storage.db, inRedis)
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
	for _, table := range []struct {
		name  string
		purge func(context.Context) (rows int64, err error)
	}{
		{"audit", s.watch.purge},
		{"attacks", s.watch.purgeAttacks},
		{"alerts", s.watch.alerts.Purge},
		{"IP list entries about to expire", s.expiring},
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
