package shared

import (
	"context"
	"encoding/base64"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"authguard/failures"
	"authguard/guard"
	"authguard/internal/redisstore"
	"authguard/trusted"
)

// A Weight is how much memory Redis takes for failures (MEMORY USAGE).
type Weight struct {
	What     string
	Failures int
	Of       int   // failures are of so many addresses, in turn
	Bytes    int64 // of the account's or the network's own key
	Others   int   // keys of pairs, or addresses
	Largest  int64 // bytes of one of them
}

// weigh makes failures of an account and a network, and the same in a sorted
// set.
func weigh(ctx context.Context, s *server) (all []Weight, err error) {
	client := s.asking
	store, err := redisstore.New(client, redisstore.Options{Prefix: "w:"})
	if err != nil {
		return nil, err
	}
	for n, c := range []struct{ failures, of int }{{10, 1}, {10, 10}, {100, 1}, {100, 100}} {
		account, network := digest('a', n, 0), digest('n', n, 0)
		for i := range c.failures {
			if err := fail(ctx, store, account, network, digest('i', n, i%c.of)); err != nil {
				return nil, err
			}
		}
		for _, of := range []struct {
			what  string
			place failures.Key
		}{{"an account with its pairs", failures.Key(account)}, {"a network with its addresses", failures.Key(network)}} {
			w := Weight{What: of.what, Failures: c.failures, Of: c.of}
			if err := w.weigh(ctx, client, "w:{"+base64.RawURLEncoding.EncodeToString(of.place[:12])+"}"); err != nil {
				return nil, err
			}
			all = append(all, w)
		}
	}
	for _, n := range []int{10, 100} {
		w, err := weighSortedSet(ctx, client, n)
		if err != nil {
			return nil, err
		}
		all = append(all, w)
	}
	return all, nil
}

// fail charges what a stranger's failed attempt is charged to.
func fail(ctx context.Context, store *redisstore.Store, account, network, address trusted.Key) error {
	p := guard.DefaultPolicy()
	delay := failures.Backoff{After: p.PairDelay.After, First: p.PairDelay.First, Max: p.PairDelay.Max, Window: p.PairDelay.Window}
	c, err := store.Begin(ctx, guard.Charge{
		Now: time.Now(), Account: account, Address: address, Network: network, Last: 4,
		Ladders: &guard.Ladders{
			ladder(failures.Backoff{}, p.Address), ladder(failures.Backoff{}, p.Network),
			ladder(failures.Backoff{}, p.Account), ladder(delay, p.PrivilegedPair),
		},
		Binds: new(guard.Binds), // nothing binds
	})
	if err == nil && !c.ID.Charged() {
		err = errRefused
	}
	return err
}

func ladder(pace failures.Backoff, limits []guard.Limit) *failures.Ladder {
	var rungs []failures.Rung
	for _, l := range limits {
		rungs = append(rungs, failures.Rung{Failures: l.Failures, Window: l.Window})
	}
	return failures.MustLadder(pace, rungs...)
}

// digest is like a keyed digest: all of it differs from one to the next.
func digest(kind byte, of, n int) (k trusted.Key) {
	x := uint64(kind)<<48 | uint64(of)<<24 | uint64(n)
	for i := range k {
		x = (x ^ x>>29) * 0xbf58476d1ce4e5b9
		k[i] = byte(x >> 56)
	}
	return k
}

// weigh weighs a key and those whose names begin with its.
func (w *Weight) weigh(ctx context.Context, client *redis.Client, name string) error {
	found, err := client.Keys(ctx, name+"*").Result()
	if err != nil {
		return err
	}
	for _, key := range found {
		bytes, err := client.MemoryUsage(ctx, key).Result()
		if err != nil {
			return err
		}
		if key == name {
			w.Bytes = bytes
			continue
		}
		w.Others, w.Largest = w.Others+1, max(w.Largest, bytes)
	}
	return nil
}

func weighSortedSet(ctx context.Context, client *redis.Client, n int) (Weight, error) {
	w := Weight{What: "a sorted set", Failures: n, Of: 1}
	key := fmt.Sprintf("window:user:person-%08d", n)
	for i := range n {
		pipe := client.Pipeline()
		roll(ctx, pipe, key, time.Now().Add(time.Duration(i)*time.Second))
		if _, err := pipe.Exec(ctx); err != nil {
			return w, err
		}
	}
	bytes, err := client.MemoryUsage(ctx, key).Result()
	w.Bytes = bytes
	return w, err
}
