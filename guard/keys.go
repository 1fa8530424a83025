package guard

import (
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/bits"
	"net/netip"
	"unsafe"

	"github.com/dchest/siphash"
)

// A digest is the keyed 128-bit SipHash (Aumasson and Bernstein, 2012) of
// something typed or dialled. Keys of all stores are digests: of one size, and
// of no use to anybody without the secret.
type digest [16]byte

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

// sum writes where the digest is to be: what is copied right after it was written
// in halves has to wait for both, and every attempt makes three.
func sum(into *digest, key *[2]uint64, b []byte) {
	lo, hi := siphash.Hash128(key[0], key[1], b)
	binary.LittleEndian.PutUint64(into[:8], lo)
	binary.LittleEndian.PutUint64(into[8:], hi)
}

func (d *digester) ofAccount(into *digest, directory, name string) {
	if directory != "" {
		name = directory + "\x00" + name // no name has a control character
	}
	sum(into, &d.account, unsafe.Slice(unsafe.StringData(name), len(name))) // read only
}

// ofPair mixes two digests into one. Nobody without the secret knows either, so
// nobody can aim at a collision; by chance two pairs meet once in 2¹²⁸.
func ofPair(into, account, place *digest) {
	for i := range 2 {
		a, p := binary.LittleEndian.Uint64(account[8*i:]), binary.LittleEndian.Uint64(place[8*(1-i):])
		binary.LittleEndian.PutUint64(into[8*i:], a^bits.RotateLeft64(p, 23))
	}
}

// ofAddress are the digests of what counts as one address and of the network
// around it: the IPv4 address and its /24, or the IPv6 /64 and its /48 (R10),
// with the family in front. Addresses behind the well-known NAT64 prefixes (RFC
// 6052, RFC 8215) are the IPv4 addresses in them: all of the IPv4 internet
// would share one /64 otherwise.
func (d *digester) ofAddress(address, network *digest, a netip.Addr) {
	var b [9]byte
	of, around := 0, 0
	if four, ok := asIPv4(a); ok {
		binary.LittleEndian.PutUint64(b[:], 4|uint64(binary.LittleEndian.Uint32(four[:]))<<8)
		of, around = 5, 4
	} else if a.Is6() {
		six := a.As16()
		b[0] = 6
		copy(b[1:], six[:8])
		of, around = 9, 7
	}
	sum(address, &d.address, b[:of])
	sum(network, &d.network, b[:around])
}

// addressKey is the digest of an address alone.
func (d *digester) addressKey(a netip.Addr) (address digest) {
	var network digest
	d.ofAddress(&address, &network, a)
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

// Normalise gives a typed name the form under which it is counted and looked
// up. The error is ErrAccountName.
func (g *Guard) Normalise(typed string) (string, error) { return g.config.Normalise(typed) }

// DeviceTag tells the device cookies of accounts apart in one browser: 8
// characters, the same for all names of an account.
func (g *Guard) DeviceTag(directory, typed string) string {
	var v view
	if g.name(&Attempt{Account: typed, Directory: directory}, &v); v.badName {
		return "00000000"
	}
	return hex.EncodeToString(v.account[12:])
}

// RecognisesDevice reports whether a device cookie was issued here and is not
// too old. For which account, and whether it still vouches, is for Begin.
func (g *Guard) RecognisesDevice(cookie string) bool {
	if g.config.Cookies == nil {
		return false
	}
	_, _, issued, err := g.config.Cookies.Parse(cookie)
	return err == nil && g.config.Now().Sub(issued) < g.rules.Load().policy.Places.TTL
}
