package nodes

import (
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"authguard/failures"
	"authguard/guard"
	"authguard/internal/database/databasetest"
	"authguard/internal/known"
	"authguard/internal/redisstore"
	"authguard/internal/testing/redistest"
)

// A node that starts again compares Redis's data with those before, and divides the limits by the number of nodes in
// its file.
func TestTheFileOfANodeOutlivesIt(t *testing.T) {
	t.Parallel()
	server, file, lost := redistest.Standalone(t), filepath.Join(t.TempDir(), "nodes"), 0
	policy := guard.DefaultPolicy()
	start := func() *Shared {
		counters, err := failures.NewMemory(failures.Config{Retain: policy.Retain(), PendingFor: policy.CheckTimeout})
		if err != nil {
			t.Fatal(err)
		}
		clients, err := known.New(t.Context(), known.Config{DB: databasetest.SQLite(t), Limits: policy.KnownClients})
		if err != nil {
			t.Fatal(err)
		}
		client := redis.NewClient(&redis.Options{Addr: server.Addr})
		t.Cleanup(func() { _ = client.Close() })
		s, err := Open(t.Context(), SharedConfig{
			Config: Config{Client: client, Counters: counters, KnownClients: clients, Budget: time.Hour, Log: slog.New(slog.DiscardHandler),
				Redis: redisstore.Options{PendingFor: policy.CheckTimeout, KnownClients: policy.KnownClients}},
			Clock: new(Clock), File: file, OnEmptied: func(int64) { lost++ },
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.redis.Probe(t.Context()); err != nil {
			t.Fatal(err)
		}
		return s
	}
	save := func(s *Shared) {
		if err := s.Save(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	first := start()
	first.before.Store(4)
	save(first)
	first.before.Store(1) // the others leave
	if n := first.Store.config.Nodes(); n != 4 {
		t.Errorf("the limits are divided by %d, want 4", n)
	}
	again := start()
	if save(again); again.Nodes() != 4 || lost != 0 {
		t.Errorf("after a restart: %d nodes, %d losses", again.Nodes(), lost)
	}
	server.Do(t, "FLUSHALL")
	if save(start()); lost != 1 {
		t.Errorf("after Redis was emptied meanwhile: %d losses", lost)
	}
	if start(); lost != 1 {
		t.Errorf("the same loss again: %d", lost)
	}
}

// Four nodes that lose Redis one after the other would otherwise take 1/2 + 1/3 + 1/4 and so on of a limit.
func TestANodeThatSeesOthersLeaveKeepsItsShare(t *testing.T) {
	t.Parallel()
	var p peak
	start := time.UnixMilli(1_700_000_000_000)
	for _, one := range []struct {
		minute  float64
		n, want int
	}{{0, 4, 4}, {0.1, 3, 4}, {5, 2, 4}, {9.9, 1, 4}, {10.1, 1, 4}, {15, 3, 4}, {20.2, 1, 3}, {31, 1, 1}, {31.5, 2, 2}, {31.6, 1, 2}} {
		at := start.Add(time.Duration(one.minute * float64(time.Minute)))
		if got := p.of(one.n, at); got != one.want {
			t.Errorf("minute %v: %d nodes, want %d", one.minute, got, one.want)
		}
	}
}
