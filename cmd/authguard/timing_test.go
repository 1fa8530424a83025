package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"authguard/internal/passwords"
)

// The order of the answers' times is by chance, for each two of: accounts with bcrypt, with MD5 crypt, which takes
// a hundredth of that, and no account. It is the only test that decides by a clock, so it is of the long form.
func TestR12TimesOfMixedHashesAreAlike(t *testing.T) {
	if os.Getenv("FULL_SIZE") == "" {
		t.Skip("in the long form: it compares times")
	}
	const each = 100
	checker, err := passwords.NewChecker(10, nil)
	if err != nil {
		t.Fatal(err)
	}
	bcrypt, err := checker.Hash(rightPassword)
	if err != nil {
		t.Fatal(err)
	}
	lines := ""
	for i := range each {
		lines += fmt.Sprintf("bcrypt%d:%s\nmd5-%[1]d:$apr1$fAFnt3mN$ReKmiQO4pVTZetrP2svuZ0\n", i, bcrypt)
	}
	file := filepath.Join(t.TempDir(), "htpasswd")
	if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newServer(t, quiet+"monitor: true\naccounts: {source: htpasswd, htpasswd: "+file+"}\n")
	for i := range 10 { // the kinds that are there are learned
		from(loopback(230, i)).login(t, s, fmt.Sprint("bcrypt", i), "wrong")
	}
	names, took := []string{"bcrypt", "md5-", "unknown"}, [3][]time.Duration{}
	for i := range each * len(names) {
		began, kind := time.Now(), i%len(names)
		got := from(loopback(231, i)).login(t, s, fmt.Sprint(names[kind], i/len(names)), "wrong")
		if got.status != http.StatusUnauthorized {
			t.Fatalf("%s: %d %s", names[kind], got.status, got.body)
		}
		took[kind] = append(took[kind], time.Since(began))
	}
	for a := range names {
		b := (a + 1) % len(names)
		later := 0
		for _, one := range took[a] {
			for _, other := range took[b] {
				if one > other {
					later++
				}
			}
		}
		odds := float64(later) / (each * each)
		t.Logf("%s is later than %s with odds of %.2f", names[a], names[b], odds)
		if odds < 0.3 || odds > 0.7 { // five standard deviations
			t.Errorf("%s and %s can be distinguished: odds %.2f", names[a], names[b], odds)
		}
	}
}
