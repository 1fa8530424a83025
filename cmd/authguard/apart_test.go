package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"authguard/internal/database"
	"authguard/internal/database/databasetest"
	"authguard/internal/redisstore"
	"authguard/internal/seal"
	"authguard/internal/testing/redistest"
)

// refuses starts a server that is to end by itself, and say why.
func (s *server) refuses(t *testing.T, says ...string) {
	t.Helper()
	cmd, out := s.command("serve"), new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() }) // it does not refuse
	err := cmd.Wait()
	end.Stop()
	for _, one := range says {
		if err == nil || !strings.Contains(out.String(), one) {
			t.Errorf("it does not say %q: %v\n%s", one, err, out)
		}
	}
}

// A node that starts while another version uses Redis ends with one sentence and an alert;
// one that runs when another version comes says so, and so does doctor; and one that finds
// Redis emptied does.
func TestNodesOfTwoVersionsDoNotCountApart(t *testing.T) {
	t.Parallel()
	r := redistest.Standalone(t)
	s := newNodes(t, 1, fmt.Sprintf("addresses: ['%s'], timeout: 5s", r.Addr), quiet, "alice")[0]
	text, err := os.ReadFile(s.dir + "/authguard.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, file, _ := strings.Cut(string(text), "keys_file: ")
	file, _, _ = strings.Cut(file, "\n")
	keys, err := seal.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	signed := redisstore.SignKey(redisstore.DefaultPrefix)
	apart := "another version of authguard uses prefix"

	s.stop()
	r.Do(t, "SET", signed, keys.Fingerprint()) // what 1ef5819 and 27faf97 write
	s.refuses(t, apart, `msg="alert raised" kind=redis-lost`, "does not start")
	if got, err := s.command("doctor").CombinedOutput(); err == nil || !strings.Contains(string(got), apart) {
		t.Errorf("doctor: %v\n%s", err, got)
	}
	if got := r.Do(t, "GET", signed); got != keys.Fingerprint() {
		t.Errorf("the other version's signature became %v", got)
	}

	r.Do(t, "DEL", signed)
	s.start()
	r.Do(t, "SET", signed, fmt.Sprint(redisstore.Layout+1, " ", keys.Fingerprint()))
	redistest.Until(t, "the node to leave Redis", func() bool {
		return s.log.has(`msg="alert raised" kind=redis-lost`) && s.log.has(fmt.Sprintf("key layout %d", redisstore.Layout+1))
	})

	r.Do(t, "FLUSHALL") // the signature is this node's again
	redistest.Until(t, "the node to say that Redis was emptied", func() bool {
		return s.log.has(`msg="alert raised" kind=redis-emptied`) && s.log.has("Redis has lost its data: every limit counts from zero again") && s.log.has("kind=redis-recovered")
	})
	if host, _ := os.Hostname(); !s.log.has(host + ` (127.0.0.1:0)`) {
		t.Errorf("the alert does not say which node of %s it is", host)
	}
}

// An older version does not start on the tables of a newer one, and says so.
func TestAnOlderVersionDoesNotStartOnNewerTables(t *testing.T) {
	t.Parallel()
	dsn := databasetest.PostgresURL(t)
	s := newNodesOn(t, dsn, 1, standalone(t), quiet, "alice")[0]
	s.stop()
	db, err := database.Open(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), "INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, true)"); err != nil {
		t.Fatal(err)
	}
	s.refuses(t, "used by a newer authguard than this one", "its newest migration is 99999")
}

// A database of an earlier build from source is refused before anything is written.
func TestADatabaseOfAnEarlierBuildIsRefused(t *testing.T) {
	t.Parallel()
	s := newServer(t, quiet, "alice")
	s.stop()
	db, err := database.Open(t.Context(), s.dir+"/data/authguard.db")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), "UPDATE goose_db_version SET version_id = version_id - 99 WHERE version_id > 0"); err != nil {
		t.Fatal(err)
	}
	s.refuses(t, database.ErrTooOld.Error())
	s.saysToo(t, database.ErrTooOld.Error(), "doctor", "config validate", "migrate", "serve --allow-data-loss")
}
