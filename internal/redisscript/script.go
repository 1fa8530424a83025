// Package redisscript runs Lua scripts in Redis: several in one round trip, by
// their digest, and with their text where a server does not know them (any
// more): after SCRIPT FLUSH, a restart or a failover.
package redisscript

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Script is a Lua script; make it with New.
type Script struct {
	text   string
	digest string
}

// New returns the script of a text.
func New(text string) *Script {
	sum := sha1.Sum([]byte(text)) // the name that Redis gives it, no secret
	return &Script{text: text, digest: hex.EncodeToString(sum[:])}
}

// A Call is one run of a script. In a cluster its keys are of one slot.
type Call struct {
	Script *Script
	Keys   []string
	Args   []any
	// Reply and Err are what came of it, once Run has returned.
	Reply any
	Err   error
}

const (
	// movedWithin is how long a call is repeated whose keys are on the way from
	// one server to another: a cluster that is resharded does not run it on
	// either, and says so.
	movedWithin = 250 * time.Millisecond
	lookAgain   = 2 * time.Millisecond
)

// Run runs all calls in one round trip; more follow only for those that were
// not run, since their script was not known or their slot is being moved. It
// returns the first error of any; the other calls may have been done all the
// same.
func Run(ctx context.Context, client redis.UniversalClient, calls []Call) error {
	send(ctx, client, calls, func(c *Call) *redis.Cmd { return c.command(ctx, "evalsha", c.Script.digest) })
	for until := time.Now().Add(movedWithin); notRun(ctx, calls, until); {
		send(ctx, client, calls, func(c *Call) *redis.Cmd {
			if !c.unknown() && !c.moving() {
				return nil
			}
			return c.command(ctx, "eval", c.Script.text)
		})
	}
	for i := range calls {
		if calls[i].Err != nil {
			return calls[i].Err
		}
	}
	return nil
}

// notRun reports whether a call was not run and should be repeated. If that is
// for keys on their way it waits a little, unless it is too late.
func notRun(ctx context.Context, calls []Call, until time.Time) bool {
	unknown, moving := false, false
	for i := range calls {
		unknown = unknown || calls[i].unknown()
		moving = moving || calls[i].moving()
	}
	if !moving {
		return unknown
	}
	if time.Now().After(until) {
		return false
	}
	timer := time.NewTimer(lookAgain)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// send sends the commands of those calls that have one, in one round trip.
func send(ctx context.Context, client redis.UniversalClient, calls []Call, command func(*Call) *redis.Cmd) {
	if len(calls) == 1 {
		cmd := command(&calls[0])    // a lone call is only sent again if it was not run
		_ = client.Process(ctx, cmd) // the command keeps its error
		calls[0].Reply, calls[0].Err = cmd.Result()
		return
	}
	pipe := client.Pipeline()
	sent := make([]*redis.Cmd, len(calls))
	for i := range calls {
		if sent[i] = command(&calls[i]); sent[i] != nil {
			_ = pipe.Process(ctx, sent[i])
		}
	}
	_, _ = pipe.Exec(ctx) // every command keeps its own error
	for i, cmd := range sent {
		if cmd != nil {
			calls[i].Reply, calls[i].Err = cmd.Result()
		}
	}
}

func (c *Call) command(ctx context.Context, verb, script string) *redis.Cmd {
	args := make([]any, 0, 3+len(c.Keys)+len(c.Args))
	args = append(args, verb, script, len(c.Keys))
	for _, key := range c.Keys {
		args = append(args, key)
	}
	return redis.NewCmd(ctx, append(args, c.Args...)...)
}

func (c *Call) unknown() bool { return c.Err != nil && redis.HasErrorPrefix(c.Err, "NOSCRIPT") }

// moving reports whether the call was not run because its slot is being moved:
// half there, or already with somebody whom the client could not find in time.
func (c *Call) moving() bool {
	return c.Err != nil && (redis.HasErrorPrefix(c.Err, "TRYAGAIN") ||
		redis.HasErrorPrefix(c.Err, "MOVED") || redis.HasErrorPrefix(c.Err, "ASK"))
}

// Load makes the scripts known to the server, or to every master of a cluster.
// Nothing breaks without it: it spares the first run of each its second trip.
func Load(ctx context.Context, client redis.UniversalClient, scripts ...*Script) error {
	err := eachMaster(ctx, client, func(ctx context.Context, server redis.Cmdable) error {
		_, err := server.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for _, s := range scripts {
				pipe.ScriptLoad(ctx, s.text)
			}
			return nil
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("redisscript: loading: %w", err)
	}
	return nil
}

func eachMaster(ctx context.Context, client redis.UniversalClient, do func(context.Context, redis.Cmdable) error) error {
	if cluster, ok := client.(*redis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error { return do(ctx, c) })
	}
	return do(ctx, client)
}
