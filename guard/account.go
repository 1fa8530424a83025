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

// ErrAccountName means that a name is empty, too long, not UTF-8 or has
// control characters in it.
var ErrAccountName = errors.New("guard: not an account name")

// NormaliseAccount is the one normaliser (R11): for the counters, the
// privileged places and the account look-up alike. Case, full and half width,
// surrounding space and Unicode form do not tell names apart; nothing else is
// merged. It is idempotent.
func NormaliseAccount(typed string) (string, error) {
	if plainASCII(typed) {
		return typed, nil
	}
	return normalise(typed, strings.ToLower)
}

// NormaliseExact is the normaliser for back ends to which Alice and alice are
// two accounts: it leaves case alone.
func NormaliseExact(typed string) (string, error) {
	return normalise(typed, func(s string) string { return s })
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
		next := strings.TrimSpace(norm.NFC.String(fold(width.Fold.String(norm.NFC.String(name)))))
		if next == name {
			return wellFormed(name)
		}
		name = next
	}
	return "", ErrAccountName
}

func wellFormed(name string) (string, error) {
	if name == "" || len(name) > MaxAccount || strings.ContainsFunc(name, unicode.IsControl) {
		return "", ErrAccountName
	}
	return name, nil
}
