package challenge

import (
	"context"
	"crypto/rand"
	"errors"
	"hash/maphash"
	"sync"
	"time"
)

// DefaultSpentCap is the default bound of a [MemorySpent]. Filling it within five minutes takes 14,000 attempts a
// second.
const DefaultSpentCap = 1 << 22

// ErrSpentFull means that a MemorySpent has reached its bound.
var ErrSpentFull = errors.New("challenge: too many challenges were spent at once")

var _ Spent = (*MemorySpent)(nil)

// MemorySpent is a [Spent] for one process. At its bound it returns [ErrSpentFull], so no challenge can be solved
// until there is room; it never forgets one (R6). It has no goroutine: calls remove expired challenges.
type MemorySpent struct {
	now   func() time.Time
	epoch [16]byte
	hash  maphash.Seed
	limit int

	mu      sync.Mutex
	minutes map[int64]map[uint64]struct{} // by the minute in which they expire
	count   int
}

// NewMemorySpent returns an empty store for limit challenges; zero or less means [DefaultSpentCap]. A nil now is
// time.Now.
func NewMemorySpent(limit int, now func() time.Time) *MemorySpent {
	if limit <= 0 {
		limit = DefaultSpentCap
	}
	if now == nil {
		now = time.Now
	}
	m := &MemorySpent{now: now, hash: maphash.MakeSeed(), limit: limit, minutes: map[int64]map[uint64]struct{}{}}
	rand.Read(m.epoch[:])
	return m
}

// Epoch implements [Spent]. It is random, because the store does not survive a restart.
func (m *MemorySpent) Epoch() [16]byte { return m.epoch }

// Full implements [Spent].
func (m *MemorySpent) Full() float64 {
	now := m.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sweep(minute(now))
	return float64(m.count) / float64(m.limit)
}

// Spend implements [Spent].
func (m *MemorySpent) Spend(_ context.Context, id [16]byte, until time.Time) (bool, error) {
	digest, now := m.digest(id), m.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sweep(minute(now))
	if !now.Before(until) || m.has(digest) {
		return false, nil
	}
	if m.count >= m.limit {
		return false, ErrSpentFull
	}
	ids := m.minutes[minute(until)]
	if ids == nil {
		ids = map[uint64]struct{}{}
		m.minutes[minute(until)] = ids
	}
	ids[digest] = struct{}{}
	m.count++
	return true, nil
}

// Seen implements [Spent].
func (m *MemorySpent) Seen(_ context.Context, id [16]byte, until time.Time) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.has(m.digest(id)), nil
}

// Take implements [Spent].
func (m *MemorySpent) Take(_ context.Context, id [16]byte) (bool, error) {
	digest, now := m.digest(id), m.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sweep(minute(now))
	for _, ids := range m.minutes {
		if _, there := ids[digest]; there {
			delete(ids, digest)
			m.count--
			return true, nil
		}
	}
	return false, nil
}

// has checks all minutes: 60 for challenges that live an hour.
func (m *MemorySpent) has(digest uint64) bool {
	for _, ids := range m.minutes {
		if _, spent := ids[digest]; spent {
			return true
		}
	}
	return false
}

// digest reduces an ID to eight bytes. In a full store, a new ID collides once in 2^42 attempts, and then counts as
// spent.
func (m *MemorySpent) digest(id [16]byte) uint64 { return maphash.Comparable(m.hash, id) }

func (m *MemorySpent) sweep(now int64) {
	for minute, ids := range m.minutes {
		if minute < now {
			m.count -= len(ids)
			delete(m.minutes, minute)
		}
	}
}

func minute(t time.Time) int64 { return t.Unix() / 60 }
