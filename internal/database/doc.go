// Package database opens authguard's SQL database, a SQLite file or PostgreSQL,
// and brings its tables up to date.
//
// It promises that a file which is damaged, or is no database at all, is an
// error and stays as it was; that nobody but the service's own user can read
// what it creates; that a PostgreSQL which has died fails whoever asks it, in
// seconds; and that two processes, or two nodes, may start at once. What is in the
// tables is the business of the packages that use them; their shape is package
// migrations.
package database
