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
	gate *Queue

	mu   sync.Mutex
	came []string
	shed []string
}

// arrive queues somebody, from a place and an address of his own, and returns when
// he waits or is through. Names of known people begin with p, of administrators
// with a.
func (c *crowd) arrive(ctx context.Context, name string) {
	a := asker(name[0] == 'p', name, name)
	a.Admin = name[0] == 'a'
	c.arriveAs(ctx, name, a)
}

func (c *crowd) arriveAs(ctx context.Context, name string, a Request) {
	go func() {
		leave, err := c.gate.Enter(ctx, a)
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
	gate, err := NewQueue(QueueConfig{AtOnce: 1, Queue: queue, MaxWait: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	leave, err = gate.Enter(t.Context(), asker(false, "first", "first"))
	if err != nil {
		t.Fatal(err)
	}
	return &crowd{t: t, gate: gate}, leave
}

func TestKnownPeopleGoFirstAndEqualsInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, leave := full(t, 10)
		for _, name := range []string{"p1", "p2", "p3"} {
			c.arrive(t.Context(), name)
		}
		leave()
		c.want("[p1 p2 p3]", "[]")
	})
}

// TestR26EveryClassHasAShareThatTheOthersCannotTake: the stranger and the
// administrator have asked before, and each known person has not.
func TestR26EveryClassHasAShareThatTheOthersCannotTake(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, leave := full(t, 100)
		leave()
		for _, name := range []string{"s", "s", "s", "s", "s", "a", "a"} {
			c.arrive(t.Context(), name)
		}
		c.came = nil
		leave, _ = c.gate.Enter(t.Context(), asker(false, "first", "first"))
		c.gate.turn, c.gate.typical = 0, 10*time.Millisecond // in order
		for i := range 8 {
			c.arrive(t.Context(), fmt.Sprint("p", i))
		}
		for _, name := range []string{"s", "s", "a", "a"} {
			c.arrive(t.Context(), name)
		}
		leave()
		// A turn for known people, one for administrators, one for whoever asked
		// least, one for strangers.
		c.want("[p0 a p1 s p2 a p3 s p4 p5 p6 p7]", "[]")
	})
}

// TestR26FakeFailuresYieldToAllOthers: they came first and have asked for nothing before, an
// administrator's too, and the others have.
func TestR26FakeFailuresYieldToAllOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, leave := full(t, 6)
		leave()
		for _, name := range []string{"s1", "s1", "s2", "a", "p"} {
			c.arrive(t.Context(), name)
		}
		c.came = nil
		leave, _ = c.gate.Enter(t.Context(), asker(false, "first", "first"))
		c.gate.turn, c.gate.typical = 0, 10*time.Millisecond // in order
		for _, name := range []string{"f1", "f2", "af"} {
			a := asker(false, name, name)
			a.Admin, a.Fake = name == "af", true
			c.arriveAs(t.Context(), name, a)
		}
		for _, name := range []string{"s1", "s2", "a", "p"} { // the last finds the queue full
			c.arrive(t.Context(), name)
		}
		leave()
		c.want("[p a s2 s1 f2 af]", "[f1]")
	})
}

func TestR26AFullQueueLosesWhoeverAskedMostInTheLongestLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, leave := full(t, 64)
		c.gate.typical = 10 * time.Millisecond // the line is short work: first come, first served
		for i := range 4 {
			c.arriveAs(t.Context(), fmt.Sprint("again", i), asker(false, "again", "again"))
		}
		for i := range 30 {
			c.arrive(t.Context(), fmt.Sprint("p", i))
		}
		for i := range 32 {
			c.arrive(t.Context(), fmt.Sprint("s", i))
		}
		c.want("[]", "[again3 again2]")
		c.arrive(t.Context(), "a1")
		c.arrive(t.Context(), "p30")
		c.arrive(t.Context(), "a2")
		c.want("[]", "[again3 again2 again1 again0 s0]")
		leave()
		synctest.Wait()
		c.gate.wantEmpty(t)
	})
}

// A flood of strangers who ask for the first time pushes out no known person, however
// often that one has asked: the longest line loses.
func TestR26AFloodPushesOutNobodyOfAShorterLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, leave := full(t, 16)
		for i := range 4 {
			c.arriveAs(t.Context(), fmt.Sprint("p", i), asker(true, "alice", "home"))
		}
		for i := range 14 {
			c.arrive(t.Context(), fmt.Sprint("s", i))
		}
		c.want("[]", "[s0 s1]")
		leave()
		synctest.Wait()
		c.gate.wantEmpty(t)
	})
}

// Administrators share a line, whether they are known or not: of equals the known one
// goes first.
func TestR26OfEqualAdministratorsTheKnownOneGoesFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, leave := full(t, 16)
		for i, known := range []bool{false, false, true} {
			a := asker(known, fmt.Sprint("admin", i), fmt.Sprint("office", i))
			a.Admin = true
			c.arriveAs(t.Context(), fmt.Sprint("a", i), a)
		}
		leave()
		c.want("[a2 a0 a1]", "[]")
	})
}

