package database_test

import (
	"path/filepath"
	"testing"

	"github.com/pressly/goose/v3"

	"authguard/internal/database"
	"authguard/internal/postgrestest"
	"authguard/migrations"
)

func TestAWordSaidToAnOlderVersionIsKept(t *testing.T) {
	t.Parallel()
	for dialect, dsn := range map[goose.Dialect]string{
		goose.DialectSQLite3:  filepath.Join(t.TempDir(), "x.db"),
		goose.DialectPostgres: postgrestest.Shared(t).Database(t) + patient,
	} {
		db := mustOpen(t, dsn)
		older, err := goose.NewProvider(dialect, db, migrations.FS, goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := older.UpTo(t.Context(), 6); err != nil {
			t.Fatal(err)
		}
		if _, err := db.Exec(`INSERT INTO mode_override (realm, state, who, why, since, until) VALUES ('default', 'off', 'ann', 'why', 1, 2)`); err != nil {
			t.Fatal(err)
		}
		if _, err := database.Migrate(t.Context(), db); err != nil {
			t.Fatal(err)
		}
		var word string
		err = db.QueryRow(`SELECT realm || state || who || why || since || until FROM mode_words WHERE id <> ''`).Scan(&word)
		if err != nil || word != "defaultoffannwhy12" {
			t.Errorf("%s: %q, %v", dialect, word, err)
		}
	}
}

func TestPostgresComparesNamesByteByByte(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, postgrestest.Shared(t).Database(t)+patient)
	if _, err := database.Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	const query = `SELECT COUNT(*) FROM information_schema.columns WHERE collation_name = 'C'
		AND (table_name, column_name) IN (('accounts', 'username'), ('accounts', 'email'), ('account_names', 'name'),
		('places', 'account'), ('lists', 'cidr'), ('sessions', 'token_hash'), ('audit', 'account'))`
	var n int
	if err := db.QueryRow(query).Scan(&n); err != nil || n != 7 {
		t.Errorf("%d columns (%v), want 7", n, err)
	}
}
