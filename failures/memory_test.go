package failures_test

import (
	"context"
	"encoding/binary"
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"authguard/failures"
	"authguard/failures/failurestest"
	"authguard/internal/testing/clocktest"
)

func newClock() *clocktest.Clock { return clocktest.At(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)) }

func newMemory(t tester, c *clocktest.Clock, maxBytes int64) *failures.Memory {
	t.Helper()
	m, err := failures.NewMemory(failures.Config{
		MaxBytes: maxBytes, Retain: failurestest.Retain, PendingFor: failurestest.PendingFor, Now: c.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestMemoryKeepsTheContract(t *testing.T) {
	t.Parallel()
	failurestest.Run(t, func(t *testing.T) failurestest.Fixture {
		c := newClock()
		m := newMemory(t, c, 0)
		return failurestest.Fixture{Store: m, Advance: func(d time.Duration) {
			c.Advance(d)
			if d > failurestest.Retain {
				m.Sweep() // as it would have been in that time
			}
		}}
	})
}

// victim is a key one failure below its limit; flood invents other names.
var (
	nameLimits = failures.MustLimits(failures.Backoff{}, failures.Limit{Failures: 5, Window: failurestest.Retain})
	victim     = failures.Subject{Shard: nameKey(1 << 60), Key: nameKey(1 << 60), Limits: nameLimits, Bind: failures.Every}
)

// nameKey is spread like a keyed digest.
func nameKey(n uint64) (k failures.Key) {
	for half := range 2 { // splitmix64
		n += 0x9e3779b97f4a7c15
		x := (n ^ n>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		binary.LittleEndian.PutUint64(k[8*half:], x^x>>31)
		n = x ^ uint64(half)
	}
	return k
}

func fail(t *testing.T, m *failures.Memory, s failures.Subject) bool {
	t.Helper()
	var out [1]failures.Usage
	at, err := m.Charge(t.Context(), []failures.Subject{s}, out[:])
	if err != nil {
		t.Fatal(err)
	}
	return at.Charged()
}

func TestR7SnapshotRestoresEveryCount(t *testing.T) {
	t.Parallel()
	c := newClock()
	m := newMemory(t, c, 0)
	path := filepath.Join(t.TempDir(), "counters")
	for n := range uint64(5000) {
		k := nameKey(n % 1300)
		fail(t, m, failures.Subject{Shard: k, Key: k, Limits: nameLimits, Bind: 0})
		c.Advance(time.Second)
	}
	if err := m.Save(path); err != nil {
		t.Fatal(err)
	}
	if m.Changed() {
		t.Error("changed right after it was saved")
	}
	c.Advance(time.Minute)
	again := newMemory(t, c, 0)
	if l, err := again.Load(path); err != nil || l != (failures.Loaded{Keys: 1300, Needs: l.Needs}) {
		t.Fatalf("loaded %+v, %v; want 1300 keys", l, err)
	}
	for n := range uint64(1300) {
		k := nameKey(n)
		s := []failures.Subject{{Shard: k, Key: k, Limits: nameLimits, Bind: failures.Every}}
		var before, after [1]failures.Usage
		if err := errors.Join(m.Read(t.Context(), s, before[:], nil), again.Read(t.Context(), s, after[:], nil)); err != nil {
			t.Fatal(err)
		}
		if before[0].Over != after[0].Over || before[0].Count != after[0].Count || before[0].FreeIn != after[0].FreeIn {
			t.Fatalf("key %d: %+v before, %+v after", n, before[0], after[0])
		}
	}
	c.Advance(failurestest.Retain + time.Millisecond)
	if l, err := newMemory(t, c, 0).Load(path); err != nil || l.Keys != 0 {
		t.Errorf("loaded %+v, %v; want no key: all charges are too old to count", l, err)
	}
}

// Times are saved in 32 bits, which hold 25 days before and after.
func TestR7AServerMayBeStoppedForMonths(t *testing.T) {
	t.Parallel()
	for _, killed := range []bool{false, true} {
		for _, days := range []float64{0, 1.5, 20, 24.8, 25, 30, 45, 49.5, 50.5, 51, 80, 400} {
			c, path := newClock(), filepath.Join(t.TempDir(), "counters")
			m := begun(t, c, path)
			for range 3 {
				fail(t, m, victim)
			}
			if !killed {
				must(t, m.Save(path))
			}
			c.Advance(time.Duration(days * float64(24*time.Hour)))
			want := 0
			if days == 0 {
				want = 3
			}
			if n := count(t, begun(t, c, path), victim); n != want {
				t.Errorf("killed %t, after %.1f days: %d charges, want %d", killed, days, n, want)
			}
		}
	}
}

// NTP may correct a clock after the start. The next process starts with the right one.
func TestR7AClockThatIsSetForwardExpiresNothingAtTheNextStart(t *testing.T) {
	t.Parallel()
	for _, days := range []int64{2, 49, 60, 20_000} { // the last one is 1972
		setForward(t, days)
	}
}

func setForward(t *testing.T, days int64) {
	t.Helper()
	c, path := newClock(), filepath.Join(t.TempDir(), "counters")
	m := begun(t, c, path)
	m.StartedWithClockBehind(days * 24 * 3600 * 1000)
	if !m.Changed() {
		t.Error("the files have the wrong time, and are not written again")
	}
	for range 2 {
		fail(t, m, victim)
	}
	must(t, m.Save(path))
	if m.Changed() {
		t.Error("nothing has changed since")
	}
	fail(t, m, victim) // in the journal only
	subjects := []failures.Subject{victim}
	id, err := m.Charge(t.Context(), subjects, make([]failures.Usage, 1))
	must(t, err)
	must(t, m.TakeBack(t.Context(), id, subjects))
	again := begun(t, c, path)
	if n := count(t, again, victim); n != 3 {
		t.Errorf("%d days: %d charges, want 3", days, n)
	}
	c.Advance(failurestest.Retain + time.Second)
	if n := count(t, again, victim); n != 0 {
		t.Errorf("%d days: %d charges after the window, want 0", days, n)
	}
}

// The clock was set back after the start; the journal alone is left.
func TestR7AClockThatIsSetBackExpiresNothingAtTheNextStart(t *testing.T) {
	t.Parallel()
	for _, days := range []int64{2, 30, 40, 60, 400} {
		c, path := newClock(), filepath.Join(t.TempDir(), "counters")
		m := begun(t, c, path)
		m.StartedWithClockBehind(-days * 24 * 3600 * 1000)
		for range 3 {
			fail(t, m, victim)
		}
		if n := count(t, begun(t, c, path), victim); n != 3 {
			t.Errorf("%d days: %d charges, want 3", days, n)
		}
	}
}

func TestSnapshotFromAWrongClockCountsFromNow(t *testing.T) {
	t.Parallel()
	for _, killed := range []bool{false, true} { // then the journal alone is left
		ahead, right := newClock(), newClock()
		ahead.Advance(365 * 24 * time.Hour)
		path := filepath.Join(t.TempDir(), "counters")
		m := begun(t, ahead, path)
		fail(t, m, victim)
		ahead.Advance(time.Minute)
		for range 4 {
			fail(t, m, victim)
		}
		if !killed {
			must(t, m.Save(path))
		}
		again := begun(t, right, path)
		if fail(t, again, victim) {
			t.Errorf("killed %v: charges from a clock that was ahead are forgotten", killed)
		}
		right.Advance(failurestest.Retain - 30*time.Second) // by a snapshot, the first was made a minute before the others
		if fail(t, again, victim) != !killed {
			t.Errorf("killed %v: the age of a charge is not what it was", killed)
		}
		right.Advance(time.Minute)
		again.Sweep()
		if !fail(t, again, victim) {
			t.Errorf("killed %v: a charge from a clock that was ahead is held for ever", killed)
		}
	}
}

func TestClockThatGoesBackOpensNoWindow(t *testing.T) {
	t.Parallel()
	c := newClock()
	m := newMemory(t, c, 0)
	for range 5 {
		fail(t, m, victim)
	}
	c.Advance(-10 * 24 * time.Hour)
	if fail(t, m, victim) {
		t.Error("setting the clock back made room")
	}
}

func TestAShorterRetainRemovesNothing(t *testing.T) {
	t.Parallel()
	c := newClock()
	m := newMemory(t, c, 0)
	for range 5 {
		fail(t, m, victim)
	}
	if err := m.Configure(time.Minute, failurestest.PendingFor); err != nil {
		t.Fatal(err)
	}
	c.Advance(time.Hour)
	m.Sweep()
	if fail(t, m, victim) {
		t.Error("a reload with shorter windows forgot what the earlier limits count")
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t, newClock(), 0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		m.Run(ctx)
	})
}

func TestLargestLimitsNeverLosesCount(t *testing.T) {
	t.Parallel()
	c := newClock()
	m := newMemory(t, c, 0)
	s := victim
	s.Limits = failures.MustLimits(failures.Backoff{}, failures.Limit{Failures: failures.MaxFailures, Window: failurestest.Retain})
	s.Bind = 0
	for range 9000 {
		fail(t, m, s)
	}
	s.Bind = failures.Every
	if fail(t, m, s) {
		t.Errorf("room after 9000 charges on a limit of %d", failures.MaxFailures)
	}
	if keys, _ := m.Size(); keys != 1 {
		t.Errorf("%d keys", keys)
	}
}
