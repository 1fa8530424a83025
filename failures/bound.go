package failures

// The memory bound (R6). No key that still counts is ever dropped. In Argo CD (CVE-2024-21662), a flood of made-up
// names evicted all counters.
//
// At the bound, new keys share a few counters, whose count is never lower than that of each key. When there is room
// again, a key gets its own slot with a copy of the shared charges.

// keyShared returns the shared key for a key. Limits of another size use other shared keys, so that a flood of names
// does not fill the counters of IP addresses. Each slot stores the size, because a snapshot does not contain the
// limits.
func keyShared(key *Key, size uint8) (k Key) {
	copy(k[:8], sharedMark[:])
	k[8], k[9] = key[0]%sharedSlots, size
	return k
}

// The size of limits is 1 + the class of the block for Limits.keep charges, or one of these.
const (
	sizeUnknown uint8 = 0  // from a snapshot without sizes
	sizeMark    uint8 = 15 // see keyCleared
)

func sizeOf(keep int) uint8 { return 1 + uint8(classFor(keep)) }

// kept returns how many charges are enough for all limits of a size, with a reserve for charges that may be taken
// back.
func kept(size uint8) int {
	return min(2*capacity(uint32(size-1)), countMask)
}

// admit returns a new slot with a copy of the shared charges, or the shared slot if the bound leaves no room.
func (m *Memory) admit(sh *shard, s *Subject, shared *slot, at uint32) *slot {
	if shared != nil {
		return m.unshare(sh, s, shared, at)
	}
	if m.room(sh, at) {
		return sh.insert(&s.Key, s.Limits.size)
	}
	return sh.share(s)
}

func (sh *shard) share(s *Subject) *slot {
	key := keyShared(&s.Key, s.Limits.size)
	if found := sh.find(&key); found != nil {
		return found
	}
	if sh.used >= len(sh.slots)-1 {
		return nil
	}
	sh.shared++
	return sh.insert(&key, s.Limits.size)
}

// unshare gives a subject its own slot with a copy of the shared charges.
func (m *Memory) unshare(sh *shard, s *Subject, shared *slot, at uint32) *slot {
	before := append(moments(nil), sh.moments(shared)...)
	if !m.room(sh, at) {
		return sh.share(s)
	}
	own := sh.insert(&s.Key, s.Limits.size)
	for _, then := range before {
		if !sh.push(own, then, s.Limits.keep, m.retain.Load(), m.reserve) {
			sh.drop(own)
			return sh.share(s)
		}
	}
	for _, then := range before {
		m.note(rowCharged, m.shard(&s.Shard), own.size(), &own.key, then)
	}
	own.set(own.count(), 0, own.class())
	return own
}

func (sh *shard) drop(s *slot) {
	if s.count() == 0 {
		s.set(1, 0, s.class()) // remove expects a charge
	}
	sh.remove(s)
}

// room reports whether a shard has room for one more key, after growing or sweeping it if necessary.
func (m *Memory) room(sh *shard, now uint32) bool {
	if sh.used*100 < len(sh.slots)*fullPercent {
		return true
	}
	if m.grow(sh) {
		return true
	}
	if now-sh.swept < sweepAgainAfter {
		return false
	}
	sh.swept = now
	m.sweep(sh, now)
	return sh.used*100 < len(sh.slots)*fullPercent
}

// grow enlarges a shard's table. The last eighth of the bound is reserved for existing keys that need larger blocks.
func (m *Memory) grow(sh *shard) bool {
	slots := max(firstSlots, sh.used*100/nextPercent)
	more := int64(slots-len(sh.slots)) * slotBytes
	if m.bytes.Add(more) > m.max-m.max/8 {
		m.bytes.Add(-more)
		return false
	}
	sh.resize(slots)
	return true
}
