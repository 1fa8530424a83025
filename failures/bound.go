package failures

// What happens at the memory bound (R6; Argo CD CVE-2024-21662 dropped the
// oldest counters there, so that a flood of made-up names reset everybody's).
//
// No key that still counts is ever dropped. New keys are folded into a few
// shared ones, whose count is at least that of each of them. When there is
// room again, a key that gets a slot of its own starts with a copy of what it
// shared, so it is never forgotten on the way back either.

// keyShared is the key that a key shares at the bound. Ladders of another size
// share other keys, so that a flood of names does not fill the addresses' counts.
// The size is kept with each key, since a snapshot knows no ladders.
func keyShared(key *Key, size uint8) (k Key) {
	copy(k[:8], sharedMark[:])
	k[8], k[9] = key[0]%sharedSlots, size
	return k
}

// Sizes of ladders: 1 + the class of the block for as many charges as the ladder
// keeps, or one of these.
const (
	sizeUnknown uint8 = 0  // of a snapshot that does not say it
	sizeMark    uint8 = 15 // see keyCleared
)

func sizeOf(keep int) uint8 { return 1 + uint8(classFor(keep)) }

// kept is how many charges are enough for every ladder of a size, and as many to
// spare for those that may yet be taken back.
func kept(size uint8) int {
	return min(2*capacity(uint32(size-1)), countMask)
}

// admit makes a slot for a subject that has none of its own: one with a copy
// of what it shared, or the shared one if the bound leaves no room.
func (m *Memory) admit(sh *shard, s *Subject, shared *slot, at uint32) *slot {
	if shared != nil {
		return m.unshare(sh, s, shared, at)
	}
	if m.room(sh, at) {
		return sh.insert(&s.Key, s.Limits.size)
	}
	return sh.share(s)
}

// share is the slot that a subject shares from now on; nil if there is none.
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

// unshare gives a subject a slot of its own with a copy of what it shared.
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

// drop empties a slot that may have no moments yet.
func (sh *shard) drop(s *slot) {
	if s.count() == 0 {
		s.set(1, 0, s.class()) // remove moves full slots only
	}
	sh.remove(s)
}

// room sees to it that a shard can take one more key of its own, if the bound
// allows.
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

// grow makes a shard's table larger. The last eighth of the bound is left for
// keys that are there already and need room for more moments.
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
