package redisstore_test

import (
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"authguard/failures"
	"authguard/guard"
	"authguard/internal/redisstore"
	"authguard/internal/redistest"
	"authguard/trusted"
)

func BenchmarkAttempt(b *testing.B) {
	_ = os.Getenv
	server := redistest.Standalone(b)
	client := redisstore.Connect(redisstore.Server{Addresses: []string{server.Addr}}, 10*time.Second)
	defer client.Close()
	script := redis.NewScript("for i=1,3 do if redis.call('INCR',KEYS[i])==1 then redis.call('PEXPIRE',KEYS[i],ARGV[1]) end end return 1")
	must(b, script.Load(b.Context(), client).Err())
	var n atomic.Int64
	b.Run("floor", func(b *testing.B) {
		b.SetParallelism(25)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				k := string(itoa(n.Add(1)))
				must(b, script.EvalSha(b.Context(), client, []string{"user:person-" + k, "ip:10.0.0." + k, "net:" + k}, 86400000).Err())
			}
		})
	})
	s := newStore(b, client, "ag:", redisstore.Options{})
	must(b, s.Load(b.Context()))
	p := guard.DefaultPolicy()
	ladder := func(l []guard.Limit, back failures.Backoff) *failures.Ladder {
		var r []failures.Rung
		for _, x := range l {
			r = append(r, failures.Rung{Failures: x.Failures, Window: x.Window})
		}
		return failures.MustLadder(back, r...)
	}
	d := p.PairDelay
	ladders := [4]*failures.Ladder{ladder(p.Address, failures.Backoff{}), ladder(p.Network, failures.Backoff{}), ladder(p.Account, failures.Backoff{}),
		ladder(p.PrivilegedPair, failures.Backoff{After: d.After, First: d.First, Max: d.Max, Window: d.Window})}
	attempt := func(i int64) guard.Charge {
		c := guard.Charge{Now: time.Now(), Account: trusted.Key(digest('a', int(i))), Last: 4, Binds: new(guard.Binds)}
		net := digest('n', int(i))
		c.Places[1] = guard.Place{Key: trusted.Key(digest('i', int(i))), Pair: digest('p', int(i))}
		c.Subjects = [4]failures.Subject{{Shard: net, Key: digest('i', int(i))}, {Shard: net, Key: net},
			{Shard: failures.Key(c.Account), Key: failures.Key(c.Account)}, {Shard: failures.Key(c.Account), Key: digest('p', int(i))}}
		for j := range c.Subjects {
			c.Subjects[j].Ladder = ladders[j]
			for st := range c.Binds {
				c.Binds[st][j] = failures.Every
			}
		}
		return c
	}
	b.Run("attempt", func(b *testing.B) {
		b.ReportAllocs()
		b.SetParallelism(25)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				c := attempt(n.Add(1))
				c, err := s.Begin(b.Context(), c)
				must(b, err)
				if !c.ID.Charged() {
					b.Fatal("refused")
				}
				must(b, s.Settle(b.Context(), c, guard.Failed))
			}
		})
	})
	b.Log(server.Do(b, "INFO", "commandstats"))
	server.Do(b, "CONFIG", "RESETSTAT")
	b.Run("login", func(b *testing.B) {
		b.SetParallelism(25)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				c := attempt(n.Add(1) % 1000)
				c, err := s.Begin(b.Context(), c)
				must(b, err)
				must(b, s.Settle(b.Context(), c, guard.Succeeded))
			}
		})
	})
}

func itoa(n int64) []byte { return []byte(time.Duration(n).String()) }

// digest is like a keyed digest: all of it differs from one to the next.
func digest(kind byte, n int) (k failures.Key) {
	x := uint64(n)*0x9e3779b97f4a7c15 + uint64(kind)*0xbf58476d1ce4e5b9
	for i := range k {
		x ^= x >> 27
		x *= 0x94d049bb133111eb
		k[i] = byte(x >> 56)
	}
	return k
}
