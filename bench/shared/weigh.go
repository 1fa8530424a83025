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

// A Weight is Redis's memory for failures (MEMORY USAGE).
type Weight struct {
	What     string
	Failures int
	Of       int   // IP addresses, which fail in turn
	Bytes    int64 // of the key of the account or network
	Others   int   // keys of pairs or IP addresses
	Largest  int64 // bytes of the largest of these
}

// weigh measures failures of an account and a network, and as many in a sorted set.
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
			what string
			key  trusted.Key
		}{{"an account with its pairs", account}, {"a network with its IP addresses", network}} {
			w := Weight{What: of.what, Failures: c.failures, Of: c.of}
			name := "w:{" + base64.RawURLEncoding.EncodeToString(of.key[:12]) + "}"
			if err := w.weigh(ctx, client, name); err != nil {
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

// fail charges an unknown client's failed attempt to the four subjects of the default policy. No
// limit stops it.
func fail(ctx context.Context, store *redisstore.Store, account, network, address trusted.Key) error {
	p := guard.DefaultPolicy()
	delay := failures.Backoff{
		After: p.PairDelay.After, First: p.PairDelay.First, Max: p.PairDelay.Max, Window: p.PairDelay.Window,
	}
	c := guard.Charge{Now: time.Now(), Client: guard.Client{Account: account, Address: address}}
	c.From = address
	pair := account
	for i := range pair {
		pair[i] ^= address[len(address)-1-i]
	}
	for _, one := range []struct {
		kind       guard.SubjectKind
		shard, key trusted.Key
		limitsOf   *failures.Limits
	}{
		{guard.OnAddress, network, address, limitsOf(failures.Backoff{}, p.Address)},
		{guard.OnNetwork, network, network, limitsOf(failures.Backoff{}, p.Network)},
		{guard.OnAccount, account, account, limitsOf(failures.Backoff{}, p.Account)},
		{guard.OnPair, account, pair, limitsOf(delay, p.KnownClient)},
	} {
		c.Add(guard.Subject{
			Subject: failures.Subject{Shard: failures.Key(one.shard), Key: failures.Key(one.key), Limits: one.limitsOf},
			Kind:    one.kind, For: guard.EveryClient,
		})
	}
	err := store.Begin(ctx, &c)
	if err == nil && !c.ID.Charged() {
		err = errRefused
	}
	return err
}

// limitsOf has the failures and windows of limits.
func limitsOf(delay failures.Backoff, limits []guard.Limit) *failures.Limits {
	var all []failures.Limit
	for _, l := range limits {
		all = append(all, failures.Limit{Failures: l.Failures, Window: l.Window})
	}
	return failures.MustLimits(delay, all...)
}

// digest is like a keyed digest: each is completely different from the next.
func digest(kind byte, of, n int) (k trusted.Key) {
	x := uint64(kind)<<48 | uint64(of)<<24 | uint64(n)
	for i := range k {
		x = (x ^ x>>29) * 0xbf58476d1ce4e5b9
		k[i] = byte(x >> 56)
	}
	return k
}

// weigh measures a key, and those whose names begin with its name.
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
