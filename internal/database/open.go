// Package database opens authguard's SQL database, a SQLite file or PostgreSQL,
// and brings its tables up to date.
//
// A file that is damaged, or not a database, is an error and is left untouched.
// Only the service's own user can read what it creates. A statement fails
// within seconds of PostgreSQL's death. Two processes, or two nodes, may start
// at once. Package migrations defines the tables; the packages that use them
// know what they mean.
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

// ErrDamaged means that a file is not, or no longer, a SQLite database. Nothing
// was written to it.
var ErrDamaged = errors.New("database: the file is damaged or not a SQLite database")

// ErrUnsupported means that the DSN names a database that is not built in.
var ErrUnsupported = errors.New("database: only SQLite files and PostgreSQL are supported")

// ErrMoved means that a file or folder that is open was renamed, deleted or replaced.
var ErrMoved = errors.New("it was moved, deleted or replaced while it is in use")

// Open opens the database that a DSN names: a PostgreSQL URL, postgres://…, or
// else a SQLite file. The caller closes it.
//
// A missing file is created, with its folder, readable by the owner only. Its
// DSN is a path; a "file:" in front is allowed, parameters are not. A
// transaction takes the write lock when it begins, unless it is marked
// read-only, so that it never fails halfway because of another writer; it waits
// up to five seconds for that lock. The error is ErrDamaged for a file that
// cannot be trusted.
//
// Open connects to PostgreSQL at once; if that fails, after five seconds at
// most, the error is ErrUnreachable. From then on no statement takes longer
// than eight seconds, or waits longer than ten for a server that has died; see
// Unhurried. connect_timeout (seconds) and statement_timeout (milliseconds) in
// the URL change that. No error repeats the password.
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
		// A later connection makes no file where this one was moved away: SQLite deletes
		// the log beside an empty file, though the other connections use it.
		"mode":    {"rw"},
		"_txlock": {"immediate"},
		"_pragma": {"busy_timeout(5000)", "journal_mode(WAL)", "synchronous(NORMAL)", "foreign_keys(1)"},
	})
}

// InPlace returns a function whose error says that the SQLite file that was just opened, or
// the folder, is no longer at its path: SQLite goes on writing to the file, with a log of
// another name, and a restart finds nothing of that.
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

// OpenReadOnly opens another program's database, of either kind, without ever
// writing to it: for accounts.SQLSource. The caller closes it.
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

// filePath turns a DSN into an absolute path, so that changing the working
// folder later makes no difference.
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
