package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/gofrs/flock"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"authguard/migrations"
)

const (
	// lockSeconds is how long a node waits for another node's migrations, polling every second.
	lockSeconds = 300
	lockRetry   = 20 * time.Millisecond
)

// ErrTooNew means that a newer authguard has already migrated the tables.
var ErrTooNew = errors.New("database: used by a newer authguard than this one")

// ErrTooOld means that a build from before the first release created the tables.
var ErrTooOld = errors.New("database: created by an earlier build from source, which cannot be migrated: " +
	"start with a new database (another data: or database:), and import the exported accounts with authguard user import")

// Migrate brings the tables up to date and returns the files it applied, oldest first. Processes that start together
// wait for each other until ctx ends. A file that fails leaves the database as it was before that file.
func Migrate(ctx context.Context, db *sql.DB) (applied []string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("database: migrate: %w", err)
		}
	}()
	slow, done, err := Unhurried(ctx, db)
	if err != nil {
		return nil, err
	}
	defer done()
	provider, err := newProvider(ctx, slow)
	if err != nil {
		return nil, err
	}
	if state, err := stateOf(ctx, slow, provider); err != nil {
		return nil, err
	} else if state.TooOld {
		return nil, ErrTooOld
	}
	results, err := provider.Up(ctx)
	if partial, ok := errors.AsType[*goose.PartialError](err); ok {
		results = partial.Applied
	}
	for _, result := range results {
		applied = append(applied, filepath.Base(result.Source.Path))
	}
	if err != nil {
		return applied, err
	}
	current, target, err := provider.GetVersions(ctx)
	if err == nil && current > target {
		err = fmt.Errorf("%w: tables are at %d, this program knows %d", ErrTooNew, current, target)
	}
	return applied, err
}

func newProvider(ctx context.Context, db *sql.DB) (*goose.Provider, error) {
	options := []goose.ProviderOption{goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger())}
	if IsPostgres(db) {
		locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, lockSeconds))
		if err != nil {
			return nil, err
		}
		return goose.NewProvider(goose.DialectPostgres, db, migrations.FS, append(options,
			goose.WithExcludeNames(migrations.SQLiteOnly()), goose.WithSessionLocker(locker))...)
	}
	var path string
	if err := db.QueryRowContext(ctx, "SELECT file FROM pragma_database_list WHERE name = 'main'").Scan(
		&path); err != nil {
		return nil, err
	}
	file := flock.New(path + migrating)
	return goose.NewProvider(goose.DialectSQLite3, db, migrations.FS, append(options,
		goose.WithExcludeNames(migrations.PostgresOnly()), goose.WithLocker(fileLock{file}))...)
}

// migrating is the suffix of the file that is locked during migrations. Locking the SQLite file itself would end
// SQLite's own locks, and a server holds a lock on the folder.
const migrating = "-migrating"

// fileLock lets one process at a time migrate a SQLite file. goose locks PostgreSQL only, and each of its steps is a
// transaction of its own. The kernel releases the lock of a process that dies.
type fileLock struct{ file *flock.Flock }

// Lock waits for the file until ctx ends.
func (l fileLock) Lock(ctx context.Context, _ *sql.DB) error {
	if _, err := l.file.TryLockContext(ctx, lockRetry); err != nil {
		return fmt.Errorf("lock %s: %w", l.file, err)
	}
	return nil
}

// Unlock lets the next process continue.
func (l fileLock) Unlock(context.Context, *sql.DB) error { return l.file.Unlock() }

// State is how up to date the tables are.
type State struct {
	// Missing names the unapplied migrations, oldest first.
	Missing []string
	// Applied is the number of applied migrations.
	Applied int
	// Newer is the highest migration that this program does not know; 0: none.
	Newer int64
	// TooOld: see ErrTooOld.
	TooOld bool
}

// StateOf compares the tables with this program's migrations. It only reads.
func StateOf(ctx context.Context, db *sql.DB) (s State, err error) {
	provider, err := newProvider(ctx, db)
	if err == nil {
		s, err = stateOf(ctx, db, provider)
	}
	if err != nil {
		return s, fmt.Errorf("database: which migrations it has: %w", err)
	}
	return s, nil
}

func stateOf(ctx context.Context, db *sql.DB, provider *goose.Provider) (s State, err error) {
	applied, err := versions(ctx, db)
	if err != nil {
		return s, err
	}
	sources := provider.ListSources() // oldest first
	for _, source := range sources {
		if slices.Contains(applied, source.Version) {
			s.Applied++
		} else {
			s.Missing = append(s.Missing, filepath.Base(source.Path))
		}
	}
	for _, version := range applied {
		s.TooOld = s.TooOld || 0 < version && version < sources[0].Version // goose starts at 0
		if version > sources[len(sources)-1].Version {
			s.Newer = max(s.Newer, version)
		}
	}
	return s, nil
}

// versions returns the applied migrations; none before the first.
func versions(ctx context.Context, db *sql.DB) (all []int64, err error) {
	question := "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = $1"
	if IsPostgres(db) {
		question = "SELECT count(to_regclass($1))"
	}
	var tables int
	if err := db.QueryRowContext(ctx, question, goose.DefaultTablename).Scan(&tables); err != nil || tables == 0 {
		return nil, err
	}
	err = Each(ctx, db, func(rows *sql.Rows) error {
		var version int64
		err := rows.Scan(&version)
		all = append(all, version)
		return err
	}, "SELECT version_id FROM "+goose.DefaultTablename)
	return all, err
}
