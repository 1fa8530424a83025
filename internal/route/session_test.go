package route

import (
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// What is made up has the form of the password that it stands for, and is another one.
func TestWhatIsMadeUpIsAnotherPasswordOfTheSameForm(t *testing.T) {
	t.Parallel()
	kinds := func(s string) (all []bool) {
		for _, c := range s {
			all = append(all, unicode.IsLower(c), unicode.IsUpper(c), unicode.IsDigit(c), c > unicode.MaxASCII)
		}
		return all
	}
	check := func(t rapid.TB, password string) {
		made := MadeUp("alice", password)
		if strings.EqualFold(made, password) || len(made) != len(password) || !utf8.ValidString(made) {
			t.Fatalf("%q for %q", made, password)
		}
		for _, c := range password {
			if c > unicode.MaxASCII {
				return // of which there are too many kinds
			}
		}
		for i, kind := range kinds(made) {
			if kind != kinds(password)[i] {
				t.Fatalf("%q for %q", made, password)
			}
		}
	}
	for _, one := range []string{
		"a", "Z", "7", "!", " ", "!!!!", "Correct-Horse-7", "пароль", "Ārger", "\u07ff\uffff\U0010ffff", strings.Repeat("x", 300),
	} {
		check(t, one)
	}
	for c := range unicode.MaxRune {
		if utf8.ValidRune(c) {
			check(t, string(c))
		}
	}
	rapid.Check(t, func(t *rapid.T) { check(t, rapid.StringN(1, 40, -1).Draw(t, "password")) })
	if MadeUp("alice", "") == "" {
		t.Error("nothing is made up for an empty password")
	}
}

// Repeated probes of one account check one made-up password, or two: a PIN has few.
func TestMadeUpPasswordsOfOneFormatAreFew(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for i := range 10_000 {
		seen[MadeUp("alice", fmt.Sprintf("%04d", i))] = true
	}
	if len(seen) > 2 {
		t.Errorf("%d made-up passwords, want 2 at most", len(seen))
	}
	others := map[string]bool{}
	for i := range 100 {
		others[MadeUp(fmt.Sprint("user", i), "0000")] = true
	}
	if len(others) < 50 {
		t.Errorf("100 accounts share %d made-up passwords", len(others))
	}
}
