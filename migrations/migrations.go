// Package migrations holds the SQL that builds authguard's database, embedded.
//
// The files use only what SQLite and PostgreSQL both accept: no AUTOINCREMENT,
// times as BIGINT milliseconds since the Unix epoch (0: never), digests and
// addresses as TEXT. Queries elsewhere number their placeholders ($1), which
// both drivers understand. A file, once released, is never edited: the next
// change is the next number. Package internal/database applies them.
package migrations

import "embed"

// FS holds the migrations in goose's format, at its root.
//
//go:embed *.sql
var FS embed.FS
