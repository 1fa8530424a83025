package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"authguard/internal/config"
	"authguard/internal/database/databasetest"
	"authguard/internal/testing/redistest"
)

// off is the clock of a machine whose clock is off.
func off(by time.Duration) func() time.Time { return func() time.Time { return time.Now().Add(by) } }

// startHere is a node in this process, with this clock and these users.
func startHere(t *testing.T, clock func() time.Time, yaml string, users ...string) *server {
	t.Helper()
	dir, err := os.MkdirTemp("", "ag")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	yaml = "listen: 127.0.0.1:0\nadmin: {listen: '127.0.0.1:0'}\npasswords: {cost: 10, queue_timeout: 1m}\nshutdown: {delay: 0s}\ndata: " + filepath.Join(dir, "data") + "\n" + yaml
	if err := os.WriteFile(filepath.Join(dir, "authguard.yaml"), []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	loaded, err := config.Parse("test", []byte(yaml), nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, dir: dir}
	if err := os.MkdirAll(loaded.Data, 0o700); err != nil {
		t.Fatal(err)
	}
	if len(users) > 0 {
		s.addUsers(filepath.Join(loaded.Data, "authguard.db"), users)
	}
	ctx, stop := context.WithCancel(context.Background())
	product, err := openSite(ctx, loaded, new(slog.LevelVar), slog.New(slog.NewTextHandler(s.writesLog(), nil)),
		opening{clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	out, in := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- product.serve(ctx, "", nil, in) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	s.read(out)
	return s
}

// Three nodes, one of them five minutes behind and one ahead.
func TestNodesWhoseClocksAreFiveMinutesOffActAsOne(t *testing.T) {
	long(t)
	t.Parallel()
	token := strings.Repeat("t", 32)
	dsn := databasetest.PostgresURL(t) + "&connect_timeout=3600&statement_timeout=3600000"
	(&server{t: t}).addUsers(dsn, []string{"alice", "bob", "carol"})
	yaml := fmt.Sprintf("database: %s\nkeys_file: %s\nredis: {%s}\napi: {tokens: [%s]}\nchallenge: {kind: pow, pow_cost: 100}\n%slimits: {pair_delay: off}\n",
		dsn, filepath.Join(t.TempDir(), "keys"), standalone(t), token, quiet)
	nodes := []*server{startHere(t, off(0), yaml), startHere(t, off(-5*time.Minute), yaml), startHere(t, off(5*time.Minute), yaml)}
	each := func(t *testing.T, do func(t *testing.T, n int, a, b *server)) {
		for i, a := range nodes {
			for j, b := range nodes {
				if i != j {
					do(t, 3*i+j, a, b)
				}
			}
		}
	}
	t.Run("a challenge of one is good at the others", func(t *testing.T) {
		for i := range 5 {
			from(loopback(6, i)).login(t, nodes[0], "bob", fmt.Sprint("wrong", i))
		}
		each(t, func(t *testing.T, n int, a, b *server) {
			who := from(loopback(7, n))
			asked := who.login(t, a, "bob", "wrong").problem.Challenge
			if asked == nil || asked.PoW == nil {
				t.Fatal("no proof of work was asked for")
			}
			if got := who.login(t, b, "bob", "wrong", "captcha_id", asked.ID, "captcha_work", prove(t, *asked.PoW)); got.status != http.StatusUnauthorized {
				t.Errorf("from node %d to %d: %d", n/3, n%3, got.status)
			}
		})
	})
	t.Run("a ticket of one is settled at the others", func(t *testing.T) {
		each(t, func(t *testing.T, n int, a, b *server) {
			var begun struct{ Decision, Ticket string }
			a.ask(t, token, "/v1/attempts", map[string]string{"account": "dave", "address": fmt.Sprintf("192.0.2.%d", n)}, &begun)
			if got := b.ask(t, token, "/v1/attempts/settle", map[string]string{"ticket": begun.Ticket, "outcome": "succeeded"}, nil); got != http.StatusNoContent {
				t.Errorf("from node %d to %d: %d", n/3, n%3, got)
			}
		})
	})
	t.Run("a session of one is good at the others", func(t *testing.T) {
		each(t, func(t *testing.T, n int, a, b *server) {
			alice := from(loopback(8, n))
			alice.login(t, a, "alice", rightPassword)
			if got := alice.get(t, b.base+"/auth/verify"); got.status != http.StatusOK {
				t.Errorf("from node %d to %d: %d", n/3, n%3, got.status)
			}
		})
	})
	t.Run("a short block holds at the others", func(t *testing.T) {
		for i, s := range nodes {
			address := loopback(9, i)
			s.do(t, "ip", "block", address, "--for", "2m")
			redistest.Until(t, "every node to refuse", func() bool {
				for _, other := range nodes {
					if from(address).login(t, other, "carol", rightPassword).status != http.StatusTooManyRequests {
						return false
					}
				}
				return true
			})
		}
	})
	t.Run("the mode that one forces is forced at the others", func(t *testing.T) {
		for _, s := range nodes {
			s.do(t, "captcha", "enable", "--for", "2m", "--reason", "test")
			redistest.Until(t, "every node to be on", func() bool {
				for _, other := range nodes {
					if other.gauge(t, "authguard_captcha_mode") != 1 {
						return false
					}
				}
				return true
			})
			s.do(t, "captcha", "auto", "--reason", "test")
			redistest.Until(t, "every node to be off", func() bool {
				for _, other := range nodes {
					if other.gauge(t, "authguard_captcha_mode") != 0 {
						return false
					}
				}
				return true
			})
		}
	})
	t.Run("whose clock is wrong says so", func(t *testing.T) {
		for i, s := range nodes {
			wrong := i > 0
			d, _ := diagnose(t, s.command("doctor", "--json"))
			if (d.state("server.clock-skew") == "problem") != wrong || s.log.has("kind=clock-skew") != wrong {
				t.Errorf("node %d: %+v", i, d)
			}
		}
	})
}
