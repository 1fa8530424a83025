package passwords

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha512"
	"encoding/base64"
	"hash"
	"math/bits"

	"golang.org/x/crypto/argon2"

	"bytes"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	gocrypt "github.com/go-crypt/x/argon2"
	"github.com/go-crypt/x/crypt"
	"github.com/go-crypt/x/yescrypt"
	"golang.org/x/crypto/bcrypt"
	"golang.org/x/crypto/scrypt"
)

// A Hash is a parsed password hash. The zero Hash matches no password.
type Hash struct {
	recipe
	salt, key []byte
}

// A recipe contains everything that the cost of a check depends on.
type recipe struct {
	kind     int
	numbers  [3]int // cost, memory and so on, depending on the kind
	saltSize int    // bytes
	keySize  int    // bytes
	password int    // its size during a check; see sizeOf
}

var (
	errForm  = errors.New("damaged, or in an unknown form")
	errShort = errors.New("truncated: its digest has fewer than 16 bytes, which other passwords match by chance. Import " +
		"the whole hash")
	errCost = errors.New("more expensive than a password check may be")
)

// shortestKey is the length of MD5 in bytes; Argon2, scrypt and PBKDF2 of real programs have 16 to 64. With one byte,
// one in 256 wrong passwords would match.
const shortestKey = 16

const longestHash = 1 << 10

// Parse parses a hash of a supported kind. The error wraps ErrHash, and names the kind and the problem, but contains
// no part of the hash. NoPassword texts are also an error.
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

// digits parses a number: 0 if it is missing, an error if it has too many digits.
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

// Kind returns the kind's name, of a closed set.
func (h *Hash) Kind() string { return kinds[h.kind].name }

// Weak reports whether an attacker with the hash recovers most passwords quickly.
func (h *Hash) Weak() bool { return kinds[h.kind].weak }

// matches does the same work for every answer.
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

// quotes are the characters that PHP prefixed with a backslash.
const quotes = `'"\`

// slashed returns the password as WordPress hashes it: PHP once prefixed these characters in all form fields with a
// backslash, and WordPress still does.
func slashed(password string) []byte {
	return []byte(strings.NewReplacer(`'`, `\'`, `"`, `\"`, `\`, `\\`).Replace(password))
}

// decoy returns a hash of the same recipe that no known password matches.
func (r recipe) decoy() Hash {
	return Hash{recipe: r, salt: bytes.Repeat([]byte("."), r.saltSize), key: bytes.Repeat([]byte("."), r.keySize)}
}

// NoPassword reports whether a stored text means an account without a password: it is empty, or begins with "!"
// (Django, shadow) or "*" (shadow, WordPress's table).
func NoPassword(text string) bool {
	return text == "" || strings.HasPrefix(text, "!") || strings.HasPrefix(text, "*")
}

// KindOf returns the name of a hash's kind by its prefix, and whether Parse supports it.
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

// The maximum cost of one check: about three seconds of one core, and memory that only the number of concurrent
// checks bounds further (R19).
const (
	maxMemory     = 256 << 20  // bytes
	maxPasses     = 2 << 30    // bytes, over all passes, of Argon2 and scrypt
	maxIterations = 10_000_000 // of PBKDF2
	maxRounds     = 1_000_000  // of SHA crypt
	maxPhpass     = 22         // log2 of the rounds
)

func bound(sense, affordable bool) error {
	switch {
	case !sense:
		return errForm
	case !affordable:
		return errCost
	}
	return nil
}

func bcryptBounds(n [3]int) error { return bound(n[0] >= bcrypt.MinCost, n[0] <= MaxCost) }

// bcryptKey returns the key if the password matches, because the library compares and does not derive. bcrypt reads
// 72 bytes. A longer password never matches, after the same work.
func bcryptKey(h *Hash, password []byte) []byte {
	text := fmt.Appendf(nil, "$2a$%02d$%s%s", h.numbers[0], h.salt, h.key)
	if bcrypt.CompareHashAndPassword(text, password) != nil || len(password) > MaxNew {
		return nil
	}
	return h.key
}

// bcryptOfSHA256 is Django's: bcrypt of the hexadecimal digest.
func bcryptOfSHA256(h *Hash, password []byte) []byte {
	sum := sha256.Sum256(password)
	return bcryptKey(h, hex.AppendEncode(nil, sum[:]))
}

// bcryptOfSHA384 is WordPress's since 6.8.
func bcryptOfSHA384(h *Hash, password []byte) []byte {
	sum := hmac.New(sha512.New384, []byte("wp-sha384"))
	sum.Write(password)
	return bcryptKey(h, base64.StdEncoding.AppendEncode(nil, sum.Sum(nil)))
}

// argon2Bounds checks memory in KiB, passes and lanes.
func argon2Bounds(n [3]int) error {
	m, t, p := n[0], n[1], n[2]
	sense := t >= 1 && p >= 1 && p <= 255 && m >= 8*p
	return bound(sense, sense && m <= maxMemory>>10 && t <= maxPasses>>10/m)
}

func argon2id(h *Hash, password []byte) []byte {
	m, t, p := h.argon2()
	return argon2.IDKey(password, h.salt, t, m, uint8(p), uint32(h.keySize))
}

func argon2i(h *Hash, password []byte) []byte {
	m, t, p := h.argon2()
	return argon2.Key(password, h.salt, t, m, uint8(p), uint32(h.keySize))
}

func argon2d(h *Hash, password []byte) []byte {
	m, t, p := h.argon2()
	return gocrypt.DKey(password, h.salt, t, m, p, uint32(h.keySize))
}

