package guard

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"authguard/failures"
)

// turns holds the attempts that wait: for undecided ones ahead of them (R3),
// or until they are due (R15). A held attempt is a timer and an entry here; no
// worker sleeps for it. The first in a queue looks again now and then, since
// another node may have settled; the others are woken by the one before.
type turns struct {
	mu         sync.Mutex
	queues     map[failures.Key][]*turn
	perAddress map[digest]int
	held       int
	most       int
	mostPer    int
	waiting    atomic.Int64 // in queues; read without the lock by wake
}

// headLooksEvery is how often the first in a queue looks again by itself.
const headLooksEvery = 50 * time.Millisecond

func newTurns(most, mostPer int) *turns {
	return &turns{queues: map[failures.Key][]*turn{}, perAddress: map[digest]int{}, most: most, mostPer: mostPer}
}

// SetHeld changes how many attempts may wait, in all and from one address; see
// Config. Those that wait go on waiting.
func (g *Guard) SetHeld(most, perAddress int) {
	g.turns.mu.Lock()
	defer g.turns.mu.Unlock()
	g.turns.most, g.turns.mostPer = most, perAddress
}

// A turn is one attempt's waiting.
type turn struct {
	turns      *turns
	address    digest
	privileged bool // not under the caps: strangers cannot crowd it out
	admitted   bool
	refused    bool
	queue      failures.Key
	woken      chan struct{}
	until      time.Time
}

// of is the turn, or a new one if there is none yet.
func (t *turn) of(s *turns, v *view) *turn {
	if t != nil {
		return t
	}
	return &turn{turns: s, address: v.address, privileged: v.privileged()}
}

// wait waits in the queue of a key for something to change, and reports
// whether it is of use to wait once more after that. The first wait sets the
// end, after most.
func (t *turn) wait(ctx context.Context, key failures.Key, most time.Duration) bool {
	if !t.enter() {
		return false
	}
	if t.until.IsZero() {
		t.until = time.Now().Add(most)
	}
	left := time.Until(t.until)
	if left <= 0 {
		return false
	}
	if t.turns.join(t, key) {
		left = min(left, headLooksEvery)
	}
	return t.sleep(ctx, left)
}

// hold waits until the attempt is due. It reports whether it waited.
func (t *turn) hold(ctx context.Context, due time.Duration) bool {
	if due <= 0 || !t.enter() {
		return false
	}
	t.woken = nil
	return t.sleep(ctx, due)
}

func (t *turn) sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-t.woken:
	case <-timer.C:
	case <-ctx.Done():
		return false
	}
	return true
}

// enter takes a place under the caps, once.
func (t *turn) enter() bool {
	if t.admitted || t.refused {
		return t.admitted
	}
	s := t.turns
	s.mu.Lock()
	defer s.mu.Unlock()
	if !t.privileged && (s.held >= s.most || s.perAddress[t.address] >= s.mostPer) {
		t.refused = true
		return false
	}
	if !t.privileged {
		s.held++
		s.perAddress[t.address]++
	}
	t.admitted = true
	return true
}

// leave gives back what enter and join took, and lets the next in the queue
// look.
func (t *turn) leave() {
	if t == nil || !t.admitted {
		return
	}
	s := t.turns
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quit(t)
	if !t.privileged {
		s.held--
		if s.perAddress[t.address]--; s.perAddress[t.address] == 0 {
			delete(s.perAddress, t.address)
		}
	}
}

// join puts a turn at the end of a key's queue, or leaves it where it stands.
// It reports whether it is the first.
func (s *turns) join(t *turn, key failures.Key) (first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.woken == nil || t.queue != key {
		s.quit(t)
		t.queue, t.woken = key, make(chan struct{}, 1)
		s.queues[key] = append(s.queues[key], t)
		s.waiting.Add(1)
	}
	return s.queues[key][0] == t
}

// quit takes a turn out of its queue and wakes the first that remains.
func (s *turns) quit(t *turn) {
	queue := s.queues[t.queue]
	for i, one := range queue {
		if one != t {
			continue
		}
		s.waiting.Add(-1)
		if len(queue) == 1 {
			delete(s.queues, t.queue)
			return
		}
		copy(queue[i:], queue[i+1:])
		queue[len(queue)-1] = nil
		s.queues[t.queue] = queue[:len(queue)-1]
		queue[0].wake()
		return
	}
}

// wake lets the first in each subject's queue look again: something about the
// subject was settled.
func (s *turns) wake(subjects []failures.Subject) {
	if s.waiting.Load() == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range subjects {
		if queue := s.queues[subjects[i].Key]; len(queue) > 0 {
			queue[0].wake()
		}
	}
}

func (t *turn) wake() {
	select {
	case t.woken <- struct{}{}:
	default: // it is about to look anyway
	}
}

// Held is how many attempts wait now: for a turn, or until they are due.
func (g *Guard) Held() int {
	g.turns.mu.Lock()
	defer g.turns.mu.Unlock()
	return g.turns.held
}
