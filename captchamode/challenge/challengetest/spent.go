// Package challengetest is the test suite for implementations of [challenge.Spent]:
//
//	challengetest.RunSpent(t, func(t *testing.T) challengetest.Fixture { … })
package challengetest

import (
	"crypto/rand"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"authguard/captchamode/challenge"
)

// A Fixture is an empty store with its clock.
type Fixture struct {
	Store challenge.Spent
	// Now is the store's clock; nil is time.Now.
	Now func() time.Time
	// Advance moves the clock; nil if it cannot be moved, which skips tests that need it.
	Advance func(time.Duration)
	// Bounded opens an empty store for this many IDs, on the same clock; nil if only its server limits it.
	Bounded func(room int) challenge.Spent
}

// RunSpent runs all tests, each with its own store.
func RunSpent(t *testing.T, open func(t *testing.T) Fixture) {
	for name, claim := range map[string]func(*testing.T, Fixture){
		"OfParallelSpendsExactlyOneIsFirst":  parallelSpends,
		"ASpentIDIsNeverFirstAgain":          spentForGood,
		"IDsAreIndependent":                  independent,
		"AnExpiredIDIsNeverFirst":            expired,
		"SeenSpendsNothing":                  seenSpendsNothing,
		"WhatHasExpiredIsNotFirstEver":       neverAfter,
		"SpentIDsOutliveOthersThatHaveEnded": outlives,
		"OfParallelTakesExactlyOneSucceeds":  parallelTakes,
		"WhatHasExpiredIsNotTaken":           expiredTake,
		"AFullStoreSaysSoAndForgetsNothing":  full,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := open(t)
			if f.Now == nil {
				f.Now = time.Now
			}
			claim(t, f)
		})
	}
}

func newID() (id [16]byte) {
	rand.Read(id[:])
	return id
}

func (f Fixture) spend(t *testing.T, id [16]byte, until time.Time) bool {
	t.Helper()
	first, err := f.Store.Spend(t.Context(), id, until)
	if err != nil {
		t.Fatal(err)
	}
	return first
}

func (f Fixture) seen(t *testing.T, id [16]byte, until time.Time) bool {
	t.Helper()
	seen, err := f.Store.Seen(t.Context(), id, until)
	if err != nil {
		t.Fatal(err)
	}
	return seen
}

func parallelSpends(t *testing.T, f Fixture) {
	const rounds, tries = 10, 200
	for range rounds {
		id, until := newID(), f.Now().Add(time.Minute)
		var firsts, failed atomic.Int64
		var group sync.WaitGroup
		start := make(chan struct{})
		for range tries {
			group.Go(func() {
				<-start
				first, err := f.Store.Spend(t.Context(), id, until)
				if err != nil {
					failed.Add(1)
				} else if first {
					firsts.Add(1)
				}
			})
		}
		close(start)
		group.Wait()
		if firsts.Load() != 1 || failed.Load() != 0 {
			t.Fatalf("of %d parallel spends %d were first and %d failed", tries, firsts.Load(), failed.Load())
		}
	}
}

func parallelTakes(t *testing.T, f Fixture) {
	id, until := newID(), f.Now().Add(time.Minute)
	if taken, err := f.Store.Take(t.Context(), id); taken || err != nil {
		t.Fatalf("an ID that is not there was taken: %t, %v", taken, err)
	}
	for range 3 { // it can be put back
		if !f.spend(t, id, until) {
			t.Fatal("a taken ID is still there")
		}
		var took atomic.Int64
		var group sync.WaitGroup
		for range 50 {
			group.Go(func() {
				if taken, err := f.Store.Take(t.Context(), id); taken && err == nil {
					took.Add(1)
				}
			})
		}
		group.Wait()
		if took.Load() != 1 || f.seen(t, id, until) {
			t.Fatalf("%d of 50 took it; still there: %t", took.Load(), f.seen(t, id, until))
		}
	}
}

func expiredTake(t *testing.T, f Fixture) {
	f.mustAdvance(t)
	id := newID()
	f.spend(t, id, f.Now().Add(time.Minute))
	f.Advance(2 * time.Minute)
	if taken, err := f.Store.Take(t.Context(), id); taken || err != nil {
		t.Errorf("an expired ID was taken: %t, %v", taken, err)
	}
}

