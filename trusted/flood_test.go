//go:build !race

package trusted_test

import (
	"testing"

	"authguard/trusted"
)

// R6: a million addresses with one account each evict no shared one.
func TestR30AMillionHomesEvictNoSharedAddress(t *testing.T) {
	t.Parallel()
	s := mustShared(t, trusted.Limits{Sharers: 3}, nil)
	for i := range 4 {
		add(t, s, i, 7, noon)
	}
	for i := range 1_000_000 {
		add(t, s, i, 1000+i, noon)
	}
	if !s.Shared(nth(7), noon) {
		t.Error("it was shared")
	}
}
