package shared

import (
	"context"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// openPing is a round trip without any work.
func openPing(_ context.Context, s *server, _ int) (counter, error) {
	client, c := connect(s)
	c.attempt = func(ctx context.Context, _ int) error { return client.Ping(ctx).Err() }
	return c, nil
}

// openINCRs is the lower bound for counting three keys: one round trip without a decision. Without
// expiry, Redis never frees the memory.
func openINCRs(expiry bool) func(context.Context, *server, int) (counter, error) {
	name, text := "n", "for i=1,3 do redis.call('INCR',KEYS[i]) end return 1"
	if expiry {
		name = "x"
		text = "for i=1,3 do if redis.call('INCR',KEYS[i])==1 then redis.call('PEXPIRE',KEYS[i],ARGV[1]) end end return 1"
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
