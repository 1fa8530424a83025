//go:build !race

package failures_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"authguard/failures"
	"authguard/internal/testing/clocktest"
)

func TestDamagedSnapshotIsRefusedWhole(t *testing.T) {
	t.Parallel()
	c := newClock()
	m := newMemory(t, c, 0)
	fail(t, m, victim)
	path := filepath.Join(t.TempDir(), "counters")
	if err := m.Save(path); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	into := newMemory(t, c, 0) // a refused file leaves it empty
	for i := range whole {
		for what, bad := range map[string][]byte{
			"cut":     whole[:i],
			"flipped": append(append(bytes.Clone(whole[:i]), whole[i]^0x10), whole[i+1:]...),
		} {
			if err := os.WriteFile(path, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := into.Load(path); !errors.Is(err, failures.ErrBadSnapshot) {
				t.Fatalf("%s at byte %d: %v", what, i, err)
			}
			if keys, _ := into.Size(); keys != 0 {
				t.Fatalf("%s at byte %d: took %d keys from it", what, i, keys)
			}
		}
	}
}

// A machine that goes down may leave nonsense, and a disk may change a byte: what is
// good counts, and what is not is counted. Half a record at the end is left by kill -9.
func TestADamagedJournalGivesAllThatIsGoodAndSaysWhatIsLost(t *testing.T) {
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
	size := len(whole) / 4 // the head and three records
	for i := range len(whole) {
		for what, one := range map[string]struct {
			text []byte
			good int
			lost uint64
			head bool // is damaged
		}{
			"cut":  {whole[:i], max(0, i/size-1), uint64(min(3, 4-i/size)), i < size},
			"torn": {append(bytes.Clone(whole), whole[size:][:i%size]...), 3, 0, false},
			"flipped": {append(append(bytes.Clone(whole[:i]), whole[i]^0x10), whole[i+1:]...),
				min(3, 2+max(0, 1-i/size)), uint64(min(1, i/size)), i < size},
			"zeroed": {append(bytes.Clone(whole[:i/size*size]), make([]byte, len(whole)-i/size*size)...),
				max(0, i/size-1), uint64(min(3, 4-i/size)), i < size},
		} {
			if err := os.WriteFile(files[0], one.text, 0o600); err != nil {
				t.Fatal(err)
			}
			into := newMemory(t, c, 0)
			l, err := into.Load(path)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatalf("%s at %d: %v", what, i, err)
			}
			if what == "cut" && one.head {
				one.lost = 0 // it does not say how many there were
			}
			if got := count(t, into, victim); got != one.good || l.Lost != one.lost || l.NoJournal != one.head {
				t.Fatalf("%s at %d: %d charges, %d lost, no journal: %v; want %+v", what, i, got, l.Lost, l.NoJournal, one)
			}
		}
	}
}

// Any history, saved and killed anywhere, counts as one that was never interrupted.
func TestR7AnyHistoryWithKillsIsAsOneWithout(t *testing.T) {
	t.Parallel()
	histories(t, func(t *rapid.T, c *clocktest.Clock, path string) {
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
