package trusted_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
	"time"

	"authguard/trusted"
)

func mustCrowds(t testing.TB, limits trusted.Limits) *trusted.Crowds {
	t.Helper()
	c, err := trusted.NewCrowds(limits)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func nth(n int) (k trusted.Key) {
	binary.LittleEndian.PutUint64(k[:], uint64(n+1))
	return k
}

func TestR30ACrowdIsTheAccountsOfOneAddress(t *testing.T) {
	t.Parallel()
	c := mustCrowds(t, trusted.Limits{Sharers: 3})
	told := 0
	c.OnNew(func(trusted.Key, trusted.Key, time.Time) { told++ })
	for range 100 { // who comes again is one
		for i := range 3 {
			if n, became := c.Add(nth(i), nth(100), noon); became || n > 3 {
				t.Fatalf("%d accounts, shared: %v", n, became)
			}
		}
	}
	if n, became := c.Add(nth(3), nth(100), noon); n != 4 || !became || !c.Shared(nth(100), noon) {
		t.Errorf("the fourth: %d, %v", n, became)
	}
	if n, became := c.Add(nth(4), nth(100), noon); n != 4 || became {
		t.Errorf("the fifth: %d, %v; it is shared once", n, became)
	}
	for i := range 3 { // beside one that is shared, since others are asked about then only
		c.Add(nth(i), nth(102), noon)
	}
	told -= 3
	if c.Shared(nth(102), noon) {
		t.Error("three accounts of three are a crowd")
	}
	if told != 4 || c.Shared(nth(101), noon) || c.Accounts(nth(101), noon) != 0 {
		t.Errorf("others were told %d times", told)
	}
}

func TestR30WhatIsSharedExpiresWithItsUse(t *testing.T) {
	t.Parallel()
	c := mustCrowds(t, trusted.Limits{Sharers: 3, TTL: 10 * time.Hour})
	add := func(at time.Duration) {
		for i := range 5 {
			c.Add(nth(i), nth(100), noon.Add(at))
		}
	}
	add(0)
	add(6 * time.Hour) // used again after half of the time
	for at, want := range map[time.Duration]bool{10 * time.Hour: true, 16*time.Hour - 1: true, 16 * time.Hour: false} {
		if got := c.Shared(nth(100), noon.Add(at)); got != want {
			t.Errorf("after %v: %v", at, got)
		}
	}
	c.Add(nth(9), nth(100), noon.Add(16*time.Hour))
	if n := c.Accounts(nth(100), noon.Add(16*time.Hour)); n != 1 {
		t.Errorf("%d accounts are left", n)
	}
}

// R6: only logins count, and a million addresses with one account each push no
// shared one out.
func TestR30AMillionHomesPushNoPoolOut(t *testing.T) {
	t.Parallel()
	c := mustCrowds(t, trusted.Limits{Sharers: 3})
	for i := range 4 {
		c.Add(nth(i), nth(7), noon)
	}
	for i := range 1_000_000 {
		c.Add(nth(i), nth(1000+i), noon)
	}
	if !c.Shared(nth(7), noon) {
		t.Error("it was")
	}
}

func TestR7CrowdsOutliveARestart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "crowds")
	limits := trusted.Limits{Sharers: 3}
	c := mustCrowds(t, limits)
	for i := range 4 {
		c.Add(nth(i), nth(7), noon)
		c.Add(nth(i%2), nth(8), noon)
	}
	if err := c.Save(path); err != nil {
		t.Fatal(err)
	}
	again := mustCrowds(t, limits)
	if err := again.Load(path, noon); err != nil || !again.Shared(nth(7), noon) || again.Accounts(nth(8), noon) != 2 {
		t.Errorf("%v, %v, %d", err, again.Shared(nth(7), noon), again.Accounts(nth(8), noon))
	}
	if err := again.Load(filepath.Join(t.TempDir(), "none"), noon); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(path, []byte("half a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := again.Load(path, noon); err == nil {
		t.Error("a damaged file was taken")
	}
}

func BenchmarkCrowdsShared(b *testing.B) {
	c := mustCrowds(b, trusted.Limits{})
	for i := range 51 {
		c.Add(nth(i), nth(7), noon)
	}
	b.ReportAllocs()
	for b.Loop() {
		c.Shared(nth(8), noon)
	}
}
