package passwords

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"unicode/utf16"

	"github.com/FastFilter/xorfilter"
	"golang.org/x/crypto/md4"
)

// A LeakedHash is the hash that a list has.
type LeakedHash uint8

// The kinds.
const (
	SHA1 LeakedHash = 1 + iota
	NTLM            // MD4 of UTF-16
)

// String returns "SHA-1" or "NTLM".
func (k LeakedHash) String() string { return map[LeakedHash]string{SHA1: "SHA-1", NTLM: "NTLM"}[k] }

// digits is the length of a hash in hexadecimal digits.
func (k LeakedHash) digits() int {
	return map[LeakedHash]int{SHA1: 2 * sha1.Size, NTLM: 2 * md4.Size}[k]
}

// key returns the first 64 bits of a password's hash.
func (k LeakedHash) key(password string) uint64 {
	if k == SHA1 {
		sum := sha1.Sum([]byte(password))
		return binary.BigEndian.Uint64(sum[:])
	}
	h := md4.New()
	for _, unit := range utf16.Encode([]rune(password)) {
		h.Write([]byte{byte(unit), byte(unit >> 8)})
	}
	return binary.BigEndian.Uint64(h.Sum(nil))
}

// The file, little endian: a header, then the parts, each a partHeader with its fingerprints, then a trailer.
type (
	header struct {
		Magic   [16]byte
		Version uint8
		Kind    LeakedHash
		Bits    uint8 // the first bits of a key are the number of its part
		_       [5]byte
	}
	partHeader struct {
		Seed                        uint64
		SegmentLength, SegmentCount uint32 // 0: the part is empty
	}
	trailer struct {
		Count    uint64            // of passwords
		Checksum [sha256.Size]byte // of all before
	}
)

const (
	version     = 1
	headerSize  = 24
	partSize    = 16
	trailerSize = 8 + sha256.Size
	shardBits   = 8
	maxSegment  = 1 << 18 // xorfilter's
	mostEntries = 1 << 31
)

var magic = [16]byte([]byte("authguard-leaked"))

// A LeakedFilter is a list's file in memory: a change to the file does not affect it. It contains no password or hash,
// has 9 bits per password, and finds every password of its lists, and one in 256 others. It is safe for concurrent use.
type LeakedFilter struct {
	header
	count uint64
	parts []xorfilter.BinaryFuse8
}

// Has reports whether the password is on the list, or one of the other 0.4 %.
func (f *LeakedFilter) Has(password string) bool { return f.has(f.Kind.key(password)) }

// HasHash is Has for a hash in hexadecimal digits of either case. The error is ErrLeakedHash.
func (f *LeakedFilter) HasHash(hash string) (bool, error) {
	b, err := hex.DecodeString(hash)
	if err != nil || len(hash) != f.Kind.digits() {
		return false, fmt.Errorf("%w: the list has %v hashes, with %d hexadecimal digits", ErrLeakedHash, f.Kind, f.Kind.digits())
	}
	return f.has(binary.BigEndian.Uint64(b)), nil
}

// ErrLeakedHash means that a text is not a hash of the list's kind.
var ErrLeakedHash = errors.New("passwords: not a hash")

func (f *LeakedFilter) has(key uint64) bool {
	part := &f.parts[key>>(64-f.Bits)] // a shift by 64 is 0
	return part.SegmentLength > 0 && part.Contains(key)
}

// Passwords is the number of passwords on the list.
func (f *LeakedFilter) Passwords() uint64 { return f.count }

var (
	errOther   = errors.New("it was not made by authguard password-list build")
	errVersion = errors.New("it is of another version of authguard: build it again")
	errDamaged = errors.New("it is truncated or damaged: its checksum does not match")
)

// ReadLeaked reads a file and verifies its checksum.
func ReadLeaked(path string) (*LeakedFilter, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, cannotOpen(err)
	}
	defer file.Close()
	start := make([]byte, headerSize) // first, so that another file is not read to its end
	if _, err := io.ReadFull(file, start); err != nil || !bytes.HasPrefix(start, magic[:]) {
		return nil, errOther
	}
	info, err := file.Stat()
	if err != nil {
		return nil, cannotOpen(err)
	}
	all := make([]byte, max(info.Size(), headerSize))
	copy(all, start)
	if _, err := io.ReadFull(file, all[headerSize:]); err != nil {
		return nil, errDamaged
	}
	return parse(all)
}

func cannotOpen(err error) error {
	if at := new(os.PathError); errors.As(err, &at) {
		err = at.Err
	}
	return fmt.Errorf("it cannot be opened: %w", err)
}

// parse checks everything that a look-up relies on: a matching checksum shows that the file is whole, not that it was
// built correctly.
func parse(all []byte) (*LeakedFilter, error) {
	f, end := new(LeakedFilter), trailer{}
	rest := all[:max(headerSize, len(all)-trailerSize)]
	_, _ = binary.Decode(rest, binary.LittleEndian, &f.header)
	_, err := binary.Decode(all[len(rest):], binary.LittleEndian, &end)
	switch {
	case f.Magic != magic:
		return nil, errOther
	case f.Version != version:
		return nil, errVersion
	case err != nil || sha256.Sum256(all[:len(all)-sha256.Size]) != end.Checksum, f.Kind.digits() == 0, f.Bits > shardBits:
		return nil, errDamaged
	}
	f.count, rest = end.Count, rest[headerSize:]
	f.parts = make([]xorfilter.BinaryFuse8, 1<<f.Bits)
	for i := range f.parts {
		var p partHeader
		if _, err := binary.Decode(rest, binary.LittleEndian, &p); err != nil {
			return nil, errDamaged
		}
		rest = rest[partSize:]
		size := (uint64(p.SegmentCount) + 2) * uint64(p.SegmentLength)
		if p.SegmentLength > maxSegment || p.SegmentLength&(p.SegmentLength-1) != 0 || size > uint64(len(rest)) ||
			size > mostEntries || p.SegmentLength > 0 && p.SegmentCount == 0 {
			return nil, errDamaged
		}
		f.parts[i] = xorfilter.BinaryFuse8{Seed: p.Seed, SegmentLength: p.SegmentLength,
			SegmentLengthMask: p.SegmentLength - 1, SegmentCount: p.SegmentCount,
			SegmentCountLength: p.SegmentCount * p.SegmentLength, Fingerprints: rest[:size:size]}
		rest = rest[size:]
	}
	if len(rest) > 0 {
		return nil, errDamaged
	}
	return f, nil
}
