package guard

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"authguard/failures"
)

// A waitQueue holds the attempts that wait: for undecided ones ahead of them (R3), or until they are due (R15). Each
// costs a timer and an entry here, not a worker. The first in a queue polls, since another node may settle.
type waitQueue struct {
	mu         sync.Mutex
	queues     map[failures.Key][]*waiter
	perAddress map[digest]int
	held       int
	most       int
	mostPer    int
	waiting    atomic.Int64 // in queues; read without the lock by wake
}

type waiter struct {
	in       *waitQueue
	address  digest
	known    bool // exempt from the caps, so unknown clients cannot displace it
	admitted bool
	refused  bool
	queue    failures.Key
	woken    chan struct{}
	until    time.Time
}

func newWaitQueue(most, mostPer int) *waitQueue {
	return &waitQueue{queues: map[failures.Key][]*waiter{}, perAddress: map[digest]int{}, most: most, mostPer: mostPer}
}

// headLooksEvery is how often the first in a queue polls.
const headLooksEvery = 50 * time.Millisecond

// waiter returns w, or a new one if w is nil: few attempts wait.
func (s *waitQueue) waiter(w *waiter, address digest, known bool) *waiter {
	if w != nil {
		return w
	}
	return &waiter{in: s, address: address, known: known}
}

// wait waits for a change in the queue of a key, and reports whether to try again. The first wait sets the deadline.
func (w *waiter) wait(ctx context.Context, key failures.Key, most time.Duration) bool {
	if !w.enter() {
		return false
	}
	if w.until.IsZero() {
		w.until = time.Now().Add(most)
	}
	left := time.Until(w.until)
	if left <= 0 {
		return false
	}
	if w.in.join(w, key) {
		left = min(left, headLooksEvery)
	}
	return w.sleep(ctx, left)
}

// hold waits until the attempt is due. It reports whether it waited.
func (w *waiter) hold(ctx context.Context, due time.Duration) bool {
	if due <= 0 || !w.enter() {
		return false
	}
	w.in.mu.Lock()
	w.in.quit(w)
	w.woken = nil // in no queue, so nothing wakes it
	w.in.mu.Unlock()
	return w.sleep(ctx, due)
}

func (w *waiter) sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-w.woken:
	case <-timer.C:
	case <-ctx.Done():
		return false
	}
	return true
}

// enter counts the waiter toward the caps, once.
func (w *waiter) enter() bool {
	if w.admitted || w.refused {
		return w.admitted
	}
	s := w.in
	s.mu.Lock()
	defer s.mu.Unlock()
	if !w.known && (s.held >= s.most || s.perAddress[w.address] >= s.mostPer) {
		w.refused = true
		return false
	}
	if !w.known {
		s.held++
		s.perAddress[w.address]++
	}
	w.admitted = true
	return true
}

// leave undoes enter and join, and wakes the next in the queue.
func (w *waiter) leave() {
	if !w.admitted {
		return
	}
	s := w.in
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quit(w)
	if !w.known {
		s.held--
		if s.perAddress[w.address]--; s.perAddress[w.address] == 0 {
			delete(s.perAddress, w.address)
		}
	}
}

// join appends a waiter to a key's queue, unless it is in it. It reports whether it is the first.
func (s *waitQueue) join(w *waiter, key failures.Key) (first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.woken == nil || w.queue != key {
		s.quit(w)
		w.queue, w.woken = key, make(chan struct{}, 1)
		s.queues[key] = append(s.queues[key], w)
		s.waiting.Add(1)
	}
	return s.queues[key][0] == w
}

// quit removes a waiter from its queue and wakes the first that remains.
func (s *waitQueue) quit(w *waiter) {
	queue := s.queues[w.queue]
	i := slices.Index(queue, w)
	if i < 0 {
		return
	}
	s.waiting.Add(-1)
	if len(queue) == 1 {
		delete(s.queues, w.queue)
		return
	}
	s.queues[w.queue] = slices.Delete(queue, i, i+1)
	queue[0].wake()
}

// wake wakes the first in each subject's queue, after a settlement.
func (s *waitQueue) wake(subjects []failures.Subject) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range subjects {
		if queue := s.queues[subjects[i].Key]; len(queue) > 0 {
			queue[0].wake()
		}
	}
}

func (w *waiter) wake() {
	select {
	case w.woken <- struct{}{}:
	default: // a wake is pending
	}
}
