package nodes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
)

// An alert says why Redis was lost, whatever happened.
func TestWhoeverHearsOfALossHearsWhy(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
	defer client.Close()
	heard := false
	b := NewBreaker(client, 0, slog.New(slog.DiscardHandler), func(up bool, why error) {
		if heard = true; up || why == nil {
			t.Errorf("up %v, %v", up, why)
		}
	})
	hook := b.ProcessHook(func(context.Context, redis.Cmder) error { panic("on purpose") })
	func() {
		defer func() { _ = recover() }()
		_ = hook(t.Context(), redis.NewCmd(t.Context(), "ping"))
	}()
	if !heard {
		t.Error("nobody was told")
	}
}

// The mode's flush gives up after a second. With redis.timeout at five, a Redis that
// stood still for two made each node count alone by it: six passwords of one account
// were checked where five may be.
func TestACallerThatGivesUpBeforeTheBudgetDoesNotLoseRedis(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
		defer client.Close()
		b := NewBreaker(client, 5*time.Second, slog.New(slog.DiscardHandler), nil)
		hook := b.ProcessHook(func(ctx context.Context, cmd redis.Cmder) error {
			<-ctx.Done()
			cmd.SetErr(fmt.Errorf("read: %w", os.ErrDeadlineExceeded)) // the connection's
			return cmd.Err()
		})
		ask := func(within time.Duration) error {
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			return hook(ctx, redis.NewCmd(ctx, "ping"))
		}
		if err := ask(time.Second); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the caller is told %v", err)
		}
		if !b.Up() || b.Failures() != 0 {
			t.Errorf("after a second of five: up %v, %d failures", b.Up(), b.Failures())
		}
		began := time.Now()
		_ = ask(time.Minute)
		if took := time.Since(began); took != 5*time.Second || b.Up() || b.Failures() != 1 {
			t.Errorf("after %v: up %v, %d failures", took, b.Up(), b.Failures())
		}
	})
}
