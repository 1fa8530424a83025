package trusted

import (
	"cmp"
	"encoding/gob"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// DefaultSharers is how many accounts an address may be a place of: an office of
// thirty, with some who come and go.
const DefaultSharers = 50

// crowdsKept is how many addresses with few accounts a Crowds remembers; 10 MB.
const crowdsKept = 1 << 16

// A Sharer is one of the accounts that log in from an address: the beginning of
// its key, and when it did so last, in milliseconds.
type Sharer struct {
	Account [8]byte
	Last    int64
}

// A Crowd is what is known of one address: its newest sharers.
type Crowd struct {
	Address Key
	Sharers []Sharer
}

// Crowds counts, for each address, the accounts that have logged in from it. One
// that more than Limits.Sharers accounts use (a carrier's pool, a campus) is
// nobody's own, and no place of anybody's: whoever guesses from there would have
// the budgets of all of them. It is bounded: at the bound the address that nobody
// has logged in from for longest is forgotten, shared ones never before they
// expire, Limits.TTL after the last time that so many used them.
//
// A Crowds lives in memory: see Save and Load, and OnNew for other nodes. It is
// safe for concurrent use.
type Crowds struct {
	limits Limits
	shared atomic.Int64 // how many addresses are; read without the lock

	mu    sync.RWMutex
	few   *simplelru.LRU[Key, []Sharer] // last changed last
	many  map[Key][]Sharer
	onNew func(account, address Key, now time.Time)
	dirty bool
}

// NewCrowds makes an empty Crowds.
func NewCrowds(limits Limits) (*Crowds, error) {
	if err := limits.Validate(); err != nil {
		return nil, err
	}
	few, err := simplelru.NewLRU[Key, []Sharer](crowdsKept, nil)
	return &Crowds{limits: limits.WithDefaults(), few: few, many: map[Key][]Sharer{}}, err
}

// OnNew has f called for an account that logs in from an address for the first
// time, or for the first time in a day: other nodes want to know. It must not
// block. Call OnNew before the first Add.
func (c *Crowds) OnNew(f func(account, address Key, now time.Time)) { c.onNew = f }

// Add notes that an account has logged in from an address, and tells how many do.
// became is true for the one Add that made the address shared.
func (c *Crowds) Add(account, address Key, now time.Time) (accounts int, became bool) {
	one := Sharer{[8]byte(account[:8]), now.UnixMilli()}
	if c.knows(address, one) {
		return c.Accounts(address, now), false
	}
	accounts, became = c.add(address, now, one)
	if c.onNew != nil {
		c.onNew(account, address, now)
	}
	return accounts, became
}

// countsFor is how long an account that keeps coming is not counted again.
const countsFor = 24 * time.Hour

// knows reports whether an account need not be counted: it was within the last
// day, or the address stays shared for half of TTL whoever comes.
func (c *Crowds) knows(address Key, one Sharer) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	half := c.limits.TTL / 2
	if all, shared := c.many[address]; shared && one.Last-all[len(all)-1].Last < half.Milliseconds() {
		return true
	}
	return slices.ContainsFunc(c.of(address), func(s Sharer) bool {
		return s.Account == one.Account && one.Last-s.Last < min(countsFor, half).Milliseconds()
	})
}

// Merge takes in what another node, or another run, knows of an address.
func (c *Crowds) Merge(of Crowd, now time.Time) { c.add(of.Address, now, of.Sharers...) }

// Shared reports whether an address is nobody's own. While none is, it takes no
// lock.
func (c *Crowds) Shared(address Key, now time.Time) bool {
	return c.shared.Load() > 0 && c.Accounts(address, now) > c.limits.Sharers
}

// Accounts is how many accounts have logged in from an address; above
// Limits.Sharers nobody counts.
func (c *Crowds) Accounts(address Key, now time.Time) (n int) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, one := range c.of(address) {
		if !one.expired(now, c.limits) {
			n++
		}
	}
	return n
}

// Of is what is known of an address. It must not be changed.
func (c *Crowds) Of(address Key) Crowd {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return Crowd{address, c.of(address)}
}

func (c *Crowds) of(address Key) []Sharer {
	if all, ok := c.many[address]; ok {
		return all
	}
	all, _ := c.few.Peek(address)
	return all
}

// add puts a new list in the place of the old one, which others may be reading.
func (c *Crowds) add(address Key, now time.Time, more ...Sharer) (accounts int, became bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := slices.DeleteFunc(slices.Clone(c.of(address)), func(s Sharer) bool { return s.expired(now, c.limits) })
	for _, one := range more {
		if i := slices.IndexFunc(all, func(s Sharer) bool { return s.Account == one.Account }); i >= 0 {
			all[i].Last = max(all[i].Last, one.Last)
		} else if !one.expired(now, c.limits) {
			all = append(all, one)
		}
	}
	slices.SortStableFunc(all, func(a, b Sharer) int { return cmp.Compare(b.Last, a.Last) })
	all = all[:min(len(all), c.limits.Sharers+1)]
	before := len(c.many)
	c.put(address, all)
	c.dirty = true
	return len(all), len(c.many) > before
}

// put files an address by how many share it.
func (c *Crowds) put(address Key, all []Sharer) {
	switch {
	case len(all) > c.limits.Sharers:
		c.few.Remove(address)
		c.many[address] = all
	case len(all) > 0:
		delete(c.many, address)
		c.few.Add(address, all)
	default:
		delete(c.many, address)
		c.few.Remove(address)
	}
	c.shared.Store(int64(len(c.many)))
}

func (s Sharer) expired(now time.Time, limits Limits) bool {
	return now.UnixMilli()-s.Last >= limits.TTL.Milliseconds()
}

// Save writes everything to a file, if anything has changed since the last time.
func (c *Crowds) Save(path string) error {
	c.mu.Lock()
	var all []Crowd
	if c.dirty {
		for address, sharers := range c.many {
			all = append(all, Crowd{address, sharers})
		}
		for _, address := range c.few.Keys() { // oldest first
			sharers, _ := c.few.Peek(address)
			all = append(all, Crowd{address, sharers})
		}
	}
	c.dirty = false
	c.mu.Unlock()
	if all == nil {
		return nil
	}
	if err := save(path, all); err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.dirty = true
		return fmt.Errorf("trusted: saving shared addresses: %w", err)
	}
	return nil
}

// save replaces the file as a whole: half of one must not be read.
func save(path string, all []Crowd) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".new-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if err := errors.Join(gob.NewEncoder(f).Encode(all), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// Load takes in what Save wrote. A file that is not there is no error.
func (c *Crowds) Load(path string, now time.Time) error {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("trusted: reading shared addresses: %w", err)
	}
	defer f.Close()
	var all []Crowd
	if err := gob.NewDecoder(f).Decode(&all); err != nil {
		return fmt.Errorf("trusted: reading shared addresses from %s: %w", path, err)
	}
	for _, one := range all {
		c.Merge(one, now)
	}
	return nil
}
