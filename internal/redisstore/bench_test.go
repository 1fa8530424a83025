package redisstore_test

import (
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"authguard/guard"
	"authguard/internal/redisstore"
	"authguard/internal/redistest"
)

// BenchmarkAttempt is what the store alone costs beside the floor of three
// counters; bench/ measures the whole guard.
func BenchmarkAttempt(b *testing.B) {
	server := redistest.Standalone(b)
	client := redisstore.Connect(redisstore.Server{Addresses: []string{server.Addr}}, 10*time.Second)
	defer client.Close()
	counters := redis.NewScript("for i=1,3 do if redis.call('INCR',KEYS[i])==1 then redis.call('PEXPIRE',KEYS[i],ARGV[1]) end end return 1")
	must(b, counters.Load(b.Context(), client).Err())
	store := newStore(b, client, "ag:", redisstore.Options{})
	must(b, store.Load(b.Context()))
	var n atomic.Int64
	end := func(key int, o guard.Outcome) {
		c := attempt(key, key)
		must(b, ask(b.Context(), store, c))
		must(b, store.Settle(b.Context(), *c, o))
	}
	for _, bench := range []struct {
		name string
		do   func(key int)
	}{
		{"floor", func(key int) {
			text := strconv.Itoa(key)
			must(b, counters.EvalSha(b.Context(), client, []string{"u:" + text, "ip:" + text, "net:" + text}, 86_400_000).Err())
		}},
		{"failed", func(key int) { end(key, guard.Failed) }},
		{"known place", func(key int) { end(key%1000, guard.Succeeded) }},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(25)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					bench.do(int(n.Add(1)))
				}
			})
		})
	}
}
