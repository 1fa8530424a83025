package nodes

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// An alert says why Redis was lost, whatever happened.
func TestALossIsReportedWithItsReason(t *testing.T) {
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
	began := time.Now()
	if away := b.Away(); away != 0 {
		t.Errorf("away for %v before it failed", away)
	}
	func() {
		defer func() { _ = recover() }()
		_ = hook(t.Context(), redis.NewCmd(t.Context(), "ping"))
	}()
	if !heard {
		t.Error("no change was reported")
	}
	if away := b.Away(); away <= 0 || away > time.Since(began) {
		t.Errorf("away for %v, of %v", away, time.Since(began))
	}
}
