package redisstore_test

import (
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"authguard/failures"
	"authguard/guard"
	"authguard/internal/redisstore"
	"authguard/internal/testing/redistest"
)

// BenchmarkAttempt is what the store alone costs beside the floor of three
// counters; bench/ measures the whole guard.
func BenchmarkAttempt(b *testing.B) {
	server := redistest.Standalone(b)
	client := redisstore.Connect(redisstore.Server{Addresses: []string{server.Addr}}, 10*time.Second)
	defer client.Close()
	counters := redis.NewScript("for i=1,3 do if redis.call('INCR',KEYS[i])==1 " +
		"then redis.call('PEXPIRE',KEYS[i],ARGV[1]) end end return 1")
	must(b, counters.Load(b.Context(), client).Err())
	store := newStore(b, client, "ag:", redisstore.Options{})
	must(b, store.Load(b.Context()))
	var n atomic.Int64
	end := func(key int, o guard.Outcome) {
		c := attempt(key, key)
		must(b, store.Begin(b.Context(), c))
		must(b, store.Settle(b.Context(), c, o))
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
		{"known client", func(key int) { end(key%1000, guard.Succeeded) }},
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

// BenchmarkMemoryOfAnAttack is the example of docs/how-to/capacity.md: what Redis
// holds of 5,000 accounts with two known clients each, and then of an attack from
// 50,000 addresses, each in a network of its own and each guess on another
// account: five failures an account, which is all that a botnet gets that solves
// no challenge, and a hundred, which is all that any gets in a day. Run it with
// -benchtime 1x.
func BenchmarkMemoryOfAnAttack(b *testing.B) {
	const accounts, addresses, guesses = 5_000, 50_000, 500_000
	for range b.N {
		server := redistest.Standalone(b)
		client := server.Client(b)
		store := newStore(b, client, "ag:", redisstore.Options{})
		used := func() (bytes int) {
			_, rest, _ := strings.Cut(client.Info(b.Context(), "memory").Val(), "used_memory:")
			text, _, _ := strings.Cut(rest, "\r")
			bytes, _ = strconv.Atoi(text)
			return bytes
		}
		empty := used()
		for i := range 2 * accounts {
			must(b, redisstore.KnownClients{Store: store}.Remember(b.Context(), digest('a', i/2), digest('h', i), time.Now()))
		}
		calm := used()
		guess := func(i int) {
			c := attempt((i+i/addresses)%accounts, 5*(i%addresses)) // each in a network of its own
			for i := range c.Subjects() {
				c.Subjects()[i].Binds = [3]failures.Mask{}
			}
			must(b, store.Begin(b.Context(), c))
		}
		atOnce(5*accounts, guess)
		unsolved := used()
		atOnce(guesses-5*accounts, func(i int) { guess(5*accounts + i) })
		b.ReportMetric(float64(calm-empty), "bytes-of-known-clients")
		b.ReportMetric(float64(unsolved-calm), "bytes-of-5-an-account")
		b.ReportMetric(float64(used()-calm), "bytes-of-100-an-account")
		b.ReportMetric(float64(client.DBSize(b.Context()).Val()), "keys")
	}
}
