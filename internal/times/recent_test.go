package times_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"authguard/internal/times"
)

func TestARingKeepsTheNewestIntervals(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	r := times.NewRing[int](time.Minute, 3)
	for minute, n := range []int{1, 2, 3, 4} {
		*r.At(noon.Add(time.Duration(minute)*time.Minute), func() int { return 0 }) += n
	}
	var got []int
	r.Newest(noon.Add(4*time.Minute), 3, func(_ time.Time, value *int) {
		if value == nil {
			got = append(got, -1)
		} else {
			got = append(got, *value)
		}
	})
	if !slices.Equal(got, []int{3, 4, -1}) {
		t.Errorf("%v", got)
	}
}

func TestCountsAreOfTwoMinutes(t *testing.T) {
	t.Parallel()
	var c times.Counts
	name := [16]byte{7}
	for i, one := range []struct {
		minute  uint32
		most    float64
		earlier int
		counted bool
	}{
		{100, 0, 0, true}, // the first always counts
		{100, 1, 1, false},
		{100, 2, 1, true},
		{101, math.MaxUint16, 2, true},
		{102, math.MaxUint16, 1, true}, // the first minute is over
		{104, 0, 0, true},
	} {
		if earlier, counted := c.Add(&name, one.minute, one.most); earlier != one.earlier || counted != one.counted {
			t.Errorf("%d: %d, %v", i, earlier, counted)
		}
	}
}
