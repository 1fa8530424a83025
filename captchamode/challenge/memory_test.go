package challenge_test

import (
	"encoding/binary"
	"runtime"
	"testing"
	"time"

	"authguard/captchamode/challenge"
	"authguard/captchamode/challenge/challengetest"
	"authguard/internal/testing/clocktest"
)

func newClock() *clocktest.Clock { return clocktest.At(time.Date(2026, 5, 1, 12, 0, 30, 0, time.UTC)) }

func spentID(n int) (id [16]byte) {
	binary.BigEndian.PutUint64(id[8:], uint64(n))
	return id
}

func TestMemorySpentKeepsTheContract(t *testing.T) {
	t.Parallel()
	challengetest.RunSpent(t, func(*testing.T) challengetest.Fixture {
		clock := newClock()
		return challengetest.Fixture{
			Store: challenge.NewMemorySpent(0, clock.Now),
			Now:   clock.Now, Advance: clock.Advance,
			Bounded: func(room int) challenge.Spent { return challenge.NewMemorySpent(room, clock.Now) },
		}
	})
}

func TestAFullStoreHasRoomAgainWhenTheMinuteIsOver(t *testing.T) {
	t.Parallel()
	clock := newClock()
	store := challenge.NewMemorySpent(10, clock.Now)
	for n := range 10 {
		store.Spend(t.Context(), spentID(n), clock.Now().Add(10*time.Second))
	}
	clock.Advance(time.Minute)
	for n := range 10 {
		first, err := store.Spend(t.Context(), spentID(100+n), clock.Now().Add(time.Minute))
		if !first || err != nil {
			t.Fatalf("spend %d: %t, %v", n, first, err)
		}
	}
}

// BenchmarkMemorySpentFull reports what a full store holds per challenge.
func BenchmarkMemorySpentFull(b *testing.B) {
	for b.Loop() {
		before := heap()
		store := challenge.NewMemorySpent(0, nil)
		until := time.Now().Add(5 * time.Minute)
		held := 0
		for n := range challenge.DefaultSpentCap {
			// As a flood would: the expiries are spread over the minutes.
			if first, _ := store.Spend(b.Context(), spentID(n), until.Add(time.Duration(n%5)*time.Minute)); first {
				held++
			}
		}
		after := heap()
		b.ReportMetric(float64(after-before)/(1<<20), "MiB")
		b.ReportMetric(float64(after-before)/float64(held), "bytes/id")
		b.ReportMetric(float64(held), "held")
		runtime.KeepAlive(store)
	}
}

func heap() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

func BenchmarkMemorySpend(b *testing.B) {
	store := challenge.NewMemorySpent(0, nil)
	until := time.Now().Add(5 * time.Minute)
	for n := 0; b.Loop(); n++ {
		store.Spend(b.Context(), spentID(n%4_000_000), until)
	}
}
