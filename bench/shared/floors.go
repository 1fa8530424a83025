package shared

import (
	"context"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// openPing is a trip that does nothing.
func openPing(_ context.Context, s *server, _ int) (counter, error) {
	client, c := connect(s)
	c.attempt = func(ctx context.Context, _ int) error { return client.Ping(ctx).Err() }
	return c, nil
}

// openINCRs is the least that counting at three keys can cost: one trip, and
// nothing decided. Only with expiry does the memory ever come back.
func openINCRs(expiry bool) func(context.Context, *server, int) (counter, error) {
	name, text := "n", "redis.call('INCR',KEYS[1]) redis.call('INCR',KEYS[2]) return redis.call('INCR',KEYS[3])"
	if expiry {
		name, text = "x", "for i=1,3 do if redis.call('INCR',KEYS[i])==1 then redis.call('PEXPIRE',KEYS[i],ARGV[1]) end end return 1"
	}
	script := redis.NewScript(text)
	return func(ctx context.Context, s *server, times int) (counter, error) {
		client, c := connect(s)
		prefix := name + strconv.Itoa(times) + ":"
		c.attempt = func(ctx context.Context, i int) error {
			keys := keysOf(prefix, i)
			return script.EvalSha(ctx, client, keys[:], window.Milliseconds()).Err()
		}
		return c, script.Load(ctx, client).Err()
	}
}
