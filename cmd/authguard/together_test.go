package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"authguard/internal/database/databasetest"
	"authguard/internal/testing/redistest"
)

// beside is a node with the configuration of another one, but its own data folder and other
// settings of Redis, empty for none. It is not started.
func (s *server) beside(t *testing.T, redis string) *server {
	t.Helper()
	dir, err := os.MkdirTemp("", "ag")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	text, err := os.ReadFile(filepath.Join(s.dir, "authguard.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if redis != "" {
		redis = "redis: {" + redis + "}\n"
	}
	config := regexp.MustCompile(`(?m)^redis: .*\n`).ReplaceAllString(string(text), "") + redis
	config = strings.ReplaceAll(config, s.dir, dir)
	if err := os.WriteFile(filepath.Join(dir, "authguard.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	return &server{t: t, dir: dir}
}

// goes starts a node that beside made.
func (s *server) goes(flags ...string) {
	s.t.Helper()
	s.start(flags...)
	s.t.Cleanup(s.stop)
}

// refusesAndSays is refuses, and the commands that only look say the same.
func (s *server) refusesAndSays(t *testing.T, says string) {
	t.Helper()
	s.refuses(t, says)
	s.saysToo(t, says, "doctor", "config validate")
}

const (
	countsApart = "another running node of this PostgreSQL database counts elsewhere"
	noRedis     = "redis: is not set, but the nodes of this database count in Redis"
)

func redisAt(r *redistest.Server, more string) string {
	return fmt.Sprintf("addresses: ['%s'], timeout: 5s%s", r.Addr, more)
}

// Nodes of one database that count apart would give an attacker each limit once for every one
// of them.
func TestR1NodesOfOneDatabaseNeverCountApart(t *testing.T) {
	long(t)
	t.Parallel()
	r := redistest.Standalone(t)
	first := newNodesOn(t, databasetest.PostgresURL(t), 1, redisAt(r, ""), quiet+"limits: {pair_delay: off}\n", "alice")[0]

	first.beside(t, redisAt(redistest.Standalone(t), "")).refusesAndSays(t, countsApart)
	first.beside(t, redisAt(r, ", prefix: 'other:'")).refusesAndSays(t, countsApart)
	single := first.beside(t, "")
	single.refusesAndSays(t, countsApart)

	r.Do(t, "FLUSHALL") // and yet it is the same
	second := first.beside(t, redisAt(r, ""))
	second.goes()
	checked := 0
	for i := range 12 {
		node := []*server{first, second}[i%2]
		if from(loopback(6, i)).login(t, node, "alice", "wrong").status == 401 {
			checked++
		}
	}
	if checked != 5 {
		t.Errorf("%d passwords were checked on two nodes, want 5", checked)
	}
	for _, s := range []*server{first, second} {
		if said, _ := diagnose(t, s.command("doctor", "--json")); said.state("start") != "ok" {
			t.Errorf("doctor beside a running server: %+v", said)
		}
	}

	first.stop()
	second.stop()
	r.Do(t, "FLUSHALL")
	first.start() // what was emptied while no node ran is no other Redis
	first.stop()

	single.refusesAndSays(t, noRedis)
	single.goes("--allow-data-loss")
	if said, _ := diagnose(t, single.command("doctor", "--json")); said.state("start") != "ok" {
		t.Errorf("doctor: %+v", said)
	}
	first.refusesAndSays(t, countsApart)
	single.stop()
	single.start() // it was said once
	single.stop()
	first.start()
}

// Two nodes of one database without Redis count apart, too.
func TestR1TwoNodesWithoutRedisDoNotCountApart(t *testing.T) {
	long(t)
	t.Parallel()
	dsn := databasetest.PostgresURL(t)
	first := newServer(t, fmt.Sprintf("database: %s\nkeys_file: %s\n%s", dsn, filepath.Join(t.TempDir(), "keys"), quiet))
	first.beside(t, "").refusesAndSays(t, countsApart)
}

// A node that starts while its Redis is away begins with its share of the limits, and does
// not count in a Redis that is not the others'.
func TestR22ANodeThatMeetsAnotherRedisLaterDoesNotCountThere(t *testing.T) {
	t.Parallel()
	other := redistest.Standalone(t)
	other.Kill()
	first := newNodesOn(t, databasetest.PostgresURL(t), 1, redisAt(redistest.Standalone(t), ""), quiet, "alice")[0]
	late := first.beside(t, redisAt(other, ""))
	late.goes()
	other.Start(t)
	redistest.Until(t, "the node to find that the others count elsewhere", func() bool {
		return late.log.has(countsApart) && late.log.has("kind=redis-lost") && late.gauge(t, "authguard_redis_up") == 0
	})
	first.stop()
	redistest.Until(t, "the node to count in its Redis, as the only one", func() bool {
		return late.log.has("kind=redis-recovered") && late.gauge(t, "authguard_redis_up") == 1
	})
}
