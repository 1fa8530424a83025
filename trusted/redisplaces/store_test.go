package redisplaces_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"authguard/internal/redistest"
	"authguard/trusted"
	"authguard/trusted/redisplaces"
	"authguard/trusted/trustedtest"
)

// claims are what holds on every kind of Redis.
var claims = map[string]func(t *testing.T, on redisOf){
	"Contract":                      func(t *testing.T, on redisOf) { keepsTheContract(t, on, false) },
	"ContractWhereRecordsAreKnown":  func(t *testing.T, on redisOf) { keepsTheContract(t, on, true) },
	"NodesLoseNothingOfEachOther":   nodesLoseNothing,
	"ChangesReachOtherNodes":        changesReachOtherNodes,
	"ChangeOfAKnownRecordIsOneTrip": changeIsOneTrip,
	"RecordsExpireAndHoldNoText":    recordsExpire,
	"KnownWithoutRedis":             knownWithoutRedis,
	"ChangesHoldWithoutRedis":       changesHoldWithoutRedis,
	"MadeUpNamesPushNobodyOut":      madeUpNames,
}

func TestOnOneServer(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	run(t, redisOf{open: func(t testing.TB) redis.UniversalClient { return server.Client(t) }})
}

func TestOnACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t)
	run(t, redisOf{open: func(t testing.TB) redis.UniversalClient { return cluster.Client(t) }})
}

func run(t *testing.T, on redisOf) {
	t.Run("claims", func(t *testing.T) {
		for name, claim := range claims {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				claim(t, on.realm())
			})
		}
	})
}

var realms atomic.Int64

// redisOf is a kind of Redis, and a realm in it.
type redisOf struct {
	open   func(t testing.TB) redis.UniversalClient
	prefix string
}

// realm is the same Redis with another realm.
func (on redisOf) realm() redisOf {
	on.prefix = fmt.Sprintf("t%d:", realms.Add(1))
	return on
}

// node is a store with a client of its own, as another process would have.
func (on redisOf) node(t testing.TB) *redisplaces.Store { return on.over(t, on.open(t)) }

func (on redisOf) over(t testing.TB, client redis.UniversalClient) *redisplaces.Store {
	t.Helper()
	s, err := redisplaces.New(client, redisplaces.Options{Prefix: on.prefix, Remembered: 100})
	must(t, err)
	t.Cleanup(s.Stop)
	return s
}

