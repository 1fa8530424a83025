package guard

import (
	"context"
	"sync"
	"testing"
	"time"

	"authguard/failures"
)

// Whoever is held has left the queue that it waited in before: nobody wakes it
// any more, nor writes where it reads (-race).
func TestWhoIsHeldIsInNoQueue(t *testing.T) {
	t.Parallel()
	q, key := newWaitQueue(10, 10), failures.Key{1}
	w := &waiter{in: q}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	w.wait(gone, key, time.Minute)
	var others sync.WaitGroup
	others.Go(func() {
		for range 100 {
			q.wake([]failures.Subject{{Key: key}})
		}
	})
	w.hold(gone, time.Minute)
	others.Wait()
	if got := q.waiting.Load(); got != 0 {
		t.Errorf("%d wait in queues", got)
	}
	w.leave()
}
