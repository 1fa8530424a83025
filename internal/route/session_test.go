package route

import (
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
		made := MadeUp(password)
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
	if MadeUp("") == "" {
		t.Error("nothing is made up for an empty password")
	}
}
