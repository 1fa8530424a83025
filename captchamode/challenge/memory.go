package challenge

import (
	"context"
	"crypto/rand"
	"errors"
	"hash/maphash"
	"sync"
	"time"
)

// DefaultSpentCap is how many spent challenges a [MemorySpent] holds unless
// told. That many in five minutes is 14,000 tries a second.
const DefaultSpentCap = 1 << 22

// ErrSpentFull says that a MemorySpent holds all it may.
var ErrSpentFull = errors.New("challenge: too many challenges were spent at once")

var (
	_ Spent     = (*MemorySpent)(nil)
	_ Forgetful = (*MemorySpent)(nil)
)

// MemorySpent is a [Spent] for one process. At its bound it answers with
// [ErrSpentFull], so that no challenge is solved until room is free: stricter,
// never forgetful (R6). It has no goroutine: each call clears away what has
// expired. Memory is in docs/challenges.md.
type MemorySpent struct {
	now    func() time.Time
	epoch  [16]byte
	hash   maphash.Seed
	shards []spentShard
}

// NewMemorySpent returns an empty store of at most limit challenges, to the
// shard; zero or less is [DefaultSpentCap]. now is the clock, nil time.Now.
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

// Epoch tells this store from every other.
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

// find keeps eight bytes of each ID. Two of a full store meet once in 2^42
// tries, and then one of them has to be solved again.
func (m *MemorySpent) find(id [16]byte) (*spentShard, uint64) {
	digest := maphash.Comparable(m.hash, id)
	return &m.shards[digest>>32%uint64(len(m.shards))], digest
}

// A spentShard keeps the IDs by the minute in which they expire, so that what
// is over goes as a whole.
type spentShard struct {
	mu      sync.Mutex
	minutes map[int64]map[uint64]struct{}
	count   int
	limit   int
	swept   int64 // the minute of the last clearing
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
