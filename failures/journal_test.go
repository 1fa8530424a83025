package failures_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"authguard/failures"
	"authguard/failures/failurestest"
	"authguard/internal/testing/clocktest"
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

// A sight is how much of a limitSet is used, and when its backoff is over.
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
	var usage [1]failures.Usage
	must(t, begun(t, c, path).Read(t.Context(), []failures.Subject{victim}, usage[:], nil))
	if usage[0].Over == 0 || usage[0].Failed != usage[0].Over {
		t.Errorf("%+v: what was undecided has failed, and no attempt waits for it", usage[0])
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
	return failures.Subject{Shard: k, Key: k, Limits: wideLimits, Bind: 0}
}

// wideLimits counts further than the tests do.
var wideLimits = failures.MustLimits(failures.Backoff{After: 1, First: time.Second, Max: time.Minute, Window: time.Hour}, failures.Limit{Failures: 100, Window: failurestest.Retain})

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

// What one process says is lost, the next one finds lost too, until a snapshot is saved;
// what is charged meanwhile is not mixed up with it.
func TestALostJournalIsSaid(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lose func(t *testing.T, files []string)
		want failures.Loaded
	}{
		"none": {func(*testing.T, []string) {}, failures.Loaded{Keys: 1}},
		"the only one is gone": {func(t *testing.T, files []string) { must(t, os.Remove(files[0])) },
			failures.Loaded{NoJournal: true}},
		"it is empty": {func(t *testing.T, files []string) { must(t, os.Truncate(files[0], 0)) },
			failures.Loaded{NoJournal: true}},
		"it is cut": {func(t *testing.T, files []string) {
			info, err := os.Stat(files[0])
			must(t, err)
			must(t, os.Truncate(files[0], info.Size()/2))
		}, failures.Loaded{Keys: 1, Lost: 2}},
		"its end is damaged": {func(t *testing.T, files []string) {
			text, err := os.ReadFile(files[0])
			must(t, err)
			text[len(text)-1] ^= 1
			must(t, os.WriteFile(files[0], text, 0o600))
		}, failures.Loaded{Keys: 1, Lost: 1}},
		"the first of two is gone": {func(t *testing.T, files []string) {
			must(t, os.Rename(files[0], strings.TrimSuffix(files[0], "1")+"3"))
		}, failures.Loaded{Keys: 1, Lost: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock, path := newClock(), filepath.Join(t.TempDir(), "counters")
			m := begun(t, clock, path)
			must(t, m.Save(path))
			for range 3 {
				fail(t, m, victim)
			}
			files, _ := filepath.Glob(path + ".journal-*")
			c.lose(t, files)
			kept := 0
			for range 2 {
				checked, err := failures.Check(path, failures.Key{})
				if must(t, err); checked.Lost != c.want.Lost || checked.NoJournal != c.want.NoJournal {
					t.Fatalf("checked: %+v, want %+v", checked, c.want)
				}
				again := newMemory(t, clock, 0)
				l, err := again.Load(path)
				l.Needs = 0
				if must(t, err); l != c.want {
					t.Fatalf("%+v, want %+v", l, c.want)
				}
				if kept > 0 && count(t, again, victim) != kept+1 {
					t.Fatalf("%d charges, want %d", count(t, again, victim), kept+1)
				}
				kept = count(t, again, victim)
				if l.NoJournal {
					break
				}
				must(t, again.Journal(path))
				fail(t, again, victim)
			}
		})
	}
}

