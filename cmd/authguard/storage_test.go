package main

import (
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"authguard/internal/database"
	"authguard/internal/postgrestest"
	"authguard/internal/redistest"
)

// A broken database is one that reads and does not write, in one of the ways
// that happen.
type broken struct {
	name  string
	start func(t *testing.T) *server
	fail  func(t *testing.T, s *server)
	mend  func(t *testing.T, s *server)
}

func TestR27ADatabaseThatCannotBeWrittenIs503ForRightAndWrong(t *testing.T) {
	t.Parallel()
	for _, b := range []broken{locked(t), full(t), readOnly(t), stopped(t)} {
		t.Run(b.name, b.run)
	}
}

func (b broken) run(t *testing.T) {
	s := b.start(t)
	home := from("127.9.9.9")
	if got := home.login(t, s, "alice", rightPassword); got.status != http.StatusOK {
		t.Fatalf("before: %d %s", got.status, got.body)
	}
	if got := from("127.9.0.1").login(t, s, "alice", "wrong"); got.status != http.StatusUnauthorized {
		t.Fatalf("before: %d %s", got.status, got.body)
	}
	b.fail(t, s)
	first := map[string]answer{}
	for i := range 3 { // the first of each meets it unawares
		for _, password := range []string{rightPassword, "wrong"} {
			got := from(fmt.Sprintf("127.9.1.%d", 1+i)).login(t, s, "bob", password)
			if got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
				t.Errorf("%s, try %d: %d %v, want 503 with Retry-After: %s", password, i, got.status, got.header["Retry-After"], got.body)
			}
			if len(got.header["Set-Cookie"]) > 0 {
				t.Errorf("%s: a cookie came with it", password)
			}
			first[password] = got
		}
		if first[rightPassword].body != first["wrong"].body {
			t.Errorf("right and wrong differ:\n%s\n%s", first[rightPassword].body, first["wrong"].body)
		}
	}
	if got := home.get(t, s.base+"/auth/verify"); b.name != "PostgreSQL is stopped" && got.status != http.StatusOK {
		t.Errorf("a session that is there: %d", got.status)
	}
	if got := home.get(t, s.admin+"/readyz"); got.status != http.StatusServiceUnavailable {
		t.Errorf("readyz: %d %s", got.status, got.body)
	}
	if got := home.get(t, s.admin+"/healthz"); got.status != http.StatusOK { // a restart would not help
		t.Errorf("healthz: %d %s", got.status, got.body)
	}
	redistest.Until(t, "an alert", func() bool { return s.log.has("kind=storage-failed") })
	if d, status := diagnose(t, s.command("doctor", "--json")); d.OK || status == 0 || d.state("server.storage-failed") != "problem" {
		t.Errorf("doctor: status %d, %+v", status, d)
	}
	mended := time.Now()
	b.mend(t, s)
	redistest.Until(t, "a login to succeed again", func() bool {
		return home.login(t, s, "alice", rightPassword).status == http.StatusOK
	})
	took := time.Since(mended).Round(time.Millisecond)
	t.Logf("the first login succeeded %v after the database was back", took)
	if measuring() && took > 5*time.Second {
		t.Errorf("%v are more than 5 s", took)
	}
	if got := from("127.9.0.2").login(t, s, "alice", "wrong"); got.status != http.StatusUnauthorized {
		t.Errorf("a wrong password afterwards: %d", got.status)
	}
	if got := home.get(t, s.admin+"/readyz"); got.status != http.StatusOK {
		t.Errorf("readyz afterwards: %d %s", got.status, got.body)
	}
	redistest.Until(t, "the all-clear", func() bool { return s.log.has("kind=storage-back") })
	if raised := strings.Count(s.log.String(), "kind=storage-failed"); raised != 1 {
		t.Errorf("%d alerts of one failure", raised)
	}
	if d, status := diagnose(t, s.command("doctor", "--json")); !d.OK || status != 0 {
		t.Errorf("doctor afterwards: status %d, %+v", status, d)
	}
}

const patientPairs = quiet + "limits: {pair_delay: {first: 0s}}\n"

// locked is a SQLite file that another process keeps for itself.
func locked(t *testing.T) broken {
	var other *sql.Conn
	return broken{
		name:  "SQLite is locked",
		start: func(t *testing.T) *server { return newServer(t, patientPairs, "alice", "bob") },
		fail: func(t *testing.T, s *server) {
			db, err := database.Open(t.Context(), filepath.Join(s.dir, "data", "authguard.db"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { db.Close() })
			if other, err = db.Conn(t.Context()); err == nil {
				_, err = other.ExecContext(t.Context(), "BEGIN EXCLUSIVE")
			}
			if err != nil {
				t.Fatal(err)
			}
		},
		mend: func(t *testing.T, _ *server) {
			if _, err := other.ExecContext(t.Context(), "ROLLBACK"); err != nil {
				t.Fatal(err)
			}
		},
	}
}

// full is a SQLite file on a file system without a free byte.
func full(t *testing.T) broken {
	filler := func(s *server) string { return filepath.Join(s.dir, "data", "filler") }
	return broken{
		name: "the disk is full",
		start: func(t *testing.T) *server {
			return newServerIn(t, func(data string) {
				if err := os.Mkdir(data, 0o700); err != nil {
					t.Fatal(err)
				}
				if err := syscall.Mount("tmpfs", data, "tmpfs", 0, "size=16m,mode=700"); err != nil {
					t.Fatalf("this test needs a small file system of its own, and so the right to mount one (root, or CAP_SYS_ADMIN): %v", err)
				}
				t.Cleanup(func() { _ = syscall.Unmount(data, syscall.MNT_DETACH) })
			}, patientPairs, "alice", "bob")
		},
		fail: func(t *testing.T, s *server) {
			f, err := os.Create(filler(s))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			for block := make([]byte, 64<<10); len(block) > 0; {
				if _, err := f.Write(block); errors.Is(err, syscall.ENOSPC) {
					block = block[:len(block)/2]
				} else if err != nil {
					t.Fatal(err)
				}
			}
		},
		mend: func(t *testing.T, s *server) {
			if err := os.Remove(filler(s)); err != nil {
				t.Fatal(err)
			}
		},
	}
}

// readOnly is a PostgreSQL whose new connections may not write; those that were
// made meanwhile stay so.
func readOnly(t *testing.T) broken {
	sql := postgrestest.Own(t)
	name := ""
	return broken{
		name: "PostgreSQL is read-only",
		start: func(t *testing.T) *server {
			dsn := sql.Database(t)
			name = dsn[strings.LastIndex(dsn, "/")+1 : strings.Index(dsn, "?")]
			return newNodesOn(t, dsn, 1, standalone(t), patientPairs, "alice", "bob")[0]
		},
		fail: func(t *testing.T, _ *server) {
			sql.Do(t, "postgres", "ALTER DATABASE "+name+" SET default_transaction_read_only = on")
			sql.Do(t, "postgres", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '"+name+"'")
		},
		mend: func(t *testing.T, _ *server) {
			sql.Do(t, "postgres", "ALTER DATABASE "+name+" RESET default_transaction_read_only")
		},
	}
}

// stopped is a PostgreSQL that has ended.
func stopped(t *testing.T) broken {
	sql := postgrestest.Own(t)
	return broken{
		name: "PostgreSQL is stopped",
		start: func(t *testing.T) *server {
			return newNodesOn(t, sql.Database(t), 1, standalone(t), patientPairs, "alice", "bob")[0]
		},
		fail: func(*testing.T, *server) { sql.Kill() },
		mend: func(t *testing.T, _ *server) { sql.Start(t) },
	}
}
