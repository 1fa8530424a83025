package guard

import (
	"testing"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// Each of these was taken for another name, or reached the back end as a name
// that looks like another.
func TestR11LookAlikesAreNoNames(t *testing.T) {
	t.Parallel()
	for what, names := range map[string][]string{
		"letters whose case crosses letters":  {"KİM", "I\u0307", "ｋＩ\u0307m", "STRAẞE"},
		"letters that Unicode forms replace":  {"\u212aim", "\u212bsa", "5\u2126", "\ufa19"},
		"letters that compatibility replaces": {"ſmith", "ﬁn", "ℓee", "𝐤im", "ⓚim", "k²", "kªm", "µ", "a…b", "k\u00a0m", "\u01c5"},
		"format characters":                   {"kim\u200b", "k\u200dim", "\u202ekim", "kim\u00ad", "\ufeffkim", "ki\u2060m", "k\U000e0069m", "\u0600kim"},
		"ignorable characters":                {"kim\ufe0f", "kim\U000e0100", "k\u034fim", "kim\u115f", "kim\u3164", "kim\uffa0", "kim\u17b4", "kim\u2065", "k\u180bim"},
		"blank symbols":                       {"k\u2800im", "k\u1680im", "kim\ufffc", "k\ufffdim", "k\U0001d159im"},
		"private use and no use yet": {"k\ue000im", "kim\U000f0000", "k\U0010fffdim", "k\u0378im",
			"kim\U0001ff00", "k\ufdd0im", "kim\uffff", "k\U000e1000im"},
		"lines": {"k\u2028im", "k\u2029im", "k\nim"},
	} {
		for _, name := range names {
			if got, err := NormaliseAccount(name); err == nil {
				t.Errorf("%s: %+q is taken for %+q", what, name, got)
			}
		}
	}
	invisible := 0
	for r := range rune(0xe1000) {
		if unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) {
			invisible++
			for _, normalise := range []func(string) (string, error){NormaliseAccount, NormaliseExact} {
				if got, err := normalise("ki" + string(r) + "m"); err == nil {
					t.Errorf("U+%04X cannot be seen in %+q", r, got)
				}
			}
		}
	}
	if invisible < 400 {
		t.Errorf("only %d invisible characters were tried", invisible)
	}
}

// What people are called is a name, in every script.
func TestR11PeoplesNamesAreNames(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]string{
		"José": "josé", "JOSE\u0301": "josé", "Łukasz": "łukasz", "ÅSA": "åsa", "Ωmega": "ωmega", "straße": "straße", "yıldız": "yıldız",
		"Αλέξης": "αλέξης", "ΑΛΈΞΗΣ": "αλέξησ", "Дмитрий": "дмитрий", "李小龍": "李小龍", "山田ﾀﾛｳ": "山田タロウ", "ａｌｉｃｅ": "alice",
		"⠗⠊⠎": "⠗⠊⠎", "김철수": "김철수", "น้ำ": "น้ำ", "محمد": "محمد", "דוד": "דוד", "राम": "राम",
		"\u0958": "\u0915\u093c", "ᏣᎳᎩ": "ꮳꮃꭹ",
		" Ann@Example.COM\u00a0": "ann@example.com", "o'neil-smith": "o'neil-smith", "🦊": "🦊",
	} {
		if got, err := NormaliseAccount(typed); err != nil || got != want {
			t.Errorf("%+q: %+q, %v; want %+q", typed, got, err, want)
		}
	}
}

// sameLetters reports whether two names are the same but for case, where that
// leads from one letter to one other and back, and the Unicode form.
func sameLetters(a, b string) bool {
	one, other := []rune(norm.NFD.String(a)), []rune(norm.NFD.String(b))
	if len(one) != len(other) {
		return false
	}
	for i, r := range one {
		if s := other[i]; r != s && (unicode.ToLower(r) != unicode.ToLower(s) || unicode.ToUpper(r) != unicode.ToUpper(s)) {
			return false
		}
	}
	return true
}
