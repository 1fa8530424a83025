package doctor

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"

	"authguard/failures"
	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/config"
	"authguard/internal/counters"
	"authguard/internal/database"
	"authguard/internal/redisstore"
	"authguard/internal/seal"
)

// Refusal returns why serve would not start, and what it would start without, for commands that only check. It writes
// nothing; a server may be running.
func Refusal(ctx context.Context, loaded *config.Loaded) ([]counters.Lack, error) {
	if err := Usable(ctx, loaded); err != nil {
		return nil, err
	}
	open := database.Inspect
	if loaded.Database != "" {
		open = database.Open
	}
	db, err := open(ctx, loaded.DSN())
	if errors.Is(err, fs.ErrNotExist) {
		return Startable(ctx, loaded, nil)
	}
	if err != nil {
		return nil, err
	}
	defer db.Close()
	return Startable(ctx, loaded, db)
}

// Startable returns why serve does not start from the stored data without --allow-data-loss. Otherwise an attacker
// would start with fresh limits, and account owners would have no known clients. It only reads. db is nil if there is
// none; tables of an older version do not show everything. Data that a server starts without, and reports, is returned
// as lacks.
func Startable(ctx context.Context, loaded *config.Loaded, db *sql.DB) ([]counters.Lack, error) {
	var state database.State
	if db != nil {
		if err := database.Writable(ctx, db); err != nil {
			return nil, err
		}
		var err error
		if state, err = database.StateOf(ctx, db); err != nil {
			return nil, err
		}
	}
	s := stored{loaded: loaded, db: db, counters: filepath.Join(loaded.Data, counters.Files[counters.Public].Name)}
	s.current = state.Applied > 0 && len(state.Missing) == 0
	switch _, err := os.Stat(s.counters); {
	case state.Newer > 0:
		return nil, fmt.Errorf("%w: its newest migration is %d. Run the newest authguard, or restore the backup from "+
			"before the upgrade",
			database.ErrTooNew, state.Newer)
	case state.TooOld:
		return nil, database.ErrTooOld
	case err == nil && state.Applied == 0:
		return nil, s.empty()
	}
	if err := s.sameKeys(ctx); err != nil {
		return nil, err
	}
	if err := s.together(ctx); err != nil {
		return nil, err
	}
	return s.counted(ctx)
}

type stored struct {
	loaded   *config.Loaded
	db       *sql.DB
	current  bool // the database has this version's tables
	counters string
	keys     seal.Keys
	hasKeys  bool
}

// errEmpty means that the database has no tables although other files prove that it had.
var errEmpty = errors.New("the database is empty")

// empty is the error for an empty database in a folder that was in use: the first start saves counters, and nothing
// deletes them.
func (s *stored) empty() error {
	where := "the database that `database:` names"
	if s.loaded.Database == "" {
		where = s.loaded.DSN()
	}
	return fmt.Errorf("%w: %s has no tables, but %s has saved counters, so the database was in use. Restore its backup, "+
		"or check "+
		"data: and database:. If accounts, IP lists and the audit log are lost for good, "+
		"start with empty state: authguard serve --allow-data-loss",
		errEmpty, where, s.loaded.Data)
}

// sameKeys reads the keys file. It may be missing only if no other keys were ever in use.
func (s *stored) sameKeys(ctx context.Context) (err error) {
	file := s.loaded.KeysPath()
	_, missing := os.Stat(file)
	if !errors.Is(missing, fs.ErrNotExist) {
		if s.keys, err = seal.Read(file); err != nil {
			return err
		}
		if s.hasKeys = true; !s.current {
			return nil
		}
		err = database.CompareKeys(ctx, s.db, s.keys, file)
		if s.loaded.Database == "" && errors.Is(err, database.ErrKeysDiffer) {
			err = fmt.Errorf("%w. With one node, if the file is lost: authguard serve --allow-data-loss", err)
		}
		return err
	}
	_, gone := os.Stat(s.counters)
	used := gone == nil
	if s.current && !used {
		if used, err = database.UsesKeys(ctx, s.db); err != nil {
			return err
		}
	}
	if !used {
		return s.usableKeysFolder(file)
	}
	return fmt.Errorf("%w: %s is missing, but counters and known clients depend on it. Restore it from a "+
		"backup, copy it from another node, or correct keys_file:. If it is lost for good, start with empty state: "+
		"authguard serve --allow-data-loss. It resets all counters and known clients",
		database.ErrKeysMissing, file)
}

