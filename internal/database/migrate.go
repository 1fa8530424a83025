package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/pressly/goose/v3"

	"authguard/migrations"
)

// ErrTooNew says that a newer authguard has already changed the tables.
var ErrTooNew = errors.New("database: written by a newer authguard; this one is too old for it")

// Migrate brings the tables up to date and names the files it applied, oldest
// first; none if there was nothing to do. Processes that start at once wait for
// each other, until ctx ends. A file that fails leaves the database as it was
// before that file.
func Migrate(ctx context.Context, db *sql.DB) (applied []string, err error) {
	provider, err := newProvider(ctx, db)
	if err != nil {
		return nil, fmt.Errorf("database: migrate: %w", err)
	}
	results, err := provider.Up(ctx)
	var partial *goose.PartialError
	if errors.As(err, &partial) {
		results = partial.Applied
	}
	for _, result := range results {
		applied = append(applied, filepath.Base(result.Source.Path))
	}
	if err != nil {
		return applied, fmt.Errorf("database: migrate: %w", err)
	}
	return applied, checkVersion(ctx, provider)
}

func newProvider(ctx context.Context, db *sql.DB) (*goose.Provider, error) {
	options := []goose.ProviderOption{goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger())}
	if IsPostgres(db) {
		locker, err := newSessionLock()
		if err != nil {
			return nil, err
		}
		return goose.NewProvider(goose.DialectPostgres, db, migrations.FS, append(options, goose.WithSessionLocker(locker))...)
	}
	path, err := pathOf(ctx, db)
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(goose.DialectSQLite3, db, migrations.FS, append(options,
		goose.WithExcludeNames(migrations.PostgresOnly()),
		goose.WithLocker(&folderLock{folder: filepath.Dir(path)}))...)
}

func checkVersion(ctx context.Context, provider *goose.Provider) error {
	current, target, err := provider.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("database: migrate: %w", err)
	}
	if current > target {
		return fmt.Errorf("%w: tables are at %d, this program knows %d", ErrTooNew, current, target)
	}
	return nil
}

func pathOf(ctx context.Context, db *sql.DB) (path string, err error) {
	err = db.QueryRowContext(ctx, "SELECT file FROM pragma_database_list WHERE name = 'main'").Scan(&path)
	return path, err
}