// What somebody has asked counts in the running minute and the whole one before. At a
// school, eight of others weigh as much as one of one's own.
func TestR26WhatCountsIsWhatWasAskedLately(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 2, 9, 0, 50, 0, time.UTC)
	gate, err := NewQueue(QueueConfig{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	rank := func(a Request) int { return gate.rank(&a) }
	for range 5 {
		rank(asker(false, "mallory", "den"))
	}
	now = now.Add(20 * time.Second)
	if got := rank(asker(false, "mallory", "den")); got != 10 {
		t.Errorf("in the next minute its rank is %d, want that of five logins and five from the address", got)
	}
	now = now.Add(2 * time.Minute)
	if got := rank(asker(false, "mallory", "den")); got != 0 {
		t.Errorf("two minutes later its rank is %d, want 0", got)
	}
	for i := range 16 {
		rank(asker(true, fmt.Sprint("pupil", i), "school"))
	}
	if pupil, stranger := rank(asker(true, "pupil", "school")), rank(asker(false, "stranger", "school")); pupil != 2 || stranger != 17 {
		t.Errorf("after 16 of a school a pupil's rank is %d and a stranger's %d, want 2 and 17", pupil, stranger)
	}
}

func TestR26FewWaitForOnePairAndForOneAddress(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		of   func(i int) Request
		wait int
	}{
		"pair":    {func(int) Request { return asker(true, "alice", "home") }, 32},
		"address": {func(i int) Request { return asker(false, fmt.Sprint(i), "bot") }, 80},
		"all":     {func(i int) Request { return asker(false, fmt.Sprint(i), fmt.Sprint(i)) }, 320},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c, leave := full(t, 320)
				for i := range 350 {
					c.arriveAs(t.Context(), fmt.Sprint(i), test.of(i))
				}
				// One more of a pair or an address may be where the turns are, which
				// another has here.
				if got := c.gate.queued(); got != test.wait && got != test.wait+1 {
					t.Errorf("%d wait, want %d", got, test.wait)
				}
				if got := c.gate.State().Shed; got != uint64(350-c.gate.queued()) {
					t.Errorf("%d were shed", got)
				}
				leave()
				synctest.Wait()
				c.gate.wantEmpty(t)
			})
		})
	}
}

// TestR3TwentyOfOneAccountAtOnceAllGetTheirTurn: none of them is too many.
func TestR3TwentyOfOneAccountAtOnceAllGetTheirTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &site{}
		s.gate, _ = NewQueue(QueueConfig{AtOnce: 2, Queue: 256, MaxWait: 3 * time.Second})
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if took, ok := s.login(t.Context(), asker(true, "alice", "home")); !ok {
					t.Errorf("shed after %v", took)
				}
			})
		}
		all.Wait()
	})
}

func TestNobodyWaitsLongerThanAllowed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, leave := full(t, 10)
		began := time.Now()
		_, err := c.gate.Enter(t.Context(), asker(true, "late", "late"))
		var overload *Overload
		if !errors.Is(err, ErrOverloaded) || !errors.As(err, &overload) || overload.RetryAfter < time.Second {
			t.Errorf("got %v", err)
		}
		if waited := time.Since(began); waited != 10*time.Second {
			t.Errorf("waited %v", waited)
		}
		leave()
		c.arrive(t.Context(), "s1")
		c.want("[s1]", "[]")
	})
}

func TestWhoeverHangsUpLeavesTheQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, leave := full(t, 2)
		ctx, cancel := context.WithCancel(t.Context())
		c.arrive(ctx, "s1")
		c.arrive(t.Context(), "s2")
		cancel()
		c.want("[]", "[s1]")
		c.arrive(t.Context(), "s3")
		leave()
		c.want("[s2 s3]", "[s1]")
		c.gate.wantEmpty(t)
	})
}

func TestRetryAfterFollowsTheQueueAndTheWork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, leave := full(t, 8)
		c.gate.typical = 3 * time.Second
		for i := range 8 {
			c.arrive(t.Context(), fmt.Sprint(i))
		}
		late := asker(false, "late", "late")
		c.gate.rank(&late) // it has asked before
		_, err := c.gate.Enter(t.Context(), late)
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
		synctest.Wait()
		c.gate.wantEmpty(t)
	})
}

// Goroutines race for the gate and hang up at random.
func TestR19NeverMoreThanTheLimitAtOnce(t *testing.T) {
	t.Parallel()
	gate, err := NewQueue(QueueConfig{AtOnce: 3, Queue: 20})
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
			leave, err := gate.Enter(ctx, asker(i%3 == 0, fmt.Sprint(i), fmt.Sprint(i%50)))
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
	gate.wantEmpty(t)
}

func TestImpossibleGatesAreRefused(t *testing.T) {
	t.Parallel()
	_, err := NewQueue(QueueConfig{AtOnce: -1, Queue: -1, MaxWait: -1})
	if err == nil || !slices.Contains([]byte(err.Error()), '\n') {
		t.Errorf("not all problems are told: %v", err)
	}
}
