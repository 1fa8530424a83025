package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"authguard/internal/database"
	"authguard/internal/database/databasetest"
	"authguard/internal/testing/redistest"
)

// A server whose lock file was deleted still has its folder to itself.
func TestR1ADeletedLockFileLetsNoSecondServerCountApart(t *testing.T) {
	t.Parallel()
	s := newServer(t, quiet+"limits: {pair_delay: off}\n", "alice")
	for _, name := range []string{database.LockName, socketName} {
		if err := os.Remove(filepath.Join(s.dir, "data", name)); err != nil {
			t.Fatal(err)
		}
		s.refuses(t, "another server is running from "+filepath.Join(s.dir, "data"))
	}
	s.stop()
	s.start()
}

// What a server with a folder that was moved or deleted counts and stores is not there after a
// restart: no login is let through, and doctor says so without the socket.
func TestR27ADataFolderThatIsMovedIs503(t *testing.T) {
	long(t)
	t.Parallel()
	for name, start := range map[string]func(t *testing.T) *server{
		"SQLite":     func(t *testing.T) *server { return newServer(t, patientPairs, "alice") },
		"PostgreSQL": func(t *testing.T) *server { return onPostgres(t, "") },
		"Redis":      func(t *testing.T) *server { return onPostgres(t, "redis: {"+standalone(t)+"}\n") },
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			data, home := filepath.Join(s.dir, "data"), from("127.9.9.9")
			doctor := func() (diagnosis, int) {
				cmd := s.command("doctor", "--json")
				cmd.Env = append(cmd.Env, "AUTHGUARD_ADMIN_LISTEN="+strings.TrimPrefix(s.admin, "http://"))
				return diagnose(t, cmd)
			}
			lost := func() {
				t.Helper()
				if got := home.login(t, s, "alice", rightPassword); got.status != http.StatusServiceUnavailable {
					t.Errorf("login: %d", got.status)
				}
				if got := home.get(t, s.admin+"/readyz"); got.status != http.StatusServiceUnavailable || !strings.Contains(got.body, "moved, deleted or replaced") {
					t.Errorf("readyz: %d %s", got.status, got.body)
				}
				redistest.Until(t, "an alert", func() bool { return s.log.has("kind=database-failed") })
				if d, status := doctor(); status == 0 || d.state("server.not-ready") != "problem" {
					t.Errorf("doctor: status %d, %+v", status, d)
				}
			}
			if err := os.Rename(data, data+".away"); err != nil {
				t.Fatal(err)
			}
			lost()
			if err := os.Rename(data+".away", data); err != nil {
				t.Fatal(err)
			}
			redistest.Until(t, "a login to succeed again", func() bool {
				return home.login(t, s, "alice", rightPassword).status == http.StatusOK
			})
			if err := os.RemoveAll(data); err != nil {
				t.Fatal(err)
			}
			lost()
			s.kill()
		})
	}
}

// onPostgres is a single node with PostgreSQL and the user alice.
func onPostgres(t *testing.T, yaml string) *server {
	t.Helper()
	dsn := databasetest.PostgresURL(t)
	(&server{t: t}).addUsers(dsn, []string{"alice"})
	return newServer(t, "database: "+dsn+"\nkeys_file: "+filepath.Join(t.TempDir(), "keys")+"\n"+yaml+patientPairs)
}
