package failures_test

import (
	"testing"
	"time"

	"authguard/failures"
)

// Who mends a word that strangers spray does not end the spray (R28): it lasts for
// a day. Taking back counts only while a password is not found yet.
func TestWhatIsTakenBackEndsNoSpray(t *testing.T) {
	t.Parallel()
	const many = 10
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	miss := func(account int) failures.Miss { return failures.Miss{Value: 7, Account: uint32(account), Address: 1} }
	told := 0
	s := failures.NewSprays(func(failures.Spray) { told++ })
	for i := range 9 {
		s.Add(miss(i), many, noon)
	}
	s.TakeBack(miss(8))
	s.Add(miss(9), many, noon)
	if s.Has(7, noon) || told != 0 {
		t.Fatal("found at nine accounts")
	}
	for i := range 2 {
		s.Add(miss(10+i), many, noon)
	}
	for _, mended := range []int{1, 10} { // ten push out all that told
		for i := range mended {
			s.Add(miss(100+i), many, noon.Add(time.Hour))
		}
		for i := range mended {
			s.TakeBack(miss(100 + i))
		}
		if end := noon.Add(failures.SprayWindow); !s.Has(7, end.Add(-time.Minute)) {
			t.Errorf("no spray any more after %d have mended it", mended)
		}
	}
	for i := range 9 { // too few to make it last longer
		s.Add(miss(200+i), many, noon.Add(6*time.Hour))
	}
	if end := noon.Add(25 * time.Hour); s.Has(7, end) {
		t.Error("a spray without end")
	}
	if told != 1 {
		t.Errorf("told %d times, want once", told)
	}
}
