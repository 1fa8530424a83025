// Package edge says in the words of firewalls and proxies which addresses are
// blocked or allowed, so that an edge can stop or pass them before they cost
// anything.
//
// [Cover] turns the allow and block lists into ranges that do not overlap: most
// tools have no "most specific entry decides". A [Format] writes them. Nothing that
// a person typed is in what is written but addresses: a note is no part of it (R23).
package edge

import (
	"net/netip"
	"slices"
	"sort"
	"time"

	"authguard/guard"
)

// A Range is addresses that are all blocked, or all allowed, until the same moment.
type Range struct {
	Prefix netip.Prefix `json:"cidr"`
	Until  time.Time    `json:"expires,omitzero"` // zero: for good
}

// Cover is every address of which the lists say so at a time, in order and as few
// ranges as there can be, none of which overlap. Until is when the lists will first
// say something else, given what they hold now: beneath an entry that ends, a wider
// one may go on.
func Cover(listings []guard.Listing, verdict guard.Verdict, now time.Time) []Range {
	var inside []guard.Listing
	for _, l := range listings {
		if l.Prefix = unmap(l.Prefix).Masked(); l.Prefix.IsValid() {
			inside = append(inside, l)
		}
	}
	slices.SortStableFunc(inside, func(a, b guard.Listing) int { return a.Prefix.Compare(b.Prefix) })
	six := sort.Search(len(inside), func(i int) bool { return inside[i].Prefix.Addr().Is6() })
	c := cover{verdict, now}
	return append(c.walk(netip.PrefixFrom(netip.IPv4Unspecified(), 0), inside[:six], nil),
		c.walk(netip.PrefixFrom(netip.IPv6Unspecified(), 0), inside[six:], nil)...)
}

// A cover is what is looked for.
type cover struct {
	verdict guard.Verdict
	now     time.Time
}

// walk covers a range. inside are the listings within it in order, around those
// about all of it, widest first.
func (c cover) walk(all netip.Prefix, inside, around []guard.Listing) []Range {
	for len(inside) > 0 && inside[0].Prefix == all {
		around, inside = append(slices.Clip(around), inside[0]), inside[1:]
	}
	if len(inside) == 0 {
		if until, ok := c.until(around); ok {
			return []Range{{all, until}}
		}
		return nil
	}
	low, high := halves(all)
	first := sort.Search(len(inside), func(i int) bool { return !low.Contains(inside[i].Prefix.Addr()) })
	a, b := c.walk(low, inside[:first], around), c.walk(high, inside[first:], around)
	if len(a) == 1 && len(b) == 1 && a[0].Prefix == low && b[0].Prefix == high && a[0].Until.Equal(b[0].Until) {
		return []Range{{all, a[0].Until}}
	}
	return append(a, b...)
}

// until is how long the verdict lasts where these listings, widest first, and no
// others say something. It is not ok if it does not hold now.
func (c cover) until(around []guard.Listing) (end time.Time, ok bool) {
	for at := c.now; ; at = end {
		verdict, until := said(around, at)
		switch {
		case verdict != c.verdict:
			return at, at.After(c.now)
		case until.IsZero():
			return until, true
		}
		end = until
	}
}

// said is what the most specific listings that are in force say, and until when; of
// two that are equally specific the stricter counts (guard.Lists).
func said(around []guard.Listing, at time.Time) (verdict guard.Verdict, until time.Time) {
	bits := -1
	for _, l := range slices.Backward(around) {
		if bits >= 0 && l.Prefix.Bits() != bits {
			break
		}
		if !l.Until.IsZero() && !at.Before(l.Until) {
			continue
		}
		switch {
		case l.Verdict > verdict:
			verdict, until = l.Verdict, l.Until
		case l.Verdict == verdict && (l.Until.IsZero() || !until.IsZero() && l.Until.After(until)):
			until = l.Until
		}
		bits = l.Prefix.Bits()
	}
	return verdict, until
}

// halves of a range that is more than one address.
func halves(p netip.Prefix) (low, high netip.Prefix) {
	bytes := p.Addr().AsSlice()
	bytes[p.Bits()/8] |= 0x80 >> (p.Bits() % 8)
	middle, _ := netip.AddrFromSlice(bytes)
	return netip.PrefixFrom(p.Addr(), p.Bits()+1), netip.PrefixFrom(middle, p.Bits()+1)
}

// unmap makes IPv4-mapped addresses the IPv4 addresses that they are (R10).
func unmap(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p
}
