package background_test

import (
	"context"
	"errors"
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

// What is saved is saved once more at the end, whatever has ended, and of failures in a row
// the first is told.
func TestSaveTellsTheFirstFailureAndSavesAtTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Second+time.Millisecond)
		defer stop()
		broken := errors.New("broken")
		results := []error{nil, broken, broken, nil, broken, nil} // the last one at the end
		saves, told := 0, 0
		background.Save(ctx, time.Second, func(ctx context.Context) error {
			saves++
			if ctx.Err() != nil {
				t.Error("saving ends with what it is to outlive")
			}
			return results[saves-1]
		}, func(error) { told++ })
		if saves != len(results) || told != 2 {
			t.Errorf("%d saves, %d told", saves, told)
		}
	})
}
