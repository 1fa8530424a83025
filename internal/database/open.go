// Package database opens authguard's SQL database, a SQLite file or PostgreSQL,
// and brings its tables up to date.
//
// It promises that a file which is damaged, or is no database at all, is an
// error and stays as it was; that only the service's own user can read what it
// creates; that a statement fails within seconds of PostgreSQL's death; and that
// two processes, or two nodes, may start at once. The packages that use the
// tables know what is in them; package migrations defines their shape.
package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
)

// ErrDamaged says that a file is not a SQLite database, or no longer one.
// Nothing was written to it.
var ErrDamaged = errors.New("database: the file is damaged or not a SQLite database")

// ErrUnsupported says that the DSN names a database that is not built in.
var ErrUnsupported = errors.New("database: only SQLite files and PostgreSQL are supported")

// Open opens the database that a DSN names: a PostgreSQL URL, postgres://…, or
// else a SQLite file. The caller closes it.
//
// A missing file is created, and its folder, readable by the owner only. Its DSN
// is a path; a "file:" in front is allowed, parameters are not. A transaction
// takes the write lock when it begins, unless it says that it is read-only, so
// that it never fails halfway because of another writer; it waits up to five
// seconds for that lock. The error is ErrDamaged for a file that cannot be
// trusted.
//
// PostgreSQL is asked at once whether it is there; the error is ErrUnreachable
// if not, after five seconds at the latest. From then on no statement takes
// longer than eight seconds, nor waits longer than ten for a server that has
// died; see Unhurried. connect_timeout (seconds) and statement_timeout
// (milliseconds) in the URL change that. No error repeats the password.
func Open(ctx context.Context, dsn string) (*sql.DB, error) {
	if isPostgres(dsn) {
		return openPostgres(ctx, dsn, false)
	}
	path, err := filePath(dsn)
	if err != nil {
		return nil, err
	}
	if err := prepareFile(path); err != nil {
		return nil, err
	}
	return openSQLite(ctx, path, url.Values{
		"_txlock": {"immediate"},
		"_pragma": {"busy_timeout(5000)", "journal_mode(WAL)", "synchronous(NORMAL)", "foreign_keys(1)"},
	})
}

// OpenReadOnly opens somebody else's database, of either kind, without ever
// writing to it: for accounts.SQLSource. The caller closes it.
func OpenReadOnly(ctx context.Context, dsn string) (*sql.DB, error) {
	if isPostgres(dsn) {
		return openPostgres(ctx, dsn, true)
	}
	path, err := filePath(dsn)
	if err != nil {
		return nil, err
	}
	return openToRead(ctx, path, false)
}

// filePath turns a DSN into an absolute path, so that a later change of the
// working folder changes nothing.
func filePath(dsn string) (string, error) {
	path := strings.TrimPrefix(strings.TrimPrefix(dsn, "sqlite://"), "file:")
	switch {
	case path == "" || strings.Contains(path, ":memory:"):
		return "", fmt.Errorf("%w: give the path of a file, not %q", ErrUnsupported, dsn)
	case strings.Contains(path, "://"):
		scheme, _, _ := strings.Cut(path, "://") // the rest may hold a password
		return "", fmt.Errorf("%w: no driver for %.20q", ErrUnsupported, scheme+"://")
	case strings.Contains(path, "?"):
		return "", fmt.Errorf("%w: parameters after the path are not allowed", ErrUnsupported)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("database: %w", err)
	}
	return abs, nil
}
