package tops_test

import (
	"fmt"
	"testing"

	"authguard/internal/tops"
)

func TestATopFindsTheFrequentOneAndClaimsNoMoreThanThereWere(t *testing.T) {
	t.Parallel()
	top := tops.New[int](64)
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
		d := tops.NewDistinct()
		for i := range n {
			d.Add(fmt.Sprint(i))
			d.Add(fmt.Sprint(i))
		}
		if got := d.Count(); got < n*92/100 || got > n*108/100 {
			t.Errorf("%d distinct names are counted as %d", n, got)
		}
	}
}
