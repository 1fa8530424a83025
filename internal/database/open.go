// Package database opens the SQL database, a SQLite file or PostgreSQL, migrates its tables, runs transactions and
// statements on both kinds, and notifies the nodes about changes ([Watcher]).
//
// A damaged file, or one that is not a database, is an error and stays untouched. Only the service's own user can read
// the files it creates. Statements fail within seconds of PostgreSQL's death. Several processes or nodes may start at
// once. Package migrations defines the tables; the packages that use them define their meaning.
package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// ErrDamaged means that a file is not, or no longer, a SQLite database. Nothing was written to it.
var ErrDamaged = errors.New("database: the file is damaged or not a SQLite database")

// ErrUnsupported means that the DSN names a database that is not built in.
var ErrUnsupported = errors.New("database: only SQLite files and PostgreSQL are supported")

// ErrMoved means that an open file or folder was renamed, deleted or replaced.
var ErrMoved = errors.New("it was moved, deleted or replaced while it is in use")

// Open opens the database of a DSN: a PostgreSQL URL, postgres://…, or else a SQLite file. The caller closes it.
//
// The DSN of a file is a path, with an optional "file:" prefix and without parameters. A missing file is created with
// its folder, readable by the owner only. A transaction takes the write lock when it begins, unless it is read-only, so
// another writer cannot make it fail halfway. It waits up to five seconds for that lock. A damaged file returns
// ErrDamaged.
//
// Open connects to PostgreSQL at once and returns ErrUnreachable if that fails, after five seconds at most. After that,
// a statement takes eight seconds at most, and ten on a dead server; see Unhurried. connect_timeout (seconds) and
// statement_timeout (milliseconds) in the URL change these limits. No error contains the password.
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
		// A later connection must not create a file where this one was moved away: SQLite would delete the log beside an
		// empty file although other connections use it.
		"mode":    {"rw"},
		"_txlock": {"immediate"},
		"_pragma": {"busy_timeout(5000)", "journal_mode(WAL)", "synchronous(NORMAL)", "foreign_keys(1)"},
	})
}

// InPlace returns a function that fails if the open SQLite file or folder is no longer at its path. SQLite would keep
// writing to the moved file, with a log under another name, and a restart would lose those writes.
func InPlace(path string) (func() error, error) {
	path, err := filePath(path)
	if err != nil {
		return nil, err
	}
	opened, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("database: %w", err)
	}
	return func() error {
		if now, err := os.Stat(path); err != nil || !os.SameFile(opened, now) {
			return fmt.Errorf("%s: %w. Stop the server, put it back with all its files, and start the server again",
				path, ErrMoved)
		}
		return nil
	}, nil
}

// OpenReadOnly opens another program's database of either kind without writing to it, for accounts.SQLSource. The
// caller closes it.
func OpenReadOnly(ctx context.Context, dsn string) (*sql.DB, error) {
	if isPostgres(dsn) {
		return openPostgres(ctx, dsn, true)
	}
	path, err := filePath(dsn)
	if err != nil {
		return nil, err
	}
	return openToRead(ctx, path, "busy_timeout(5000)", false)
}

// filePath returns an absolute path, so that a later change of the working folder has no effect.
func filePath(dsn string) (string, error) {
	path := strings.TrimPrefix(strings.TrimPrefix(dsn, "sqlite://"), "file:")
	switch {
	case path == "" || strings.Contains(path, ":memory:"):
		return "", fmt.Errorf("%w: give the path of a file, not %q", ErrUnsupported, dsn)
	case strings.Contains(path, "://"):
		scheme, _, _ := strings.Cut(path, "://") // the rest may contain a password
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
