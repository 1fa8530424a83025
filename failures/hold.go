package failures

// A hold is what one call works on: the shards that it has locked, in ascending
// order so that two calls never wait for each other, and for every subject its
// shard and, once that was looked up, its slot.
type hold struct {
	locked [maxSubjects]uint8
	n      uint8
	shards [maxSubjects]*shard
	slots  [maxSubjects]*slot
}

func (h *hold) unlock(m *Memory) {
	for _, i := range h.locked[:h.n] {
		m.shards[i].mu.Unlock()
	}
}

func (m *Memory) lock(h *hold, subjects []Subject) {
	for i := range subjects {
		if i > 0 && subjects[i].Shard == subjects[i-1].Shard {
			h.shards[i] = h.shards[i-1]
			continue
		}
		number := m.shard(&subjects[i].Shard)
		h.shards[i] = &m.shards[number]
		h.add(number)
	}
	for _, i := range h.locked[:h.n] {
		m.shards[i].mu.Lock()
	}
}

// add inserts a shard where it belongs, once.
func (h *hold) add(shard uint8) {
	for _, locked := range h.locked[:h.n] {
		if locked == shard {
			return
		}
	}
	at := h.n
	for ; at > 0 && h.locked[at-1] > shard; at-- {
		h.locked[at] = h.locked[at-1]
	}
	h.locked[at] = shard
	h.n++
}

// refund takes a charge back from the first subjects.
func (h *hold) refund(subjects []Subject, at uint32) {
	for i := range subjects {
		if s := h.shards[i].lookUp(&subjects[i]); s != nil {
			h.shards[i].pull(s, at)
		}
	}
}