// A shard is saved as of a moment of its own. Here the last one was saved before three charges,
// and the victim's after them: the journal has records that one of them has and the other lacks.
func TestR7ShardsSavedAtDifferentTimesNeitherLoseNorDouble(t *testing.T) {
	t.Parallel()
	clock, path := newClock(), filepath.Join(t.TempDir(), "counters")
	m := begun(t, clock, path)
	for range 3 {
		fail(t, m, victim)
	}
	first := path + ".journal-00000000000000000001"
	old, err := os.ReadFile(first)
	must(t, err)
	must(t, m.Save(path))
	fail(t, m, victim) // in the second journal
	load := func(what string, charges int, lost uint64) {
		t.Helper()
		into := newMemory(t, clock, 0)
		l, err := into.Load(path)
		if must(t, err); count(t, into, victim) != charges || l.Lost != lost {
			t.Errorf("%s: %d charges, want %d; %d lost, want %d", what, count(t, into, victim), charges, l.Lost, lost)
		}
	}
	damaged := bytes.Clone(old)
	damaged[len(old)/2] ^= 1
	must(t, os.WriteFile(first, damaged, 0o600))
	load("a damaged journal that the snapshot has outlived", 4, 0)

	snapshot, err := os.ReadFile(path)
	must(t, err)
	number := bytes.Index(snapshot, []byte{255, 3, 0, 0, 0, 0, 0, 0, 0}) + 1 // of the last shard
	snapshot[number] = 0
	sum := crc32.Checksum(snapshot[:len(snapshot)-crc32.Size], crc32.MakeTable(crc32.Castagnoli))
	must(t, os.WriteFile(path, binary.LittleEndian.AppendUint32(snapshot[:len(snapshot)-crc32.Size], sum), 0o600))
	must(t, os.WriteFile(first, old, 0o600))
	load("both journals", 4, 0)
	must(t, os.Remove(first))
	load("without the first", 4, 3)
	files, _ := filepath.Glob(path + ".journal-*")
	for _, name := range files {
		must(t, os.Remove(name))
	}
	load("without any", 3, 0)
	fail(t, begun(t, clock, path), victim)
	load("charged since", 4, 3)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestASnapshotOfAnotherOwnerIsRefused(t *testing.T) {
	t.Parallel()
	c := newClock()
	owned := func(owner byte) *failures.Memory {
		m, err := failures.NewMemory(failures.Config{Now: c.Now, Owner: failures.Key{owner}})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	for saved, wants := range map[byte]map[byte]error{
		0: {0: nil, 1: nil}, // no owner is noted
		1: {0: nil, 1: nil, 2: failures.ErrOtherOwner},
	} {
		path := filepath.Join(t.TempDir(), "counters")
		m := owned(saved)
		fail(t, m, victim)
		must(t, m.Save(path))
		for owner, want := range wants {
			if _, err := owned(owner).Load(path); !errors.Is(err, want) {
				t.Errorf("owner %d, saved by %d: %v, want %v", owner, saved, err, want)
			}
		}
		path = filepath.Join(t.TempDir(), "counters") // the journal alone
		m = owned(saved)
		must(t, m.Journal(path))
		fail(t, m, victim)
		for owner, want := range wants {
			must(t, owned(owner).Save(path))
			if _, err := owned(owner).Load(path); !errors.Is(err, want) {
				t.Errorf("owner %d, journal of %d: %v, want %v", owner, saved, err, want)
			}
			if _, err := failures.Check(path, failures.Key{owner}); !errors.Is(err, want) {
				t.Errorf("check by owner %d, journal of %d: %v, want %v", owner, saved, err, want)
			}
		}
	}
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

// While the journal cannot be written nothing is charged; afterwards it goes on by itself, and
// a kill then forgets nothing and brings nothing back.
func TestR27AChargeThatCannotBeWrittenIsNone(t *testing.T) {
	t.Parallel()
	c, folder := newClock(), filepath.Join(t.TempDir(), "data")
	must(t, os.Mkdir(folder, 0o700))
	path := filepath.Join(folder, "counters")
	m := begun(t, c, path)
	var usage [1]failures.Usage
	subjects := []failures.Subject{victim}
	fail(t, m, victim)
	right, err := m.Charge(t.Context(), subjects, usage[:])
	must(t, err)
	must(t, os.Rename(folder, folder+".away"))
	m.CloseJournal()
	for range 1000 {
		if id, err := m.Charge(t.Context(), subjects, usage[:]); err == nil || id.Charged() || m.Unwritten() == nil {
			t.Fatalf("%v, %v, %v", id, err, m.Unwritten())
		}
	}
	must(t, m.TakeBack(t.Context(), right, subjects))
	if got := count(t, m, victim); got != 1 {
		t.Errorf("%d charges, want the first", got)
	}
	must(t, os.Rename(folder+".away", folder))
	for n := range 6 {
		if room := fail(t, m, victim); room != (n < 4) || m.Unwritten() != nil {
			t.Errorf("guess %d afterwards: room %v, %v", n, room, m.Unwritten())
		}
	}
	journals, err := filepath.Glob(path + ".journal-*")
	must(t, err)
	for _, name := range journals { // what was refused is not kept, so memory is bounded
		if info, err := os.Stat(name); err != nil || info.Size() > 4<<10 {
			t.Errorf("%s holds what was refused: %d bytes, %v", name, info.Size(), err)
		}
	}
	again := newMemory(t, c, 0)
	l, err := again.Load(path)
	if !errors.Is(err, fs.ErrNotExist) || l.Lost > 0 || count(t, again, victim) != 5 {
		t.Errorf("%d after a kill, %+v, %v", count(t, again, victim), l, err)
	}
}
