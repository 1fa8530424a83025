package trusted

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// DefaultAccounts is the default of MemoryConfig.Accounts.
const DefaultAccounts = 100_000

// A MemoryConfig configures a Memory. The zero MemoryConfig is the default.
type MemoryConfig struct {
	Limits Limits
	// Accounts is the maximum number of accounts; default DefaultAccounts. The account that was unchanged for longest is
	// evicted first; then all its clients are unknown.
	Accounts int
}

// Memory is a Store whose data is lost at a restart: for tests, and for programs that can afford it. It is safe for
// concurrent use and need not be closed.
type Memory struct {
	limits Limits

	mu       sync.RWMutex
	accounts *simplelru.LRU[Key, Record] // last changed last
	floor    int64                       // the latest reset of the evicted records
}

var _ Store = (*Memory)(nil)

// NewMemory makes an empty Memory.
func NewMemory(config MemoryConfig) (*Memory, error) {
	problems := []error{config.Limits.Validate()}
	if config.Accounts < 0 {
		problems = append(problems, errors.New("accounts: must be at least 1"))
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	m := &Memory{limits: config.Limits.WithDefaults()}
	var err error
	m.accounts, err = simplelru.NewLRU(cmp.Or(config.Accounts, DefaultAccounts), func(_ Key, dropped Record) {
		m.floor = max(m.floor, dropped.Floor())
	})
	return m, err
}

// Record implements Store. It never fails, and allocates only if a client has expired. For an evicted account, Reset
// is the last reset of all evicted ones: never too early for its device cookies.
func (m *Memory) Record(_ context.Context, account Key, now time.Time) (Record, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if of, ok := m.accounts.Peek(account); ok {
		return of.Live(now, m.limits), nil
	}
	return Record{Reset: m.floor}, nil
}

// Remember implements Store.
func (m *Memory) Remember(_ context.Context, account, place Key, now time.Time) error {
	if place == (Key{}) {
		return ErrNoKey
	}
	return m.change(account, func(r *Record) error { return r.Remember(place, now, m.limits) })
}

// Spend implements Store.
func (m *Memory) Spend(_ context.Context, account, place Key, now time.Time) error {
	if place == (Key{}) {
		return ErrNoKey
	}
	return m.change(account, func(r *Record) error { r.Spend(place, now, m.limits); return nil })
}

// Forget implements Store.
func (m *Memory) Forget(_ context.Context, account, place Key, now time.Time) error {
	return m.change(account, func(r *Record) error { r.Forget(place, now); return nil })
}

// change applies a change to an account's record, which becomes the newest.
func (m *Memory) change(account Key, apply func(*Record) error) error {
	if account == (Key{}) {
		return ErrNoKey
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	of, ok := m.accounts.Peek(account)
	if !ok {
		of.Reset = m.floor
	}
	of = of.Clone() // other goroutines may be reading it
	err := apply(&of)
	m.accounts.Add(account, of)
	return err
}
