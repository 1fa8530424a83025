package guard

import (
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/gaissmai/bart"
)

// A Verdict is what an administrator said of an address.
type Verdict uint8

const (
	// NotListed: nothing was said.
	NotListed Verdict = iota
	// Allowed: the limits of address and network and CAPTCHA mode do not
	// apply. The limits of account and pair do: nobody is allowed to guess.
	Allowed
	// Blocked: every attempt is refused, from privileged places too.
	Blocked
)

// A Listing is one entry of the allow and block lists.
type Listing struct {
	Prefix  netip.Prefix
	Verdict Verdict
	Until   time.Time // zero: for good
}

// Lists are the allow and block lists in memory. The zero Lists are empty.
// Safe for concurrent use; a look-up takes no lock. The most specific entry
// that has not run out decides; of two alike the block.
type Lists struct {
	table atomic.Pointer[bart.Table[[]Listing]]
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

// Look tells what the lists say of an address at a time.
func (l *Lists) Look(a netip.Addr, now time.Time) Verdict {
	table := l.table.Load()
	if table == nil {
		return NotListed
	}
	return lookUp(table, a, now)
}

func lookUp(table *bart.Table[[]Listing], a netip.Addr, now time.Time) Verdict {
	if table.Size() == 0 || !a.IsValid() {
		return NotListed
	}
	a = a.Unmap().WithZone("")
	for bits := a.BitLen(); bits >= 0; bits-- {
		prefix, entries, ok := table.LookupPrefixLPM(netip.PrefixFrom(a, bits).Masked())
		if !ok {
			return NotListed
		}
		if v := strongest(entries, now); v != NotListed {
			return v
		}
		bits = prefix.Bits()
	}
	return NotListed
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

func unmapPrefix(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p
}
