package replay

import (
	"testing"
	"time"

	"authguard/trusted"
	"authguard/trusted/trustedtest"
)

func TestPlacesKeepTheContract(t *testing.T) {
	t.Parallel()
	trustedtest.Run(t, func(*testing.T) trusted.Store { return newPlaces(trusted.Limits{}, 1<<20) })
}

func TestOfTooManyAccountsThoseUnchangedForLongestAreForgotten(t *testing.T) {
	t.Parallel()
	p, place, now := newPlaces(trusted.Limits{}, 64), trusted.Key{1}, time.Unix(1_000_000, 0)
	account := func(n int) trusted.Key { return trusted.Key{byte(n), byte(n >> 8), 1} }
	if err := p.Spend(t.Context(), account(5000), place, now); err != nil {
		t.Fatal(err)
	}
	for n := range 4096 {
		if err := p.Remember(t.Context(), account(n), place, now.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		if held := len(p.recent) + len(p.before); held > 64 {
			t.Fatalf("%d accounts are held, and 64 may be", held)
		}
		for ago := range min(n, 32) {
			if r, _ := p.Record(t.Context(), account(n-ago), now.Add(time.Hour)); r.Status(place) != trusted.Known {
				t.Fatalf("the account changed %d before is forgotten", ago)
			}
		}
	}
	// A forgotten account's spent device does not come back by its cookie (R6).
	if r, _ := p.Record(t.Context(), account(5000), now); r.Reset != now.UnixMilli() {
		t.Errorf("reset at %v, want %v", r.Reset, now)
	}
}