// usableKeysFolder returns why the keys file could not be created. The data folder is created before it.
func (s *stored) usableKeysFolder(file string) error {
	folder := filepath.Dir(file)
	if folder == filepath.Clean(s.loaded.Data) {
		return nil
	}
	_, err := os.Stat(folder)
	if err == nil {
		err = usableFolder(folder)
	}
	if err != nil {
		return fmt.Errorf("the keys file cannot be created: %w. Create its folder for the user that runs authguard serve, "+
			"or correct keys_file:", err)
	}
	return nil
}

// errNoCounters means that the snapshot is missing although the database proves that it existed.
var errNoCounters = errors.New("the saved counters are missing")

// counted checks that counters saved with this database exist and load, and returns what they lack. Nodes with Redis
// have theirs there.
func (s *stored) counted(ctx context.Context) (all []counters.Lack, err error) {
	if s.loaded.Redis.On() {
		return nil, nil
	}
	for i, of := range counters.Files {
		var owner failures.Key
		if s.hasKeys {
			owner = s.keys.Counted(of.Name)
		}
		lacks, err := counters.Check(s.loaded.Data, i, owner)
		if errors.Is(err, fs.ErrNotExist) {
			err = s.unsaved(ctx, of.Name)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, lacks...)
	}
	return all, nil
}

// unsaved returns why counters are missing that were saved with this database; nil if there were none.
func (s *stored) unsaved(ctx context.Context, name string) error {
	if !s.current {
		return nil
	}
	if saved, err := database.Marked(ctx, s.db, name); err != nil || !saved {
		return err
	}
	return fmt.Errorf("%w: %s does not exist any more. Restore it from a backup, or correct data:. "+
		"If it is lost for good, start with empty state: authguard serve --allow-data-loss. It resets all counters",
		errNoCounters, filepath.Join(s.loaded.Data, name))
}

// InRedis marks a database whose nodes count in Redis.
const InRedis = "redis"

// errNoRedis means that the nodes of a database count in Redis, and this one does not.
var errNoRedis = errors.New("redis: is not set, but the nodes of this database count in Redis")

// together checks that a node would count in the same store as the other nodes of its database. An unavailable Redis is
// no error: the node starts with its share of the limits.
func (s *stored) together(ctx context.Context) error {
	r := s.loaded.Redis
	if !r.On() {
		return s.withoutRedis(ctx)
	}
	client, err := r.Connect(nil)
	if err != nil {
		return fmt.Errorf("redis: %w", err)
	}
	defer client.Close()
	fingerprint := ""
	if s.hasKeys {
		fingerprint = s.keys.Fingerprint()
	}
	signed, _, err := redisstore.Look(ctx, client, r.Prefix)
	if err != nil {
		return nil
	}
	if err := redisstore.Compare(signed, fingerprint, r.Prefix); err != nil || s.db == nil {
		return err
	}
	return Elsewhere(s.loaded, database.Elsewhere(ctx, s.db, func(ctx context.Context) (string, error) {
		_, name, err := redisstore.Look(ctx, client, r.Prefix)
		return name, err
	}))
}

func (s *stored) withoutRedis(ctx context.Context) error {
	if s.db == nil {
		return nil
	}
	err := database.Elsewhere(ctx, s.db, func(context.Context) (string, error) {
		return database.FolderName(s.loaded.Data), nil
	})
	if err != nil || !s.current {
		return Elsewhere(s.loaded, err)
	}
	if marked, err := database.Marked(ctx, s.db, InRedis); err != nil || !marked {
		return err
	}
	return fmt.Errorf("%w, so attackers would get each limit twice. Set redis: as on the other nodes, or, to use one "+
		"node without Redis from now on, stop the others and run: authguard serve --allow-data-loss", errNoRedis)
}

