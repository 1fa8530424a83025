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
	// DefaultSharers is for a company's network (docs/decisions/0021).
	DefaultSharers = 200
	// Several accounts make a private IP address a shared one.
	Several = 3
	// countedFor is how long another login of an account from an IP address is not counted again.
	countedFor = 24 * time.Hour
	// keptAddresses and keptLogins bound the memory use; 10 MB each.
	keptAddresses = 1 << 16
	keptLogins    = 1 << 16
)

// AddressStore stores the accounts that sign in from an IP address: a Store in which an address has accounts as its
// clients, within Limits.OfAddress.
type AddressStore interface {
	Record(ctx context.Context, address Key, now time.Time) (Record, error)
	Remember(ctx context.Context, address, account Key, now time.Time) error
}

// OfAddress returns the limits for an AddressStore: one account more than Sharers.
func (l Limits) OfAddress() Limits {
	return Limits{MaxClients: l.WithDefaults().Sharers + 1, TTL: l.TTL}
}

// SharedAddresses contains the IP addresses from which more than Limits.Sharers accounts signed in within Limits.TTL
// (a carrier's NAT, a campus). They are never known clients: an attacker there would have the budgets of all these
// accounts. Removing an account's known clients does not lower the count. Safe for concurrent use.
type SharedAddresses struct {
	limits Limits
	store  AddressStore

	mu      sync.RWMutex
	counted *simplelru.LRU[arrival, int64] // in Unix milliseconds
	several map[Key]use                    // addresses with at least Several accounts
}

// An arrival is a login of an account from an IP address.
type arrival struct{ account, address Key }

// A use contains the login times of an IP address's third and (Sharers+1)-th most recent accounts, in Unix
// milliseconds; 0: fewer accounts.
type use struct{ several, shared int64 }

// NewSharedAddresses uses the store; nil means memory, for at most 65,536 addresses besides those with Several
// accounts.
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

// Add records an account's login from an IP address. If this login makes the address a shared one, accounts is their
// number; otherwise 0.
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

// Learn processes the record of an IP address, from this process or another. It reports whether the address is
// shared.
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

// Shared reports whether an IP address is shared.
func (s *SharedAddresses) Shared(address Key, now time.Time) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.lasts(s.several[address].shared, now)
}

// Several reports whether at least Several accounts have signed in from an IP address.
func (s *SharedAddresses) Several(address Key, now time.Time) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.lasts(s.several[address].several, now)
}

// Used reports whether any account has signed in from an IP address. It queries the store.
func (s *SharedAddresses) Used(ctx context.Context, address Key, now time.Time) (bool, error) {
	record, err := s.store.Record(ctx, address, now)
	return len(record.Entries) > 0, err
}

func (s *SharedAddresses) lasts(since int64, now time.Time) bool {
	return since != 0 && now.UnixMilli()-since < s.limits.TTL.Milliseconds()
}
