package background_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"authguard/internal/background"
)

func TestTheLastStartedStopsFirst(t *testing.T) {
	t.Parallel()
	var group background.Group
	var stopped []string
	for _, name := range []string{"store", "feeder"} {
		group.Start(func(ctx context.Context) {
			<-ctx.Done()
			stopped = append(stopped, name)
		})
	}
	group.Stop()
	group.Stop()
	if want := []string{"feeder", "store"}; !slices.Equal(stopped, want) {
		t.Errorf("stopped %v, want %v", stopped, want)
	}
}

func TestStopBeforeStartReturns(t *testing.T) {
	t.Parallel()
	new(background.Group).Stop()
}

func TestEveryCallsOnceAnInterval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var group background.Group
		calls := 0
		group.Start(func(ctx context.Context) {
			background.Every(ctx, time.Second, func(context.Context) { calls++ })
		})
		time.Sleep(10*time.Second + time.Millisecond)
		group.Stop()
		if calls != 10 {
			t.Errorf("%d calls in ten seconds, want 10", calls)
		}
	})
}
