package failures

import (
	"encoding/binary"
	"math/bits"
	"sync"
)

// A slot is a key with its charges: 32 bytes, without pointers. A slot without charges is empty.
type slot struct {
	key  Key
	meta uint32 // moments: 12 bits; undecided: 12 bits; class of the block: 4 bits; size: 4 bits
	body [inline]uint32
}

const (
	countBits   = 12
	countMask   = 1<<countBits - 1
	classShift  = 2 * countBits
	classMask   = 1<<4 - 1
	sizeShift   = classShift + 4
	slotBytes   = 32
	firstSlots  = 16
	fullPercent = 80 // of the slots, then a table grows
	nextPercent = 60 // of the slots of the grown table are in use
	sharedSlots = 32 // shared keys per shard and size
)

func (s *slot) count() int   { return int(s.meta & countMask) }
func (s *slot) pending() int { return int(s.meta >> countBits & countMask) }

// resized stores the size of the limits that now apply to the key.
func (s *slot) resized(size uint8) { s.meta = s.meta&(1<<sizeShift-1) | uint32(size)<<sizeShift }

func (s *slot) class() uint32 { return s.meta >> classShift & classMask }
func (s *slot) size() uint8   { return uint8(s.meta >> sizeShift) }

func (s *slot) set(count, pending int, class uint32) {
	s.meta = s.meta>>sizeShift<<sizeShift | uint32(count) | uint32(min(pending, countMask))<<countBits | class<<classShift
}

// sharedMark begins the key of every shared slot. A keyed digest begins with it once in 2⁶⁴; that key would only
// share a count.
var sharedMark = [8]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

func keyIsShared(k *Key) bool { return [8]byte(k[:8]) == sharedMark }

// A shard is a part of the keys with its own lock: an open-addressed table with linear probing, and the blocks of its
// larger keys.
type shard struct {
	mu    sync.Mutex
	slots []slot
	used  int
	// shared is the number of shared slots, see keyShared.
	shared  int
	changed bool   // since the last snapshot
	swept   uint32 // time of the last sweep for lack of room
	// The fields above fit in one cache line, which is all that most calls access.
	slab  slab
	saved uint64   // the number of the newest journal record that the loaded snapshot includes
	_     [24]byte // pads the shard so that two shards share no cache line
}

func (k *Key) home(slots int) int {
	hi, _ := bits.Mul64(binary.LittleEndian.Uint64(k[:8]), uint64(slots))
	return int(hi)
}

func (sh *shard) find(key *Key) *slot {
	n := len(sh.slots)
	if n == 0 {
		return nil
	}
	for i := key.home(n); ; {
		s := &sh.slots[i]
		if s.meta&countMask == 0 {
			return nil
		}
		if s.key == *key {
			return s
		}
		if i++; i == n {
			i = 0
		}
	}
}

// lookUp returns the slot that counts for a subject: its own, else the shared one; nil if there is neither.
func (sh *shard) lookUp(s *Subject) *slot {
	if own := sh.find(&s.Key); own != nil || sh.shared == 0 {
		return own
	}
	key := keyShared(&s.Key, s.Limits.size)
	return sh.find(&key)
}

// keyCleared returns the key of the slot that stores when a key's backoff was reset. Its only entry is the time of
// the newest charge then. Few keys have one, so it takes no room in every slot; as a slot, it is bounded, swept and
// saved like any other.
func keyCleared(k *Key) Key {
	mark := *k
	mark[len(mark)-1] ^= 0xff
	return mark
}

// fresh returns how many of a slot's newest charges count for the backoff: 0 if the backoff delays nothing now, which
// avoids a lookup.
func (sh *shard) fresh(s *Subject, slot *slot, now uint32) int {
	n := slot.count()
	if n < s.Limits.quiet || now-sh.newest(slot) >= s.Limits.slowest {
		return 0
	}
	key := keyCleared(&slot.key)
	if mark := sh.find(&key); mark != nil {
		return sh.moments(slot).since(sh.newest(mark))
	}
	return n
}

// moments returns the slot's charges without copying them.
func (sh *shard) moments(s *slot) moments {
	if s.class() == 0 {
		return s.body[:s.count()]
	}
	return sh.elsewhere(s)
}

func (sh *shard) elsewhere(s *slot) moments {
	return sh.slab.block(s.class(), s.body[0])[:s.count()]
}

func (sh *shard) newest(s *slot) uint32 {
	if s.class() == 0 {
		return s.body[s.count()-1]
	}
	m := sh.elsewhere(s)
	return m[len(m)-1]
}

