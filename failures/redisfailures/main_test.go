package redisfailures_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"authguard/failures/failurestest"
	"authguard/failures/redisfailures"
	"authguard/internal/redistest"
)

// each runs a test over one server and over a Cluster.
func each(t *testing.T, test func(t *testing.T, client redis.UniversalClient)) {
	t.Run("standalone", func(t *testing.T) {
		t.Parallel()
		test(t, redistest.Standalone(t).Client(t))
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		test(t, redistest.Cluster(t).Client(t))
	})
}

// fresh is options with a prefix of their own: an empty store.
func fresh() redisfailures.Options {
	var id [6]byte
	rand.Read(id[:])
	return redisfailures.Options{Prefix: hex.EncodeToString(id[:]) + ":", PendingFor: failurestest.PendingFor}
}

// fixture is a store whose time stands still. Redis's own does not, so what
// would have expired is deleted.
func fixture(t *testing.T, client redis.UniversalClient) failurestest.Fixture {
	var now atomic.Int64
	now.Store(time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC).UnixMilli())
	o := fresh()
	store := redisfailures.New(client, o)
	store.Fix(now.Load)
	return failurestest.Fixture{Store: store, Advance: func(d time.Duration) {
		now.Add(d.Milliseconds())
		if d > failurestest.Retain {
			for _, key := range keysOf(t, client, o.Prefix) {
				client.Del(context.Background(), key)
			}
		}
	}}
}

// keysOf are all keys with a prefix.
func keysOf(t *testing.T, client redis.UniversalClient, prefix string) (keys []string) {
	t.Helper()
	scan := func(ctx context.Context, c *redis.Client) error {
		all, err := c.Keys(ctx, prefix+"*").Result()
		keys = append(keys, all...)
		return err
	}
	var err error
	switch c := client.(type) {
	case *redis.ClusterClient:
		var mu sync.Mutex
		err = c.ForEachMaster(context.Background(), func(ctx context.Context, c *redis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			return scan(ctx, c)
		})
	case *redis.Client:
		err = scan(context.Background(), c)
	}
	if err != nil {
		t.Error(err)
	}
	return keys
}

func TestContract(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, client redis.UniversalClient) {
		failurestest.Run(t, func(*testing.T) failurestest.Fixture { return fixture(t, client) })
	})
}
