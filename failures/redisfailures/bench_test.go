package redisfailures_test

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"authguard/failures"
	"authguard/failures/redisfailures"
	"authguard/internal/redistest"
	"authguard/trusted"
	"authguard/trusted/redisplaces"
)

const connections = 50

// inParallel runs one from 50 goroutines until b is done.
func inParallel(b *testing.B, one func(i int) error) {
	var next atomic.Int64
	var all sync.WaitGroup
	b.ResetTimer()
	for range connections {
		all.Go(func() {
			for {
				i := int(next.Add(1))
				if i > b.N {
					return
				}
				if err := one(i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "per-second")
}

func benchClient(b *testing.B) *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: redistest.Standalone(b).Addr, PoolSize: connections, MaxRetries: -1})
	b.Cleanup(func() { _ = c.Close() })
	return c
}

// random is a digest that no other number has.
func random(kind byte, i int) (k failures.Key) {
	binary.LittleEndian.PutUint64(k[:], uint64(i)*0x9e3779b97f4a7c15)
	k[15], k[14] = kind, salt[0]
	return k
}

var salt = func() (b [1]byte) { rand.Read(b[:]); return b }()

func BenchmarkPing(b *testing.B) {
	c := benchClient(b)
	inParallel(b, func(int) error { return c.Ping(context.Background()).Err() })
}

func BenchmarkFloorOfThreeINCRs(b *testing.B) {
	c := benchClient(b)
	script := redis.NewScript("redis.call('INCR',KEYS[1]) redis.call('INCR',KEYS[2]) return redis.call('INCR',KEYS[3])")
	if err := script.Load(b.Context(), c).Err(); err != nil {
		b.Fatal(err)
	}
	inParallel(b, func(i int) error {
		account, address, network := random('a', i), random('i', i), random('n', i)
		return script.EvalSha(context.Background(), c, []string{string(account[:]), string(address[:]), string(network[:])}).Err()
	})
}

// The ladders of the policy out of the box (DESIGN.md §9).
var (
	ofAddress = failures.MustLadder(failures.Backoff{After: 1, First: 2 * time.Second, Max: 2 * time.Second, Window: 2 * time.Second},
		failures.Rung{Failures: 10, Window: time.Minute}, failures.Rung{Failures: 20, Window: time.Hour},
		failures.Rung{Failures: 50, Window: 24 * time.Hour}, failures.Rung{Failures: 200, Window: 24 * time.Hour})
	ofNetwork = failures.MustLadder(failures.Backoff{},
		failures.Rung{Failures: 60, Window: time.Minute}, failures.Rung{Failures: 300, Window: time.Hour})
	ofAccount = failures.MustLadder(failures.Backoff{},
		failures.Rung{Failures: 5, Window: 24 * time.Hour}, failures.Rung{Failures: 100, Window: 24 * time.Hour})
	ofPair = failures.MustLadder(failures.Backoff{After: 3, First: time.Second, Max: 20 * time.Second, Window: time.Hour},
		failures.Rung{Failures: 20, Window: time.Hour}, failures.Rung{Failures: 100, Window: 24 * time.Hour})
)

// attempt is what a stranger's attempt is charged to, and a privileged one's.
func attempt(account, address, network, pair failures.Key) (stranger, privileged []failures.Subject) {
	return []failures.Subject{
			{Shard: network, Key: address, Ladder: ofAddress, Bind: failures.Every &^ failures.BackoffBit},
			{Shard: network, Key: network, Ladder: ofNetwork, Bind: failures.Every},
			{Shard: account, Key: account, Ladder: ofAccount, Bind: failures.Every},
			{Shard: account, Key: pair, Ladder: ofPair, Bind: failures.BackoffBit},
		}, []failures.Subject{
			{Shard: account, Key: pair, Ladder: ofPair, Bind: failures.Every},
		}
}

// failedAttempt is a whole failed attempt: the place asked for, four subjects
// charged, and the failure told. Of every account there are three attempts.
func failedAttempt(b *testing.B, split bool) {
	ctx, c := context.Background(), benchClient(b)
	realm := "b:"
	places, err := redisplaces.New(c, redisplaces.Options{Prefix: realm})
	if err != nil {
		b.Fatal(err)
	}
	store := newStore(b, c, redisfailures.Options{Prefix: realm, Places: places, SplitPlaces: split})
	store.Start()
	b.Cleanup(store.Stop)
	b.ReportAllocs()
	inParallel(b, func(i int) error {
		account, address, network, pair := random('a', i/3), random('i', i), random('n', i/2), random('p', i)
		stranger, privileged := attempt(account, address, network, pair)
		standings := make([]failures.Usage, 4)
		_, at, err := store.ChargeAs(ctx, time.Now(), trusted.Key(account), trusted.Key(address), privileged, stranger, standings)
		if err != nil {
			return err
		}
		return store.Failed(ctx, at, stranger)
	})
}

func BenchmarkFailedAttempt(b *testing.B) { failedAttempt(b, false) }

func BenchmarkFailedAttemptInTwoScripts(b *testing.B) { failedAttempt(b, true) }
