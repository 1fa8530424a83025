package lists

import (
	"net/netip"
	"slices"
	"sort"
	"time"

	"authguard/guard"
)

// Range is IP addresses that are all blocked, or all allowed, until the same time.
type Range struct {
	Prefix netip.Prefix `json:"cidr"`
	Until  time.Time    `json:"expires,omitzero"` // zero: no expiry
}

// Cover returns all addresses with this verdict, in order, as the fewest ranges without overlaps. Until is when the
// verdict of the present entries changes: a wider entry may continue after a narrower one expires.
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

type cover struct {
	verdict guard.Verdict
	now     time.Time
}

// walk covers a range. inside are the listings within it, in order; around are those that contain it, widest first.
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

// until returns when the verdict of these listings, widest first, ends. ok is false if it does not apply now.
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

// said returns the verdict of the most specific listings in force, and its end. Among equally specific ones the
// stricter wins (guard.Lists).
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

func halves(p netip.Prefix) (low, high netip.Prefix) {
	bytes := p.Addr().AsSlice()
	bytes[p.Bits()/8] |= 0x80 >> (p.Bits() % 8)
	middle, _ := netip.AddrFromSlice(bytes)
	return netip.PrefixFrom(p.Addr(), p.Bits()+1), netip.PrefixFrom(middle, p.Bits()+1)
}
