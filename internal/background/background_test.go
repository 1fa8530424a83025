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

func TestTheLastAddedStopsFirst(t *testing.T) {
	t.Parallel()
	var group, inner background.Group
	var stopped []string
	part := func(name string) background.Part {
		return background.Run(func(ctx context.Context) {
			<-ctx.Done()
			stopped = append(stopped, name)
		})
	}
	inner.Add(part("bus"), part("feeder"))
	group.Add(part("store"), &inner, part("listener"))
	if err := group.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := group.Stop(); err != nil {
			t.Error(err)
		}
	}
	if want := []string{"listener", "feeder", "bus", "store"}; !slices.Equal(stopped, want) {
		t.Errorf("stopped %v, want %v", stopped, want)
	}
}

func TestAFailedStartStopsWhatIsOpenAndReportsEveryError(t *testing.T) {
	t.Parallel()
	busy, full, late := errors.New("busy"), errors.New("full"), errors.New("late")
	var group background.Group
	group.Add(
		background.Close(func() error { return full }),
		background.Ready(func(context.Context) error { return busy }),
		background.Run(func(context.Context) { t.Error("started after a failure") }),
		background.Close(func() error { return late }),
	)
	if err := group.Start(t.Context()); !errors.Is(err, busy) {
		t.Errorf("started: %v", err)
	}
	if err := group.Stop(); !errors.Is(err, full) || !errors.Is(err, late) {
		t.Errorf("stopped: %v", err)
	}
}

func TestARunOutlivesTheContextOfItsStart(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	run := background.Run(func(ctx context.Context) {
		cancel()
		ended <- ctx.Err()
	})
	if err := run.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := run.Stop(); err != nil {
		t.Error(err)
	}
}

func TestEveryCallsOnceAnInterval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		every := background.Repeat(time.Second, func(context.Context) { calls++ })
		_ = every.Start(t.Context())
		time.Sleep(10*time.Second + time.Millisecond)
		_ = every.Stop()
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
