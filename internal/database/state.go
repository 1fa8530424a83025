package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/pressly/goose/v3"

	"authguard/migrations"
)

// Inspect opens a SQLite file that may be in use, or damaged, without creating
// or writing anything. Its errors are those of Open, and fs.ErrNotExist. The
// caller closes it soon: what others write may not be seen.
func Inspect(ctx context.Context, path string) (*sql.DB, error) {
	path, err := filePath(path)
	if err != nil {
		return nil, err
	}
	inUse := hasLog(path)
	db, err := inspect(ctx, path, inUse)
	if errors.Is(err, ErrDamaged) && !inUse && hasLog(path) { // somebody has just begun to use it
		return inspect(ctx, path, true)
	}
	return db, err
}

// hasLog reports whether a write-ahead log is beside the file. Without one
// nobody is using it.
func hasLog(path string) bool {
	_, err := os.Stat(path + "-wal")
	return err == nil
}

// inspect opens a file that nobody uses as one that nobody will change:
// otherwise SQLite makes a log beside it, and leaves it there.
func inspect(ctx context.Context, path string, inUse bool) (*sql.DB, error) {
	if err := checkHeader(path); err != nil {
		return nil, err
	}
	params := url.Values{"mode": {"ro"}, "_pragma": {"busy_timeout(1000)", "query_only(1)"}}
	if !inUse {
		params.Set("immutable", "1")
	}
	return open(ctx, path, params)
}

// A State is how far the tables of a database are.
type State struct {
	// Missing names the migrations that have not been applied, oldest first;
	// all of them in a database without tables.
	Missing []string
	// Applied is how many have been.
	Applied int
	// Newer is the highest migration that this program does not know; 0: none.
	Newer int64
}

// StateOf compares the tables with what this program knows. It only reads.
func StateOf(ctx context.Context, db *sql.DB) (s State, err error) {
	applied, err := versions(ctx, db)
	if err != nil {
		return s, fmt.Errorf("database: which migrations it has: %w", err)
	}
	names, err := fs.Glob(migrations.FS, "*.sql")
	if err != nil {
		return s, err
	}
	known := map[int64]bool{0: true} // goose's first row
	for _, name := range names {
		version, err := goose.NumericComponent(filepath.Base(name))
		if err != nil {
			return s, err
		}
		known[version] = true
		switch {
		case slices.Contains(applied, version):
			s.Applied++
		case IsPostgres(db) || !slices.Contains(migrations.PostgresOnly(), name):
			s.Missing = append(s.Missing, name)
		}
	}
	for _, version := range applied {
		if !known[version] {
			s.Newer = max(s.Newer, version)
		}
	}
	return s, nil
}

// versions are the migrations on record. There is no record before the first.
func versions(ctx context.Context, db *sql.DB) (all []int64, err error) {
	question := "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'goose_db_version'"
	if IsPostgres(db) {
		question = "SELECT count(to_regclass('goose_db_version'))"
	}
	var tables int
	if err := db.QueryRowContext(ctx, question).Scan(&tables); err != nil || tables == 0 {
		return nil, err
	}
	rows, err := db.QueryContext(ctx, "SELECT version_id FROM goose_db_version")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var version int64
		if err := rows.Scan(&version); err != nil {
			return nil, err
		}
		all = append(all, version)
	}
	return all, rows.Err()
}

// A Way is one of the ways to a PostgreSQL that a DSN allows.
type Way struct {
	Host      string // an address, a name, or a folder of sockets: /run/postgresql
	Encrypted bool
}

// Ways are all of them, in the order in which they are tried: sslmode=prefer,
// for one, falls back to a plain connection. It is nil for a SQLite file.
func Ways(dsn string) ([]Way, error) {
	if !isPostgres(dsn) {
		return nil, nil
	}
	config, err := parsePostgres(dsn)
	if err != nil {
		return nil, err
	}
	return waysOf(config), nil
}

func waysOf(config *pgx.ConnConfig) []Way {
	ways := []Way{{config.Host, config.TLSConfig != nil}}
	for _, f := range config.Fallbacks {
		ways = append(ways, Way{f.Host, f.TLSConfig != nil})
	}
	return ways
}
