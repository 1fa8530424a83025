package accounts_test

import (
	"bytes"
	"database/sql"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"authguard/internal/accounts"
	"authguard/internal/config"
	"authguard/internal/database"
	"authguard/internal/testing/postgrestest"
)

const users = `CREATE TABLE users (id INTEGER, login TEXT, email TEXT, password_hash TEXT);
	INSERT INTO users VALUES (1, 'ann', 'ann@example.org', '$2y$05$ann'), (2, 'bob', 'bob@example.org', NULL),
	(3, 'twin', 'x@example.org', 'h'), (4, 'twin', 'y@example.org', 'h')`

// eachOfTheirs runs a test over somebody else's database of each kind.
func eachOfTheirs(t *testing.T, run func(t *testing.T, db *sql.DB)) {
	t.Helper()
	for name, dsn := range map[string]string{
		"sqlite": filepath.Join(t.TempDir(), "theirs.db"), "postgres": postgrestest.Shared(t).Database(t) + "&connect_timeout=3600&statement_timeout=3600000",
	} {
		t.Run(name, func(t *testing.T) {
			db, err := database.Open(t.Context(), dsn)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if _, err := db.Exec(users); err != nil {
				t.Fatal(err)
			}
			readOnly, err := database.OpenReadOnly(t.Context(), dsn)
			if err != nil {
				t.Fatal(err)
			}
			defer readOnly.Close()
			run(t, readOnly)
		})
	}
}

func TestSomebodyElsesTableIsASource(t *testing.T) {
	t.Parallel()
	eachOfTheirs(t, func(t *testing.T, db *sql.DB) {
		for _, name := range []string{"?", "$1"} {
			source, err := accounts.NewSQLSource(accounts.SQLSourceConfig{
				DB:    db,
				Query: "SELECT password_hash FROM users WHERE login = " + name + " OR email = " + name + " -- 'who?'",
				Canonical: "SELECT id FROM users WHERE (login = " + name + " OR email = " + name +
					") AND 'it''s?' <> '?' AND \"login\" <> '?'",
			})
			if err != nil {
				t.Fatal(err)
			}
			finds(t, source)
		}
	})
}

func finds(t *testing.T, source *accounts.SQLSource) {
	t.Helper()
	first, second := mustFind(t, source, "ann"), mustFind(t, source, "ann@example.org")
	if !reflect.DeepEqual(first, second) || first.Account != "1" || first.Password.Hash != "$2y$05$ann" || !first.Password.Usable {
		t.Errorf("%+v and %+v", first, second)
	}
	if l := mustFind(t, source, "bob"); l.Password.Usable || l.Version == first.Version {
		t.Errorf("without a password: %+v", l)
	}
	for _, name := range []string{"eve", "' OR 1=1 --", "x\x00y", "\xff", "$1", "?"} {
		wantUnknown(t, source, name)
	}
	if _, found, err := source.FindForLogin(t.Context(), "twin"); err == nil || found {
		t.Error("one name, two accounts, no error")
	}
	if name, err := source.CanonicalOf(t.Context(), "eve"); name != "eve" || err != nil {
		t.Errorf("%q, %v", name, err)
	}
}

func TestAQueryMayTellTheEMailAndTheGroups(t *testing.T) {
	t.Parallel()
	eachOfTheirs(t, func(t *testing.T, db *sql.DB) {
		find := func(columns string) (accounts.Login, error) {
			source, err := accounts.NewSQLSource(accounts.SQLSourceConfig{DB: db, Query: "SELECT password_hash" + columns + " FROM users WHERE login = ?"})
			if err != nil {
				t.Fatal(err)
			}
			l, _, err := source.FindForLogin(t.Context(), "ann")
			return l, err
		}
		for columns, want := range map[string]string{
			"": "|",
			`, email, ' staff ,Domain Admins,,staff' AS "GROUPS"`:         "ann@example.org|Domain Admins,staff",
			", NULL AS groups, NULL AS email":                             "|",
			", 'a\nRemote-User: root' AS email, 'ok,b\r\nX: y' AS groups": "|ok",
		} {
			l, err := find(columns)
			if got := l.Email + "|" + strings.Join(l.Groups, ","); got != want || err != nil || l.Password.Hash != "$2y$05$ann" {
				t.Errorf("%q: %q, %v", columns, got, err)
			}
		}
		if _, err := find(", login"); err == nil || !strings.Contains(err.Error(), `column 2 is called "login"`) {
			t.Errorf("a column that is nothing to us: %v", err)
		}
	})
}

