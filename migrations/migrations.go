// Package migrations holds the SQL that builds authguard's database, embedded.
//
// The files use only what SQLite and PostgreSQL both accept: no AUTOINCREMENT,
// times as BIGINT milliseconds since the Unix epoch (0: never), digests and
// addresses as TEXT. Queries elsewhere number their placeholders ($1), which
// both drivers understand. A file, once released, is never edited: the next
// change is the next number. The numbers below 400 belong to builds from before the
// first release, and are never used again. Package internal/database applies the files.
//
// A file whose name ends in _postgres.sql is for PostgreSQL alone, and one that ends
// in _sqlite.sql for SQLite.
package migrations

import (
	"embed"
	"io/fs"
)

// FS holds the migrations in goose's format, at its root.
//
//go:embed *.sql
var FS embed.FS

// PostgresOnly names the files that SQLite has no use for.
func PostgresOnly() []string { return named("*_postgres.sql") }

// SQLiteOnly names the files that PostgreSQL has no use for.
func SQLiteOnly() []string { return named("*_sqlite.sql") }

func named(pattern string) []string {
	names, err := fs.Glob(FS, pattern)
	if err != nil {
		panic(err) // the patterns are constants
	}
	return names
}
