package guard

import (
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
	"golang.org/x/text/width"
)

// MaxAccount is the longest account name looked at, in bytes as typed.
const MaxAccount = 256

// ErrAccountName means that a name is empty, too long, not UTF-8, or has a
// character in it that cannot be seen or stands for another one.
var ErrAccountName = errors.New("guard: not an account name")

// NormaliseAccount is the one normaliser (R11): for the counters, the
// privileged places and the account look-up alike. Case, full and half width,
// surrounding space and Unicode form (NFC) do not tell names apart; nothing else
// is merged. It is idempotent.
//
// What some back ends take for another letter and others do not is no name at
// all: merged, a success as the one would make places known for the other; kept
// apart, one account would have several counts. docs/configuration.md has the
// table.
func NormaliseAccount(typed string) (string, error) {
	if plainASCII(typed) {
		return typed, nil
	}
	return normalise(typed, strings.ToLower)
}

// NormaliseExact is the normaliser for back ends that compare names byte by byte,
// to which Alice and alice are two accounts. Only surrounding space goes; a name
// that is not in NFC, or has letters of another width, is none.
func NormaliseExact(typed string) (string, error) {
	name, err := normalise(typed, func(s string) string { return s })
	if err != nil || name != strings.TrimSpace(typed) {
		return "", ErrAccountName
	}
	return name, nil
}

// plainASCII is the common case, which needs no work: lower-case letters,
// digits and what addresses are made of.
func plainASCII(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c <= ' ' || c >= 0x7f || 'A' <= c && c <= 'Z' {
			return false
		}
	}
	return len(s) > 0 && len(s) <= MaxAccount
}

func normalise(typed string, fold func(string) string) (string, error) {
	if len(typed) > MaxAccount || !utf8.ValidString(typed) {
		return "", ErrAccountName
	}
	name := strings.TrimSpace(typed)
	// Lower case may compose differently, and folding width may uncover a
	// capital or a space; a few rounds reach what no longer changes.
	for range 4 {
		wide := width.Fold.String(name)
		next := norm.NFC.String(wide)
		// Before and after: NFC makes a K of the Kelvin sign, and of an I and a
		// dot above it one letter, which is an i in lower case.
		if !legible(wide, fold) || !legible(next, fold) {
			return "", ErrAccountName
		}
		next = strings.TrimSpace(norm.NFC.String(fold(next)))
		if next == name {
			return wellFormed(name)
		}
		name = next
	}
	return "", ErrAccountName
}

func wellFormed(name string) (string, error) {
	if name == "" || len(name) > MaxAccount {
		return "", ErrAccountName
	}
	return name, nil
}

// legible reports whether every character of a name can be seen and is itself to
// every back end.
func legible(name string, fold func(string) string) bool {
	for _, r := range name {
		if unicode.In(r, unseen...) || !unicode.In(r, assigned...) || strings.ContainsRune(blank, r) ||
			r >= utf8.RuneSelf && (ambiguous(r) || !returns(string(r), fold)) {
			return false
		}
	}
	return true
}

// unseen are control characters, format characters (direction, joiners, tags),
// line separators and what is ignored where it cannot be shown: with any of these
// one name has more spellings than there are guesses.
var unseen = []*unicode.RangeTable{
	unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector,
}

// assigned are the characters that Unicode has given a meaning. Databases and filters drop
// the others: those of private use, and those of no use yet.
var assigned = []*unicode.RangeTable{unicode.L, unicode.M, unicode.N, unicode.P, unicode.S, unicode.Z,
	unicode.Cc, unicode.Cf}

// blank are symbols without a picture: the Ogham space, the empty Braille pattern, the
// object replacement character, and the null note of music.
const blank = "\u1680\u2800\ufffc\ufffd\U0001d159"

// ambiguous reports whether Unicode's own forms replace a character by another:
// the Kelvin sign by K (NFC), a mathematical k by k (NFKC, which Django applies
// to names and LOWER() does not). RFC 8264 disallows them in identifiers, too.
func ambiguous(r rune) bool {
	one := string(r)
	composed := norm.NFC.String(one)
	if composed != one && utf8.RuneCountInString(composed) == 1 {
		return true
	}
	return norm.NFKC.String(one) != composed && !strings.ContainsRune(everyday, r)
}

// everyday are letters that have a compatibility form and are in everyday use:
// Armenian ew, Thai and Lao am, the Lao digraphs, Tibetan vowels and tsheg.
const everyday = "\u0587\u0e33\u0eb3\u0edc\u0edd\u0f0c\u0f77\u0f79"

// returns reports whether a letter's lower case leads back to it. That of İ, the
// Turkish I with a dot, is i, whose capital is I.
func returns(letter string, fold func(string) string) bool {
	low := fold(letter)
	return low == letter || strings.ToUpper(low) == letter
}
