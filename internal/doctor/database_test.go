package doctor_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"authguard/internal/config"
	"authguard/internal/database"
	"authguard/internal/doctor"
	"authguard/internal/seal"
	"authguard/internal/testing/postgrestest"
)

// served is a data folder as a server leaves it.
func served(t *testing.T, change func(*config.Config)) doctor.Config {
	t.Helper()
	c := whole(t, change)
	if err := os.MkdirAll(c.Settings.Data, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := seal.Load(filepath.Join(c.Settings.Data, "keys")); err != nil {
		t.Fatal(err)
	}
	dsn := c.Settings.Database.Reveal()
	if dsn == "" {
		dsn = filepath.Join(c.Settings.Data, "authguard.db")
	}
	sql(t, dsn)
	return c
}

// sql migrates a database and runs statements in it.
func sql(t *testing.T, dsn string, statements ...string) {
	t.Helper()
	db, err := database.Open(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if len(statements) == 0 {
		_, err = database.Migrate(t.Context(), db)
	}
	for _, s := range statements {
		if err == nil {
			_, err = db.Exec(s)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// listing is every file of a folder with its size and time.
func listing(t *testing.T, folder string) (all string) {
	t.Helper()
	files, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		all += fmt.Sprintln(f.Name(), info.Mode(), info.Size(), info.ModTime())
	}
	return all
}

func TestWhatWasServedIsSoundAndStaysAsItWas(t *testing.T) {
	t.Parallel()
	c := served(t, nil)
	before := listing(t, c.Settings.Data)
	r := examine(t, c)
	r.nothingWrong()
	r.wants(map[string]doctor.State{"sqlite": good, "migrations": good, "keys": good, "data.private": good, "data.space": good})
	if after := listing(t, c.Settings.Data); after != before {
		t.Errorf("it changed\n%sinto\n%s", before, after)
	}
}

func TestADatabaseInUseCanBeLookedAt(t *testing.T) {
	t.Parallel()
	c := served(t, nil)
	db, err := database.Open(t.Context(), filepath.Join(c.Settings.Data, "authguard.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(`INSERT INTO settings (name, value, changed_at) VALUES ('x', 'y', 1)`); err != nil {
		t.Fatal(err)
	}
	before := listing(t, c.Settings.Data)
	examine(t, c).nothingWrong()
	if after := listing(t, c.Settings.Data); after != before {
		t.Errorf("it changed\n%sinto\n%s", before, after)
	}
}

func TestBeforeTheFirstStartNothingIsWrong(t *testing.T) {
	t.Parallel()
	c := whole(t, nil)
	r := examine(t, c)
	r.nothingWrong("data", "keys")
	r.wants(map[string]doctor.State{"data": advice, "keys": advice, "sqlite": good})
	if _, err := os.Stat(c.Settings.Data); err == nil {
		t.Error("it made the data folder")
	}
}

func TestADamagedDatabaseIsAProblem(t *testing.T) {
	t.Parallel()
	c := served(t, nil)
	file := filepath.Join(c.Settings.Data, "authguard.db")
	if err := os.Truncate(file, 8192); err != nil {
		t.Fatal(err)
	}
	examine(t, c).wants(map[string]doctor.State{"sqlite": problem, "migrations": ""})
	if err := os.WriteFile(file, []byte(strings.Repeat("no database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	examine(t, c).wants(map[string]doctor.State{"sqlite": problem})
}

func TestTablesOfAnotherVersionAreTold(t *testing.T) {
	t.Parallel()
	c := served(t, nil)
	file := filepath.Join(c.Settings.Data, "authguard.db")
	sql(t, file, "DELETE FROM goose_db_version WHERE version_id = 401")
	examine(t, c).wants(map[string]doctor.State{"migrations": advice})
	sql(t, file, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (401, 1), (99999, 1)")
	examine(t, c).wants(map[string]doctor.State{"migrations": problem})
	sql(t, file, "UPDATE goose_db_version SET version_id = 38 WHERE version_id > 0") // of an earlier build
	examine(t, c).wants(map[string]doctor.State{"migrations": problem})
}

// withPostgres is a served site in a database of its own.
func withPostgres(t *testing.T) doctor.Config {
	dsn := postgrestest.Shared(t).Database(t)
	return served(t, func(s *config.Config) { s.Database = config.Secret(dsn) })
}

func TestASoundPostgresHasNothingWrong(t *testing.T) {
	t.Parallel()
	r := examine(t, withPostgres(t))
	r.nothingWrong()
	r.wants(map[string]doctor.State{
		"postgres": good, "postgres.version": good, "postgres.clock": good, "postgres.tls": good, "migrations": good, "keys.shared": good, "sqlite": "",
	})
}

func TestAnEmptyPostgresStaysEmpty(t *testing.T) {
	t.Parallel()
	dsn := postgrestest.Shared(t).Database(t)
	c := whole(t, func(s *config.Config) { s.Database = config.Secret(dsn) })
	examine(t, c).wants(map[string]doctor.State{"postgres": good, "migrations": good, "keys.shared": ""})
	sql(t, dsn, "CREATE TABLE goose_db_version (x INT)") // fails if there is one
}

func TestTablesOfAnotherVersionAreToldInPostgres(t *testing.T) {
	t.Parallel()
	c := withPostgres(t)
	dsn := c.Settings.Database.Reveal()
	sql(t, dsn, "DELETE FROM goose_db_version WHERE version_id = 402")
	examine(t, c).wants(map[string]doctor.State{"migrations": advice})
	sql(t, dsn, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (402, true), (99999, true)")
	examine(t, c).wants(map[string]doctor.State{"migrations": problem})
}

func TestOtherKeysThanThoseOfTheDatabaseAreAProblem(t *testing.T) {
	t.Parallel()
	c := withPostgres(t)
	other, err := seal.Load(filepath.Join(t.TempDir(), "keys"))
	if err != nil {
		t.Fatal(err)
	}
	sql(t, c.Settings.Database.Reveal(), fmt.Sprintf("INSERT INTO settings (name, value, changed_at) VALUES ('keys', '%s', 1)", other.Fingerprint()))
	examine(t, c).wants(map[string]doctor.State{"keys.shared": problem})
}

func TestAPostgresThatIsAwayOrHangsIsAProblem(t *testing.T) {
	t.Parallel()
	server := postgrestest.Own(t)
	const secret = "pass-of-postgres"
	c := whole(t, func(s *config.Config) {
		s.Database = config.Secret(strings.Replace(server.URL("postgres"), "postgres@", "postgres:"+secret+"@", 1))
	})
	c.Within = 2 * time.Second
	server.Stop(t)
	r := examine(t, c)
	server.Continue(t)
	r.wants(map[string]doctor.State{"postgres": problem, "postgres.version": ""})
	if strings.Contains(r.String(), secret) {
		t.Errorf("the password is told: %s", r)
	}
	server.Kill()
	r = examine(t, c)
	r.wants(map[string]doctor.State{"postgres": problem})
	if strings.Contains(r.String(), secret) {
		t.Error("the password is told")
	}
}

func TestAStandbyIsAProblem(t *testing.T) {
	t.Parallel()
	server := postgrestest.Own(t)
	server.WriteFile(t, "standby.signal", nil)
	server.Kill()
	server.Start(t)
	c := whole(t, func(s *config.Config) { s.Database = config.Secret(server.URL("postgres")) })
	examine(t, c).wants(map[string]doctor.State{"postgres": good, "postgres.standby": problem})
}

func TestAWrongPasswordOfPostgresIsNeverTold(t *testing.T) {
	t.Parallel()
	server := postgrestest.Own(t)
	server.Do(t, "postgres", "CREATE ROLE guarded LOGIN PASSWORD '"+postgrestest.Password+"'")
	const wrong = "not-the-pass"
	c := whole(t, func(s *config.Config) {
		s.Database = config.Secret(strings.Replace(server.URL("postgres"), "postgres@", "guarded:"+wrong+"@", 1))
	})
	r := examine(t, c)
	r.wants(map[string]doctor.State{"postgres": problem})
	if strings.Contains(r.String(), wrong) {
		t.Errorf("the password is told: %s", r)
	}
}

func TestThePostgresClockAndEncryptionAreLookedAt(t *testing.T) {
	t.Parallel()
	c := withPostgres(t)
	c.Now = func() time.Time { return time.Now().Add(-time.Minute) }
	examine(t, c).wants(map[string]doctor.State{"postgres.clock": problem})
	c.Now = nil
	plain := strings.Replace(c.Settings.Database.Reveal(), "127.0.0.1", "localhost", 1)
	for at, state := range map[string]doctor.State{"203.0.113.1": advice, "10.0.0.1": good} {
		c.Lookup = func(context.Context, string) ([]netip.Addr, error) { return []netip.Addr{netip.MustParseAddr(at)}, nil }
		for _, mode := range []string{"disable", "prefer"} {
			c.Settings.Database = config.Secret(strings.Replace(plain, "sslmode=disable", "sslmode="+mode, 1))
			examine(t, c).wants(map[string]doctor.State{"postgres": good, "postgres.tls": state})
		}
	}
}

func TestTheQueriesForAccountsAreTried(t *testing.T) {
	t.Parallel()
	theirs := filepath.Join(t.TempDir(), "shop.db")
	sql(t, theirs, "CREATE TABLE users (mail TEXT, hash TEXT)")
	for query, state := range map[string]doctor.State{
		"SELECT hash FROM users WHERE mail = ?": good, "SELECT password FROM users WHERE mail = ?": problem, "DELETE FROM users": problem,
	} {
		c := served(t, func(s *config.Config) {
			s.Accounts = config.Accounts{Source: config.SourceQuery, Database: config.Secret(theirs), Query: query}
		})
		examine(t, c).wants(map[string]doctor.State{"accounts.database": state})
	}
	c := served(t, func(s *config.Config) {
		s.Accounts = config.Accounts{Source: config.SourceQuery, Database: config.Secret(theirs + "x"), Query: "SELECT hash FROM users WHERE mail = ?"}
	})
	examine(t, c).wants(map[string]doctor.State{"accounts.database": problem})
}

func TestKindsOfHashAreCountedAndNamed(t *testing.T) {
	t.Parallel()
	const (
		django = "pbkdf2_sha256$1000$saltsaltsalt$F7o7+5VTVzFAO998X6s3AHrDsJVdMiIlgndIMe19NvY="
		apr1   = "$apr1$fAFnt3mN$ReKmiQO4pVTZetrP2svuZ0"
		des    = "6FZSgRFTLxtYc"
		dear   = "$2b$31$0yvY.UkZAHUWBmTaW2l54enKRR2kgsr1fLIuox5s0XlEI1Jn1xOC6"
	)
	c := served(t, func(s *config.Config) { s.Realms = []config.Realm{{Name: "shop", Accounts: s.Accounts}} })
	insert := func(realm string, hashes ...string) (all []string) {
		for i, hash := range hashes {
			all = append(all, fmt.Sprintf("INSERT INTO accounts (id, realm, username, password_hash, created_at, changed_at) VALUES ('%s%d', '%[1]s', 'u%[2]d', '%s', 0, 0)", realm, i, hash))
		}
		return all
	}
	r := examine(t, c)
	r.wants(map[string]doctor.State{"accounts.hashes": ""})
	sql(t, filepath.Join(c.Settings.Data, "authguard.db"), append(insert("default", django, django, des, dear, dear, "!"), insert("shop", apr1, django)...)...)
	r = examine(t, c)
	r.wants(map[string]doctor.State{"accounts.hashes": problem, "accounts.weak": advice})
	r.says("The database contains unsupported password hashes, so 3 of 6 accounts cannot log in: 2 with bcrypt, more expensive than a password check may be, 1 with DES crypt.",
		"The database contains the password hashes of 2 accounts of the realm shop: 1 with PBKDF2-SHA256, 1 with Apache MD5 (apr1).",
		"The database contains weak password hashes, which are easy to crack if stolen, for 1 of 2 accounts of the realm shop: 1 with Apache MD5 (apr1).")

	file := filepath.Join(t.TempDir(), "htpasswd")
	if err := os.WriteFile(file, []byte("a:"+des+"\nb:"+apr1+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c = served(t, func(s *config.Config) { s.Accounts = config.Accounts{Source: config.SourceHtpasswd, Htpasswd: file} })
	r = examine(t, c)
	r.wants(map[string]doctor.State{"accounts.hashes": problem, "accounts.weak": advice, "accounts.htpasswd": good})
	r.says(file + " contains unsupported password hashes, so 1 of 2 accounts cannot log in: 1 with DES crypt.")
	sql(t, filepath.Join(c.Settings.Data, "authguard.db"), insert("default", django)...)
	examine(t, c).says("The database contains the password hashes of 1 accounts of administrators (other accounts are in accounts.source): 1 with PBKDF2-SHA256.")
}

// A digest that was cut off is matched by wrong passwords, so its account cannot log in: doctor
// counts them in authguard's table and in a file.
func TestDigestsThatAreCutOffAreCounted(t *testing.T) {
	t.Parallel()
	const (
		good   = "pbkdf2_sha256$1000$saltsaltsalt$F7o7+5VTVzFAO998X6s3AHrDsJVdMiIlgndIMe19NvY="
		pbkdf2 = "pbkdf2_sha256$1000$saltsaltsalt$F7o7+5VTVzFAO998X6s3"
		argon2 = "$argon2id$v=19$m=64,t=1,p=1$c2FsdHNhbHQ$F7o7+5VTVzFAO998X6s3"
		scrypt = "$scrypt$ln=4,r=8,p=1$c2FsdHNhbHQ$F7o7+5VTVzFAO998X6s3"
		why    = ", truncated: its digest has fewer than 16 bytes, which other passwords match by chance. Import the whole hash"
		says   = " contains unsupported password hashes, so 4 of 5 accounts cannot log in: " +
			"2 with PBKDF2-SHA256" + why + ", 1 with Argon2id" + why + ", 1 with scrypt" + why + "."
	)
	hashes := []string{good, pbkdf2, argon2, scrypt, pbkdf2}
	file := filepath.Join(t.TempDir(), "htpasswd")
	own, lines := []string{}, ""
	for i, hash := range hashes {
		own = append(own, fmt.Sprintf("INSERT INTO accounts (id, realm, username, password_hash, created_at, changed_at) "+
			"VALUES ('%d', 'default', 'u%[1]d', '%s', 0, 0)", i, hash))
		lines += fmt.Sprintf("u%d:%s\n", i, hash)
	}
	if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	for place, accounts := range map[string]config.Accounts{
		"The database": {},
		file:           {Source: config.SourceHtpasswd, Htpasswd: file},
	} {
		c := served(t, func(s *config.Config) {
			if accounts.Source != "" {
				s.Accounts = accounts
			}
		})
		if accounts.Source == "" {
			sql(t, filepath.Join(c.Settings.Data, "authguard.db"), own...)
		}
		r := examine(t, c)
		r.wants(map[string]doctor.State{"accounts.hashes": problem})
		r.says(place + says)
	}
}
