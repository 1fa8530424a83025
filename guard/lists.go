package guard

import (
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/gaissmai/bart"
)

// A Listing is one entry of the allowlist or the blocklist.
type Listing struct {
	Prefix  netip.Prefix
	Verdict Verdict
	Until   time.Time // zero: no expiry
}

// Lists are the allowlist, the blocklist and the ranges of the IP lists, in memory; empty if zero. Safe for concurrent
// use; a look-up takes no lock. The most specific valid entry decides; of two equally specific ones, the block.
type Lists struct {
	table atomic.Pointer[bart.Table[[]Listing]]
	named atomic.Pointer[map[string]*Ranges]
}

// Set replaces all entries. It skips invalid prefixes.
func (l *Lists) Set(entries []Listing) {
	table := new(bart.Table[[]Listing])
	for _, e := range entries {
		if !e.Prefix.IsValid() {
			continue
		}
		prefix := unmapPrefix(e.Prefix).Masked()
		already, _ := table.Get(prefix)
		table.Insert(prefix, append(already, e))
	}
	l.table.Store(table)
}

// SetNamed replaces the ranges of all IP lists; the map must not change afterwards. A list that is not set is empty.
func (l *Lists) SetNamed(all map[string]*Ranges) { l.named.Store(&all) }

// Look returns what the allowlist and the blocklist say about an address at a time. It does not ask the IP lists.
func (l *Lists) Look(a netip.Addr, now time.Time) Verdict {
	v, _ := l.look(a, now)
	return v
}

func (l *Lists) look(a netip.Addr, now time.Time) (Verdict, []Listing) {
	table := l.table.Load()
	if table == nil || table.Size() == 0 || !a.IsValid() {
		return NotListed, nil
	}
	a = a.Unmap().WithZone("")
	for _, entries := range table.Supernets(netip.PrefixFrom(a, a.BitLen())) {
		if v := strongest(entries, now); v != NotListed {
			return v, entries
		}
	}
	return NotListed, nil
}

// mostBlocked is the longest RetryAfter for a blocked address: an administrator may remove the block at any time.
const mostBlocked = 24 * time.Hour

// blockedFor is how long an address is still blocked, at most mostBlocked.
func (l *Lists) blockedFor(a netip.Addr, now time.Time) (left time.Duration) {
	_, entries := l.look(a, now)
	for _, e := range entries {
		switch {
		case e.Verdict != Blocked:
		case e.Until.IsZero():
			return mostBlocked
		default:
			left = max(left, e.Until.Sub(now))
		}
	}
	return min(left, mostBlocked)
}

func strongest(entries []Listing, now time.Time) Verdict {
	v := NotListed
	for _, e := range entries {
		if e.Until.IsZero() || now.Before(e.Until) {
			v = max(v, e.Verdict)
		}
	}
	return v
}

// Ranges are an immutable set of address ranges. The nil Ranges are empty.
type Ranges struct {
	table bart.Lite
	size  int
}

// NewRanges returns the set of the valid ranges. Host bits are ignored; IPv4-mapped ranges are the IPv4 ranges.
func NewRanges(all []netip.Prefix) *Ranges {
	r := new(Ranges)
	for _, p := range all {
		if p.IsValid() {
			r.table.Insert(unmapPrefix(p).Masked())
		}
	}
	r.size = r.table.Size()
	return r
}

// Len returns the number of different ranges.
func (r *Ranges) Len() int {
	if r == nil {
		return 0
	}
	return r.size
}

// Has reports whether an address is in one of the ranges.
func (r *Ranges) Has(a netip.Addr) bool {
	return r != nil && r.size > 0 && a.IsValid() && r.table.Contains(a.Unmap().WithZone(""))
}

// Named returns the ranges of an IP list; nil if they are not set.
func (l *Lists) Named(name string) *Ranges {
	if all := l.named.Load(); all != nil {
		return (*all)[name]
	}
	return nil
}

func unmapPrefix(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p
}
