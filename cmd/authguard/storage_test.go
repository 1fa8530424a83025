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
	"authguard/internal/testing/postgrestest"
	"authguard/internal/testing/redistest"
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
	long(t)
	t.Parallel()
	for _, b := range []broken{locked(t), full(t), moved(t), readOnly(t), stopped(t)} {
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
	redistest.Until(t, "an alert", func() bool { return s.log.has("kind=database-failed") })
	if d, status := diagnose(t, s.command("doctor", "--json")); d.OK || status == 0 || d.state("server.database-failed") != "problem" {
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
	redistest.Until(t, "the all-clear", func() bool { return s.log.has("kind=database-recovered") })
	if raised := strings.Count(s.log.String(), "kind=database-failed"); raised != 1 {
		t.Errorf("%d alerts of one failure", raised)
	}
	redistest.Until(t, "doctor to find nothing wrong", func() bool {
		d, status := diagnose(t, s.command("doctor", "--json"))
		return d.OK && status == 0
	})
}

const patientPairs = quiet + "limits: {pair_delay: off}\n"

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
	return broken{
		name:  "the disk is full",
		start: func(t *testing.T) *server { return onSmallDisk(t, patientPairs, "alice", "bob") },
		fail:  func(t *testing.T, s *server) { s.fillDisk(t) },
		mend:  func(t *testing.T, s *server) { s.emptyDisk(t) },
	}
}

// moved is a SQLite file that was renamed, with which SQLite goes on.
func moved(t *testing.T) broken {
	rename := func(from, to string) func(*testing.T, *server) {
		return func(t *testing.T, s *server) {
			if err := os.Rename(filepath.Join(s.dir, "data", from), filepath.Join(s.dir, "data", to)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return broken{
		name:  "the file is moved",
		start: func(t *testing.T) *server { return newServer(t, patientPairs, "alice", "bob") },
		fail:  rename("authguard.db", "moved.db"),
		mend:  rename("moved.db", "authguard.db"),
	}
}

// onSmallDisk starts a server whose data folder is a file system of 16 MiB.
func onSmallDisk(t *testing.T, yaml string, users ...string) *server {
	return newServerIn(t, func(data string) {
		if err := os.Mkdir(data, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mount("tmpfs", data, "tmpfs", 0, "size=16m,mode=700"); err != nil {
			t.Fatalf("this test needs the right to mount a small file system (root, or CAP_SYS_ADMIN): %v", err)
		}
		t.Cleanup(func() { _ = syscall.Unmount(data, syscall.MNT_DETACH) })
	}, yaml, users...)
}

func (s *server) filler() string { return filepath.Join(s.dir, "data", "filler") }

// fillDisk takes every byte that is free now.
func (s *server) fillDisk(t *testing.T) {
	t.Helper()
	f, err := os.OpenFile(s.filler(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
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
}

func (s *server) emptyDisk(t *testing.T) {
	t.Helper()
	if err := os.Remove(s.filler()); err != nil {
		t.Fatal(err)
	}
}

// While the journal of the counters cannot be written, a charge would be forgotten by the
// next kill -9: no integration checks a password.
func TestR27WithAFullDiskNoIntegrationChecksAPassword(t *testing.T) {
	long(t)
	t.Parallel()
	// An attempt that a limit refuses writes nothing: only the account's limit is left.
	const policy = quiet + "limits: {pair_delay: off, address: [], network: []}\n"
	app := newLegacy(t, "shop")
	for name, one := range map[string]struct {
		yaml string
		// try guesses at an account and returns the status; 401 for a password that was checked.
		try func(t *testing.T, s *server, account string, n int) (status int)
	}{
		"login endpoint": {policy, func(t *testing.T, s *server, account string, n int) int {
			return from(loopback(30, n)).login(t, s, account, fmt.Sprint("wrong", n)).status
		}},
		"decision API": {policy + "api: {tokens: [" + backEnd + "]}\n", func(t *testing.T, s *server, account string, n int) int {
			var out struct{ Decision string }
			status := s.ask(t, backEnd, "/v1/attempts", map[string]string{"account": account, "address": loopback(30, n)}, &out)
			if out.Decision == "proceed" {
				return http.StatusUnauthorized
			}
			return status
		}},
		"reverse proxy": {policy + proxied(app), func(t *testing.T, s *server, account string, n int) int {
			before := app.seen.Load()
			got := from(loopback(30, n)).guess(t, s.base, account, fmt.Sprint("wrong", n))
			if app.seen.Load() > before {
				return http.StatusUnauthorized
			}
			return got.status
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := onSmallDisk(t, one.yaml, "alice")
			checked, tries := 0, 0
			try := func(account string) (status int) {
				if status = one.try(t, s, account, tries); status == http.StatusUnauthorized && account == "alice" {
					checked++
				}
				tries++
				return status
			}
			fill := func() {
				redistest.Until(t, "the journal to have no room", func() bool { // its last page has some
					s.fillDisk(t) // the server may have given room back
					return try(fmt.Sprint("other", tries)) == http.StatusServiceUnavailable
				})
				for range 4 {
					if status := try("alice"); status != http.StatusServiceUnavailable {
						t.Errorf("with a full disk: %d, want 503", status)
					}
				}
			}
			raised := func() int { return strings.Count(s.log.String(), "kind=counters-failed") }
			alerted := func(times int) {
				redistest.Until(t, "an alert", func() bool {
					s.fillDisk(t) // room that comes back ends the failure before it is noticed
					try(fmt.Sprint("other", tries))
					return raised() >= times
				})
			}
			try("alice")
			fill()
			if status := from("127.9.9.9").get(t, s.admin+"/readyz").status; status != http.StatusServiceUnavailable {
				t.Errorf("readyz: %d", status)
			}
			alerted(1)
			if d, _ := diagnose(t, s.command("doctor", "--json")); d.state("server.counters-failed") != "problem" {
				t.Errorf("doctor: %+v", d)
			}
			before := raised()
			s.kill()
			s.emptyDisk(t)
			s.start()
			try("alice")
			fill()
			alerted(before + 1)
			s.emptyDisk(t)
			redistest.Until(t, "attempts to go on", func() bool {
				return try(fmt.Sprint("other", tries)) != http.StatusServiceUnavailable
			})
			for range 8 {
				try("alice")
			}
			redistest.Until(t, "the all-clear", func() bool { return s.log.has("kind=counters-recovered") })
			if checked != 5 {
				t.Errorf("%d passwords were checked around a full disk and kill -9, want the limit's 5", checked)
			}
		})
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
