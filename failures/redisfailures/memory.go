package redisfailures

import (
	"sync"
	"time"

	"authguard/failures"
)

// What a node remembers of keys for a moment. Both memories are bounded: when
// one is full it is emptied, which costs a trip or a wait and is never wrong.
const maxRemembered = 1 << 16

// knownFor is how long a node believes that a key is closed without asking
// again: an administrator's unlock on another node works within that time.
const knownFor = time.Second

// closed is which keys were found without room, for failures that are decided.
type closed struct {
	mu   sync.Mutex
	keys map[failures.Key]closing
}

type closing struct {
	mask  failures.Mask
	since int64 // when it was seen, in ms
	until int64
	free  int64 // when there is room, in ms
	count int
}

// note remembers how a subject stood at a moment.
func (c *closed) note(s *failures.Subject, st *failures.Standing, now int64) {
	mask := st.Failed & s.Bind
	if mask == 0 || st.FreeIn <= 0 {
		return
	}
	free := now + st.FreeIn.Milliseconds()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.keys == nil || len(c.keys) >= maxRemembered {
		c.keys = map[failures.Key]closing{}
	}
	c.keys[s.Key] = closing{mask, now, min(free, now+knownFor.Milliseconds()), free, st.Count}
}

// stands fills in the standing of a subject that is known to be closed to this
// charge.
func (c *closed) stands(s *failures.Subject, now int64, out *failures.Standing) bool {
	c.mu.Lock()
	known, ok := c.keys[s.Key]
	if ok && (now >= known.until || now < known.since) {
		delete(c.keys, s.Key)
		ok = false
	}
	c.mu.Unlock()
	mask := known.mask & s.Bind
	if !ok || mask != known.mask {
		return false // what it is closed for does not all bind this charge
	}
	*out = failures.Standing{Over: mask, Failed: mask, Count: known.count, FreeIn: time.Duration(known.free-now) * time.Millisecond}
	return true
}

func (c *closed) forget(subjects []failures.Subject) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range subjects {
		delete(c.keys, subjects[i].Key)
	}
}

// decided is which charges this node knows to be failures although they are
// younger than the longest password check.
type decided struct {
	mu   sync.Mutex
	keys map[failures.Key][]int64 // when they were made, in ms
}

// margin is how much sooner a decided charge is forgotten than Redis would
// take it for undecided: the node's idea of Redis's clock may be that far off.
const margin = 100

func (d *decided) note(subjects []failures.Subject, at, now, pending int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.keys == nil || len(d.keys) >= maxRemembered {
		d.keys = map[failures.Key][]int64{}
	}
	for i := range subjects {
		k := subjects[i].Key
		d.keys[k] = append(young(d.keys[k], now, pending), at)
	}
}

// count is how many charges of a key are decided and young.
func (d *decided) count(k failures.Key, now, pending int64) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	all, ok := d.keys[k]
	if !ok {
		return 0
	}
	if all = young(all, now, pending); len(all) == 0 {
		delete(d.keys, k)
	} else {
		d.keys[k] = all
	}
	return len(all)
}

func (d *decided) forget(subjects []failures.Subject) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range subjects {
		delete(d.keys, subjects[i].Key)
	}
}

func young(all []int64, now, pending int64) []int64 {
	for len(all) > 0 && now-all[0] > pending-margin {
		all = all[1:]
	}
	return all
}
