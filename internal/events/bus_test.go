package events

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"authguard/guard"
	"authguard/internal/background"
)

// recorder is a sink that keeps what it is given.
type recorder struct {
	mu       sync.Mutex
	accounts []string
	largest  int
	switches []ModeSwitch
	ticks    int
	hold     chan struct{} // Handle waits for it if it is not nil
}

func (r *recorder) Handle(batch []guard.Event) {
	if r.hold != nil {
		<-r.hold
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.largest = max(r.largest, len(batch))
	for i := range batch {
		r.accounts = append(r.accounts, batch[i].Account)
	}
}

func (r *recorder) HandleSwitch(s ModeSwitch) { r.switches = append(r.switches, s) }

func (r *recorder) Tick(time.Time) { r.ticks++ }

// runOut delivers what is queued and ends the bus.
func runOut(bus *Bus) {
	ended, end := context.WithCancel(context.Background())
	end()
	bus.Run(ended)
}

func TestBusDeliversEveryEventInOrderToEverySink(t *testing.T) {
	t.Parallel()
	var a, b recorder
	bus := NewBus(Config{}, &a, &b)
	for i := range 1000 {
		bus.Observe(guard.Event{Account: fmt.Sprint(i)})
	}
	runOut(bus)
	for _, r := range []*recorder{&a, &b} {
		if len(r.accounts) != 1000 || r.largest > maxBatch {
			t.Fatalf("%d events in batches of up to %d, want 1000 in batches of up to %d", len(r.accounts), r.largest, maxBatch)
		}
		for i, name := range r.accounts {
			if name != fmt.Sprint(i) {
				t.Fatalf("event %d is %q", i, name)
			}
		}
	}
}

func TestBusDoesNotKeepTheEventsAddress(t *testing.T) {
	t.Parallel()
	var r recorder
	bus := NewBus(Config{}, &r)
	e := guard.Event{Account: "alice"}
	bus.Observe(e)
	e.Account = "somebody else"
	runOut(bus)
	if r.accounts[0] != "alice" {
		t.Fatalf("got %q", r.accounts[0])
	}
}

func TestBusCountsWhatItDropsAndSaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		r := recorder{hold: make(chan struct{})}
		bus := NewBus(Config{Buffer: 4, Logger: slog.New(slog.NewTextHandler(&out, nil))}, &r)
		stop := background.Go(bus.Run)
		bus.Observe(guard.Event{})
		synctest.Wait() // the sink has that one and holds it
		for range 10 {
			bus.Observe(guard.Event{})
		}
		if bus.Dropped() != 6 || len(bus.queue) != 4 {
			t.Fatalf("dropped %d and %d wait, want 6 and 4", bus.Dropped(), len(bus.queue))
		}
		close(r.hold)
		stop()
		if len(r.accounts) != 5 {
			t.Fatalf("delivered %d, want 5", len(r.accounts))
		}
		if want := `msg="events dropped" count=6 total=6`; !strings.Contains(out.String(), want) {
			t.Fatalf("no %s in %s", want, &out)
		}
	})
}

func TestAFloodOfEventsDrownsNoModeSwitch(t *testing.T) {
	t.Parallel()
	var r recorder
	bus := NewBus(Config{Buffer: 2}, &r)
	for range 100 {
		bus.Observe(guard.Event{})
	}
	bus.Switched(ModeSwitch{To: ModeOn})
	runOut(bus)
	if len(r.switches) != 1 || r.switches[0].To != ModeOn {
		t.Fatalf("switches %v", r.switches)
	}
}

func TestBusTicksOnceASecondAndOnceMoreAtTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		bus := NewBus(Config{}, &r)
		stop := background.Go(bus.Run)
		time.Sleep(3*TickEvery + TickEvery/2)
		stop()
		if r.ticks != 4 {
			t.Fatalf("%d ticks, want 3 and a last one", r.ticks)
		}
	})
}

func TestAStoppedBusDropsAndCounts(t *testing.T) {
	t.Parallel()
	bus := NewBus(Config{})
	runOut(bus)
	bus.Observe(guard.Event{})
	bus.Switched(ModeSwitch{})
	if bus.Dropped() != 2 {
		t.Fatalf("dropped %d, want 2", bus.Dropped())
	}
}

func TestObserveFromManyGoroutinesLosesNothingUncounted(t *testing.T) {
	t.Parallel()
	var r recorder
	bus := NewBus(Config{Buffer: 64}, &r)
	stop := background.Go(bus.Run)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				bus.Observe(guard.Event{})
			}
		})
	}
	wg.Wait()
	stop()
	if got := len(r.accounts) + int(bus.Dropped()); got != 8000 {
		t.Fatalf("%d delivered or counted, want 8000", got)
	}
}

// Not parallel: AllocsPerRun counts the allocations of the whole process.
func TestObserveAllocatesNothing(t *testing.T) {
	bus := NewBus(Config{Buffer: 64})
	e := guard.Event{Account: "alice"}
	if n := testing.AllocsPerRun(500, func() { bus.Observe(e) }); n != 0 {
		t.Fatalf("%v allocations per event", n)
	}
}
