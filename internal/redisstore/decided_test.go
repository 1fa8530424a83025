package redisstore_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"authguard/guard"
	"authguard/internal/redisstore"
)

// counted counts the commands of a client that change Redis.
type counted struct{ writes atomic.Int64 }

func (c *counted) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *counted) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (c *counted) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			if name := cmd.Name(); name != "hello" && name != "client" && name != "select" {
				c.writes.Add(1)
			}
		}
		return next(ctx, cmds)
	}
}

// A failure is written if its charge filled a limit, and only then: ten of an account in
// ten networks make two commands, for the tenth at the account.
func failureIsWrittenOnlyIfItFilledALimit(t *testing.T, on redisOf) {
	client, sent := on.open(t), new(counted)
	client.AddHook(sent)
	s := newStore(t, client, on.prefix, redisstore.Options{})
	for n := 1; n <= 10; n++ {
		c := attempt(1, n)
		begin(t, s, c)
		before := sent.writes.Load()
		must(t, s.Settle(t.Context(), c, guard.Failed))
		wrote := int64(0)
		if n == 10 {
			wrote = 2
		}
		want(t, "commands of a failure", sent.writes.Load()-before, wrote)
	}
}

// A mute client gets an error instead of the answer that a charge was taken back.
type mute struct{ counted }

func (m *mute) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			if args := cmd.Args(); cmd.Name() == "evalsha" && args[1] == redisstore.TakeBackDigest {
				cmd.SetErr(errCut)
			}
		}
		return err
	}
}

// An attempt that the account's limit blocks is blocked whether or not the charge of its IP address can be taken back.
// An error would be an outage of Redis, in which the node admits attempts of its own.
func blockedWithoutTakingBack(t *testing.T, on redisOf) {
	filling := on.node(t, redisstore.Options{})
	for n := 1; n <= 10; n++ {
		end(t, filling, attempt(1, n), guard.Failed)
	}
	client := on.open(t)
	client.AddHook(new(mute))
	c := attempt(1, 11)
	must(t, newStore(t, client, on.prefix, redisstore.Options{}).Begin(t.Context(), c))
	want(t, "charged", c.ID.Charged(), false)
}
