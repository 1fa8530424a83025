package database_test

import (
	"errors"
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

// Accounts from before there were realms are the default realm's, and a node of
// before, which names no realm, still adds them there.
func TestAccountsFromBeforeRealmsAreTheDefaultRealms(t *testing.T) {
	t.Parallel()
	for dialect, dsn := range map[goose.Dialect]string{
		goose.DialectSQLite3:  filepath.Join(t.TempDir(), "x.db"),
		goose.DialectPostgres: postgrestest.Shared(t).Database(t) + patient,
	} {
		db := mustOpen(t, dsn)
		older, err := goose.NewProvider(dialect, db, migrations.FS, goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()),
			goose.WithExcludeNames(map[goose.Dialect][]string{goose.DialectSQLite3: migrations.PostgresOnly(), goose.DialectPostgres: migrations.SQLiteOnly()}[dialect]))
		if err != nil {
			t.Fatal(err)
		}
		exec := func(query string) error {
			_, err := db.Exec(query)
			return err
		}
		add := func(realm, id, name string) error {
			columns, values := "", ""
			if realm != "" {
				columns, values = "realm, ", "'"+realm+"', "
			}
			return errors.Join(
				exec(`INSERT INTO accounts (`+columns+`id, username, email, password_hash, created_at, changed_at) VALUES (`+values+`'`+id+`', '`+name+`', NULL, 'hash', 1, 1)`),
				exec(`INSERT INTO account_names (`+columns+`name, account) VALUES (`+values+`'`+name+`', '`+id+`')`))
		}
		for range 2 { // there, back, and there again
			if _, err := older.UpTo(t.Context(), 10); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(exec(`DELETE FROM accounts`), add("", "one", "ann")); err != nil {
				t.Fatal(dialect, err)
			}
			if _, err := database.Migrate(t.Context(), db); err != nil {
				t.Fatal(dialect, err)
			}
			if err := errors.Join(add("", "two", "bob"), add("shop", "three", "ann")); err != nil {
				t.Error(dialect, err)
			}
			if add("", "four", "ann") == nil || add("shop", "five", "ann") == nil {
				t.Error(dialect, "a name was taken twice")
			}
			var who string
			if err := db.QueryRow(`SELECT MAX(CASE WHEN realm = 'default' AND name = 'ann' THEN account END) || MAX(CASE WHEN realm = 'shop' THEN account END)
				FROM account_names`).Scan(&who); err != nil || who != "onethree" {
				t.Error(dialect, who, err)
			}
			if _, err := older.DownTo(t.Context(), 10); err != nil {
				t.Fatal(dialect, err)
			}
			var names int
			if err := db.QueryRow(`SELECT COUNT(*) FROM account_names WHERE account IN (SELECT id FROM accounts)`).Scan(&names); err != nil || names != 2 {
				t.Error(dialect, names, err)
			}
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
		('places', 'account'), ('lists', 'cidr'), ('sessions', 'token_hash'), ('audit', 'account'),
		('accounts', 'realm'), ('account_names', 'realm'), ('sessions', 'realm'), ('passes', 'realm'))`
	var n int
	if err := db.QueryRow(query).Scan(&n); err != nil || n != 11 {
		t.Errorf("%d columns (%v), want 11", n, err)
	}
}
