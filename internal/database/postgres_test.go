package database_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"authguard/internal/database"
	"authguard/internal/database/databasetest"
	"authguard/internal/testing/postgrestest"
	"authguard/internal/testing/redistest"
	"authguard/migrations"
)

// patient is for what is not about timeouts.
const patient = "&connect_timeout=3600&statement_timeout=3600000"

func TestMain(m *testing.M) { databasetest.Main(m) }

func TestPostgresMigrationsAreAppliedOnce(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, postgrestest.Shared(t).Database(t)+patient)
	first, err := database.Migrate(t.Context(), db)
	if err != nil || len(first) != migrationFiles(t)-len(migrations.SQLiteOnly()) {
		t.Fatalf("%v, %v", first, err)
	}
	again, err := database.Migrate(t.Context(), db)
	if err != nil || len(again) != 0 {
		t.Errorf("the second run applied %v, %v", again, err)
	}
	if _, err := db.Exec("INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, true)"); err != nil {
		t.Fatal(err)
	}
	if _, err := database.Migrate(t.Context(), db); !errors.Is(err, database.ErrTooNew) {
		t.Errorf("got %v", err)
	}
}

// Each pool is a node: the lock is the server's.
func TestNodesThatStartAtOnceMigrateOnce(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	var files [20]atomic.Int64
	var all sync.WaitGroup
	for n := range files {
		dsn := server.Database(t) + patient
		for range 3 {
			all.Go(func() { files[n].Add(int64(len(migrate(t, dsn)))) })
		}
	}
	all.Wait()
	want := int64(migrationFiles(t) - len(migrations.SQLiteOnly()))
	for n := range files {
		if got := files[n].Load(); got != want {
			t.Errorf("%d files were applied, %d exist", got, want)
		}
	}
}

func migrate(t *testing.T, dsn string) (applied []string) {
	db, err := database.Open(t.Context(), dsn)
	if err != nil {
		t.Error(err)
		return nil
	}
	defer db.Close()
	applied, err = database.Migrate(t.Context(), db)
	if err != nil {
		t.Error(err)
	}
	return applied
}

