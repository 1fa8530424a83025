//go:build !race

package passwords_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"authguard/internal/passwords"
)

// Ensure that a list finds each of its passwords, however often it is there, and few others.
func TestEachPasswordIsFoundAndFewOthers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		words := rapid.SliceOfN(rapid.StringMatching(`[ -~é€]{1,20}`), 1, 2000).Draw(r, "words")
		f := build(t, &passwords.ListBuild{From: []string{write(t, "list", strings.Join(words, "\n")+"\n"+words[0]+"\n")}})
		once := map[string]bool{}
		for _, w := range words {
			if once[w] = true; !f.Has(w) {
				r.Fatalf("%q is not found", w)
			}
		}
		if f.Passwords() != uint64(len(once)) {
			r.Fatalf("%d passwords, want %d", f.Passwords(), len(once))
		}
		wrong := 0
		for i := range 20_000 {
			if f.Has(fmt.Sprint("not on any list ", i)) {
				wrong++
			}
		}
		if wrong > 200 { // 78 are usual
			r.Fatalf("%d of 20000 others are found", wrong)
		}
	})
}

// Ensure that a list has at most 9.6 bits a password, and that its build does not hold the passwords in memory.
// FULL_SIZE has ten million.
func TestAListIsCompactAndItsBuildBounded(t *testing.T) {
	n := 1_000_000
	if os.Getenv("FULL_SIZE") != "" {
		n *= 10
	}
	b := &passwords.ListBuild{From: []string{hashes(t, n)}, Output: filepath.Join(t.TempDir(), "leaked.bin")}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	built, err := b.Run(t.Context())
	runtime.ReadMemStats(&after)
	if err != nil || built.Passwords != uint64(n) {
		t.Fatal(built, err)
	}
	if most := int64(n) * 12 / 10; built.Bytes > most {
		t.Errorf("%d bytes, at most %d", built.Bytes, most)
	}
	if grown := (after.Sys - before.Sys) >> 20; grown > 384 {
		t.Errorf("the build took %d MiB", grown)
	}
	t.Logf("%+v, %d MiB", built, (after.Sys-before.Sys)>>20)
}
