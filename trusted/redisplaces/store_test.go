package redisplaces_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"authguard/internal/redistemp"
	"authguard/trusted"
	"authguard/trusted/redisplaces"
	"authguard/trusted/trustedtest"
)

func TestMain(m *testing.M) { redistemp.Main(m) }

var prefixes atomic.Int64

func prefix() string { return fmt.Sprintf("t%d:", prefixes.Add(1)) }

func newStore(t testing.TB, client redis.UniversalClient, o redisplaces.Options) *redisplaces.Store {
	t.Helper()
	s, err := redisplaces.New(client, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

func TestRedisKeepsTheContract(t *testing.T) {
	t.Parallel()
	for name, client := range map[string]func(testing.TB) redis.UniversalClient{
		"Standalone": func(t testing.TB) redis.UniversalClient { return redistemp.Standalone(t).Client(t) },
		"Cluster":    func(t testing.TB) redis.UniversalClient { return redistemp.ClusterClient(t) },
	} {
		for _, remembering := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s remembering %v", name, remembering), func(t *testing.T) {
				t.Parallel()
				trustedtest.Run(t, func(t *testing.T) trusted.Store {
					s := newStore(t, client(t), redisplaces.Options{Prefix: prefix()})
					if remembering {
						s.Start()
					}
					return s
				})
			})
		}
	}
}
