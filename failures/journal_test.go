package failures_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"authguard/failures"
	"authguard/failures/failurestest"
	"authguard/internal/clocktest"
)

// A tester is a *testing.T or a *rapid.T.
type tester interface {
	Helper()
	Fatal(...any)
}

// begun is a store that keeps a journal, after whatever is there.
func begun(t tester, c *clocktest.Clock, path string) *failures.Memory {
	t.Helper()
	m := newMemory(t, c, 0)
	if _, err := m.Load(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if err := m.Journal(path); err != nil {
		t.Fatal(err)
	}
	return m
}

func count(t tester, m *failures.Memory, s failures.Subject) int {
	return look(t, m, s).Used[0].Charges
}

// A sight is how much of a ladder is used, and when its backoff is over.
type sight struct {
	failures.Used
	failures.Usage
}

func look(t tester, m *failures.Memory, s failures.Subject) (seen sight) {
	t.Helper()
	var used [1]failures.Used
	var usage [1]failures.Usage
	if err := m.Read(context.Background(), []failures.Subject{s}, usage[:], used[:]); err != nil {
		t.Fatal(err)
	}
	usage[0].Failed = 0 // what was undecided has failed with the process
	return sight{used[0], usage[0]}
}

// A process that is killed never saves: what it leaves is the journal.
func TestR7AKillForgetsNoCharge(t *testing.T) {
	t.Parallel()
	c := newClock()
	path := filepath.Join(t.TempDir(), "counters")
	for n := range 12 {
		if room := fail(t, begun(t, c, path), victim); room != (n < 5) {
			t.Errorf("guess %d, after as many kills: room %v", n, room)
		}
	}
}

func TestR7WhatIsTakenBackAndClearedStaysSoAfterAKill(t *testing.T) {
	t.Parallel()
	c := newClock()
	path := filepath.Join(t.TempDir(), "counters")
	m, other := begun(t, c, path), nameSubject(7)
	subjects := []failures.Subject{victim}
	var usage [1]failures.Usage
	for range 3 {
		fail(t, m, victim)
		fail(t, m, other)
	}
	id, err := m.Charge(t.Context(), subjects, usage[:])
	if err := errors.Join(err, m.TakeBack(t.Context(), id, subjects), m.Clear(t.Context(), []failures.Subject{other}, failures.Every)); err != nil {
		t.Fatal(err)
	}
	again := begun(t, c, path)
	if a, b := count(t, again, victim), count(t, again, other); a != 3 || b != 0 {
		t.Errorf("%d and %d, want 3 and 0", a, b)
	}
}

func nameSubject(n uint64) failures.Subject {
	k := nameKey(n)
	return failures.Subject{Shard: k, Key: k, Ladder: wideLadder, Bind: 0}
}

// wideLadder counts further than the tests do.
var wideLadder = failures.MustLadder(failures.Backoff{After: 1, First: time.Second, Max: time.Minute, Window: time.Hour}, failures.Rung{Failures: 100, Window: failurestest.Retain})

// While it is charged it is saved, again and again; then it is killed. Nothing may be
// missing, and nothing may be there twice.
func TestR7SavingWhileCountingNeitherLosesNorDoubles(t *testing.T) {
	t.Parallel()
	c := newClock()
	path := filepath.Join(t.TempDir(), "counters")
	m := begun(t, c, path)
	const keys, each = 64, 40
	var counting, saving sync.WaitGroup
	done := make(chan struct{})
	saving.Go(func() {
		for {
			if err := m.Save(path); err != nil {
				t.Error(err)
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
	for n := range uint64(keys) {
		counting.Go(func() {
			for range each {
				fail(t, m, nameSubject(n))
			}
		})
	}
	counting.Wait()
	close(done)
	saving.Wait()
	fail(t, m, nameSubject(0))
	again := begun(t, c, path)
	for n := range uint64(keys) {
		want := each
		if n == 0 {
			want++
		}
		if got := count(t, again, nameSubject(n)); got != want {
			t.Errorf("key %d: %d, want %d", n, got, want)
		}
	}
	if left, _ := filepath.Glob(path + ".journal-*"); len(left) != 2 { // the killed one's, and this one's
		t.Errorf("journals are left: %q", left)
	}
}

// A machine that goes down may leave half a record, or nonsense.
func TestAJournalWithADamagedTailGivesWhatIsBeforeIt(t *testing.T) {
	t.Parallel()
	c := newClock()
	path := filepath.Join(t.TempDir(), "counters")
	m := begun(t, c, path)
	for range 3 {
		fail(t, m, victim)
	}
	files, _ := filepath.Glob(path + ".journal-*")
	whole, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	size := len(whole) / 3
	for i := range len(whole) {
		for what, bad := range map[string][]byte{
			"cut":     whole[:i],
			"flipped": append(append(bytes.Clone(whole[:i]), whole[i]^0x10), whole[i+1:]...),
			"zeroed":  append(bytes.Clone(whole[:i/size*size]), make([]byte, len(whole)-i/size*size)...),
		} {
			if err := os.WriteFile(files[0], bad, 0o600); err != nil {
				t.Fatal(err)
			}
			into := newMemory(t, c, 0)
			if _, err := into.Load(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatalf("%s at %d: %v", what, i, err)
			}
			if got := count(t, into, victim); got != i/size {
				t.Fatalf("%s at %d: %d charges, want %d", what, i, got, i/size)
			}
		}
	}
}

func TestASnapshotOfAnotherOwnerIsRefused(t *testing.T) {
	t.Parallel()
	c := newClock()
	path := filepath.Join(t.TempDir(), "counters")
	owned := func(owner byte) *failures.Memory {
		m, err := failures.NewMemory(failures.Config{Now: c.Now, Owner: failures.Key{owner}})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	m := owned(1)
	fail(t, m, victim)
	if err := m.Save(path); err != nil {
		t.Fatal(err)
	}
	for owner, want := range map[byte]error{0: nil, 1: nil, 2: failures.ErrOtherOwner} {
		if _, err := owned(owner).Load(path); !errors.Is(err, want) {
			t.Errorf("owner %d: %v, want %v", owner, err, want)
		}
	}
}

// Any history, saved and killed anywhere, counts as one that was never interrupted.
func TestR7AnyHistoryWithKillsIsAsOneWithout(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "journal")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		path, c := filepath.Join(dir, "counters"), newClock()
		whole, killed := newMemory(t, c, 0), begun(t, c, path)
		type charge struct {
			of          uint64
			whole, mine failures.ChargeID
		}
		var open []charge
		do := func(err error) {
			if err != nil {
				t.Fatal(err)
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			n := rapid.Uint64Range(0, 3).Draw(t, "key")
			subjects := []failures.Subject{nameSubject(n)}
			var usage [1]failures.Usage
			switch rapid.IntRange(0, 6).Draw(t, "step") {
			case 0, 1, 2:
				a, err := whole.Charge(context.Background(), subjects, usage[:])
				do(err)
				b, err := killed.Charge(context.Background(), subjects, usage[:])
				do(err)
				open = append(open, charge{n, a, b})
			case 3:
				if len(open) > 0 {
					one := open[len(open)-1]
					open = open[:len(open)-1]
					subjects[0] = nameSubject(one.of)
					do(whole.TakeBack(context.Background(), one.whole, subjects))
					do(killed.TakeBack(context.Background(), one.mine, subjects))
				}
			case 4:
				what := rapid.SampledFrom([]failures.Mask{failures.Every, failures.BackoffBit}).Draw(t, "what")
				do(whole.Clear(context.Background(), subjects, what))
				do(killed.Clear(context.Background(), subjects, what))
				open = slices.DeleteFunc(open, func(o charge) bool { return o.of == n && what == failures.Every })
			case 5:
				do(killed.Save(path))
			default:
				killed = begun(t, c, path)
			}
			c.Advance(1_000_003)
		}
		killed = begun(t, c, path)
		for n := range uint64(4) {
			if a, b := look(t, whole, nameSubject(n)), look(t, killed, nameSubject(n)); a != b {
				t.Fatalf("key %d: %+v without kills, %+v with", n, a, b)
			}
		}
	})
}

func BenchmarkCharge(b *testing.B) {
	for name, journaled := range map[string]bool{"memory": false, "journal": true} {
		b.Run(name, func(b *testing.B) {
			m := newMemory(b, newClock(), 0)
			if journaled {
				if err := m.Journal(filepath.Join(b.TempDir(), "counters")); err != nil {
					b.Fatal(err)
				}
			}
			var usage [1]failures.Usage
			for n := uint64(0); b.Loop(); n++ {
				subjects := [1]failures.Subject{nameSubject(n % 10_000)}
				if _, err := m.Charge(context.Background(), subjects[:], usage[:]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
