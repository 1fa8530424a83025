package redisstore_test

import (
	"context"
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"
)

// A fault is what happens to a node's commands: it is a redis.Hook.
type fault struct {
	// before has them fail before they are sent; after, when they were done,
	// as if the answer were lost. afterOne lets that many succeed first.
	before, after bool
	afterOne      int
	// between is called once, after the first command.
	between func()
}

var errCut = errors.New("cut")

func (f *fault) DialHook(next redis.DialHook) redis.DialHook { return next }

func (f *fault) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if f.before {
			cmd.SetErr(errCut)
			return errCut
		}
		err := next(ctx, cmd)
		if redis.HasErrorPrefix(err, "NOSCRIPT") {
			return err
		}
		if between := f.between; between != nil {
			f.between = nil
			between()
		}
		if f.after {
			if f.afterOne > 0 {
				f.afterOne--
				return err
			}
			cmd.SetErr(errCut)
			return errCut
		}
		return err
	}
}

// ProcessPipelineHook is for pipelines of one command, which is what a flush
// sends.
func (f *fault) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		one := func(ctx context.Context, cmd redis.Cmder) error {
			_ = next(ctx, cmds)
			return cmd.Err()
		}
		return f.ProcessHook(one)(ctx, cmds[0])
	}
}

// lost flushes in vain.
func (n *node) lost(t testing.TB) {
	t.Helper()
	n.fault.before = true
	defer func() { n.fault.before = false }()
	if n.Flush(t.Context()) == nil {
		t.Fatal("the flush succeeded")
	}
}

// unanswered flushes, and does not hear the answers after the first few.
func (n *node) unanswered(t testing.TB, heard int) {
	t.Helper()
	n.fault.after, n.fault.afterOne = true, heard
	defer func() { n.fault.after = false }()
	if n.Flush(t.Context()) == nil {
		t.Fatal("the flush succeeded")
	}
}
