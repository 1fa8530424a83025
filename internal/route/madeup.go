package route

import (
	"crypto/rand"
	"crypto/sha256"
	mathrand "math/rand/v2"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"authguard/internal/seal"
)

func madeUp(c Credential) Credential { return Credential{Password: MadeUp(c.Account, c.Password)} }

// leastLetters keeps a made-up name from being a real one: another customer number is an account, and each confirmation
// would be a guess there.
const leastLetters = 10

// madeUpName returns another account name with the characters of this one and, if these are few, more letters. It keeps
// the domain of an email address, because some apps accept one domain only.
func madeUpName(account string) string {
	name, domain, email := strings.Cut(account, "@")
	letters := 0
	for _, c := range name {
		if unicode.IsLetter(c) {
			letters++
		}
	}
	name = MadeUp("", name+strings.Repeat("a", max(0, leastLetters-letters)))
	if email {
		name += "@" + domain
	}
	return name
}

// MadeUp returns another password of the same length and kinds of characters: apps reject a password of another format
// before any other check. For an account, passwords of one format get one other password, or a second one if they are
// equal to it. Otherwise each request of the proxy would check a new PIN for the attacker, or one for each spelling of
// the account.
func MadeUp(account, password string) string {
	account = strings.Map(func(c rune) rune {
		if unicode.IsLetter(c) || unicode.IsDigit(c) {
			return c
		}
		return -1
	}, foldCase(norm.NFKD.String(account)))
	password = plainDigits(password)
	seed := seal.MAC(madeUpKey[:], account, "\x00", formatOf(password))
	random := mathrand.New(mathrand.NewChaCha8([32]byte(seed)))
	beyond := mathrand.New(mathrand.NewChaCha8([32]byte(seal.MAC(madeUpKey[:], account, "\x00", "\x00", password))))
	oneOf := func(characters string) rune { return rune(characters[random.IntN(len(characters))]) }
	number := mathrand.New(mathrand.NewChaCha8([32]byte(seal.MAC(madeUpKey[:], account, "\x00\x00\x00"))))
	if password == "" {
		password = "abcdefghijklmnop"
	}
	lower, digest := "abcdefghijklmnopqrstuvwxyz", isDigest(password)
	if digest {
		lower = "0123456789abcdef"
	}
	other := func(symbols bool) string {
		return strings.Map(func(c rune) rune {
			switch {
			case unicode.IsDigit(c) && !digest: // of one number: some apps read a PIN up to its last digit
				return zeroOf(c) + rune(number.IntN(10)) // in each script, as int() does
			case c > unicode.MaxASCII: // mostly a letter of the same script and case, not of the attacker's choice
				return c ^ rune(2*(1+beyond.IntN(3)))
			case unicode.IsLower(c):
				return oneOf(lower)
			case unicode.IsUpper(c):
				return oneOf(strings.ToUpper(lower))
			case unicode.IsDigit(c):
				return oneOf(lower)
			case symbols:
				return rune("!#$%*+-.=?@_"[beyond.IntN(12)])
			}
			return c
		}, password)
	}
	made := other(false)
	for strings.EqualFold(made, password) {
		made = other(true)
	}
	return made
}

// plainDigits replaces characters that NFKC replaces by digits, such as ① and ½: an app may do so, too.
func plainDigits(password string) string {
	if isASCII(password) {
		return password
	}
	var b strings.Builder
	for _, c := range password {
		if wide := norm.NFKC.String(string(c)); !unicode.IsDigit(c) && strings.ContainsAny(wide, "0123456789") {
			b.WriteString(wide)
			continue
		}
		b.WriteRune(c)
	}
	return b.String()
}

// isDigest reports whether a page has sent a digest in place of the password.
func isDigest(password string) bool {
	const letters = "abcdef"
	return len(password) >= 16 && strings.Trim(password, "0123456789"+letters) == "" &&
		strings.ContainsAny(password, letters)
}

// madeUpKey keeps made-up passwords secret. Each process has its own.
var madeUpKey = sha256.Sum256([]byte(rand.Text()))

// zeroOf returns the zero of a digit's script: in Unicode, the ten are in a row.
func zeroOf(c rune) rune {
	start := c
	for unicode.IsDigit(start - 1) {
		start--
	}
	return c - (c-start)%10
}

// formatOf replaces the letters and digits of ASCII by one of their kind. Without letters, it is the number of digits:
// apps that read a PIN as a number ignore the rest.
func formatOf(password string) string {
	if isDigest(password) {
		return "f" // a shorter digest is the beginning of a longer one
	}
	if !strings.ContainsFunc(password, unicode.IsLetter) {
		return strings.Map(func(c rune) rune {
			if unicode.IsDigit(c) {
				return '0'
			}
			return -1
		}, password)
	}
	return strings.Map(func(c rune) rune {
		switch {
		case 'a' <= c && c <= 'z':
			return 'a'
		case 'A' <= c && c <= 'Z':
			return 'A'
		case '0' <= c && c <= '9':
			return '0'
		}
		return c
	}, password)
}
