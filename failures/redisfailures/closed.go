package redisfailures

import (
	"sync"

	"authguard/failures"
)

// closed remembers keys that were found full of failures, so that knocking on
// a closed door costs Redis nothing. What is kept is the charges themselves,
// those that may yet be taken back left out: they say for every ladder and set
// of binding rungs until when the key is surely closed. An unlock on any node
// ends the epoch that they were read in. It is bounded; what it drops costs a
// call.
type closed struct {
	most int // bytes

	mu    sync.RWMutex
	keys  map[location]shut
	bytes int
}

type location struct{ place, key failures.Key }

// shut is what was known of a closed key.
type shut struct {
	charges []uint32
	at      int64 // Redis's time, or later, when it was read
	reading
}

// shutBytes is what a key takes beside its charges, about.
const shutBytes = 160

func (h shut) size() int { return shutBytes + 4*len(h.charges) }

func newClosed(most int) *closed { return &closed{most: most, keys: make(map[location]shut)} }

func (c *closed) put(subject *failures.Subject, h shut) {
	where := location{subject.Shard, subject.Key}
	c.mu.Lock()
	defer c.mu.Unlock()
	before, there := c.keys[where]
	if there {
		if before.epoch > h.epoch {
			return // an answer that comes late
		}
		c.bytes -= before.size()
	}
	c.bytes += h.size()
	c.keys[where] = h
	for other, old := range c.keys {
		if c.bytes <= c.most {
			break
		}
		c.bytes -= old.size()
		delete(c.keys, other)
	}
}

func (c *closed) get(subject *failures.Subject) (h shut, ok bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	h, ok = c.keys[location{subject.Shard, subject.Key}]
	return h, ok
}

func (c *closed) drop(subject *failures.Subject, h shut) {
	where := location{subject.Shard, subject.Key}
	c.mu.Lock()
	defer c.mu.Unlock()
	if now, there := c.keys[where]; there && now.at == h.at {
		c.bytes -= now.size()
		delete(c.keys, where)
	}
}

// shut reports whether one of the subjects is surely closed, without asking
// Redis. It then fills the standings of those that it knows.
func (s *Store) shut(subjects []failures.Subject, standings []failures.Usage) (refused bool) {
	number, fresh := s.epoch.Now()
	if !fresh {
		return false
	}
	for i := range subjects {
		standings[i] = failures.Usage{}
		known, ok := s.closed.get(&subjects[i])
		if !ok {
			continue
		}
		if known.epoch == number && s.stillShut(&subjects[i], &known, &standings[i]) {
			refused = refused || standings[i].Over&subjects[i].Bind != 0
			continue
		}
		s.closed.drop(&subjects[i], known)
	}
	if refused {
		s.counts.closed.Add(1)
	}
	return refused
}

// stillShut writes what is known of a key at this time into out, and reports
// whether any of its rungs is still full.
func (s *Store) stillShut(subject *failures.Subject, h *shut, out *failures.Usage) bool {
	now := h.at + s.now().Sub(h.sent).Milliseconds() + 1
	subject.Stand(h.charges, uint32(now), 0, out)
	return out.Over != 0
}
