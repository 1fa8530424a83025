package shared

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/throttled/throttled/v2"
	goredisstore "github.com/throttled/throttled/v2/store/goredisstore.v9"
	ulule "github.com/ulule/limiter/v3"
	ululestore "github.com/ulule/limiter/v3/drivers/store/redis"
)

// window is the window of every limiter, and plenty a limit that is never reached in it.
const (
	window = 24 * time.Hour
	plenty = 1000
)

// errRefused means that a limit was reached.
var errRefused = errors.New("an attempt was blocked, so there is no measurement")

// connect returns a contender's client, and a counter that counts its round trips.
func connect(s *server) (*redis.Client, counter) {
	t := new(trips)
	client := redis.NewClient(&redis.Options{Addr: s.addr, PoolSize: connections, MaxRetries: -1})
	client.AddHook(t)
	return client, counter{trips: t, close: func() { _ = client.Close() }}
}

// keysOf are the three keys of an attempt, as a program would write them.
func keysOf(name string, key int) [3]string {
	account, address := accountOf(key), addressOf(key).String()
	return [3]string{name + "ip:" + address, name + "user:" + account, name + "pair:" + address + "|" + account}
}

// each counts an attempt's three keys one after another.
func each(name string, times int, ask func(context.Context, string) (ok bool, err error)) attemptFunc {
	name += strconv.Itoa(times) + ":"
	return func(ctx context.Context, i int) error {
		for _, key := range keysOf(name, i) {
			ok, err := ask(ctx, key)
			if err != nil {
				return err
			}
			if !ok {
				return errRefused
			}
		}
		return nil
	}
}

func openRedisRate(_ context.Context, s *server, times int) (counter, error) {
	client, c := connect(s)
	limiter := redis_rate.NewLimiter(client)
	limit := redis_rate.Limit{Rate: plenty, Burst: plenty, Period: window}
	c.attempt = each("", times, func(ctx context.Context, key string) (bool, error) {
		result, err := limiter.Allow(ctx, key, limit)
		return err == nil && result.Allowed == 1, err
	})
	return c, nil
}

func openUlule(_ context.Context, s *server, times int) (counter, error) {
	client, c := connect(s)
	store, err := ululestore.NewStore(client)
	if err != nil {
		return c, err
	}
	limiter := ulule.New(store, ulule.Rate{Period: window, Limit: plenty})
	c.attempt = each("", times, func(ctx context.Context, key string) (bool, error) {
		result, err := limiter.Get(ctx, key)
		return !result.Reached, err
	})
	return c, nil
}

func openThrottled(_ context.Context, s *server, times int) (counter, error) {
	client, c := connect(s)
	store, err := goredisstore.NewCtx(client, "throttled:")
	if err != nil {
		return c, err
	}
	quota := throttled.RateQuota{MaxRate: throttled.PerDay(plenty), MaxBurst: plenty}
	limiter, err := throttled.NewGCRARateLimiterCtx(store, quota)
	if err != nil {
		return c, err
	}
	limiter.SetMaxCASAttemptsLimit(plenty) // two attempts at one key may meet
	c.attempt = each("", times, func(ctx context.Context, key string) (bool, error) {
		limited, _, err := limiter.RateLimitCtx(ctx, key, 1)
		return !limited, err
	})
	return c, nil
}

// openSortedSets is the sliding window of many articles: a sorted set with a member for each attempt.
func openSortedSets(_ context.Context, s *server, times int) (counter, error) {
	client, c := connect(s)
	name := fmt.Sprintf("window:%d:", times)
	c.attempt = func(ctx context.Context, i int) error {
		counts := make([]*redis.IntCmd, 0, 3)
		_, err := client.TxPipelined(ctx, func(all redis.Pipeliner) error {
			for _, key := range keysOf(name, i) {
				counts = append(counts, roll(ctx, all, key, time.Now()))
			}
			return nil
		})
		for _, count := range counts {
			if err == nil && count.Val() > plenty {
				err = errRefused
			}
		}
		return err
	}
	return c, nil
}

// roll adds an attempt to a sorted set, and counts the earlier ones in the window.
func roll(ctx context.Context, to redis.Pipeliner, key string, now time.Time) *redis.IntCmd {
	to.ZRemRangeByScore(ctx, key, "0", strconv.FormatInt(now.Add(-window).UnixMilli(), 10))
	count := to.ZCard(ctx, key)
	to.ZAdd(ctx, key, redis.Z{Score: float64(now.UnixMilli()), Member: now.UnixNano()})
	to.PExpire(ctx, key, window)
	return count
}
