package redisfailures_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"authguard/failures"
	"authguard/failures/redisfailures"
	"authguard/trusted"
	"authguard/trusted/redisplaces"
)

// BenchmarkMemoryOfAnAttack is the example of docs/operations.md: what Redis
// holds of 5,000 accounts with two known places each, and then of an attack from
// 50,000 addresses, each in a network of its own and each guess on another
// account: five failures an account, which is all that a botnet gets that solves
// no challenge, and a hundred, which is all that any gets in a day. Run it with
// -benchtime 1x.
func BenchmarkMemoryOfAnAttack(b *testing.B) {
	const accounts, addresses, guesses = 5_000, 50_000, 500_000
	ctx := context.Background()
	for range b.N {
		c := benchClient(b)
		places, err := redisplaces.New(c, redisplaces.Options{Prefix: "ag:"})
		if err != nil {
			b.Fatal(err)
		}
		store := newStore(b, c, redisfailures.Options{Prefix: "ag:", Places: places})
		empty := usedMemory(b, c)
		for i := range accounts {
			for n := range 2 {
				if err := places.Remember(ctx, trusted.Key(random('a', i)), trusted.Key(random('h', 2*i+n)), time.Now()); err != nil {
					b.Fatal(err)
				}
			}
		}
		calm := usedMemory(b, c)
		guess := func(i int) error {
			stranger, _ := attempt(random('a', (i+i/addresses)%accounts), random('i', i%addresses), random('n', i%addresses), random('p', i))
			for s := range stranger {
				stranger[s].Bind = 0
			}
			_, err := store.Charge(ctx, stranger, make([]failures.Usage, 4))
			return err
		}
		all(b, 0, 5*accounts, guess)
		unsolved := usedMemory(b, c)
		all(b, 5*accounts, guesses, guess)
		b.ReportMetric(float64(calm-empty), "bytes-of-places")
		b.ReportMetric(float64(unsolved-calm), "bytes-of-5-an-account")
		b.ReportMetric(float64(usedMemory(b, c)-calm), "bytes-of-100-an-account")
		b.ReportMetric(float64(c.DBSize(ctx).Val()), "keys")
	}
}

// all does from first to last from 50 goroutines.
func all(b *testing.B, first, last int, one func(i int) error) {
	b.Helper()
	var next atomic.Int64
	next.Store(int64(first) - 1)
	var everybody sync.WaitGroup
	for range connections {
		everybody.Go(func() {
			for i := int(next.Add(1)); i < last; i = int(next.Add(1)) {
				if err := one(i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	everybody.Wait()
}

func usedMemory(b *testing.B, c *redis.Client) (bytes int) {
	b.Helper()
	for line := range strings.Lines(c.Info(context.Background(), "memory").Val()) {
		if value, ok := strings.CutPrefix(line, "used_memory:"); ok {
			bytes, err := strconv.Atoi(strings.TrimSpace(value))
			if err != nil {
				b.Fatal(fmt.Errorf("used_memory: %w", err))
			}
			return bytes
		}
	}
	b.Fatal("Redis does not say how much memory it uses")
	return 0
}
