// Package databasetest runs tests over both databases, each migrated and empty. A package that uses it needs
//
//	func TestMain(m *testing.M) { databasetest.Main(m) }
package databasetest

import (
	"context"
	"database/sql"
	"path/filepath"
	"sync"
	"testing"

	"authguard/internal/database"
	"authguard/internal/postgrestest"
)

// Main runs a package's tests and stops the PostgreSQL server that they share.
func Main(m *testing.M) { postgrestest.Main(m) }

// Open creates a migrated, empty database that is closed with its test.
type Open func(testing.TB) *sql.DB

// Each runs a test twice, in parallel, with a database of each kind.
func Each(t *testing.T, run func(t *testing.T, db *sql.DB)) {
	t.Helper()
	EachKind(t, func(t *testing.T, open Open) { run(t, open(t)) })
}

// EachKind is Each for a test that needs several databases of one kind.
func EachKind(t *testing.T, run func(t *testing.T, open Open)) {
	t.Helper()
	for name, open := range map[string]Open{"sqlite": SQLite, "postgres": Postgres} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, open)
		})
	}
}

// SQLite creates a new file.
func SQLite(t testing.TB) *sql.DB {
	t.Helper()
	return migrated(t, filepath.Join(t.TempDir(), "x.db"))
}

// template is a migrated database on the shared server. Copying it takes a tenth of the time of the migrations.
var template struct {
	once sync.Once
	err  error
}

const templateName = "migrated"

// Postgres creates a new database on the shared server.
func Postgres(t testing.TB) *sql.DB {
	t.Helper()
	return opened(t, PostgresURL(t)+patient)
}

// patient is for tests that are not about timeouts: one hour is longer than any suite runs.
const patient = "&connect_timeout=3600&statement_timeout=3600000"

// PostgresURL returns the DSN of a new, migrated database.
func PostgresURL(t testing.TB) string {
	t.Helper()
	server := postgrestest.Shared(t)
	template.once.Do(func() {
		server.Do(t, "postgres", "CREATE DATABASE "+templateName+" TEMPLATE template0")
		template.err = migrate(server.URL(templateName))
	})
	if template.err != nil {
		t.Fatal(template.err)
	}
	return server.Copy(t, templateName)
}

func migrate(url string) error {
	db, err := database.Open(context.Background(), url+patient)
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = database.Migrate(context.Background(), db)
	return err
}

func migrated(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	db := opened(t, dsn)
	if _, err := database.Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	return db
}

// opened closes the database before its folder or database is removed: cleanup runs in reverse order.
func opened(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	db, err := database.Open(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}
