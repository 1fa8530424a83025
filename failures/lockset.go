package failures

// A lockSet is what one call works on: the shards that it has locked, in
// ascending order so that two calls never wait for each other, and for every
// subject its shard and, once that was looked up, its slot.
type lockSet struct {
	locked [maxSubjects]uint8
	n      uint8
	shards [maxSubjects]*shard
	slots  [maxSubjects]*slot
}

func (l *lockSet) unlock(m *Memory) {
	for _, i := range l.locked[:l.n] {
		m.shards[i].mu.Unlock()
	}
}

func (m *Memory) lock(l *lockSet, subjects []Subject) {
	for i := range subjects {
		if i > 0 && subjects[i].Shard == subjects[i-1].Shard {
			l.shards[i] = l.shards[i-1]
			continue
		}
		number := m.shard(&subjects[i].Shard)
		l.shards[i] = &m.shards[number]
		l.add(number)
	}
	for _, i := range l.locked[:l.n] {
		m.shards[i].mu.Lock()
	}
}

// add inserts a shard where it belongs, once.
func (l *lockSet) add(shard uint8) {
	for _, locked := range l.locked[:l.n] {
		if locked == shard {
			return
		}
	}
	at := l.n
	for ; at > 0 && l.locked[at-1] > shard; at-- {
		l.locked[at] = l.locked[at-1]
	}
	l.locked[at] = shard
	l.n++
}

// refund takes a charge back from the first subjects.
func (l *lockSet) refund(subjects []Subject, at uint32) {
	for i := range subjects {
		if s := l.shards[i].lookUp(&subjects[i]); s != nil {
			l.shards[i].pull(s, at)
		}
	}
}
