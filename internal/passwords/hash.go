package passwords

import (
	"bytes"
	"crypto/subtle"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// A Hash is a password hash that can be checked. Parse makes it; the zero Hash
// matches nothing.
type Hash struct {
	recipe
	salt, key []byte
}

// A recipe is all that the work of a check depends on. Its kind is a row of kinds.
type recipe struct {
	kind     int
	numbers  [3]int // cost, memory and so on: what each means is up to the kind
	saltSize int    // bytes
	keySize  int    // bytes
	password int    // its size, while it is checked; see sizeOf
}

var (
	errForm  = errors.New("damaged, or in an unknown form")
	errShort = errors.New("truncated: its digest has fewer than 16 bytes, which other passwords match by chance. Import " +
		"the whole hash")
	errCost = errors.New("more expensive than a password check may be")
)

// shortestKey is in bytes what MD5 has; Argon2, scrypt and PBKDF2 of real programs
// have 16 to 64. With one byte, one wrong password in 256 is right.
const shortestKey = 16

// longestHash bounds what is parsed at all.
const longestHash = 1 << 10

// Parse reads a hash of any kind that can be checked. The error is ErrHash; it names
// the kind and what is wrong, and holds no part of the hash. A text that stands for
// no password (see NoPassword) is an error, too.
func Parse(text string) (Hash, error) {
	err := errForm
	for i, k := range kinds {
		if k.form == nil || !strings.HasPrefix(text, k.prefix) || len(text) > longestHash {
			continue
		}
		var h Hash
		if h, err = k.parse(text); err == nil {
			h.kind = i
			return h, nil
		}
		if errors.Is(err, errCost) || errors.Is(err, errShort) {
			break
		}
	}
	kind, read := KindOf(text)
	if !read {
		return Hash{}, fmt.Errorf("%w: it is %s", ErrHash, kind)
	}
	return Hash{}, fmt.Errorf("%w: it is %s, %w", ErrHash, kind, err)
}

func (k *kind) parse(text string) (h Hash, err error) {
	found := k.form.FindStringSubmatch(text)
	if found == nil {
		return h, errForm
	}
	number := 0
	for i, group := range k.form.SubexpNames() {
		switch {
		case i == 0:
		case group == "salt":
			h.salt, err = read(k.salt, found[i])
		case group == "key":
			h.key, err = read(k.key, found[i])
		default:
			if h.numbers[number], err = k.digits(found[i]); err != nil {
				return h, errCost
			}
			number++
		}
		if err != nil {
			return h, errForm
		}
	}
	h.saltSize, h.keySize = len(h.salt), len(h.key)
	switch {
	case len(h.key) == 0 || len(h.key) > 96 || len(h.salt) > 128:
		return h, errForm
	case k.bounds != nil:
		err = k.bounds(h.numbers)
	}
	if err == nil && len(h.key) < shortestKey {
		err = errShort
	}
	return h, err
}

func read(how func(string) ([]byte, error), text string) ([]byte, error) {
	if how == nil {
		return []byte(text), nil
	}
	return how(text)
}

// digits reads a number: 0 for one that is left out, an error for one with more
// digits than any has.
func (k *kind) digits(text string) (int, error) {
	switch {
	case text == "":
		return 0, nil
	case k.number != nil:
		return k.number(text)
	}
	n, err := strconv.ParseInt(text, 10, 32)
	return int(n), err
}

// Kind is what an operator would call it, of a closed set.
func (h *Hash) Kind() string { return kinds[h.kind].name }

// Weak reports whether whoever gets the hash finds most passwords in no time.
func (h *Hash) Weak() bool { return kinds[h.kind].weak }

// matches does all the work, whatever the answer.
func (h *Hash) matches(password string) bool {
	k := kinds[h.kind]
	right := k.matches(h, []byte(password))
	if k.quoted && strings.ContainsAny(password, quotes) {
		right = k.matches(h, slashed(password)) || right
	}
	return right
}

func (k *kind) matches(h *Hash, password []byte) bool {
	return subtle.ConstantTimeCompare(k.derive(h, password), h.key) == 1 && len(h.key) > 0
}

// quotes are what PHP put a backslash before.
const quotes = `'"\`

// slashed is the password as WordPress hashes it: PHP once put a backslash before
// these in all that came from a form, and WordPress still does.
func slashed(password string) []byte {
	return []byte(strings.NewReplacer(`'`, `\'`, `"`, `\"`, `\`, `\\`).Replace(password))
}

// decoy is a hash of the same recipe that no known password has.
func (r recipe) decoy() Hash {
	return Hash{recipe: r, salt: bytes.Repeat([]byte("."), r.saltSize), key: bytes.Repeat([]byte("."), r.keySize)}
}

// NoPassword reports whether a stored text stands for an account without a password:
// it is empty, or begins with "!" (Django, shadow) or "*" (shadow, WordPress's table).
func NoPassword(text string) bool {
	return text == "" || strings.HasPrefix(text, "!") || strings.HasPrefix(text, "*")
}

// KindOf names the kind of a hash by how it begins, for people, and says whether
// hashes of that kind are read.
func KindOf(text string) (name string, read bool) {
	var longest string
	for _, k := range kinds {
		if k.prefix != "" && len(k.prefix) > len(longest) && strings.HasPrefix(text, k.prefix) {
			name, longest, read = k.name, k.prefix, k.form != nil
		}
	}
	switch {
	case name != "":
		return name, read
	case len(text) == 13 && cryptText.MatchString(text):
		return "DES crypt", false
	}
	return "an unknown hash (plain text?)", false
}