// Elsewhere adds a remedy to database.ErrElsewhere and returns other errors unchanged.
func Elsewhere(loaded *config.Loaded, err error) error {
	if !errors.Is(err, database.ErrElsewhere) {
		return err
	}
	how := "in another Redis, under another redis.prefix or without Redis"
	if !loaded.Redis.On() {
		how = "and this one has no redis: setting"
	}
	return fmt.Errorf("%w, %s, so attackers would get each limit twice. "+
		"Give all nodes the same redis: settings, or stop the other nodes first", err, how)
}

// Modes of access(2).
const (
	mayRead  = 4
	mayWrite = 2
	mayEnter = 1
)

// Usable returns why serve could not use the configured folders, files and servers, regardless of stored data. It
// writes nothing.
func Usable(ctx context.Context, loaded *config.Loaded) error {
	if err := usableFolder(loaded.Data); err != nil {
		return fmt.Errorf("the data folder cannot be used: %w. Set data: to a folder that the user that runs "+
			"authguard serve can write", err)
	}
	lock, err := filepath.Abs(filepath.Join(loaded.Data, database.LockName))
	if err != nil {
		return err
	}
	if info, err := os.Stat(lock); err == nil && info.IsDir() {
		return fmt.Errorf("%s is a folder: remove it, the server needs a file there", lock)
	}
	if loaded.Database == "" {
		if err := mayOpen(loaded.DSN()); err != nil {
			return fmt.Errorf("database: %w. Give the file to the user that runs authguard serve", err)
		}
	}
	if _, err := loaded.Redis.Encryption(); err != nil {
		return fmt.Errorf("redis: %w", err)
	}
	if err := usableAccounts(ctx, loaded.Config); err != nil {
		return err
	}
	for _, r := range loaded.Realms {
		in := loaded.In(r)
		if in.Accounts == loaded.Accounts {
			continue
		}
		if err := usableAccounts(ctx, in); err != nil {
			return fmt.Errorf("realm %s: %w", r.Name, err)
		}
	}
	return nil
}

func usableFolder(folder string) error {
	info, err := os.Stat(folder)
	for errors.Is(err, fs.ErrNotExist) && folder != filepath.Dir(folder) {
		folder = filepath.Dir(folder)
		info, err = os.Stat(folder)
	}
	if err == nil && !info.IsDir() {
		err = &fs.PathError{Op: "open", Path: folder, Err: syscall.ENOTDIR}
	}
	if err != nil {
		return err
	}
	if err := syscall.Access(folder, mayWrite|mayEnter); err != nil {
		return &fs.PathError{Op: "write", Path: folder, Err: err}
	}
	return nil
}

// mayOpen returns why an existing file could not be read and written. It does not open the file: closing it would
// release SQLite's locks on it.
func mayOpen(file string) error {
	if err := syscall.Access(file, mayRead|mayWrite); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &fs.PathError{Op: "open", Path: file, Err: err}
	}
	return nil
}

// usableAccounts returns why accounts of another source could not be looked up. An unavailable directory is no error:
// logins work when it is back.
func usableAccounts(ctx context.Context, c config.Config) error {
	a, normalise := c.Accounts, guard.NormaliseAccount
	if a.CaseSensitive {
		normalise = guard.NormaliseExact
	}
	switch a.Source {
	case config.SourceHtpasswd:
		if _, gone := os.Stat(a.Htpasswd); gone != nil {
			return fmt.Errorf("accounts.htpasswd: %w. Create it with: htpasswd -cB %s USER", gone, a.Htpasswd)
		}
		_, err := accounts.NewHtpasswdSource(a.Htpasswd, normalise, slog.New(slog.DiscardHandler))
		return err
	case config.SourceLDAP:
		_, err := accounts.OpenLDAP(a.LDAP, normalise)
		return err
	case config.SourceQuery:
		open := database.Inspect
		if ways, err := database.Ways(a.Database.Reveal()); err != nil || len(ways) > 0 { // PostgreSQL
			open = database.OpenReadOnly
		}
		db, err := open(ctx, a.Database.Reveal())
		if err != nil {
			return fmt.Errorf("accounts.database: %w", err)
		}
		return db.Close()
	}
	return nil
}
