package guard

import (
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/gaissmai/bart"
)

// A Listing is one entry of the allow and block lists.
type Listing struct {
	Prefix  netip.Prefix
	Verdict Verdict
	Until   time.Time // zero: for good
}

// Lists are the allow and block lists in memory, and what is on the named lists. The
// zero Lists are empty. Safe for concurrent use; a look-up takes no lock. The most
// specific entry that has not run out decides; of two that are equally specific, the
// block. The named lists are for the guard to ask, whose policy says what they mean.
type Lists struct {
	table atomic.Pointer[bart.Table[[]Listing]]
	named atomic.Pointer[map[string]*Ranges]
}

// Set replaces all entries.
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

// SetNamed replaces what is on the named lists, of all policies; the map must not be
// changed any more. A list that a policy names and nobody has set is empty.
func (l *Lists) SetNamed(all map[string]*Ranges) { l.named.Store(&all) }

// Look tells what the lists say of an address at a time.
func (l *Lists) Look(a netip.Addr, now time.Time) Verdict {
	v, _ := l.look(a, now)
	return v
}

// look is Look, and the entries that say so.
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

// mostBlocked is how long whoever is blocked is told to wait at most: a block may be
// lifted at any time.
const mostBlocked = 24 * time.Hour

// blockedFor is how long a blocked address stays so, at most mostBlocked.
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

// Ranges are a set of address ranges that does not change. The nil Ranges are empty.
type Ranges struct {
	table bart.Lite
	size  int
}

// NewRanges makes a set of valid ranges; host bits do not count, and IPv4-mapped
// ranges are the IPv4 ranges.
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

// Len is how many ranges there are, each counted once.
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

// Named is what is on a named list.
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
