package trusted

import (
	"container/list"
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// DefaultAccounts is how many accounts a Memory remembers.
const DefaultAccounts = 100_000

const shards = 64

// A MemoryConfig configures a Memory. The zero MemoryConfig is the default.
type MemoryConfig struct {
	Limits Limits
	// Accounts is how many are remembered, about; default DefaultAccounts. The
	// one unchanged for longest goes first, and is a stranger everywhere then.
	Accounts int
}

// Memory is a Store that forgets everything when the program ends: for tests
// and for programs that can afford it. It is safe for concurrent use and needs
// no closing.
type Memory struct {
	limits Limits
	shards [shards]memoryShard
}

var _ Store = (*Memory)(nil)

// NewMemory makes an empty Memory.
func NewMemory(config MemoryConfig) (*Memory, error) {
	if config.Accounts == 0 {
		config.Accounts = DefaultAccounts
	}
	problems := []error{config.Limits.Validate()}
	if config.Accounts < 0 {
		problems = append(problems, errors.New("accounts: must be at least 1"))
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	m := &Memory{limits: config.Limits.WithDefaults()}
	for i := range m.shards {
		m.shards[i].room = (config.Accounts + shards - 1) / shards
	}
	return m, nil
}

// Status implements Store. It does not allocate, takes no lock and never fails.
func (m *Memory) Status(_ context.Context, account, place Key, now time.Time) (Status, error) {
	if of := m.shard(account).find(account); of != nil {
		return of.record.Load().Status(place, now, m.limits), nil
	}
	return Stranger, nil
}

// Remember implements Store.
func (m *Memory) Remember(_ context.Context, account, place Key, now time.Time) error {
	if place == (Key{}) {
		return ErrNoKey
	}
	return m.change(account, func(r *Record) { r.Remember(place, now, m.limits) })
}

// Spend implements Store.
func (m *Memory) Spend(_ context.Context, account, place Key, now time.Time) error {
	if place == (Key{}) {
		return ErrNoKey
	}
	return m.change(account, func(r *Record) { r.Spend(place, now, m.limits) })
}

// Forget implements Store.
func (m *Memory) Forget(_ context.Context, account, place Key, now time.Time) error {
	return m.change(account, func(r *Record) { r.Forget(place, now) })
}

// ResetAt implements Store. Of an account that was dropped to make room it is
// the last reset of any that was: too late for its own cookies, never too early.
func (m *Memory) ResetAt(_ context.Context, account Key) (time.Time, error) {
	shard := m.shard(account)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if of := shard.find(account); of != nil {
		return resetTime(of.record.Load().Reset), nil
	}
	return resetTime(shard.floor), nil
}

func (m *Memory) change(account Key, apply func(*Record)) error {
	if account == (Key{}) {
		return ErrNoKey
	}
	shard := m.shard(account)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	of := shard.of(account)
	changed := of.record.Load().Clone()
	apply(&changed)
	of.record.Store(&changed)
	return nil
}

// shard spreads by two bytes of a digest, which are as good as random.
func (m *Memory) shard(account Key) *memoryShard {
	return &m.shards[(account[0]^account[15])%shards]
}

// A memoryShard is read without its lock: what was stored is never changed, but
// replaced. Its accounts are in many small maps, so that little is replaced.
type memoryShard struct {
	index [buckets]atomic.Pointer[map[Key]*memoryRecord]

	mu    sync.Mutex
	order list.List // of *memoryRecord, last changed first
	size  int       // accounts
	room  int
	floor int64 // the latest reset of the records that were dropped
}

const buckets = 64

func (s *memoryShard) bucket(account Key) *atomic.Pointer[map[Key]*memoryRecord] {
	return &s.index[account[1]%buckets]
}

func (s *memoryShard) find(account Key) *memoryRecord {
	if bucket := s.bucket(account).Load(); bucket != nil {
		return (*bucket)[account]
	}
	return nil
}

// put replaces an account's bucket by one with this record for it; nil: none.
func (s *memoryShard) put(account Key, of *memoryRecord) {
	changed := make(map[Key]*memoryRecord)
	if bucket := s.bucket(account).Load(); bucket != nil {
		maps.Copy(changed, *bucket)
	}
	if of == nil {
		delete(changed, account)
	} else {
		changed[account] = of
	}
	s.bucket(account).Store(&changed)
}

type memoryRecord struct {
	account Key
	record  atomic.Pointer[Record]
	element *list.Element
}

// of finds or makes what is kept of an account and moves it to the front.
func (s *memoryShard) of(account Key) *memoryRecord {
	if of := s.find(account); of != nil {
		s.order.MoveToFront(of.element)
		return of
	}
	of := &memoryRecord{account: account}
	of.record.Store(&Record{Reset: s.floor})
	of.element = s.order.PushFront(of)
	s.put(account, of)
	s.size++
	s.makeRoom()
	return of
}

func (s *memoryShard) makeRoom() {
	for s.size > s.room {
		last := s.order.Remove(s.order.Back()).(*memoryRecord)
		s.floor = max(s.floor, last.record.Load().Floor())
		s.put(last.account, nil)
		s.size--
	}
}

func resetTime(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}
