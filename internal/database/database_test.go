package database_test

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"authguard/internal/database"
	"authguard/internal/testing/postgrestest"
	"authguard/migrations"
)

func mustOpen(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := database.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func TestWhatIsCreatedIsPrivate(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a", "odd name %20 #1.db")
	db := mustOpen(t, path)
	if _, err := database.Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	want := map[string]os.FileMode{filepath.Dir(path): 0o700, path: 0o600, path + "-wal": 0o600, path + "-shm": 0o600}
	for name, mode := range want {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != mode {
			t.Errorf("%s has mode %v, want %v", name, info.Mode().Perm(), mode)
		}
	}
}

func TestAnExistingFileIsMadePrivate(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.db")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, path)
	info, _ := os.Stat(path)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode().Perm())
	}
}

func TestTheConnectionSettingsHold(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, filepath.Join(t.TempDir(), "x.db"))
	for pragma, want := range map[string]string{
		"journal_mode": "wal", "synchronous": "1", "foreign_keys": "1", "busy_timeout": "5000",
	} {
		var got string
		if err := db.QueryRow("PRAGMA " + pragma).Scan(&got); err != nil || got != want {
			t.Errorf("%s = %q (%v), want %q", pragma, got, err, want)
		}
	}
}

// aDatabase is the bytes of a small, sound database.
func aDatabase(t *testing.T) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.db")
	db := mustOpen(t, path)
	if _, err := database.Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	db.Close()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestADamagedFileIsAnErrorAndStaysAsItWas(t *testing.T) {
	t.Parallel()
	sound := aDatabase(t)
	garbled := append([]byte(nil), sound...)
	for i := 4096; i < len(garbled); i++ {
		garbled[i] = 0xA5
	}
	for name, raw := range map[string][]byte{
		"text":       []byte("dear diary"),
		"long text":  append([]byte("not a database\n"), make([]byte, 5000)...),
		"header cut": sound[:60],
		"cut short":  sound[:len(sound)/2],
		"garbled":    garbled,
	} {
		path := filepath.Join(t.TempDir(), "x.db")
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := database.Open(t.Context(), path)
		if !errors.Is(err, database.ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
		if after, _ := os.ReadFile(path); string(after) != string(raw) {
			t.Errorf("%s: the file was changed", name)
		}
	}
}

func TestOnlyFilesAndPostgreSQLAreOpened(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{"", ":memory:", "file::memory:", "mysql://u:secret@h/db", "x.db?mode=rw"} {
		_, err := database.Open(t.Context(), dsn)
		if !errors.Is(err, database.ErrUnsupported) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", dsn, err)
		}
	}
}

func TestReadOnlyNeverWrites(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.db")
	db := mustOpen(t, path)
	if _, err := db.Exec("CREATE TABLE users (name TEXT)"); err != nil {
		t.Fatal(err)
	}
	ro, err := database.OpenReadOnly(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer ro.Close()
	if _, err := ro.Exec("INSERT INTO users VALUES ('x')"); err == nil {
		t.Error("a read-only database was written to")
	}
	if _, err := database.OpenReadOnly(t.Context(), path+".none"); err == nil {
		t.Error("a missing file was created")
	}
}

func TestMigrateAppliesEachFileOnce(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, filepath.Join(t.TempDir(), "x.db"))
	first, err := database.Migrate(t.Context(), db)
	if err != nil || len(first) == 0 || first[0] != "00400_tables.sql" {
		t.Fatalf("%v, %v", first, err)
	}
	again, err := database.Migrate(t.Context(), db)
	if err != nil || len(again) != 0 {
		t.Errorf("the second run applied %v, %v", again, err)
	}
}

func migrationFiles(t *testing.T) int {
	t.Helper()
	files, err := fs.Glob(migrations.FS, "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

// Two pools on one file behave like two processes: the lock is on a file beside it,
// and each opens it for itself.
func TestProcessesThatStartAtOnceMigrateOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.db")
	var files int
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			db, err := database.Open(t.Context(), path)
			if err != nil {
				t.Error(err)
				return
			}
			defer db.Close()
			applied, err := database.Migrate(t.Context(), db)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			files += len(applied)
			mu.Unlock()
		})
	}
	all.Wait()
	if want := migrationFiles(t) - len(migrations.PostgresOnly()); files != want {
		t.Errorf("%d files were applied, %d exist", files, want)
	}
}

func TestANewerDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, filepath.Join(t.TempDir(), "x.db"))
	if _, err := database.Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, 1)"); err != nil {
		t.Fatal(err)
	}
	if _, err := database.Migrate(t.Context(), db); !errors.Is(err, database.ErrTooNew) {
		t.Errorf("got %v", err)
	}
}

func TestADatabaseOfAnEarlierBuildStaysAsItWas(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{filepath.Join(t.TempDir(), "x.db"), postgrestest.Shared(t).Database(t) + patient} {
		db := mustOpen(t, dsn)
		if _, err := database.Migrate(t.Context(), db); err != nil {
			t.Fatal(err)
		}
		if _, err := db.Exec("UPDATE goose_db_version SET version_id = version_id - 99 WHERE version_id > 0"); err != nil {
			t.Fatal(err)
		}
		if applied, err := database.Migrate(t.Context(), db); !errors.Is(err, database.ErrTooOld) || len(applied) > 0 {
			t.Errorf("%v, %v", applied, err)
		}
		if state, err := database.StateOf(t.Context(), db); err != nil || !state.TooOld || state.Applied > 0 || state.Newer > 0 {
			t.Errorf("%+v, %v", state, err)
		}
	}
}

func TestWaitingForTheLockEndsWithTheContext(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, filepath.Join(t.TempDir(), "x.db"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := database.Migrate(ctx, db); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestAFileThatIsMovedOrReplacedIsNoticed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.db")
	away := path + ".away"
	db := mustOpen(t, path)
	if _, err := database.Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	inPlace, err := database.InPlace(path)
	if err != nil {
		t.Fatal(err)
	}
	rename := func(from, to string) func() error { return func() error { return os.Rename(from, to) } }
	for _, step := range []struct {
		name string
		do   func() error
		want error
	}{
		{"opened", func() error { return nil }, nil},
		{"moved away", rename(path, away), database.ErrMoved},
		{"another in its place", func() error { return os.WriteFile(path, nil, 0o600) }, database.ErrMoved},
		{"moved back", rename(away, path), nil},
		{"deleted", func() error { return os.Remove(path) }, database.ErrMoved},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if err := inPlace(); !errors.Is(err, step.want) {
			t.Errorf("%s: %v, want %v", step.name, err, step.want)
		}
	}
	if _, err := db.Exec("PRAGMA user_version = 1"); err != nil { // the open connection does not notice
		t.Error(err)
	}
	var all []*sql.Conn
	for range 2 { // the second is a new one
		conn, err := db.Conn(t.Context())
		if err == nil {
			all = append(all, conn)
		}
	}
	if _, err := os.Stat(path); len(all) != 1 || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%d connections, and a new one made the file again (%v)", len(all), err)
	}
	for _, conn := range all {
		conn.Close()
	}
}
