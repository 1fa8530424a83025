package passwords

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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

// arrive queues somebody, from a place and an address of his own, and returns when
// he waits or is through. Names of known people begin with p, of administrators
// with a.
func (c *crowd) arrive(ctx context.Context, name string) {
	a := asker(name[0] == 'p', name, name)
	a.Admin = name[0] == 'a'
	c.arriveAs(ctx, name, a)
}

func (c *crowd) arriveAs(ctx context.Context, name string, a Asker) {
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
	gate, err := NewGate(GateConfig{AtOnce: 1, Queue: queue, MaxWait: 10 * time.Second})
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

func TestR26FewWaitForOnePairAndForOneAddress(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		of   func(i int) Asker
		wait int
	}{
		"pair":    {func(int) Asker { return asker(true, "alice", "home") }, 32},
		"address": {func(i int) Asker { return asker(false, fmt.Sprint(i), "bot") }, 80},
		"all":     {func(i int) Asker { return asker(false, fmt.Sprint(i), fmt.Sprint(i)) }, 320},
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
		s.gate, _ = NewGate(GateConfig{AtOnce: 2, Queue: 256, MaxWait: 3 * time.Second})
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

// TestAHogIsToldOfOnceWhenItBegins counts to the second.
func TestAHogIsToldOfOnceWhenItBegins(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		of   func(i int) Asker
		want string
	}{
		"an account":               {func(int) Asker { return asker(true, "mallory", "den") }, "5s mallory"},
		"two accounts":             {func(i int) Asker { return asker(true, fmt.Sprint("mallory", i%2), fmt.Sprint("den", i%2)) }, "5s mallory"},
		"an address":               {func(i int) Asker { return asker(false, fmt.Sprint("victim", i), "den") }, "5s "},
		"an account's many places": {func(i int) Asker { return asker(false, "victim", fmt.Sprint("bot", i)) }, "5s victim"},
		"nobody in particular":     {func(i int) Asker { return asker(false, fmt.Sprint("person", i), fmt.Sprint("home", i)) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began, told := time.Now(), ""
				s := &site{}
				s.gate, _ = NewGate(GateConfig{AtOnce: 2, Queue: 256, MaxWait: 3 * time.Second, Hogged: func(c Hog) {
					if told += fmt.Sprint(time.Since(began).Truncate(time.Second), " ", strings.TrimRight(c.Account, "01")); 4*c.Present < c.All {
						t.Errorf("%+v", c)
					}
				}})
				attack := func(d time.Duration) {
					ctx, stop := context.WithTimeout(t.Context(), d)
					defer stop()
					var all sync.WaitGroup
					for i := range 40 {
						all.Go(func() {
							for ctx.Err() == nil {
								if _, ok := s.login(ctx, test.of(i)); !ok {
									time.Sleep(100 * time.Millisecond)
								}
							}
						})
					}
					all.Wait()
				}
				attack(4 * time.Second)
				time.Sleep(time.Minute)
				if told != "" {
					t.Errorf("a burst was told of: %s", told)
				}
				for range 3 {
					began = time.Now()
					attack(20 * time.Second)
					time.Sleep(time.Minute)
				}
				if told != test.want {
					t.Errorf("told of %q, want %q", told, test.want)
				}
				time.Sleep(10 * time.Minute)
				began = time.Now()
				attack(20 * time.Second)
				if told != test.want+test.want {
					t.Errorf("told of %q, want it once more", told)
				}
			})
		})
	}
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
	_, err := NewGate(GateConfig{AtOnce: -1, Queue: -1, MaxWait: -1})
	if err == nil || !slices.Contains([]byte(err.Error()), '\n') {
		t.Errorf("not all problems are told: %v", err)
	}
}