// insert takes an empty slot for a key that has none. The caller must add a charge before releasing the lock.
func (sh *shard) insert(key *Key, size uint8) *slot {
	n := len(sh.slots)
	i := key.home(n)
	for sh.slots[i].meta&countMask != 0 {
		if i++; i == n {
			i = 0
		}
	}
	sh.slots[i] = slot{key: *key, meta: uint32(size) << sizeShift}
	sh.used++
	return &sh.slots[i]
}

// remove empties a slot and moves back the slots that were probed past it.
func (sh *shard) remove(s *slot) {
	if s.class() != 0 {
		sh.slab.give(s.class(), s.body[0])
	}
	if keyIsShared(&s.key) {
		sh.shared--
	}
	n := len(sh.slots)
	hole := sh.index(s)
	for i := hole; ; {
		if i++; i == n {
			i = 0
		}
		next := &sh.slots[i]
		if next.meta&countMask == 0 {
			break
		}
		// next may move to the hole unless its home lies between the two.
		if home := next.key.home(n); (i-home+n)%n >= (i-hole+n)%n {
			sh.slots[hole] = *next
			hole = i
		}
	}
	sh.slots[hole] = slot{}
	sh.used--
}

func (sh *shard) index(s *slot) int {
	i := s.key.home(len(sh.slots))
	for &sh.slots[i] != s {
		if i++; i == len(sh.slots) {
			i = 0
		}
	}
	return i
}

func (sh *shard) resize(slots int) {
	old := sh.slots
	sh.slots, sh.used = make([]slot, slots), 0
	for i := range old {
		if old[i].meta&countMask != 0 {
			*sh.insert(&old[i].key, 0) = old[i]
		}
	}
}

// pushInline adds a charge if the slot has room for it without a block.
func (sh *shard) pushInline(s *slot, at uint32) bool {
	n := s.count()
	if n >= inline || s.class() != 0 {
		return false
	}
	sh.changed = true
	s.body[n] = at
	s.set(n+1, s.pending()+1, 0)
	return true
}

// push adds a charge to a slot. A full slot first loses charges older than retain, then the oldest beyond keep:
// losing one per charge would move all the others each time. It keeps undecided charges in addition, since taking
// them back must not leave too few. If the memory bound forbids the larger block, push returns false and drops no
// charge that counts.
func (sh *shard) push(s *slot, at uint32, keep int, retain uint32, reserve func(int64) bool) bool {
	if sh.pushInline(s, at) {
		return true
	}
	sh.changed = true
	m := sh.moments(s)
	if len(m) >= min(capacity(s.class()), countMask) {
		drop := len(m) - m.within(at, retain)
		drop = max(drop, len(m)-keep-s.pending(), len(m)+1-countMask)
		copy(m, m[drop:])
		m = m[:len(m)-drop]
		s.set(len(m), s.pending(), s.class())
		if len(m) < inline {
			sh.shrink(s, m)
			m = s.body[:len(m)]
		}
	}
	if len(m) == capacity(s.class()) && !sh.enlarge(s, m, reserve) {
		return false
	}
	s.set(len(m)+1, s.pending()+1, s.class())
	m = sh.moments(s)
	m[len(m)-1] = at
	return true
}

func (sh *shard) enlarge(s *slot, m moments, reserve func(int64) bool) bool {
	class := s.class() + 1
	number, ok := sh.slab.take(class, reserve)
	if !ok {
		return false
	}
	copy(sh.slab.block(class, number), m)
	sh.slab.give(s.class(), s.body[0])
	s.body[0] = number
	s.set(len(m), s.pending(), class)
	return true
}

func (sh *shard) shrink(s *slot, m moments) {
	class, number := s.class(), s.body[0]
	if class == 0 {
		return
	}
	copy(s.body[:], m)
	s.set(len(m), s.pending(), 0)
	sh.slab.give(class, number)
}

// pull removes one charge and reports whether it was there. The mark of the backoff's reset, if it is of this charge, moves
// to the one before, if any: otherwise the backoff would ignore a new charge in the same millisecond.
func (sh *shard) pull(s *slot, at uint32) bool {
	m := sh.moments(s)
	for i := len(m) - 1; i >= 0; i-- {
		if m[i] != at {
			continue
		}
		sh.changed = true
		key := keyCleared(&s.key)
		mark := sh.find(&key)
		if mark != nil && i > 0 && mark.body[0] == at {
			mark.body[0] = m[i-1]
		}
		if len(m) > 1 {
			copy(m[i:], m[i+1:])
			s.set(len(m)-1, max(s.pending()-1, 0), s.class())
		} else {
			sh.remove(s)
		}
		if mark = sh.find(&key); mark != nil && (len(m) == 1 || i == 0 && mark.body[0] == at) {
			sh.remove(mark)
		}
		return true
	}
	return false
}
