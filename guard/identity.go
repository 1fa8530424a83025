package guard

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"net/netip"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dchest/siphash"
	"golang.org/x/text/unicode/norm"
	"golang.org/x/text/width"

	"authguard/trusted"
)

// A digest is the keyed 128-bit SipHash (Aumasson and Bernstein, 2012) of
// something typed or dialled. Keys of all stores are digests: of one size, and
// of no use to anybody without the secret.
type digest = trusted.Key

// A digester makes digests: one SipHash key for every kind, so that an account
// called "10.0.0.1" is not the address.
type digester struct {
	account, address, network, purpose, password, guess, identity [2]uint64
}

// newDigester derives the keys from the secret, at least 16 bytes, and the
// realm.
func newDigester(secret []byte, realm string) (digester, error) {
	var d digester
	if len(secret) < 16 {
		return d, fmt.Errorf("guard: secret: must be at least 16 bytes, not %d", len(secret))
	}
	for info, key := range map[string]*[2]uint64{
		"account": &d.account, "address": &d.address, "network": &d.network, "purpose": &d.purpose,
		"password": &d.password, "guess": &d.guess, "identity": &d.identity,
	} {
		raw, err := hkdf.Key(sha256.New, secret, nil, "authguard "+info+" "+realm, 16)
		if err != nil {
			return d, fmt.Errorf("guard: deriving keys: %w", err)
		}
		key[0], key[1] = binary.LittleEndian.Uint64(raw), binary.LittleEndian.Uint64(raw[8:])
	}
	return d, nil
}

// sum writes the digest where it is wanted: one that is returned and copied at
// once is read in other pieces than it was written in, which CPUs are slow at.
func sum(key *[2]uint64, b []byte, d *digest) {
	lo, hi := siphash.Hash128(key[0], key[1], b)
	binary.LittleEndian.PutUint64(d[:8], lo)
	binary.LittleEndian.PutUint64(d[8:], hi)
}

func (d *digester) ofAccount(name string, account *digest) {
	sum(&d.account, []byte(name), account)
}

// ofPurpose is what a challenge is issued for: an account at a door. Without an
// account it is the door alone.
func (d *digester) ofPurpose(integration, account string) (purpose digest) {
	sum(&d.purpose, []byte(integration+"\x00"+account), &purpose)
	return purpose
}

// ofQuota is an address under another name, to be charged something else.
func (d *digester) ofQuota(name string, address digest) (key digest) {
	sum(&d.purpose, append([]byte(name), address[:]...), &key)
	return key
}

// ofIdentity is an identity, to be charged.
func (d *digester) ofIdentity(identity uint32) (key digest) {
	sum(&d.identity, binary.LittleEndian.AppendUint32(nil, identity), &key)
	return key
}

// tagMask is as much of a password's digest as is kept (R23): 24 bits. Whoever
// steals the key and a store finds sixty words in a dictionary of a thousand
// million that may have been typed. A new guess is taken for one of an account's
// eight once in two million times.
const tagMask = 1<<24 - 1

// tagKnown is set in everything that stands for a password, so that none is 0.
const tagKnown = 1 << 24

// ofTag returns the tag of a password at an account beside the request's other credentials, and that of the password
// alone. Without the key, neither can be computed from the other.
func (d *digester) ofTag(password, beside uint64, account *digest) (guess, spray uint32) {
	spray = uint32(siphash.Hash(d.guess[0], d.guess[1], binary.LittleEndian.AppendUint64(nil, password))) & tagMask
	at := account[:]
	if beside != 0 {
		at = binary.LittleEndian.AppendUint64(slices.Clone(at), beside)
	}
	own := uint32(siphash.Hash(d.guess[0], d.guess[1], at)) & tagMask
	return spray ^ own | tagKnown, spray | tagKnown
}

// ofPair mixes two digests into one. Nobody without the secret knows either, so
// nobody can aim at a collision; by chance two pairs meet once in 2¹²⁸.
func ofPair(account, place digest) (pair digest) {
	for i := range 2 {
		a, p := binary.LittleEndian.Uint64(account[8*i:]), binary.LittleEndian.Uint64(place[8*(1-i):])
		binary.LittleEndian.PutUint64(pair[8*i:], a^bits.RotateLeft64(p, 23))
	}
	return pair
}

// ofAddress are the digests of what counts as one address and of the network
// around it: the IPv4 address and its /24, or the IPv6 /64 and its /48 (R10),
// with the family in front. Addresses behind the well-known NAT64 prefixes (RFC
// 6052, RFC 8215) are the IPv4 addresses in them: all of the IPv4 internet
// would share one /64 otherwise.
func (d *digester) ofAddress(a netip.Addr, address, network *digest) {
	var b [9]byte
	of, around := 0, 0
	if four, ok := asIPv4(a); ok {
		b[0] = 4
		copy(b[1:], four[:])
		of, around = 5, 4
	} else if a.Is6() {
		six := a.As16()
		b[0] = 6
		copy(b[1:], six[:8])
		of, around = 9, 7
	}
	sum(&d.address, b[:of], address)
	sum(&d.network, b[:around], network)
}

// OneAddress is the range of all addresses that count as this one: the IPv4 address, or
// the IPv6 /64 around it (R10).
func OneAddress(a netip.Addr) netip.Prefix { return oneAddress(a) }

// oneAddress is the range of all that have the digest of this address and can be told
// from others by it.
func oneAddress(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := a.BitLen()
	if _, four := asIPv4(a); !four {
		bits = 64
	}
	p, _ := a.Prefix(bits) // of the zero address it is none
	return p
}

// addressKey is the digest of an address alone.
func (d *digester) addressKey(a netip.Addr) (address digest) {
	var network digest
	d.ofAddress(a, &address, &network)
	return address
}

func asIPv4(a netip.Addr) (four [4]byte, ok bool) {
	if a.Is4() || a.Is4In6() {
		return a.Unmap().As4(), true
	}
	if !a.Is6() {
		return four, false
	}
	six := a.As16()
	if [4]byte(six[:4]) != [4]byte{0, 0x64, 0xff, 0x9b} {
		return four, false
	}
	wellKnown := [8]byte(six[4:12]) == [8]byte{}
	local := six[4] == 0 && six[5] == 1
	return [4]byte(six[12:]), wellKnown || local
}

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

// newSealer makes what seals tickets that pass through a client.
func newSealer(secret []byte, realm string) (cipher.AEAD, error) {
	if len(secret) < 16 {
		return nil, nil // newDigester says so
	}
	key, err := hkdf.Key(sha256.New, secret, nil, "authguard ticket "+realm, 32)
	if err != nil {
		return nil, fmt.Errorf("guard: deriving the tickets' key: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("guard: tickets: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("guard: tickets: %w", err)
	}
	return aead, nil
}