func keepsTheContract(t *testing.T, on redisOf, known bool) {
	trustedtest.Run(t, func(t *testing.T) trusted.Store {
		s := on.realm().node(t)
		if known {
			s.Start()
		}
		return s
	})
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func who(n int) trusted.Key   { return trusted.Key{'a', byte(n), byte(n >> 8), 15: byte(n * 7)} }
func where(n int) trusted.Key { return trusted.Key{'p', byte(n), 15: byte(n * 31)} }

func status(t testing.TB, s *redisplaces.Store, account, place trusted.Key) trusted.Status {
	t.Helper()
	got, err := s.Status(t.Context(), account, place, noon)
	must(t, err)
	return got
}

func nodesLoseNothing(t *testing.T, on redisOf) {
	nodes := []*redisplaces.Store{on.node(t), on.node(t), on.node(t)}
	var all sync.WaitGroup
	for n := range 30 {
		all.Go(func() {
			if err := nodes[n%3].Spend(t.Context(), who(1), where(n), noon); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for n := range 30 {
		want(t, "status", status(t, on.node(t), who(1), where(n)), trusted.Spent)
	}
}

// A node that remembers is never more than a second behind.
func changesReachOtherNodes(t *testing.T, on redisOf) {
	here, there := on.node(t), on.node(t)
	here.Start()
	redistest.Until(t, "the node to answer from memory", func() bool {
		status(t, here, who(1), where(1))
		_, fresh := here.Fresh(who(1), where(1), noon)
		return fresh
	})
	for _, step := range []struct {
		change func() error
		want   trusted.Status
	}{
		{func() error { return there.Remember(t.Context(), who(1), where(1), noon) }, trusted.Privileged},
		{func() error { return there.Spend(t.Context(), who(1), where(1), noon) }, trusted.Spent},
		{func() error { return there.Remember(t.Context(), who(1), where(1), noon) }, trusted.Privileged},
		{func() error { return there.Forget(t.Context(), who(1), trusted.Key{}, noon) }, trusted.Stranger},
	} {
		must(t, step.change())
		began := time.Now()
		redistest.Until(t, "the change to arrive", func() bool { return status(t, here, who(1), where(1)) == step.want })
		if took := time.Since(began); took > time.Second {
			t.Errorf("status %v took %v to reach the other node", step.want, took)
		}
	}
}

// trips counts what a client sends.
type trips struct{ atomic.Int64 }

func (n *trips) DialHook(next redis.DialHook) redis.DialHook { return next }

func (n *trips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if strings.HasPrefix(cmd.Name(), "eval") || cmd.Name() == "get" {
			n.Add(1)
		}
		return next(ctx, cmd)
	}
}

func (n *trips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func changeIsOneTrip(t *testing.T, on redisOf) {
	client, sent := on.open(t), new(trips)
	client.AddHook(sent)
	s := on.over(t, client)
	must(t, s.Load(t.Context()))
	must(t, s.Remember(t.Context(), who(1), where(1), noon))
	must(t, s.Remember(t.Context(), who(1), where(1), noon.Add(time.Minute)))
	want(t, "trips of two changes", sent.Load(), 2)
}

func recordsExpire(t *testing.T, on redisOf) {
	client := on.open(t)
	s := on.over(t, client)
	must(t, s.Remember(t.Context(), who(1), where(1), noon))
	must(t, s.Forget(t.Context(), who(2), trusted.Key{}, noon))
	for _, name := range []string{redisplaces.Name(on.prefix, who(1)), redisplaces.Name(on.prefix, who(2)), on.prefix + "places"} {
		if life := client.PTTL(t.Context(), name).Val(); life <= 0 || life > trusted.DefaultTTL {
			t.Errorf("%q lives for %v", name, life)
		}
	}
	must(t, s.Forget(t.Context(), who(1), where(1), noon))
	want(t, "keys of an account without places", client.Exists(t.Context(), redisplaces.Name(on.prefix, who(1))).Val(), 0)
}

// R22: who was known passes while Redis is away, and nobody else.
func knownWithoutRedis(t *testing.T, on redisOf) {
	client := on.open(t)
	here, there := on.over(t, client), on.node(t)
	must(t, there.Remember(t.Context(), who(1), where(1), noon))
	must(t, here.Remember(t.Context(), who(2), where(1), noon))
	must(t, here.Forget(t.Context(), who(3), trusted.Key{}, noon))
	want(t, "seen", status(t, here, who(1), where(1)), trusted.Privileged)
	must(t, client.Close())
	if got, err := here.Status(t.Context(), who(1), where(1), noon); err == nil || got != trusted.Stranger {
		t.Errorf("without Redis: status %v, error %v", got, err)
	}
	want(t, "a place that was seen", here.Known(who(1), where(1), noon), trusted.Privileged)
	want(t, "a place that was made", here.Known(who(2), where(1), noon), trusted.Privileged)
	want(t, "when it is too old", here.Known(who(2), where(1), noon.Add(trusted.DefaultTTL)), trusted.Stranger)
	want(t, "another place", here.Known(who(1), where(2), noon), trusted.Stranger)
	want(t, "an account that was reset", here.KnownReset(who(3)), noon.Local())
	want(t, "an account that was not", here.KnownReset(who(1)).IsZero(), true)
}

func changesHoldWithoutRedis(t *testing.T, on redisOf) {
	client := on.open(t)
	s := on.over(t, client)
	for n := range 3 {
		must(t, s.Remember(t.Context(), who(n), where(1), noon))
	}
	must(t, client.Close())
	for what, err := range map[string]error{
		"Remember": s.Remember(t.Context(), who(9), where(1), noon),
		"Spend":    s.Spend(t.Context(), who(0), where(1), noon),
		"Forget":   s.Forget(t.Context(), who(1), trusted.Key{}, noon),
	} {
		if err == nil {
			t.Errorf("%s without Redis: no error", what)
		}
	}
	want(t, "remembered", s.Known(who(9), where(1), noon), trusted.Privileged)
	want(t, "spent", s.Known(who(0), where(1), noon), trusted.Spent)
	want(t, "reset", s.Known(who(1), where(1), noon), trusted.Stranger)
	want(t, "left alone", s.Known(who(2), where(1), noon), trusted.Privileged)
}

// R6: a flood of names is kept apart from those that may log in.
func madeUpNames(t *testing.T, on redisOf) {
	s := on.node(t)
	must(t, s.Remember(t.Context(), who(1), where(1), noon))
	for n := range 1000 {
		status(t, s, who(100+n), where(1))
	}
	want(t, "known", s.Known(who(1), where(1), noon), trusted.Privileged)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func want[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