func setting(t *testing.T, db interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
}, name string) (value string) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), "SHOW "+name).Scan(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

func TestPostgresIsAskedWithTimeouts(t *testing.T) {
	t.Parallel()
	dsn := postgrestest.Shared(t).Database(t) + "&connect_timeout=3600"
	db := mustOpen(t, dsn)
	for name, want := range map[string]string{
		"statement_timeout": "8s", "idle_in_transaction_session_timeout": "10s", "application_name": "authguard",
		"default_transaction_read_only": "off",
	} {
		if got := setting(t, db, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if got := setting(t, mustOpen(t, dsn+"&statement_timeout=1500"), "statement_timeout"); got != "1500ms" {
		t.Errorf("the URL's timeout is not used: %q", got)
	}
	for _, bad := range []string{"0", "-1", "5s", "99999999"} {
		if _, err := database.Open(t.Context(), dsn+"&statement_timeout="+bad); err == nil {
			t.Errorf("statement_timeout=%s was taken", bad)
		}
	}
}

func TestOnlyTheUnhurriedPoolTakesItsTime(t *testing.T) {
	t.Parallel()
	db := opened(t, postgrestest.Shared(t).Database(t)+"&statement_timeout=200")
	slow, done, err := database.Unhurried(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	if _, err := slow.ExecContext(t.Context(), "SELECT pg_sleep(2.5)"); err != nil { // longer than the other pool has patience
		t.Errorf("cut off: %v", err)
	}
	if _, err := db.ExecContext(t.Context(), "SELECT pg_sleep(3600)"); err == nil {
		t.Error("not cut off")
	}
	file := mustOpen(t, t.TempDir()+"/x.db")
	same, done, err := database.Unhurried(t.Context(), file)
	if err != nil || same != file {
		t.Errorf("a file has another pool (%v)", err)
	}
	done()
}

func TestPostgresReadOnlyNeverWrites(t *testing.T) {
	t.Parallel()
	dsn := postgrestest.Shared(t).Database(t) + patient
	if _, err := mustOpen(t, dsn).Exec("CREATE TABLE users (name TEXT)"); err != nil {
		t.Fatal(err)
	}
	ro, err := database.OpenReadOnly(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer ro.Close()
	for _, statement := range []string{"INSERT INTO users VALUES ('x')", "DROP TABLE users", "CREATE TABLE x (n INT)"} {
		if _, err := ro.Exec(statement); err == nil {
			t.Errorf("a read-only database took %s", statement)
		}
	}
}

// withUser is a URL with other credentials.
func withUser(dsn, user, password string) string {
	u, _ := url.Parse(dsn)
	u.User = url.UserPassword(user, password)
	return u.String()
}

func TestThePasswordIsInNoError(t *testing.T) {
	t.Parallel()
	const secret = "h3ardly/seen?at#all@once%"
	server := postgrestest.Shared(t)
	server.Do(t, "postgres", fmt.Sprintf("CREATE ROLE guarded LOGIN PASSWORD '%s'", postgrestest.Password))
	dsn := server.Database(t)
	mustOpen(t, withUser(dsn, "guarded", postgrestest.Password)+patient) // or the others would prove nothing
	closed := withUser("postgres://127.0.0.1:1/db?sslmode=disable", "guarded", secret)
	for name, dsn := range map[string]string{
		"wrong password":    withUser(dsn, "guarded", secret),
		"no such role":      withUser(dsn, "nobody", secret),
		"no such database":  withUser(server.URL("none"), "postgres", secret),
		"nobody listens":    closed,
		"no such host":      strings.Replace(closed, "127.0.0.1:1", "no-such-host.invalid", 1),
		"a bad port":        strings.Replace(closed, ":1/", ":http/", 1),
		"a bad sslmode":     closed + "&sslmode=" + url.QueryEscape(secret) + "x",
		"no certificate":    strings.Replace(closed, "disable", "verify-full&sslrootcert=/none", 1),
		"a bad setting":     closed + "&no_such_setting=1",
		"a bad timeout":     closed + "&statement_timeout=x",
		"as a parameter":    "postgres://127.0.0.1:1/db?sslmode=disable&user=u&password=" + url.QueryEscape(secret),
		"not escaped":       "postgres://guarded:" + secret + "@127.0.0.1:1/db",
		"digits and a bar":  "postgres://guarded:12/h3ardly@127.0.0.1:1/db",
		"digits and a mark": "postgres://guarded:12?h3ardly@127.0.0.1:1/db",
		"digits and a hash": "postgres://guarded:12#h3ardly@127.0.0.1:1/db",
		"two ats":           "postgres://guarded:h@h3ardly@127.0.0.1:1/db",
		"a bad escape":      "postgres://guarded:h3ardly%zz@127.0.0.1:1/db",
		"no user":           "postgres://:h3ardly@127.0.0.1:1/db",
		"a control byte":    "postgres://guarded:h3ardly\x7f@127.0.0.1:1/db",
	} {
		for _, open := range []func(context.Context, string) (*sql.DB, error){database.Open, database.OpenReadOnly} {
			db, err := open(t.Context(), dsn)
			if err == nil {
				db.Close()
				t.Errorf("%s: opened", name)
				continue
			}
			if text := fmt.Sprintf("%v %+v", err, err); strings.Contains(text, "h3ardly") || strings.Contains(text, "seen") {
				t.Errorf("%s: the password is in %q", name, text)
			}
		}
	}
}

func TestWhatIsWrongIsSaid(t *testing.T) {
	t.Parallel()
	server := postgrestest.Shared(t)
	for dsn, part := range map[string]string{
		server.URL("none"): `database "none" does not exist`,
		"postgres://postgres@127.0.0.1:1/db?sslmode=disable": "connection refused",
		"postgresql://u@127.0.0.1:1/db?sslmode=maybe":        "sslmode",
		"postgres://u:p/w@h/db":                              "%2F",
	} {
		_, err := database.Open(t.Context(), dsn)
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %v", dsn, err)
		}
	}
	if _, err := database.Open(t.Context(), server.URL("none")); !errors.Is(err, database.ErrUnreachable) {
		t.Error(err)
	}
}

// silent takes connections and says nothing.
func silent(t *testing.T) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go io.Copy(io.Discard, conn)
		}
	}()
	return l.Addr().String()
}

// That it ends is the claim; after how long, TestTheTimeoutsAreTheURLsOrOurs says.
func TestASilentServerIsAnErrorWithinTheConnectTimeout(t *testing.T) {
	t.Parallel()
	_, err := database.Open(t.Context(), "postgres://u:p@"+silent(t)+"/db?sslmode=disable&connect_timeout=1")
	if !errors.Is(err, database.ErrUnreachable) {
		t.Error(err)
	}
}

func TestAServerThatHangsFailsItsStatementsAndIsUsedAgain(t *testing.T) {
	t.Parallel()
	server := postgrestest.Own(t)
	db := opened(t, server.URL("postgres")+"&statement_timeout=300&connect_timeout=5")
	server.Stop(t)
	var one int
	if err := db.QueryRowContext(context.Background(), "SELECT 1").Scan(&one); err == nil {
		t.Error("a server that hangs answered")
	}
	server.Continue(t)
	untilAnswered(t, db)
	server.Kill()
	if err := db.QueryRowContext(context.Background(), "SELECT 1").Scan(&one); err == nil {
		t.Error("a dead server answered")
	}
	server.Start(t)
	untilAnswered(t, db)
}

// opened is mustOpen for a database that is given so little time that a busy
// machine may need several tries.
func opened(t *testing.T, dsn string) (db *sql.DB) {
	t.Helper()
	redistest.Until(t, "the database to open", func() (ok bool) {
		var err error
		db, err = database.Open(t.Context(), dsn)
		return err == nil
	})
	t.Cleanup(func() { db.Close() })
	return db
}

func untilAnswered(t *testing.T, db *sql.DB) {
	t.Helper()
	redistest.Until(t, "PostgreSQL to answer", func() bool {
		var one int
		return db.QueryRowContext(t.Context(), "SELECT 1").Scan(&one) == nil
	})
}

func TestAnEndedContextEndsAStatement(t *testing.T) {
	t.Parallel()
	dsn := postgrestest.Shared(t).Database(t) + patient
	db := mustOpen(t, dsn)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := db.ExecContext(ctx, "SELECT pg_sleep(3600)")
		ended <- err
	}()
	other := mustOpen(t, dsn)
	redistest.Until(t, "the statement to run", func() bool {
		var running int
		err := other.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event = 'PgSleep'`).Scan(&running)
		return err == nil && running == 1
	})
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
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
		('known_clients', 'account'), ('lists', 'cidr'), ('sessions', 'token_hash'), ('audit', 'account'),
		('accounts', 'realm'), ('account_names', 'realm'), ('sessions', 'realm'), ('verification_codes', 'realm'))`
	var n int
	if err := db.QueryRow(query).Scan(&n); err != nil || n != 11 {
		t.Errorf("%d columns (%v), want 11", n, err)
	}
}
