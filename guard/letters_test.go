//go:build !race

package guard

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// Every letter there is, each by itself and behind a letter that it may combine
// with.
func TestR11NoTwoLettersAreOneName(t *testing.T) {
	t.Parallel()
	for _, before := range []string{"", "I"} {
		names := map[string][]string{}
		for r := rune(0x21); r <= unicode.MaxRune; r++ {
			if !utf8.ValidRune(r) || r > 0x3ffff && r < 0xe0000 || r > 0xe0fff { // nothing is assigned there
				continue
			}
			typed := before + string(r)
			if name, err := NormaliseAccount(typed); err == nil {
				names[name] = append(names[name], typed)
			}
			if name, err := NormaliseExact(typed); err == nil && name != strings.TrimSpace(typed) {
				t.Errorf("%+q is %+q to those who tell case apart", typed, name)
			}
		}
		for name, all := range names {
			for _, typed := range all {
				if !sameLetters(width.Fold.String(strings.TrimSpace(typed)), name) {
					t.Errorf("%+q is %+q", typed, name)
				}
			}
		}
		if len(names) < 140_000 {
			t.Errorf("only %d names after %q", len(names), before)
		}
	}
}