func (h *Hash) argon2() (m, t, p uint32) {
	return uint32(h.numbers[0]), uint32(h.numbers[1]), uint32(h.numbers[2])
}

// scryptBounds checks N, r and p.
func scryptBounds(n [3]int) error {
	N, r, p := n[0], n[1], n[2]
	sense := N > 1 && bits.OnesCount(uint(N)) == 1 && r >= 1 && p >= 1
	return bound(sense, sense && r <= maxMemory/128/N && p <= maxPasses/2/(128*N*r))
}

func scryptKey(h *Hash, password []byte) []byte {
	key, _ := scrypt.Key(password, h.salt, h.numbers[0], h.numbers[1], h.numbers[2], h.keySize) // nil on an error
	return key
}

// ofLog converts log2 N to N.
func ofLog(n [3]int) [3]int { return [3]int{1 << min(n[0], 31), n[1], n[2]} }

func scryptLogBounds(n [3]int) error { return scryptBounds(ofLog(n)) }

func scryptLogKey(h *Hash, password []byte) []byte {
	of := *h
	of.numbers = ofLog(h.numbers)
	return scryptKey(&of, password)
}

func pbkdf2Bounds(n [3]int) error { return bound(n[0] >= 1, n[0] <= maxIterations) }

// pbkdf2Key limits the key to the digest's size: a longer one would repeat the iterations, and no program uses one.
func pbkdf2Key(of func() hash.Hash) func(h *Hash, password []byte) []byte {
	return func(h *Hash, password []byte) []byte {
		key, _ := pbkdf2.Key(of, string(password), h.salt, h.numbers[0], min(h.keySize, of().Size()))
		return key
	}
}

// shaCryptBounds checks the rounds; crypt(3) raises fewer than 1000 to 1000.
func shaCryptBounds(n [3]int) error { return bound(true, n[0] <= maxRounds) }

func shaCryptKey(of func() hash.Hash) func(h *Hash, password []byte) []byte {
	return func(h *Hash, password []byte) []byte {
		rounds := 5000
		if h.numbers[0] > 0 {
			rounds = max(h.numbers[0], 1000)
		}
		return crypt.KeySHACrypt(of, password, h.salt, rounds)
	}
}

// yescryptBounds checks log2 N minus one and r minus one, as in crypt(5).
func yescryptBounds(n [3]int) error {
	N, r := 1<<min(n[0]+1, 31), n[1]+1
	return bound(n[0]+1 >= 10, n[0]+1 <= 18 && r <= 32 && r <= maxMemory/128/N)
}

func yescryptKey(h *Hash, password []byte) []byte {
	setting := fmt.Sprintf("$y$j%c%c$%s", cryptDigits[h.numbers[0]], cryptDigits[h.numbers[1]], h.salt)
	made, err := yescrypt.Hash(password, []byte(setting))
	if err != nil {
		return nil
	}
	return []byte(strings.TrimPrefix(string(made), setting+"$"))
}

func phpassBounds(n [3]int) error { return bound(n[0] >= 7, n[0] <= maxPhpass) }

func phpassKey(h *Hash, password []byte) []byte {
	sum := md5.Sum(append(append([]byte(nil), h.salt...), password...))
	for range 1 << h.numbers[0] {
		sum = md5.Sum(append(sum[:len(sum):len(sum)], password...))
	}
	return cryptBase64(sum[:])
}

// cryptBase64 encodes in crypt(5)'s base64, lowest bits first.
func cryptBase64(raw []byte) (text []byte) {
	for len(raw) > 0 {
		n := min(3, len(raw))
		bits := 0
		for i, b := range raw[:n] {
			bits |= int(b) << (8 * i)
		}
		for range n + 1 {
			text = append(text, cryptDigits[bits&63])
			bits >>= 6
		}
		raw = raw[n:]
	}
	return text
}

// md5CryptKey is MD5 crypt; Apache's variant has another magic text.
func md5CryptKey(magic string) func(h *Hash, password []byte) []byte {
	return func(h *Hash, password []byte) []byte {
		inner := md5.Sum([]byte(string(password) + string(h.salt) + string(password)))
		d := md5.New()
		d.Write([]byte(string(password) + magic + string(h.salt)))
		for n := len(password); n > 0; n -= len(inner) {
			d.Write(inner[:min(n, len(inner))])
		}
		for n := len(password); n > 0; n >>= 1 {
			if n&1 == 1 {
				d.Write([]byte{0})
			} else {
				d.Write(password[:1])
			}
		}
		sum := d.Sum(nil)
		for i := range 1000 {
			d.Reset()
			first, last := sum, password
			if i&1 == 1 {
				first, last = password, sum
			}
			d.Write(first)
			if i%3 != 0 {
				d.Write(h.salt)
			}
			if i%7 != 0 {
				d.Write(password)
			}
			d.Write(last)
			sum = d.Sum(nil)
		}
		var mixed []byte
		for _, at := range [16]int{12, 6, 0, 13, 7, 1, 14, 8, 2, 15, 9, 3, 5, 10, 4, 11} {
			mixed = append(mixed, sum[at])
		}
		return cryptBase64(mixed)
	}
}

func saltFirst(of func() hash.Hash) func(h *Hash, password []byte) []byte {
	return func(h *Hash, password []byte) []byte {
		d := of()
		d.Write(h.salt)
		d.Write(password)
		return d.Sum(nil)
	}
}

// saltedSHA1 is LDAP's: the salt follows the digest.
func saltedSHA1(h *Hash, password []byte) []byte {
	if len(h.key) < sha1.Size {
		return nil
	}
	salt := h.key[sha1.Size:]
	d := sha1.New()
	d.Write(password)
	d.Write(salt)
	return append(d.Sum(nil), salt...)
}
