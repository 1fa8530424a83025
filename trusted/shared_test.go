package trusted_test

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"authguard/trusted"
)

func mustShared(t testing.TB, limits trusted.Limits, store trusted.AddressStore) *trusted.SharedAddresses {
	t.Helper()
	s, err := trusted.NewSharedAddresses(limits, store)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func nth(n int) (k trusted.Key) {
	binary.LittleEndian.PutUint64(k[:], uint64(n+1))
	return k
}

func add(t testing.TB, s *trusted.SharedAddresses, account, address int, now time.Time) int {
	t.Helper()
	n, err := s.Add(t.Context(), nth(account), nth(address), now)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestR30AnAddressOfManyAccountsIsShared(t *testing.T) {
	t.Parallel()
	s := mustShared(t, trusted.Limits{Sharers: 3}, nil)
	for range 100 { // an account that comes again counts once
		for i := range 3 {
			if n := add(t, s, i, 100, noon); n != 0 {
				t.Fatalf("shared by %d accounts", n)
			}
			add(t, s, i%2, 101, noon)
		}
	}
	if s.Shared(nth(100), noon) || !s.Several(nth(100), noon) || s.Several(nth(101), noon) {
		t.Error("of three accounts, or of two")
	}
	if n := add(t, s, 3, 100, noon); n != 4 || !s.Shared(nth(100), noon) {
		t.Errorf("the fourth: %d", n)
	}
	if n := add(t, s, 4, 100, noon); n != 0 {
		t.Errorf("the fifth: %d; it became shared before", n)
	}
	for address, want := range map[int]bool{100: true, 101: true, 102: false} {
		if used, err := s.Used(t.Context(), nth(address), noon); err != nil || used != want {
			t.Errorf("address %d is used: %v, %v", address, used, err)
		}
	}
}

func TestR30ASharedAddressExpiresWithItsUse(t *testing.T) {
	t.Parallel()
	s := mustShared(t, trusted.Limits{Sharers: 3, TTL: 10 * time.Hour}, nil)
	for _, at := range []time.Duration{0, 6 * time.Hour} { // used again after half of the time
		for i := range 4 {
			add(t, s, i, 100, noon.Add(at))
		}
	}
	for at, want := range map[time.Duration]bool{10 * time.Hour: true, 16*time.Hour - 1: true, 16 * time.Hour: false} {
		if got := s.Shared(nth(100), noon.Add(at)); got != want {
			t.Errorf("after %v: %v", at, got)
		}
	}
	add(t, s, 9, 100, noon.Add(16*time.Hour))
	if s.Several(nth(100), noon.Add(16*time.Hour)) {
		t.Error("one account is left")
	}
}

// fails is an AddressStore that fails as long as it is set.
type fails struct {
	trusted.AddressStore
	is bool
}

func (f *fails) Remember(ctx context.Context, address, account trusted.Key, now time.Time) error {
	if f.is {
		return errors.New("the disk is gone")
	}
	return f.AddressStore.Remember(ctx, address, account, now)
}

func TestALoginThatWasNotCountedIsCountedWithTheNextOne(t *testing.T) {
	t.Parallel()
	limits := trusted.Limits{Sharers: 3}
	store := &fails{mustMemory(t, trusted.MemoryConfig{Limits: limits.OfAddress()}), true}
	s := mustShared(t, limits, store)
	for i := range 4 {
		if _, err := s.Add(t.Context(), nth(i), nth(7), noon); err == nil {
			t.Error("no error")
		}
	}
	store.is = false
	for i := range 4 {
		add(t, s, i, 7, noon)
	}
	if !s.Shared(nth(7), noon) {
		t.Error("four accounts of three")
	}
}

func BenchmarkSharedAddresses(b *testing.B) {
	s := mustShared(b, trusted.Limits{}, nil)
	for i := range 51 {
		add(b, s, i, 7, noon)
	}
	b.ReportAllocs()
	for b.Loop() {
		s.Shared(nth(8), noon)
	}
}
