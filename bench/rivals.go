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

// A rival is a rate limiter with its own store in memory, which is asked once
// for the address, once for the account and once for the pair, at a rate that
// nobody reaches. Nothing is swept while it is measured.
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

// Close ends what the rival does in the background.
func (r *rival) Close() { r.close() }

// plenty is a number of attempts in a day that is never reached.
const plenty = 1 << 30

// rivalKeys are the keys as a program would write them: those of one attempt
// lie together, so that they cost few cache lines to read.
func rivalKeys(attempts int) [][3]string {
	for i := len(madeKeys); i < attempts; i++ {
		address, name := fmt.Sprintf("%d.%d.%d.1", byte(i>>16), byte(i>>8), byte(i)), fmt.Sprintf("person-%08d", i)
		all := "ip:" + address + "user:" + name + "pair:" + address + "|" + name
		a, b := len("ip:"+address), len("ip:"+address+"user:"+name)
		madeKeys = append(madeKeys, [3]string{all[:a], all[a:b], all[b:]})
	}
	return madeKeys[:attempts]
}

// madeKeys are made once for all rivals.
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
	// Two of its attempts on one key may meet; it then gives up after ten.
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

// errRefused means that the rate was not high enough.
var errRefused = errors.New("an attempt was blocked, so there is no measurement")
