//go:build !race

package failures_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"authguard/failures"
	"authguard/failures/failurestest"
	"authguard/internal/testing/clocktest"
)

// boundSubject is one of three kinds of subjects, whose limits differ in size.
func boundSubject(n uint64) failures.Subject {
	s := nameSubject(n)
	thousand := failures.MustLimits(failures.Backoff{}, failures.Limit{Failures: 1000, Window: failurestest.Retain})
	s.Limits = []*failures.Limits{nameLimits, wideLimits, thousand}[n%3]
	return s
}

func bounded(t tester, c *clocktest.Clock, bound int64) *failures.Memory {
	t.Helper()
	m := newMemory(t, c, 0)
	m.SetBound(bound)
	return m
}

// histories are random ones, each with a clock and the path of its counters.
func histories(t *testing.T, check func(t *rapid.T, c *clocktest.Clock, path string)) {
	t.Helper()
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp("", "bound")
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(dir)
		check(rt, newClock(), filepath.Join(dir, "counters"))
	})
}

// Whatever a store has saved, the same configuration loads: far from the bound, at it,
// and after a flood that is much larger.
func TestR7WhateverWasSavedLoadsUnderTheSameBound(t *testing.T) {
	t.Parallel()
	histories(t, func(t *rapid.T, c *clocktest.Clock, path string) {
		bound := rapid.Int64Range(100<<10, 300<<10).Draw(t, "bound")
		names := rapid.Uint64Range(0, 2*uint64(bound)/40).Draw(t, "names")
		m := bounded(t, c, bound)
		fill(t, m, c, names)
		if err := m.Save(path); err != nil {
			t.Fatal(err)
		}
		again := bounded(t, c, bound)
		if _, err := again.Load(path); err != nil {
			_, bytes := m.Size()
			t.Fatalf("%d names, %d bytes of %d: %v", names, bytes, bound, err)
		}
		for n := range names + 100 {
			if a, b := look(t, m, boundSubject(n)), look(t, again, boundSubject(n)); a != b {
				t.Fatalf("key %d: %+v saved, %+v loaded", n, a, b)
			}
		}
	})
}

// fill charges names, some of them often.
func fill(t *rapid.T, m *failures.Memory, c *clocktest.Clock, names uint64) {
	often := rapid.IntRange(1, 40).Draw(t, "often")
	for n := range names {
		times := 1
		if n%101 == 0 {
			times = often
		}
		for range times {
			chargeOne(t, m, boundSubject(n))
		}
		c.Advance(1_000_003)
	}
}

func chargeOne(t tester, m *failures.Memory, s failures.Subject) {
	var usage [1]failures.Usage
	if _, err := m.Charge(context.Background(), []failures.Subject{s}, usage[:]); err != nil {
		t.Fatal(err)
	}
}

// With less room than it had, a store shares counts: no key finds more room than it had.
func TestR6ASmallerBoundIsStricterNeverForgetful(t *testing.T) {
	t.Parallel()
	histories(t, func(t *rapid.T, c *clocktest.Clock, path string) {
		bound := rapid.Int64Range(260<<10, 400<<10).Draw(t, "bound")
		names := rapid.Uint64Range(0, 2*uint64(bound)/40).Draw(t, "names")
		m := bounded(t, c, bound)
		fill(t, m, c, names)
		if err := m.Save(path); err != nil {
			t.Fatal(err)
		}
		_, had := m.Size()
		less := rapid.Int64Range(200<<10, bound).Draw(t, "less")
		again := bounded(t, c, less)
		l, err := again.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		if had <= less && l.Sharing > 0 || l.Needs > had {
			t.Fatalf("%d bytes of %d, and %+v", had, less, l)
		}
		for n := range names {
			a, b := look(t, m, boundSubject(n)), look(t, again, boundSubject(n))
			if b.Count < a.Count || b.Over&a.Over != a.Over || b.FreeIn < a.FreeIn {
				t.Fatalf("key %d: %+v saved, %+v loaded", n, a, b)
			}
		}
	})
}

// A process that is killed at the bound, between two saves or while it cannot save, starts
// again with every count.
func TestR7AKillAtTheBoundForgetsNoCharge(t *testing.T) {
	t.Parallel()
	histories(t, func(t *rapid.T, c *clocktest.Clock, path string) {
		bound := rapid.Int64Range(140<<10, 220<<10).Draw(t, "bound")
		names := rapid.Uint64Range(1, 2*uint64(bound)/40).Draw(t, "names")
		m := bounded(t, c, bound)
		if err := m.Journal(path); err != nil {
			t.Fatal(err)
		}
		saves := rapid.SliceOfN(rapid.Uint64Range(0, names), 0, 3).Draw(t, "saves")
		for n := range names {
			if slices.Contains(saves, n) {
				if err := m.Save(path); err != nil {
					t.Fatal(err)
				}
			}
			chargeOne(t, m, boundSubject(n))
			chargeOne(t, m, boundSubject(n/7))
			c.Advance(1_000_003)
		}
		again := bounded(t, c, bound)
		l, err := again.Load(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) || l.Lost > 0 {
			t.Fatal(l, err)
		}
		for n := range names {
			a, b := look(t, m, boundSubject(n)), look(t, again, boundSubject(n))
			if b.Count < a.Count || b.Over&a.Over != a.Over || b.FreeIn < a.FreeIn || l.Sharing == 0 && a != b {
				t.Fatalf("key %d: %+v killed, %+v loaded as %+v", n, a, b, l)
			}
		}
	})
}
