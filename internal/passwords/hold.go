package passwords

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// A hold releases every wrong answer at one time after its check began, whichever kind of hash that was (R12): a
// quarter more than a check of the slowest kind in use takes under the present load. Load, which attackers can make,
// raises it to four times that of an idle server, and to five seconds at most.
type hold struct {
	mu       sync.Mutex
	quickest map[recipe]time.Duration // check, which load cannot raise
	overrun  time.Duration            // of recent checks beyond their quickest; each check lowers it by 1/64
	running  []time.Time              // when these checks began, the oldest first
	recent   [Sample]recipe           // of accounts that were checked or sampled
	learned  int                      // how many of them so far
}

func (h *hold) learn(r recipe) {
	h.recent[h.learned%Sample] = r
	h.learned++
}

// run runs a check. In place of a hash that there is not, it is of a kind that a recent account has.
func (h *hold) run(s *Stored, check func(*Hash)) {
	hash := s.parsed
	h.mu.Lock()
	if hash.keySize > 0 {
		h.learn(hash.recipe)
	} else {
		hash = h.recent[rand.IntN(max(1, min(h.learned, Sample)))].decoy()
	}
	hash.password, s.began = s.size, time.Now()
	h.running = append(h.running, s.began)
	h.mu.Unlock()
	check(&hash)
	h.mu.Lock()
	defer h.mu.Unlock()
	at, took := slices.Index(h.running, s.began), time.Since(s.began)
	h.running = slices.Delete(h.running, at, at+1)
	if len(h.quickest) >= 1000 {
		clear(h.quickest)
	}
	if before, seen := h.quickest[hash.recipe]; !seen || took < before {
		h.quickest[hash.recipe] = took
	}
	h.overrun = max(took-h.quickest[hash.recipe], h.overrun-h.overrun/64)
}

// left is the time until an answer is released. A check that is late, and still runs, delays it, too.
func (h *hold) left(s *Stored) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	var slowest time.Duration
	for of, took := range h.quickest {
		if of.password <= s.size {
			slowest = max(slowest, took)
		}
	}
	common := slowest + h.overrun
	if len(h.running) > 0 {
		common = max(common, time.Since(h.running[0]))
	}
	return time.Until(s.began.Add(min(common*5/4, 4*slowest, 5*time.Second)))
}

// Hold waits until the answer to a wrong password may be sent, or ctx ends. Right passwords that are answered as wrong
// are held, too. Give the Gate's turn back first.
func (c *Checker) Hold(ctx context.Context, checked Stored) {
	for left := c.hold.left(&checked); left > 0; left = c.hold.left(&checked) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(left):
		}
	}
}
