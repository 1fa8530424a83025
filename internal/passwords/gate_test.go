package passwords

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A crowd enters a gate one by one and writes down who came in, in order.
type crowd struct {
	t    *testing.T
	gate *Gate

	mu   sync.Mutex
	came []string
	shed []string
}

// arrive queues somebody and returns when he waits or is through.
func (c *crowd) arrive(ctx context.Context, name string, privileged bool) {
	go func() {
		leave, err := c.gate.Enter(ctx, privileged)
		c.mu.Lock()
		if err != nil {
			c.shed = append(c.shed, name)
			c.mu.Unlock()
			return
		}
		c.came = append(c.came, name)
		c.mu.Unlock()
		leave()
	}()
	synctest.Wait()
}

func (c *crowd) want(came, shed string) {
	c.t.Helper()
	synctest.Wait()
	if fmt.Sprint(c.came) != came || fmt.Sprint(c.shed) != shed {
		c.t.Errorf("came %v, shed %v; want %v, %v", c.came, c.shed, came, shed)
	}
}

// full is a gate for one, and he is in.
func full(t *testing.T, queue int) (c *crowd, leave func()) {
	t.Helper()
	gate, err := NewGate(GateConfig{AtOnce: 1, Queue: queue, MaxWait: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	leave, err = gate.Enter(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	return &crowd{t: t, gate: gate}, leave
}

func TestPrivilegedPlacesGoFirstAndEqualsInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, leave := full(t, 10)
		for _, name := range []string{"s1", "p1", "s2", "p2", "s3", "p3"} {
			c.arrive(t.Context(), name, name[0] == 'p')
		}
		leave()
		c.want("[p1 p2 p3 s1 s2 s3]", "[]")
	})
}

func TestAPrivilegedPlacePushesOutTheYoungestStranger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, leave := full(t, 2)
		for _, name := range []string{"s1", "s2", "s3", "p1", "p2", "p3"} {
			c.arrive(t.Context(), name, name[0] == 'p')
		}
		c.want("[]", "[s3 s2 s1 p3]")
		leave()
		c.want("[p1 p2]", "[s3 s2 s1 p3]")
	})
}

func TestNobodyWaitsLongerThanAllowed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, leave := full(t, 10)
		began := time.Now()
		_, err := c.gate.Enter(t.Context(), true)
		var overload *Overload
		if !errors.Is(err, ErrOverloaded) || !errors.As(err, &overload) || overload.RetryAfter < time.Second {
			t.Errorf("got %v", err)
		}
		if waited := time.Since(began); waited != 10*time.Second {
			t.Errorf("waited %v", waited)
		}
		leave()
		c.arrive(t.Context(), "s1", false)
		c.want("[s1]", "[]")
	})
}

func TestWhoeverHangsUpLeavesTheQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, leave := full(t, 2)
		ctx, cancel := context.WithCancel(t.Context())
		c.arrive(ctx, "s1", false)
		c.arrive(t.Context(), "s2", false)
		cancel()
		c.want("[]", "[s1]")
		c.arrive(t.Context(), "s3", false)
		leave()
		c.want("[s2 s3]", "[s1]")
		if running, p, s := c.gate.Waiting(); running+p+s != 0 {
			t.Errorf("%d run, %d and %d wait", running, p, s)
		}
	})
}

func TestRetryAfterFollowsTheQueueAndTheWork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, leave := full(t, 8)
		c.gate.typical = 3 * time.Second
		for i := range 8 {
			c.arrive(t.Context(), fmt.Sprint(i), false)
		}
		_, err := c.gate.Enter(t.Context(), false)
		var overload *Overload
		if !errors.As(err, &overload) || overload.RetryAfter != 27*time.Second {
			t.Errorf("got %v", err)
		}
		leave()
	})
}

func TestLeavingTwiceLetsInOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, leave := full(t, 2)
		leave()
		leave()
		if running, _, _ := c.gate.Waiting(); running != 0 {
			t.Errorf("%d run", running)
		}
	})
}

// Goroutines race for the gate and hang up at random.
func TestR19NeverMoreThanTheLimitAtOnce(t *testing.T) {
	t.Parallel()
	gate, err := NewGate(GateConfig{AtOnce: 3, Queue: 20})
	if err != nil {
		t.Fatal(err)
	}
	var now, most atomic.Int32
	var all sync.WaitGroup
	for i := range 300 {
		all.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if i%5 == 0 {
				go cancel()
			}
			leave, err := gate.Enter(ctx, i%3 == 0)
			if err != nil {
				return
			}
			defer leave()
			for n := now.Add(1); ; {
				if old := most.Load(); n <= old || most.CompareAndSwap(old, n) {
					break
				}
			}
			now.Add(-1)
		})
	}
	all.Wait()
	if most.Load() > 3 {
		t.Errorf("%d were in at once", most.Load())
	}
	if running, p, s := gate.Waiting(); running+p+s != 0 {
		t.Errorf("left behind: %d run, %d and %d wait", running, p, s)
	}
}

func TestImpossibleGatesAreRefused(t *testing.T) {
	t.Parallel()
	_, err := NewGate(GateConfig{AtOnce: -1, Queue: -1, MaxWait: -1})
	if err == nil || !slices.Contains([]byte(err.Error()), '\n') {
		t.Errorf("not all problems are told: %v", err)
	}
}
