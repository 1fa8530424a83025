// Package databasetest runs tests over both databases, each migrated and empty. A package that uses it needs
//
//	func TestMain(m *testing.M) { databasetest.Main(m) }
package databasetest

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"authguard/internal/database"
	"authguard/internal/testing/postgrestest"
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
	path := filepath.Join(t.TempDir(), "x.db")
	SQLiteFile(t, path)
	return opened(t, path)
}

// SQLiteFile writes a migrated, empty database to path.
func SQLiteFile(t testing.TB, path string) {
	t.Helper()
	file.once.Do(func() { file.bytes, file.err = migratedFile() })
	if err := cmp.Or(file.err, os.WriteFile(path, file.bytes, 0o600)); err != nil {
		t.Fatal(err)
	}
}

// file and template are migrated databases, the latter on the shared server. Copying one takes a tenth of the time of
// the migrations.
var (
	file struct {
		once  sync.Once
		bytes []byte
		err   error
	}
	template struct {
		once sync.Once
		err  error
	}
)

func migratedFile() ([]byte, error) {
	folder, err := os.MkdirTemp("", "template")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "x.db")
	if err := migrate(path); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
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
		template.err = migrate(server.URL(templateName) + patient)
	})
	if template.err != nil {
		t.Fatal(template.err)
	}
	return server.Copy(t, templateName)
}

func migrate(dsn string) error {
	db, err := database.Open(context.Background(), dsn)
	if err != nil {
		return err
	}
	_, err = database.Migrate(context.Background(), db)
	return errors.Join(err, db.Close())
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
