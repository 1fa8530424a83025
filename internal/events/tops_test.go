package events_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"authguard/internal/events"
)

func TestATopFindsTheFrequentOneAndClaimsNoMoreThanThereWere(t *testing.T) {
	t.Parallel()
	top := events.NewTop[int](64)
	for i := range 10_000 {
		if n := top.Of(fmt.Sprint("noise", i)); n != nil {
			*n++
		}
		if i%20 == 0 {
			if n := top.Of("frequent"); n != nil {
				*n++
			}
		}
	}
	kept, frequent := 0, 0
	for name, n := range top.All() {
		kept++
		if name == "frequent" {
			frequent = *n
		}
	}
	if kept != 64 || frequent < 300 || frequent > 500 {
		t.Errorf("%d names are kept; the frequent one came %d times of 500", kept, frequent)
	}
}

func TestDistinctNamesAreCountedOnce(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 100, 5_000, 200_000} {
		d := events.NewDistinct(events.KeyedHash([]byte("secret")))
		for i := range n {
			d.Add(fmt.Sprint(i))
			d.Add(fmt.Sprint(i))
		}
		if got := d.Count(); got < n*92/100 || got > n*108/100 {
			t.Errorf("%d distinct names are counted as %d", n, got)
		}
	}
}

func TestDistinctNamesOfTwoProcessesAreMerged(t *testing.T) {
	t.Parallel()
	hash := events.KeyedHash([]byte("secret"))
	one, two := events.NewDistinct(hash), events.NewDistinct(hash)
	for i := range 10_000 {
		one.Add(fmt.Sprint(i))
		two.Add(fmt.Sprint(i + 5_000))
	}
	both := events.NewDistinct(hash)
	both.Load(one.Save())
	both.Load(two.Save())
	both.Load([]byte("damaged"))
	if got := both.Count(); got < 14_000 || got > 16_000 {
		t.Errorf("15,000 names are counted as %d", got)
	}
}

func TestWhatWasSeenIsNotForgotten(t *testing.T) {
	t.Parallel()
	var s events.Seen
	if s.Has(1) {
		t.Error("the zero one has seen something")
	}
	r := rand.New(rand.NewPCG(1, 2))
	first, wrong := r.Uint64(), 0
	s.Add(first)
	for range 50_000 {
		s.Add(r.Uint64())
	}
	for range 100_000 {
		if s.Has(r.Uint64()) {
			wrong++
		}
	}
	if !s.Has(first) || wrong > 100 {
		t.Errorf("%d of 100,000 others are taken for seen; the first: %t", wrong, s.Has(first))
	}
}
