package challenge

import (
	"context"
	"crypto/rand"
	"errors"
	"hash/maphash"
	"sync"
	"time"
)

// DefaultSpentCap is how many spent challenges a [MemorySpent] holds by default.
// That many in five minutes is 14,000 tries a second.
const DefaultSpentCap = 1 << 22

// ErrSpentFull means that a MemorySpent holds as many as it may.
var ErrSpentFull = errors.New("challenge: too many challenges were spent at once")

var _ Spent = (*MemorySpent)(nil)

// MemorySpent is a [Spent] for one process. At its bound it returns
// [ErrSpentFull], so no challenge is solved until there is room: stricter, never
// forgetful (R6). It has no goroutine: each call clears away what has expired.
// docs/challenges.md says how much memory it takes.
type MemorySpent struct {
	now    func() time.Time
	epoch  [16]byte
	hash   maphash.Seed
	shards []spentShard
}

// NewMemorySpent returns an empty store of about limit challenges, split evenly
// between shards; zero or less is [DefaultSpentCap]. now is the clock; nil is
// time.Now.
func NewMemorySpent(limit int, now func() time.Time) *MemorySpent {
	if limit <= 0 {
		limit = DefaultSpentCap
	}
	if now == nil {
		now = time.Now
	}
	shards := max(1, min(64, limit/1024))
	m := &MemorySpent{now: now, hash: maphash.MakeSeed(), shards: make([]spentShard, shards)}
	rand.Read(m.epoch[:])
	for i := range m.shards {
		m.shards[i].limit = limit / shards
	}
	return m
}

// Epoch implements [Spent]: this store forgets.
func (m *MemorySpent) Epoch() [16]byte { return m.epoch }

// Spend implements [Spent].
func (m *MemorySpent) Spend(_ context.Context, id [16]byte, until time.Time) (bool, error) {
	shard, digest := m.find(id)
	return shard.spend(digest, until, m.now())
}

// Seen implements [Spent].
func (m *MemorySpent) Seen(_ context.Context, id [16]byte, until time.Time) (bool, error) {
	shard, digest := m.find(id)
	return shard.seen(digest, until), nil
}

// find reduces an ID to eight bytes. In a full store a new ID collides with one
// of the others once in 2^42 tries, and is then refused.
func (m *MemorySpent) find(id [16]byte) (*spentShard, uint64) {
	digest := maphash.Comparable(m.hash, id)
	return &m.shards[digest>>32%uint64(len(m.shards))], digest
}

// A spentShard keeps IDs by the minute in which they expire, and drops whole
// minutes.
type spentShard struct {
	mu      sync.Mutex
	minutes map[int64]map[uint64]struct{}
	count   int
	limit   int
	swept   int64 // the minute of the last sweep
}

func (s *spentShard) spend(digest uint64, until, now time.Time) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep(minute(now))
	if !now.Before(until) {
		return false, nil
	}
	ids := s.minutes[minute(until)]
	if _, spent := ids[digest]; spent {
		return false, nil
	}
	if s.count >= s.limit {
		return false, ErrSpentFull
	}
	s.add(digest, minute(until))
	return true, nil
}

func (s *spentShard) seen(digest uint64, until time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, spent := s.minutes[minute(until)][digest]
	return spent
}

func (s *spentShard) add(digest uint64, minute int64) {
	if s.minutes == nil {
		s.minutes = map[int64]map[uint64]struct{}{}
	}
	if s.minutes[minute] == nil {
		s.minutes[minute] = map[uint64]struct{}{}
	}
	s.minutes[minute][digest] = struct{}{}
	s.count++
}

// sweep drops the minutes that are over.
func (s *spentShard) sweep(now int64) {
	if now == s.swept {
		return
	}
	s.swept = now
	for minute, ids := range s.minutes {
		if minute < now {
			s.count -= len(ids)
			delete(s.minutes, minute)
		}
	}
}

func minute(t time.Time) int64 { return t.Unix() / 60 }