func TestQueriesThatCannotBeRightAreRefused(t *testing.T) {
	t.Parallel()
	eachOfTheirs(t, func(t *testing.T, db *sql.DB) {
		for _, query := range []string{
			"", "DELETE FROM users WHERE email = ?", "SELECT hash FROM users", "SELECT '?' FROM users",
			"SELECT 1 WHERE 1 = ?; DROP TABLE users", "UPDATE users SET x = $1",
		} {
			if _, err := accounts.NewSQLSource(accounts.SQLSourceConfig{DB: db, Query: query}); err == nil {
				t.Errorf("%q was taken", query)
			}
			if _, err := accounts.NewSQLSource(accounts.SQLSourceConfig{DB: db, Query: "SELECT 1 WHERE 1 = ?", Canonical: query}); err == nil && query != "" {
				t.Errorf("canonical %q was taken", query)
			}
		}
	})
}

// write gives the file a time of its own: two writes may fall into one tick.
func write(t *testing.T, path, text string, at time.Time) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
}

func TestAnHtpasswdFileIsReadAgainWhenItChanges(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), ".htpasswd")
	h := mustHash(t, "secret")
	write(t, path, "Ann:"+h+"\n", noon)
	var log bytes.Buffer
	source, err := accounts.NewHtpasswdSource(path, normalise, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	if l := mustFind(t, source, "ANN"); l.Account != "ann" || l.Password.Hash != h {
		t.Errorf("%+v", l)
	}
	changed := make(chan []string, 10)
	source.OnChange(func(names []string) { changed <- names })
	source.Settle(time.Hour)
	write(t, path, "", time.Now()) // as htpasswd begins
	mustFind(t, source, "ann")
	write(t, path, "bob:"+h+"\n", noon.Add(time.Second))
	mustFind(t, source, "bob")
	wantUnknown(t, source, "ann")
	if got := <-changed; !slices.Equal(got, []string{"ann"}) {
		t.Errorf("%v have changed, want ann", got)
	}

	write(t, path, "cid:"+h+"\nCID:"+h+"\nbad\n", noon.Add(2*time.Second))
	for range 3 {
		mustFind(t, source, "bob")
		wantUnknown(t, source, "cid")
	}
	if _, err := accounts.NewHtpasswdSource(path, normalise, slog.New(slog.DiscardHandler)); len(problems(t, err)) != 2 {
		t.Errorf("got %v", err)
	}
	if n := strings.Count(log.String(), "level=ERROR"); n != 1 || strings.Contains(log.String(), h) {
		t.Errorf("logged %d times: %s", n, log.String())
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	mustFind(t, source, "bob")
	write(t, path, "cid:"+h+"\n", noon.Add(3*time.Second))
	mustFind(t, source, "cid")
}

func TestABrokenHtpasswdFileIsAnErrorAtTheStart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), ".htpasswd")
	if _, err := accounts.NewHtpasswdSource(path, normalise, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("no file, no error")
	}
	write(t, path, "ann\n", noon)
	var log bytes.Buffer
	if _, err := accounts.NewHtpasswdSource(path, normalise, slog.New(slog.NewTextHandler(&log, nil))); err == nil || !strings.Contains(err.Error(), "line 1: not of the form") {
		t.Errorf("got %v", err)
	}
	if log.Len() > 0 {
		t.Errorf("there is no content that counts, nor anything to log but the error: %s", log.String())
	}
}

func TestACanonicalNameThatCannotBeReadIsAnError(t *testing.T) {
	t.Parallel()
	dsn := filepath.Join(t.TempDir(), "theirs.db")
	db, err := database.Open(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, sql := range []string{users, "UPDATE users SET login = 'b' || char(10) || 'b' WHERE id = 2"} {
		if _, err := db.Exec(sql); err != nil {
			t.Fatal(err)
		}
	}
	open := func(canonical string) func(string, netip.Addr) (string, error) {
		p, err := accounts.OpenPublic(t.Context(), accounts.PublicConfig{
			Settings: config.Accounts{Source: config.SourceQuery, Database: config.Secret(dsn), CanonicalQuery: canonical,
				Query: "SELECT password_hash FROM users WHERE login = ?"},
			Normalise: normalise, Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		return p.Canonical(t.Context())
	}
	alone, canonical := open(""), open("SELECT upper(login) FROM users WHERE login = ? OR email = ?")
	for name, want := range map[string]string{"ann": "ann", "ann@example.org": "ann", "eve": "eve"} {
		if got, err := canonical(name, netip.Addr{}); got != want || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if got, err := canonical("bob@example.org", netip.Addr{}); err == nil {
		t.Errorf("a canonical name that is no name: %q", got)
	}
	if _, err := db.Exec("DROP TABLE users"); err != nil {
		t.Fatal(err)
	}
	if got, err := canonical("ann@example.org", netip.Addr{}); err == nil {
		t.Errorf("without the table: %q", got)
	}
	if got, err := alone("ann", netip.Addr{}); got != "ann" || err != nil {
		t.Errorf("a name that needs no look-up: %q, %v", got, err)
	}
}
