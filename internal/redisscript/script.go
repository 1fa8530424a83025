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

// A Call is one run of a script. Its keys are strings, in a cluster of one slot.
type Call struct {
	Script *Script
	Keys   []any
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
	return run(ctx, direct(client), calls)
}

// A sender sends commands, all in one round trip. Each keeps its own error. The
// sender's is why it did not wait for them: they must not be touched then.
type sender func(ctx context.Context, cmds []*redis.Cmd) error

func direct(client redis.UniversalClient) sender {
	return func(ctx context.Context, cmds []*redis.Cmd) error {
		if len(cmds) == 1 {
			_ = client.Process(ctx, once{cmds[0]})
			return nil
		}
		pipe := client.Pipeline()
		for _, cmd := range cmds {
			_ = pipe.Process(ctx, once{cmd})
		}
		_, _ = pipe.Exec(ctx)
		return nil
	}
}

// once is a command that the client never sends again by itself, not even if a
// Cluster's node wants all of a pipeline again after one command that came at
// the wrong time: a charge would count twice. MOVED and ASK, after which nothing
// was done, it does follow.
type once struct{ *redis.Cmd }

// NoRetry implements redis.Cmder.
func (once) NoRetry() bool { return true }

func run(ctx context.Context, send sender, calls []Call) error {
	through(ctx, send, calls, func(c *Call) *redis.Cmd { return c.command(ctx, "evalsha", c.Script.digest) })
	var until time.Time
	for notRun(ctx, calls, &until) {
		through(ctx, send, calls, func(c *Call) *redis.Cmd {
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
// for keys on their way it waits a little, unless it is too late; until when is
// set the first time.
func notRun(ctx context.Context, calls []Call, until *time.Time) bool {
	unknown, moving := false, false
	for i := range calls {
		unknown = unknown || calls[i].unknown()
		moving = moving || calls[i].moving()
	}
	if !moving {
		return unknown
	}
	if until.IsZero() {
		*until = time.Now().Add(movedWithin)
	}
	if time.Now().After(*until) {
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

// through sends the commands of those calls that have one.
func through(ctx context.Context, send sender, calls []Call, command func(*Call) *redis.Cmd) {
	sent := make([]*Call, 0, len(calls))
	cmds := make([]*redis.Cmd, 0, len(calls))
	for i := range calls {
		if cmd := command(&calls[i]); cmd != nil {
			sent, cmds = append(sent, &calls[i]), append(cmds, cmd)
		}
	}
	err := send(ctx, cmds)
	for i, call := range sent {
		if err != nil {
			call.Err = err
		} else {
			call.Reply, call.Err = cmds[i].Result()
		}
	}
}

func (c *Call) command(ctx context.Context, verb, script string) *redis.Cmd {
	args := make([]any, 0, 3+len(c.Keys)+len(c.Args))
	args = append(append(args, verb, script, len(c.Keys)), c.Keys...)
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
