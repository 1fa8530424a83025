package guard

import (
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"net/netip"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dchest/siphash"
	"golang.org/x/text/unicode/norm"
	"golang.org/x/text/width"

	"authguard/trusted"
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

// A digest is the keyed 128-bit SipHash (Aumasson and Bernstein, 2012) of
// something typed or dialled. Keys of all stores are digests: of one size, and
// of no use to anybody without the secret.
type digest = trusted.Key

// A digester makes digests: one SipHash key for every kind, so that an account
// called "10.0.0.1" is not the address.
type digester struct {
	account, address, network [2]uint64
}

// newDigester derives the keys from the secret, at least 16 bytes, and the
// realm.
func newDigester(secret []byte, realm string) (digester, error) {
	var d digester
	if len(secret) < 16 {
		return d, fmt.Errorf("guard: secret: must be at least 16 bytes, not %d", len(secret))
	}
	for info, key := range map[string]*[2]uint64{"account": &d.account, "address": &d.address, "network": &d.network} {
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

func (d *digester) ofAccount(directory, name string, account *digest) {
	if directory != "" {
		name = directory + "\x00" + name // no name has a control character
	}
	sum(&d.account, []byte(name), account)
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

// name normalises a name, the one time that this is done (R11), and sets the
// account.
func (g *Guard) name(v *view, a *Attempt) error {
	name, err := g.config.Normalise(a.Account)
	if err != nil {
		v.name = a.Account
		return err
	}
	v.name = g.config.Canonical(a.Directory, name)
	g.digests.ofAccount(a.Directory, v.name, &v.Account)
	return nil
}

// device looks for the cookie of a device that was issued for this account and
// is not older than a privilege may be. Whether it was reset or spent since is
// for the store to say.
func (g *Guard) device(v *view, cookies []string) {
	if g.config.Cookies == nil || !v.rules.policy.Devices {
		return
	}
	for _, cookie := range cookies[:min(len(cookies), MaxDevices)] {
		account, device, issued, err := g.config.Cookies.Parse(cookie)
		if err == nil && account == v.Account && v.Now.Sub(issued) < v.rules.policy.Places.TTL {
			v.Device, v.Issued = device, issued
			return
		}
	}
}

// Normalise gives a typed name the form under which it is counted and looked
// up. The error is ErrAccountName.
func (g *Guard) Normalise(typed string) (string, error) { return g.config.Normalise(typed) }

// RecognisesDevice reports whether a device cookie was issued here and is not
// too old. For which account, and whether it still vouches, is for Begin.
func (g *Guard) RecognisesDevice(cookie string) bool {
	if g.config.Cookies == nil {
		return false
	}
	_, _, issued, err := g.config.Cookies.Parse(cookie)
	return err == nil && g.config.Now().Sub(issued) < g.rules.Load().policy.Places.TTL
}
