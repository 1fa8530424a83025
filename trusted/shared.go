package trusted

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

const (
	// DefaultSharers is how many accounts an IP address may be a known client of: an office of
	// thirty users, with some who come and go.
	DefaultSharers = 50
	// Several accounts that use a private address make it a shared one.
	Several = 3
	// countedFor is how long an account that logs in again from an address is not counted again.
	countedFor = 24 * time.Hour
	// keptAddresses and keptLogins bound what is kept in memory; 10 MB each.
	keptAddresses = 1 << 16
	keptLogins    = 1 << 16
)

// AddressStore remembers the accounts that log in from an IP address: a Store in which the address
// has the accounts as its clients, within Limits.OfAddress.
type AddressStore interface {
	Record(ctx context.Context, address Key, now time.Time) (Record, error)
	Remember(ctx context.Context, address, account Key, now time.Time) error
}

// OfAddress are the limits of what an AddressStore remembers: one account more than make an
// address shared.
func (l Limits) OfAddress() Limits {
	return Limits{MaxClients: l.WithDefaults().Sharers + 1, TTL: l.TTL}
}

// SharedAddresses knows the IP addresses from which more than Limits.Sharers accounts have logged in
// within Limits.TTL (a carrier's NAT, a campus). They are never known clients: an attacker there
// would have the budgets of all these accounts. Known clients that an account loses do not lower the
// number. It is safe for concurrent use.
type SharedAddresses struct {
	limits Limits
	store  AddressStore

	mu      sync.RWMutex
	counted *simplelru.LRU[arrival, int64] // when, in milliseconds
	several map[Key]use                    // addresses of at least Several accounts
}

// An arrival is a login of an account from an address.
type arrival struct{ account, address Key }

// A use is since when an address was used by Several accounts, and by enough to be shared, in
// milliseconds; 0: by fewer.
type use struct{ several, shared int64 }

// NewSharedAddresses returns those of a store; nil: in memory, of at most 65,536 addresses beside
// those with several accounts.
func NewSharedAddresses(limits Limits, store AddressStore) (*SharedAddresses, error) {
	if err := limits.Validate(); err != nil {
		return nil, err
	}
	limits = limits.WithDefaults()
	if store == nil {
		memory, err := NewMemory(MemoryConfig{Limits: limits.OfAddress(), Accounts: keptAddresses})
		if err != nil {
			return nil, err
		}
		store = memory
	}
	counted, err := simplelru.NewLRU[arrival, int64](keptLogins, nil)
	return &SharedAddresses{limits: limits, store: store, counted: counted, several: map[Key]use{}}, err
}

// Add notes that an account has logged in from an address. accounts is how many do if this login
// made the address a shared one; otherwise 0.
func (s *SharedAddresses) Add(ctx context.Context, account, address Key, now time.Time) (accounts int, err error) {
	login, at := arrival{account, address}, now.UnixMilli()
	s.mu.Lock()
	last, ok := s.counted.Get(login)
	s.mu.Unlock()
	if ok && at-last < min(countedFor, s.limits.TTL/2).Milliseconds() {
		return 0, nil
	}
	if err = s.store.Remember(ctx, address, account, now); err != nil && !errors.Is(err, ErrFull) {
		return 0, err
	}
	record, err := s.store.Record(ctx, address, now)
	if err != nil {
		return 0, err
	}
	s.mu.Lock()
	s.counted.Add(login, at)
	s.mu.Unlock()
	if shared := s.Shared(address, now); s.Learn(address, &record) && !shared {
		accounts = len(record.Entries)
	}
	return accounts, nil
}

// Learn takes in what the store has of an address, from this process or another. It reports whether
// the address is a shared one.
func (s *SharedAddresses) Learn(address Key, record *Record) bool {
	times := make([]int64, len(record.Entries))
	for i := range record.Entries {
		times[i] = -record.Entries[i].Last
	}
	slices.Sort(times) // the last login first
	var one use
	if len(times) >= Several {
		one.several = -times[Several-1]
	}
	if len(times) > s.limits.Sharers {
		one.shared = -times[s.limits.Sharers]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.several[address] = one; one.several == 0 {
		delete(s.several, address)
	}
	return one.shared != 0
}

// Shared reports whether an address is a shared one.
func (s *SharedAddresses) Shared(address Key, now time.Time) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.lasts(s.several[address].shared, now)
}

// Several reports whether at least Several accounts have logged in from an address.
func (s *SharedAddresses) Several(address Key, now time.Time) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.lasts(s.several[address].several, now)
}

// Used reports whether any account has logged in from an address. It asks the store.
func (s *SharedAddresses) Used(ctx context.Context, address Key, now time.Time) (bool, error) {
	record, err := s.store.Record(ctx, address, now)
	return len(record.Entries) > 0, err
}

func (s *SharedAddresses) lasts(since int64, now time.Time) bool {
	return since != 0 && now.UnixMilli()-since < s.limits.TTL.Milliseconds()
}
