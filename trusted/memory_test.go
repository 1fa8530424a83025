package trusted_test

import (
	"testing"
	"time"

	"authguard/trusted"
	"authguard/trusted/trustedtest"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func mustMemory(t testing.TB, config trusted.MemoryConfig) *trusted.Memory {
	t.Helper()
	m, err := trusted.NewMemory(config)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func status(t testing.TB, m *trusted.Memory, account, client trusted.Key) trusted.Status {
	t.Helper()
	r, err := m.Record(t.Context(), account, noon)
	if err != nil {
		t.Fatal(err)
	}
	return r.Status(client)
}

func TestMemoryKeepsTheContract(t *testing.T) {
	t.Parallel()
	trustedtest.Run(t, func(t *testing.T) trusted.Store { return mustMemory(t, trusted.MemoryConfig{}) })
}

func TestMemoryHoldsNoMoreAccountsThanItMay(t *testing.T) {
	t.Parallel()
	m := mustMemory(t, trusted.MemoryConfig{Accounts: 64})
	place, held := trusted.Key{1}, 0
	for n := range 4096 {
		if err := m.Remember(t.Context(), trusted.Key{byte(n), byte(n >> 8), 1}, place, noon); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 4096 {
		if status(t, m, trusted.Key{byte(n), byte(n >> 8), 1}, place) == trusted.Known {
			held++
		}
	}
	if held != 64 {
		t.Errorf("%d accounts are held, want 64", held)
	}
}

// R6: at the bound the store gets stricter, never forgetful.
func TestADroppedAccountsSpentDeviceDoesNotComeBack(t *testing.T) {
	t.Parallel()
	m := mustMemory(t, trusted.MemoryConfig{Accounts: 1})
	first, second := trusted.Key{64}, trusted.Key{128} // one shard
	if err := m.Spend(t.Context(), first, trusted.Key{1}, noon); err != nil {
		t.Fatal(err)
	}
	if err := m.Remember(t.Context(), second, trusted.Key{2}, noon.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if s := status(t, m, first, trusted.Key{1}); s != trusted.Unknown {
		t.Fatalf("the first account was not dropped: %d", s)
	}
	if r, _ := m.Record(t.Context(), first, noon); r.Reset != noon.UnixMilli() {
		t.Errorf("its cookies are void up to %v, want %v", r.Reset, noon)
	}
}

func TestImpossibleLimitsAreRefused(t *testing.T) {
	t.Parallel()
	for _, config := range []trusted.MemoryConfig{
		{Accounts: -1}, {Limits: trusted.Limits{MaxClients: -1}}, {Limits: trusted.Limits{TTL: -1}},
	} {
		if _, err := trusted.NewMemory(config); err == nil {
			t.Errorf("%+v was taken", config)
		}
	}
}

func BenchmarkMemoryRecord(b *testing.B) {
	m := mustMemory(b, trusted.MemoryConfig{})
	account, place := trusted.Key{1}, trusted.Key{2}
	if err := m.Remember(b.Context(), account, place, noon); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		m.Record(b.Context(), account, noon)
	}
}
