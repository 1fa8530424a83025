package failures_test

import (
	"testing"
	"time"

	"authguard/failures"
	"authguard/failures/failurestest"
)

// Who mends a word that strangers spray does not end the spray (R28): it lasts for
// a day. Taking back counts only while a password is not found yet.
func TestWhatIsTakenBackEndsNoSpray(t *testing.T) {
	t.Parallel()
	const many = 10
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	miss := func(account int) failures.Miss {
		return failures.Miss{Value: 7, Account: uint32(account), Network: uint16(account)}
	}
	told := 0
	s := failures.NewSprays(func(failures.Spray) { told++ })
	for i := range 9 {
		s.Add(miss(i), many, noon)
	}
	s.TakeBack(miss(8))
	s.Add(miss(9), many, noon)
	if s.Has(failures.Miss{Value: 7}, noon) || told != 0 {
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
		if end := noon.Add(failures.SprayWindow); !s.Has(failures.Miss{Value: 7}, end.Add(-time.Minute)) {
			t.Errorf("no spray any more after %d have mended it", mended)
		}
	}
	for i := range 9 { // too few to make it last longer
		s.Add(miss(200+i), many, noon.Add(6*time.Hour))
	}
	if end := noon.Add(25 * time.Hour); s.Has(failures.Miss{Value: 7}, end) {
		t.Error("a spray without end")
	}
	if told != 1 {
		t.Errorf("told %d times, want once", told)
	}
}

// beside are values that share a bucket with each other.
func beside(n int) (values []uint32) {
	for v := uint32(1); len(values) < n; v++ {
		if failures.SprayBucket(v) == 7 {
			values = append(values, v)
		}
	}
	return values
}

// A spray is ten accounts within a day, not ten tries at one; and neither a flood of
// other passwords nor a larger spray hides it.
func TestR28ASprayIsFoundBesideWhateverElseIsTried(t *testing.T) {
	t.Parallel()
	const many = 10
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	values := beside(200)
	one, large, flood := values[0], values[1], values[2:]
	var told []failures.Spray
	s := failures.NewSprays(func(one failures.Spray) { told = append(told, one) })
	add := func(value uint32, account int, after time.Duration) {
		s.Add(failures.Miss{Value: value, Account: uint32(account), Network: uint16(account / 2)}, many, noon.Add(after))
	}
	for range 50 {
		add(one, 0, 0)
	}
	for i := range 60 {
		add(large, i, time.Hour)
		add(large, 0, time.Hour)
	}
	if len(told) != 1 {
		t.Errorf("told %d times of sixty accounts, want once", len(told))
	}
	for i := range 40 {
		add(large, 60+i, time.Hour)
	}
	for i := range 9 {
		add(one, i, 2*time.Hour)
		add(large, 200+i, 2*time.Hour)
		for _, other := range flood[20*i : 20*i+20] {
			add(other, i, 2*time.Hour)
		}
	}
	if s.Has(failures.Miss{Value: one}, noon.Add(3*time.Hour)) {
		t.Fatal("found at nine accounts")
	}
	add(one, 9, 3*time.Hour)
	end := noon.Add(2*time.Hour + failures.SprayWindow)
	if !s.Has(failures.Miss{Value: one}, end.Add(-time.Minute)) || s.Has(failures.Miss{Value: one}, end) || failures.SprayWindow != 24*time.Hour {
		t.Error("it is not found for as long as ten accounts lie in a day")
	}
	if len(told) != 3 || told[1].Accounts != 100 || told[1].Value != large || told[2].Value != one || told[2].Accounts != 10 || told[2].Networks != 5 {
		t.Errorf("told of %+v, want of the large one twice and of ten accounts from five addresses", told)
	}
	// Beside passwords that come once a spray begins, too: the oldest make room.
	began := failures.NewSprays(nil)
	for i, other := range flood[:32+10] {
		began.Add(failures.Miss{Value: other}, many, noon)
		if i >= 32 {
			noon = noon.Add(time.Minute)
			began.Add(failures.Miss{Value: one, Account: uint32(i)}, many, noon)
		}
	}
	if !began.Has(failures.Miss{Value: one}, noon) {
		t.Error("not found beside passwords that come once")
	}
	noon = noon.Add(-10 * time.Minute)
	// A day later none of that counts.
	for i := range 9 {
		add(one, 300+i, 30*time.Hour)
	}
	if s.Has(failures.Miss{Value: one}, noon.Add(30*time.Hour)) {
		t.Error("nine accounts of today and some of yesterday are a spray")
	}
}

// What is found is bounded: what ends first makes room.
func TestR6SpraysAreBounded(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	s := failures.NewSprays(nil)
	now := noon
	for value := range uint32(failures.MaxSprays + 1) {
		if value == 1 {
			now = now.Add(time.Minute)
		}
		for account := range uint32(2) {
			s.Add(failures.Miss{Value: value + 1, Account: account}, 2, now)
		}
	}
	for value, found := range map[uint32]bool{1: false, 2: true, failures.MaxSprays + 1: true} {
		if s.Has(failures.Miss{Value: value}, now) != found {
			t.Errorf("the password %d of %d is found: %v", value, failures.MaxSprays+1, !found)
		}
	}
}

// What all nodes have found together lasts as long as they say, and no longer than
// they say it.
func TestR28WhatOtherNodesFoundIsFound(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	s := failures.NewSprays(nil)
	s.Adopt([]failures.Spray{{Value: 7, Until: noon.Add(time.Hour)}})
	if !s.Has(failures.Miss{Value: 7}, noon.Add(time.Hour-time.Second)) || s.Has(failures.Miss{Value: 7}, noon.Add(time.Hour)) || s.Has(failures.Miss{Value: 8}, noon) {
		t.Error("not found for its hour alone")
	}
	s.Adopt(nil)
	if s.Has(failures.Miss{Value: 7}, noon) {
		t.Error("found though nobody says so any more")
	}
}

func TestSpraysContract(t *testing.T) {
	t.Parallel()
	failurestest.RunSprays(t, func(*testing.T) failurestest.Spraying {
		now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
		var told []failures.Spray
		s := failures.NewSprays(func(one failures.Spray) { told = append(told, one) })
		return failurestest.Spraying{
			Count: func(m failures.Miss, back bool) {
				if back {
					s.TakeBack(m)
				} else {
					s.Add(m, failurestest.SprayAccounts, now)
				}
			},
			Has:      func(m failures.Miss) bool { return s.Has(m, now) },
			Advance:  func(d time.Duration) { now = now.Add(d) },
			Reported: func() []failures.Spray { return told },
		}
	})
}

// A network beyond its share renews its oldest misses, and adds no account to the report.
func TestR28AFullShareKeepsItsNewestMisses(t *testing.T) {
	t.Parallel()
	const many = 10
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	told := 0
	s := failures.NewSprays(func(failures.Spray) { told++ })
	add := func(account, network int, at time.Time) {
		s.Add(failures.Miss{Value: 7, Account: uint32(account), Network: uint16(network)}, many, at)
	}
	for i := range 5 { // the first three fill the share
		add(i, 1, noon.Add(time.Duration(i/3)*12*time.Hour))
	}
	later := noon.Add(24*time.Hour + time.Minute)
	for i := range 8 {
		add(100+i, 100+i, later)
	}
	if !s.Has(failures.Miss{Value: 7, Network: 99}, later) {
		t.Error("not found: two misses of the network are twelve hours old")
	}
	for i := range 200 {
		add(1000+i, 1, later)
	}
	if told != 1 {
		t.Errorf("reported %d times, want once", told)
	}
}
