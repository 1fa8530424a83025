package guard

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"authguard/failures"
)

// A waitQueue holds the attempts that wait: for undecided ones ahead of them (R3),
// or until they are due (R15). A held attempt is a timer and an entry here; no
// worker sleeps for it. The first in a queue looks again now and then, since
// another node may have settled; the others are woken by the one before.
type waitQueue struct {
	mu         sync.Mutex
	queues     map[failures.Key][]*waiter
	perAddress map[digest]int
	held       int
	most       int
	mostPer    int
	waiting    atomic.Int64 // in queues; read without the lock by wake
}

// A waiter is one attempt that waits.
type waiter struct {
	in       *waitQueue
	address  digest
	known    bool // not under the caps: strangers cannot crowd it out
	admitted bool
	refused  bool
	queue    failures.Key
	woken    chan struct{}
	until    time.Time
}

func newWaitQueue(most, mostPer int) *waitQueue {
	return &waitQueue{queues: map[failures.Key][]*waiter{}, perAddress: map[digest]int{}, most: most, mostPer: mostPer}
}

// headLooksEvery is how often the first in a queue looks again by itself.
const headLooksEvery = 50 * time.Millisecond

// waiter is w, or a new one if there is none yet: few attempts wait.
func (s *waitQueue) waiter(w *waiter, address digest, known bool) *waiter {
	if w != nil {
		return w
	}
	return &waiter{in: s, address: address, known: known}
}

// wait waits in the queue of a key for something to change, and reports
// whether it is of use to wait once more after that. The first wait sets the
// end, after most.
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
	w.woken = nil // nobody wakes it: it is not in a queue
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

// enter takes a place under the caps, once.
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

// leave gives back what enter and join took, and lets the next in the queue
// look.
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

// join puts a waiter at the end of a key's queue, or leaves it where it stands.
// It reports whether it is the first.
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

// quit takes a waiter out of its queue and wakes the first that remains.
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

// wake lets the first in each subject's queue look again: something about the
// subject was settled.
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
	default: // it is about to look anyway
	}
}
