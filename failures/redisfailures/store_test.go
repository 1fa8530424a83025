package redisfailures_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"authguard/failures"
	"authguard/failures/failurestest"
	"authguard/failures/redisfailures"
	"authguard/internal/redistemp"
)

func TestMain(m *testing.M) { redistemp.Main(m) }

// A setting is a kind of Redis that the tests run against.
type setting struct {
	name   string
	client func(t testing.TB) redis.UniversalClient
	split  bool
}

var settings = []setting{
	{"Standalone", func(t testing.TB) redis.UniversalClient { return redistemp.Standalone(t).Client(t) }, false},
	{"StandaloneSplit", func(t testing.TB) redis.UniversalClient { return redistemp.Standalone(t).Client(t) }, true},
	{"Cluster", func(t testing.TB) redis.UniversalClient { return redistemp.ClusterClient(t) }, true},
}

// everywhere runs a test against every kind of Redis.
func everywhere(t *testing.T, test func(t *testing.T, s setting)) {
	for _, s := range settings {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			test(t, s)
		})
	}
}

var prefixes atomic.Int64

// prefix is a realm of its own.
func prefix() string { return fmt.Sprintf("t%d:", prefixes.Add(1)) }

// A clock stands still until it is advanced.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func newStore(t testing.TB, client redis.UniversalClient, o redisfailures.Options) *redisfailures.Store {
	t.Helper()
	s, err := redisfailures.New(client, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// options are those of the contract.
func (s setting) options(prefix string) redisfailures.Options {
	return redisfailures.Options{
		Prefix: prefix, PendingFor: failurestest.PendingFor, Retain: failurestest.Retain, SplitPlaces: s.split,
	}
}

// names are the names of all keys of a realm.
func names(t testing.TB, client redis.UniversalClient, prefix string) (all []string) {
	t.Helper()
	var mu sync.Mutex
	scan := func(ctx context.Context, c *redis.Client) error {
		found, err := scanAll(ctx, c, prefix)
		mu.Lock()
		defer mu.Unlock()
		all = append(all, found...)
		return err
	}
	var err error
	switch c := client.(type) {
	case *redis.ClusterClient:
		err = c.ForEachMaster(t.Context(), scan)
	case *redis.Client:
		err = scan(t.Context(), c)
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func scanAll(ctx context.Context, c *redis.Client, prefix string) (all []string, err error) {
	keys := c.Scan(ctx, 0, prefix+"*", 1000).Iterator()
	for keys.Next(ctx) {
		all = append(all, keys.Val())
	}
	return all, keys.Err()
}

// expire does what Redis does by itself in the time that a test's clock skips.
func expire(t testing.TB, client redis.UniversalClient, prefix string) {
	t.Helper()
	for _, name := range names(t, client, prefix) {
		if strings.HasPrefix(name, prefix+"{") {
			if err := client.Del(t.Context(), name).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestRedisKeepsTheContract(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, with setting) {
		failurestest.Run(t, func(t *testing.T) failurestest.Fixture {
			client, c, realm := with.client(t), newClock(), prefix()
			store := newStore(t, client, with.options(realm).WithClock(c.Now))
			return failurestest.Fixture{Store: store, Advance: func(d time.Duration) {
				c.Advance(d)
				if d > failurestest.Retain {
					expire(t, client, realm)
				}
			}}
		})
	})
}

var _ failures.Store = (*redisfailures.Store)(nil)
