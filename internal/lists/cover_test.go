package lists_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"authguard/guard"
	"authguard/internal/lists"
)

// in an hour, or at another hour after noon; 0 is never.
func in(hours int) time.Time {
	if hours == 0 {
		return time.Time{}
	}
	return noon.Add(time.Duration(hours) * time.Hour)
}

func block(cidr string, hours int) guard.Listing {
	return guard.Listing{Prefix: netip.MustParsePrefix(cidr), Verdict: guard.Blocked, Until: in(hours)}
}

func allow(cidr string, hours int) guard.Listing {
	return guard.Listing{Prefix: netip.MustParsePrefix(cidr), Verdict: guard.Allowed, Until: in(hours)}
}

func TestRangesDoNotOverlapAndAreFew(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		listed []guard.Listing
		want   []string
	}{
		"nothing":                         {nil, nil},
		"within a wider one":              {[]guard.Listing{block("192.0.2.0/24", 1), block("192.0.2.7/32", 1)}, []string{"192.0.2.0/24 1"}},
		"a longer one within":             {[]guard.Listing{block("192.0.2.0/30", 1), block("192.0.2.0/31", 2)}, []string{"192.0.2.0/31 2", "192.0.2.2/31 1"}},
		"a shorter one within":            {[]guard.Listing{block("192.0.2.0/30", 0), block("192.0.2.0/31", 2)}, []string{"192.0.2.0/30 0"}},
		"side by side":                    {[]guard.Listing{block("192.0.2.0/25", 0), block("192.0.2.128/25", 0)}, []string{"192.0.2.0/24 0"}},
		"a hole":                          {[]guard.Listing{block("192.0.2.0/30", 0), allow("192.0.2.1/32", 0)}, []string{"192.0.2.0/32 0", "192.0.2.2/31 0"}},
		"a block within a hole":           {[]guard.Listing{block("192.0.2.0/30", 0), allow("192.0.2.0/31", 0), block("192.0.2.1/32", 3)}, []string{"192.0.2.1/32 3", "192.0.2.2/31 0"}},
		"a hole that will be":             {[]guard.Listing{allow("192.0.2.0/24", 0), block("192.0.2.7/32", 2)}, []string{"192.0.2.7/32 2"}},
		"a hole that has ended":           {[]guard.Listing{block("192.0.2.0/24", 0), allow("192.0.2.7/32", -1)}, []string{"192.0.2.0/24 0"}},
		"an IPv4-mapped one":              {[]guard.Listing{block("::ffff:192.0.2.0/120", 0)}, []string{"192.0.2.0/24 0"}},
		"every one there is, but for one": {[]guard.Listing{block("0.0.0.0/0", 0), allow("128.0.0.0/1", 0)}, []string{"0.0.0.0/1 0"}},
		"both families":                   {[]guard.Listing{block("2001:db8::/48", 0), block("10.0.0.0/8", 0)}, []string{"10.0.0.0/8 0", "2001:db8::/48 0"}},
		"the same range twice":            {[]guard.Listing{allow("192.0.2.7/32", 0), block("192.0.2.7/32", 2), block("192.0.2.7/32", 1)}, []string{"192.0.2.7/32 2"}},
	} {
		var got []string
		for _, r := range lists.Cover(tc.listed, guard.Blocked, noon) {
			hours := 0
			if !r.Until.IsZero() {
				hours = int(r.Until.Sub(noon).Hours())
			}
			got = append(got, fmt.Sprint(r.Prefix, " ", hours))
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// What an edge is told of an address is what the guard itself would say, now and
// until it says something else.
func TestACoverSaysWhatTheGuardSays(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		listed := rapid.SliceOfN(rapid.Custom(listing), 0, 8).Draw(t, "listed")
		verdict := rapid.SampledFrom([]guard.Verdict{guard.Blocked, guard.Allowed}).Draw(t, "verdict")
		var held guard.Lists
		held.Set(listed)
		ranges := lists.Cover(listed, verdict, noon)
		for i, r := range ranges {
			if i > 0 && (ranges[i-1].Prefix.Overlaps(r.Prefix) || ranges[i-1].Prefix.Compare(r.Prefix) >= 0) {
				t.Fatalf("%v and %v: %v", ranges[i-1].Prefix, r.Prefix, listed)
			}
		}
		for range 20 {
			a := address(t)
			i := slices.IndexFunc(ranges, func(r lists.Range) bool { return r.Prefix.Contains(a) })
			if says := held.Look(a, noon) == verdict; says != (i >= 0) {
				t.Fatalf("%v: the guard says %v, the cover %v: %v", a, says, ranges, listed)
			}
			for at := 1; i >= 0 && at < 10; at++ {
				still := ranges[i].Until.IsZero() || in(at).Before(ranges[i].Until)
				if says := held.Look(a, in(at)) == verdict; still && !says || !says == still && in(at).Equal(ranges[i].Until) {
					t.Fatalf("%v at %d: %v, until %v: %v", a, at, says, ranges[i].Until, listed)
				}
			}
		}
	})
}

// listing is one of a few that are often around or beside each other.
func listing(t *rapid.T) guard.Listing {
	a := address(t)
	p, _ := a.Prefix(a.BitLen() - rapid.IntRange(0, 5).Draw(t, "wider"))
	return guard.Listing{
		Prefix: p, Until: in(rapid.IntRange(-1, 6).Draw(t, "hours")),
		Verdict: rapid.SampledFrom([]guard.Verdict{guard.Blocked, guard.Allowed}).Draw(t, "verdict"),
	}
}

func address(t *rapid.T) netip.Addr {
	last := byte(rapid.IntRange(0, 31).Draw(t, "last"))
	if rapid.Bool().Draw(t, "six") {
		return netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 15: last})
	}
	return netip.AddrFrom4([4]byte{192, 0, 2, last})
}
