package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"authguard/internal/passwords"
	"authguard/internal/testing/redistest"
)

// The order of the answers' times is by chance, for each two of: accounts with bcrypt, with MD5 crypt, which takes
// a hundredth of that, and no account. It decides by a clock, so it is of the long form.
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
	names, took := []string{"bcrypt", "md5-", "unknown"}, make([][]time.Duration, 3)
	for i := range each * len(names) {
		began, kind := time.Now(), i%len(names)
		got := from(loopback(231, i)).login(t, s, fmt.Sprint(names[kind], i/len(names)), "wrong")
		if got.status != http.StatusUnauthorized {
			t.Fatalf("%s: %d %s", names[kind], got.status, got.body)
		}
		took[kind] = append(took[kind], time.Since(began))
	}
	alikeInTime(t, names, took, 0.2)
}

// alikeInTime compares each two kinds of answers by their order, which is by chance: the odds that one is later than
// the other are a half, up to off.
func alikeInTime(t *testing.T, names []string, took [][]time.Duration, off float64) {
	t.Helper()
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
		odds := float64(later) / float64(len(took[a])*len(took[b]))
		t.Logf("%s is later than %s with odds of %.3f", names[a], names[b], odds)
		if odds < 0.5-off || odds > 0.5+off { // five standard deviations
			t.Errorf("%s and %s can be distinguished: odds %.3f", names[a], names[b], odds)
		}
	}
}

// While the step-up is on, right and wrong passwords, leaked or not, from unknown clients get the same status, headers
// and body, and at the same time, although a right one sends its owner a code.
func TestR32RightAndWrongPasswordsLookAlike(t *testing.T) {
	long(t)
	each, full := 3, os.Getenv("FULL_SIZE") != ""
	if full {
		each = 2000
	} else {
		t.Parallel()
	}
	var users []string
	list := rightPassword + "\n"
	for i := range each {
		users = append(users, fmt.Sprintf("owner%d@example.org", i), fmt.Sprintf("other%d@example.org", i))
		list += fmt.Sprintf("leaked guess %d\n", i)
	}
	box := openPostbox(t, false)
	s := newServer(t, fmt.Sprintf("origin: http://login.example.org\nlimits: {spray: off}\n"+
		"passwords: {cost: 10, queue_timeout: 1m, leaked: {file: leaked.bin}}\n"+
		"captcha_mode: {threshold: 5000, throttle_at: 0.002}\nmail: {server: 'smtp://%s', from: guard@example.org}\n",
		box.Addr()), append(users, "carol")...)
	if err := os.WriteFile(filepath.Join(s.dir, "list.txt"), []byte(list), 0o600); err != nil {
		t.Fatal(err)
	}
	s.must("password-list", "build", filepath.Join(s.dir, "list.txt"), "--output", filepath.Join(s.dir, "leaked.bin"))
	known := from("127.160.0.1")
	redistest.Until(t, "the list", func() bool {
		return strings.Contains(known.login(t, s, "carol", rightPassword).body, `"password_leaked":true`)
	})
	for i := range 12 {
		from(loopback(161, i)).login(t, s, "elsewhere", "wrong")
	}
	redistest.Until(t, "throttling", func() bool { return s.gauge(t, "authguard_throttling") == 1 })
	emails := make(chan int)
	go func() {
		for range 2 * each {
			<-box.letters
		}
		close(emails)
	}()
	names := []string{"right, leaked", "right", "wrong, leaked", "wrong"}
	took, face := make([][]time.Duration, len(names)), ""
	var order []int // by chance: a right password's email is sent during the next attempts
	for i := range each * len(names) {
		order = append(order, i)
	}
	rand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	for n, i := range order {
		of, kind := i/len(names), i%len(names)
		typed := []string{rightPassword, otherPassword, fmt.Sprint("leaked guess ", of), "wrong"}[kind]
		who := from(fmt.Sprintf("127.%d.%d.1", 170+n/256, n%256))
		began := time.Now()
		got := who.login(t, s, users[2*of+kind%2], typed)
		took[kind] = append(took[kind], time.Since(began))
		got.header.Del("Date")
		if this := fmt.Sprint(got.status, got.header, got.body); face == "" {
			face = this
		} else if this != face {
			t.Fatalf("%s:\n%s\nanother:\n%s", names[kind], this, face)
		}
	}
	if !strings.HasPrefix(face, "401 ") || !strings.Contains(face, "emailed a verification code") {
		t.Error(face)
	}
	if full {
		alikeInTime(t, names, took, 0.046)
	}
	<-emails // every right password was one
}
