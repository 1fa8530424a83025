package guard

import (
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/bits"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/dchest/siphash"
	"github.com/gaissmai/bart"

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

func (d *digester) ofAccount(directory, name string, account *digest) {
	if directory != "" {
		name = directory + "\x00" + name // no name has a control character
	}
	sum(&d.account, []byte(name), account)
}

// ofPurpose is what a challenge is issued for: an account at a door. Without an
// account it is the door alone.
func (d *digester) ofPurpose(door, directory, account string) (purpose digest) {
	sum(&d.purpose, []byte(door+"\x00"+directory+"\x00"+account), &purpose)
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

// Identity is what an Attempt wants to recognise its client by, made of whatever the door
// knows it by: 32 bits of a digest that is keyed by the guard's secret and realm, so that
// what it was made from stays with the door, and nobody aims at another's. Never 0, but
// for the empty text. Of 65,000 clients two share theirs by chance: they are counted as
// one.
func (g *Guard) Identity(client string) uint32 {
	if client == "" {
		return 0
	}
	return max(1, uint32(siphash.Hash(g.digests.identity[0], g.digests.identity[1], []byte(client))))
}

// tagMask is as much of a password's digest as is kept (R23): 24 bits. Whoever
// steals the key and a store finds sixty words in a dictionary of a thousand
// million that may have been typed. A new password is taken for one of an account's
// eight once in two million times.
const tagMask = 1<<24 - 1

// tagKnown is set in everything that stands for a password, so that none is 0.
const tagKnown = 1 << 24

// Fingerprint is what an Attempt wants to recognise its password by: keyed by
// the guard's secret, so that nobody else can find out what it was made from,
// and never 0. The guard keeps 24 bits of what it makes of it, for a day.
func (g *Guard) Fingerprint(password string) uint64 {
	return max(1, siphash.Hash(g.digests.password[0], g.digests.password[1], []byte(password)))
}

// ofTag stands for a password at an account, and for the same password at every
// account alike. Without the key nobody makes the one out of the other.
func (d *digester) ofTag(fingerprint uint64, account *digest) (tag, spray uint32) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], fingerprint)
	spray = uint32(siphash.Hash(d.guess[0], d.guess[1], b[:])) & tagMask
	own := uint32(siphash.Hash(d.guess[0], d.guess[1], account[:])) & tagMask
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
	looked := 0
	for _, cookie := range cookies {
		if !trusted.NamesAccount(cookie, v.Account) {
			continue // of another account, or planted by a sibling host
		}
		if looked++; looked > MaxDevices {
			return
		}
		account, device, issued, err := g.config.Cookies.Parse(cookie)
		if err == nil && account == v.Account && v.Now.Sub(issued) < v.rules.policy.KnownClients.TTL {
			v.Device, v.Issued = device, issued
			return
		}
	}
}

// Normalise gives a typed name the form under which it is counted and looked
// up. The error is ErrAccountName.
func (g *Guard) Normalise(typed string) (string, error) { return g.config.Normalise(typed) }

// Listed tells what the allow and block lists say of an address now.
func (g *Guard) Listed(address netip.Addr) Verdict {
	return g.config.Lists.Look(address, g.config.Now())
}

// RecognisesDevice reports whether a device cookie was issued here and is not
// too old. For which account, and whether it still vouches, is for Begin.
func (g *Guard) RecognisesDevice(cookie string) bool {
	if g.config.Cookies == nil {
		return false
	}
	_, _, issued, err := g.config.Cookies.Parse(cookie)
	return err == nil && g.config.Now().Sub(issued) < g.rules.Load().policy.KnownClients.TTL
}

// A Verdict is what an administrator said of an address.
type Verdict uint8

const (
	// NotListed: nothing was said.
	NotListed Verdict = iota
	// Allowed: the limits of address and network and CAPTCHA mode do not
	// apply. The limits of account and pair do: nobody is allowed to guess.
	Allowed
	// Blocked: every attempt is refused, from privileged places too.
	Blocked
)

// A Listing is one entry of the allow and block lists.
type Listing struct {
	Prefix  netip.Prefix
	Verdict Verdict
	Until   time.Time // zero: for good
}

// Lists are the allow and block lists in memory, and what is on the named lists. The
// zero Lists are empty. Safe for concurrent use; a look-up takes no lock. The most
// specific entry that has not run out decides; of two that are equally specific, the
// block. The named lists are for the guard to ask, whose policy says what they mean.
type Lists struct {
	table atomic.Pointer[bart.Table[[]Listing]]
	named atomic.Pointer[map[string]*Ranges]
}

// Set replaces all entries.
func (l *Lists) Set(entries []Listing) {
	table := new(bart.Table[[]Listing])
	for _, e := range entries {
		if !e.Prefix.IsValid() {
			continue
		}
		prefix := unmapPrefix(e.Prefix).Masked()
		already, _ := table.Get(prefix)
		table.Insert(prefix, append(already, e))
	}
	l.table.Store(table)
}

// Look tells what the lists say of an address at a time.
func (l *Lists) Look(a netip.Addr, now time.Time) Verdict {
	v, _ := l.look(a, now)
	return v
}

// look is Look, and the entries that say so.
func (l *Lists) look(a netip.Addr, now time.Time) (Verdict, []Listing) {
	table := l.table.Load()
	if table == nil || table.Size() == 0 || !a.IsValid() {
		return NotListed, nil
	}
	a = a.Unmap().WithZone("")
	for _, entries := range table.Supernets(netip.PrefixFrom(a, a.BitLen())) {
		if v := strongest(entries, now); v != NotListed {
			return v, entries
		}
	}
	return NotListed, nil
}

// mostBlocked is how long whoever is blocked is told to wait at most: a block may be
// lifted at any time.
const mostBlocked = 24 * time.Hour

// blockedFor is how long a blocked address stays so, at most mostBlocked.
func (l *Lists) blockedFor(a netip.Addr, now time.Time) (left time.Duration) {
	_, entries := l.look(a, now)
	for _, e := range entries {
		switch {
		case e.Verdict != Blocked:
		case e.Until.IsZero():
			return mostBlocked
		default:
			left = max(left, e.Until.Sub(now))
		}
	}
	return min(left, mostBlocked)
}

func strongest(entries []Listing, now time.Time) Verdict {
	v := NotListed
	for _, e := range entries {
		if e.Until.IsZero() || now.Before(e.Until) {
			v = max(v, e.Verdict)
		}
	}
	return v
}

func unmapPrefix(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p
}
