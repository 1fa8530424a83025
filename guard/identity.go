package guard

import (
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

	"authguard/internal/seal"
	"authguard/trusted"
)

// A digest is the keyed 128-bit SipHash (Aumasson and Bernstein, 2012) of a name, an address or another text. The keys
// in all stores are digests: of one size, and useless to an attacker without the secret.
type digest = trusted.Key

// A digester makes digests with one SipHash key per kind: an account "10.0.0.1" is not the IP address.
type digester struct {
	account, address, network, purpose, password, guess, identity [2]uint64
}

// newDigester derives the keys from the realm and a secret of at least 16 bytes.
func newDigester(secret []byte, realm string) (digester, error) {
	var d digester
	for info, key := range map[string]*[2]uint64{
		"account": &d.account, "address": &d.address, "network": &d.network, "purpose": &d.purpose,
		"password": &d.password, "guess": &d.guess, "identity": &d.identity,
	} {
		raw, err := seal.Key(secret, info+" "+realm, 16)
		if err != nil {
			return d, fmt.Errorf("guard: %w", err)
		}
		key[0], key[1] = binary.LittleEndian.Uint64(raw), binary.LittleEndian.Uint64(raw[8:])
	}
	return d, nil
}

// sum writes the digest to d: a copy right after a return would read it in other pieces than written, which CPUs are
// slow at.
func sum(key *[2]uint64, b []byte, d *digest) {
	lo, hi := siphash.Hash128(key[0], key[1], b)
	binary.LittleEndian.PutUint64(d[:8], lo)
	binary.LittleEndian.PutUint64(d[8:], hi)
}

func (d *digester) ofAccount(name string, account *digest) {
	sum(&d.account, []byte(name), account)
}

// ofPurpose is what a challenge is issued for: an account at an integration or, without an account, the integration.
func (d *digester) ofPurpose(integration, account string) (purpose digest) {
	sum(&d.purpose, []byte(integration+"\x00"+account), &purpose)
	return purpose
}

// ofQuota is the key of an address for another count, by the count's name.
func (d *digester) ofQuota(name string, address digest) (key digest) {
	sum(&d.purpose, append([]byte(name), address[:]...), &key)
	return key
}

// ofIdentity is the key of a client fingerprint.
func (d *digester) ofIdentity(identity uint32) (key digest) {
	sum(&d.identity, binary.LittleEndian.AppendUint32(nil, identity), &key)
	return key
}

// tagMask keeps 24 bits of a password's digest (R23). An attacker with the key and a store finds 60 candidates in a
// dictionary of 10⁹ words. A new password equals one of an account's eight tags by chance once in two million times.
const tagMask = 1<<24 - 1

// tagKnown is set in every password tag, so that none is 0.
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

// ofPair mixes two digests. An attacker without the secret knows neither and cannot aim at a collision; by chance two
// pairs collide once in 2¹²⁸.
func ofPair(account, place digest) (pair digest) {
	for i := range 2 {
		a, p := binary.LittleEndian.Uint64(account[8*i:]), binary.LittleEndian.Uint64(place[8*(1-i):])
		binary.LittleEndian.PutUint64(pair[8*i:], a^bits.RotateLeft64(p, 23))
	}
	return pair
}

// ofAddress sets the digests of an IP address and its network, with the family in front (R10). These are the IPv4
// address and its /24, or the IPv6 /64 and its /48. An address behind the well-known NAT64 prefixes (RFC 6052, RFC
// 8215) counts as the IPv4 address in it. Otherwise all of IPv4 would share one /64.
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

// OneAddress returns the range that counts as one IP address: the IPv4 address, or the IPv6 /64 around it (R10). A
// NAT64 address is a range by itself. The zero Addr has the zero Prefix.
func OneAddress(a netip.Addr) netip.Prefix { return oneAddress(a) }

func oneAddress(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := a.BitLen()
	if _, four := asIPv4(a); !four {
		bits = 64
	}
	p, _ := a.Prefix(bits)
	return p
}

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

// MaxAccount is the largest length of an account name as typed, in bytes.
const MaxAccount = 256

// ErrAccountName means that a name is empty, too long, not UTF-8, or has an invisible or ambiguous character.
var ErrAccountName = errors.New("guard: not an account name")

// NormaliseAccount is the one normalizer (R11) for counters, known clients and account look-ups. It ignores case, full
// and half width, surrounding space and Unicode form (NFC), and merges nothing else. It is idempotent.
//
// A character that only some back ends treat as another letter is invalid. Merged, a success for one account could make
// a client known for another; kept apart, one account would have several counts. docs/reference/configuration.md has the table.
func NormaliseAccount(typed string) (string, error) {
	if plainASCII(typed) {
		return typed, nil
	}
	return normalise(typed, strings.ToLower)
}

// NormaliseExact is for back ends that compare names byte by byte, where Alice and alice are two accounts. It only
// trims space. A name that is not in NFC, or has letters of another width, gets ErrAccountName.
func NormaliseExact(typed string) (string, error) {
	name, err := normalise(typed, func(s string) string { return s })
	if err != nil || name != strings.TrimSpace(typed) {
		return "", ErrAccountName
	}
	return name, nil
}

// plainASCII reports whether a name needs no normalization, as most do.
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
	// Lowercase may compose differently, and folding width may yield a capital or a space: repeat until nothing changes.
	for range 4 {
		wide := width.Fold.String(name)
		next := norm.NFC.String(wide)
		// Before and after: NFC turns the Kelvin sign into K, and I with a dot above into one letter, i in lowercase.
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

// legible reports whether every character is visible, and is the same character to every back end.
func legible(name string, fold func(string) string) bool {
	for _, r := range name {
		if unicode.In(r, unseen...) || !unicode.In(r, assigned...) || strings.ContainsRune(blank, r) ||
			r >= utf8.RuneSelf && (ambiguous(r) || !returns(string(r), fold)) {
			return false
		}
	}
	return true
}

// unseen are control, format (direction, joiners, tags) and ignorable characters, and line separators. With them one
// name has more spellings than an attacker needs guesses.
var unseen = []*unicode.RangeTable{
	unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector,
}

// assigned are the characters with a meaning in Unicode. Databases and filters drop private-use and unassigned ones.
var assigned = []*unicode.RangeTable{unicode.L, unicode.M, unicode.N, unicode.P, unicode.S, unicode.Z,
	unicode.Cc, unicode.Cf}

// blank are symbols without a glyph: Ogham space, empty Braille pattern, both replacement characters, musical null
// note.
const blank = "\u1680\u2800\ufffc\ufffd\U0001d159"

// ambiguous reports whether NFC replaces a character by another (the Kelvin sign by K), or NFKC (a mathematical k by
// k). Django applies NFKC to names, LOWER() does not. RFC 8264 disallows both characters in identifiers.
func ambiguous(r rune) bool {
	one := string(r)
	composed := norm.NFC.String(one)
	if composed != one && utf8.RuneCountInString(composed) == 1 {
		return true
	}
	return norm.NFKC.String(one) != composed && !strings.ContainsRune(everyday, r)
}

// everyday are letters in everyday use that have a compatibility form: Armenian ew, Thai and Lao am, the Lao digraphs,
// Tibetan vowels and tsheg.
const everyday = "\u0587\u0e33\u0eb3\u0edc\u0edd\u0f0c\u0f77\u0f79"

// returns reports whether a letter survives lowercase and back. The Turkish İ becomes i, whose capital is I.
func returns(letter string, fold func(string) string) bool {
	low := fold(letter)
	return low == letter || strings.ToUpper(low) == letter
}
