package passwords

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestAHogIsToldOfOnceWhenItBegins counts to the second.
func TestAHogIsToldOfOnceWhenItBegins(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		of   func(i int) Request
		want string
	}{
		"an account":               {func(int) Request { return asker(true, "mallory", "den") }, "5s mallory"},
		"two accounts":             {func(i int) Request { return asker(true, fmt.Sprint("mallory", i%2), fmt.Sprint("den", i%2)) }, "5s mallory"},
		"an address":               {func(i int) Request { return asker(false, fmt.Sprint("victim", i), "den") }, "5s "},
		"an account's many places": {func(i int) Request { return asker(false, "victim", fmt.Sprint("bot", i)) }, "5s victim"},
		"nobody in particular":     {func(i int) Request { return asker(false, fmt.Sprint("person", i), fmt.Sprint("home", i)) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began, told := time.Now(), ""
				s := &site{}
				s.gate, _ = NewQueue(QueueConfig{AtOnce: 2, Queue: 256, MaxWait: 3 * time.Second, Hogged: func(c Heavy) {
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

// One account that fills a queue which is served within the second is no hog: nobody
// has to wait. And what was one is none a minute later.
func TestAHogThatNobodyWaitsForIsNone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		told := 0
		gate, err := NewQueue(QueueConfig{AtOnce: 2, Queue: 256, Hogged: func(Heavy) { told++ }})
		if err != nil {
			t.Fatal(err)
		}
		busy := func(check time.Duration) {
			for range 20 {
				go func() {
					for began := time.Now(); time.Since(began) < 20*time.Second; {
						if leave, err := gate.Enter(t.Context(), asker(true, "mallory", "den")); err == nil {
							time.Sleep(check)
							leave()
						}
					}
				}()
			}
			time.Sleep(25 * time.Second)
			synctest.Wait()
		}
		gate.typical = 5 * time.Millisecond
		if busy(5 * time.Millisecond); told != 0 {
			t.Errorf("told %d times of a queue of a tenth of a second", told)
		}
		gate.typical = 250 * time.Millisecond
		if busy(250 * time.Millisecond); told != 1 {
			t.Errorf("told %d times of a queue of seconds, want once", told)
		}
		time.Sleep(time.Minute)
		if gate.State().Hogged {
			t.Error("a minute after its end there is a hog still")
		}
	})
}
