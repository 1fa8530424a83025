// Package database opens authguard's SQL database and brings its tables up to
// date.
//
// It promises that a file which is damaged, or is no database at all, is an
// error and stays as it was; that nobody but the service's own user can read
// what it creates; and that two processes may start at once. What is in the
// tables is the business of the packages that use them; their shape is package
// migrations.
package database