func spentForGood(t *testing.T, f Fixture) {
	id, until := newID(), f.Now().Add(time.Hour)
	if !f.spend(t, id, until) {
		t.Fatal("the first spend was not first")
	}
	for i := range 3 {
		if f.spend(t, id, until) || f.spend(t, id, until.Add(time.Duration(i-1)*time.Minute)) {
			t.Fatal("a later spend was first again")
		}
	}
}

func independent(t *testing.T, f Fixture) {
	until := f.Now().Add(time.Minute)
	id := newID()
	for i := range id { // each differs in one byte, and in the expiry
		other := id
		other[i] ^= 1
		if !f.spend(t, other, until.Add(time.Duration(i)*time.Minute)) {
			t.Errorf("an ID that differs in byte %d was taken for spent", i)
		}
	}
	if !f.spend(t, id, until) {
		t.Error("an ID was taken for spent because its neighbours were")
	}
}

func expired(t *testing.T, f Fixture) {
	for _, ago := range []time.Duration{0, time.Millisecond, time.Second, 24 * time.Hour} {
		if f.spend(t, newID(), f.Now().Add(-ago)) {
			t.Errorf("an ID that expired %v ago was first", ago)
		}
	}
}

func seenSpendsNothing(t *testing.T, f Fixture) {
	id, until := newID(), f.Now().Add(time.Minute)
	if f.seen(t, id, until) || f.seen(t, id, until) {
		t.Error("an ID that nobody spent was seen")
	}
	if !f.spend(t, id, until) {
		t.Error("looking at an ID spent it")
	}
	if !f.seen(t, id, until) {
		t.Error("a spent ID was not seen")
	}
}

func neverAfter(t *testing.T, f Fixture) {
	f.mustAdvance(t)
	id, until := newID(), f.Now().Add(time.Minute)
	f.spend(t, id, until)
	for range 5 {
		f.Advance(time.Minute)
		if f.spend(t, id, until) {
			t.Fatal("an ID was first again after it expired")
		}
	}
}

func outlives(t *testing.T, f Fixture) {
	f.mustAdvance(t)
	short, long := newID(), newID()
	now := f.Now()
	f.spend(t, short, now.Add(time.Minute))
	f.spend(t, long, now.Add(10*time.Minute))
	for range 9 {
		f.Advance(time.Minute)
		f.spend(t, newID(), f.Now().Add(time.Minute))
		if f.spend(t, long, now.Add(10*time.Minute)) {
			t.Fatalf("an ID was first again %v before it expired", now.Add(10*time.Minute).Sub(f.Now()))
		}
	}
}

func (f Fixture) mustAdvance(t *testing.T) {
	t.Helper()
	if f.Advance == nil {
		t.Skip("this store's clock cannot be moved")
	}
}

func full(t *testing.T, f Fixture) {
	if f.Bounded == nil {
		if got := f.Store.Full(); got != 0 {
			t.Errorf("a store without a bound of its own is %v full", got)
		}
		return
	}
	const room = 100
	store, until := f.Bounded(room), f.Now().Add(5*time.Minute)
	ids := make([][16]byte, 2*room)
	for i := range ids {
		if got, want := store.Full(), min(1, float64(i)/room); got != want {
			t.Fatalf("with %d of %d spent it is %v full", i, room, got)
		}
		ids[i] = newID()
		first, err := store.Spend(t.Context(), ids[i], until)
		if first != (i < room) || (err == nil) != (i < room) {
			t.Fatalf("spend %d of %d: %t, %v", i, room, first, err)
		}
	}
	for i, id := range ids[:room] {
		if first, err := store.Spend(t.Context(), id, until); first || err != nil {
			t.Fatalf("ID %d again, in a full store: %t, %v", i, first, err)
		}
	}
	if f.Advance == nil {
		return
	}
	f.Advance(6 * time.Minute)
	if got := store.Full(); got != 0 {
		t.Errorf("after all have expired it is %v full", got)
	}
}
