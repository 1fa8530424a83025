package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sethvargo/go-limiter"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
	ulule "github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/store/memory"
)

// A rival is a rate limiter with its own store in memory. An attempt calls it three times, for the
// address, the account and the pair. No limit is reached, and no key is swept during a measurement.
type rival struct {
	keys  [][3]string
	take  func(key string) error
	close func()
}

func (r *rival) Attempt(i int) {
	for _, key := range r.keys[i] {
		if err := r.take(key); err != nil {
			panic(err)
		}
	}
}

func (*rival) Size() (keys int, bytes int64) { return 0, 0 }

// Close ends the rival's background work.
func (r *rival) Close() { r.close() }

// plenty is a number of attempts that is never reached within a day.
const plenty = 1 << 30

// rivalKeys are keys as a program would write them. The keys of one attempt are adjacent, so that
// reading them costs few cache lines.
func rivalKeys(attempts int) [][3]string {
	for i := len(madeKeys); i < attempts; i++ {
		address, name := fmt.Sprintf("%d.%d.%d.1", byte(i>>16), byte(i>>8), byte(i)), fmt.Sprintf("person-%08d", i)
		all := "ip:" + address + "user:" + name + "pair:" + address + "|" + name
		a, b := len("ip:"+address), len("ip:"+address+"user:"+name)
		madeKeys = append(madeKeys, [3]string{all[:a], all[a:b], all[b:]})
	}
	return madeKeys[:attempts]
}

// madeKeys are shared by all rivals.
var madeKeys [][3]string

func openGoLimiter(attempts int) (store, error) {
	s, err := memorystore.New(&memorystore.Config{
		Tokens: plenty, Interval: 24 * time.Hour, SweepInterval: 24 * time.Hour, SweepMinTTL: 24 * time.Hour,
	})
	if err != nil {
		return nil, err
	}
	return &rival{
		keys:  rivalKeys(attempts),
		take:  func(key string) error { return takeToken(s, key) },
		close: func() { _ = s.Close(context.Background()) },
	}, nil
}

func takeToken(s limiter.Store, key string) error {
	_, _, _, ok, err := s.Take(context.Background(), key)
	if err == nil && !ok {
		err = errRefused
	}
	return err
}

func openThrottled(attempts int) (store, error) {
	s, err := memstore.NewCtx(0)
	if err != nil {
		return nil, err
	}
	gcra, err := throttled.NewGCRARateLimiterCtx(s, throttled.RateQuota{MaxRate: throttled.PerSec(1e9), MaxBurst: plenty})
	if err != nil {
		return nil, err
	}
	// Two attempts may meet at one key; by default, throttled gives up after ten collisions.
	gcra.SetMaxCASAttemptsLimit(1000)
	take := func(key string) error {
		limited, _, err := gcra.RateLimitCtx(context.Background(), key, 1)
		if err == nil && limited {
			err = errRefused
		}
		return err
	}
	return &rival{keys: rivalKeys(attempts), take: take, close: func() {}}, nil
}

func openUlule(attempts int) (store, error) {
	s := memory.NewStoreWithOptions(ulule.StoreOptions{Prefix: ulule.DefaultPrefix, CleanUpInterval: 24 * time.Hour})
	l := ulule.New(s, ulule.Rate{Period: 24 * time.Hour, Limit: plenty})
	take := func(key string) error {
		c, err := l.Get(context.Background(), key)
		if err == nil && c.Reached {
			err = errRefused
		}
		return err
	}
	return &rival{keys: rivalKeys(attempts), take: take, close: func() {}}, nil
}

// errRefused means that a limit was reached.
var errRefused = errors.New("an attempt was blocked, so there is no measurement")
