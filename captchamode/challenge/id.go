package challenge

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"authguard/internal/seal"
)

// An ID is the base64url of
//
//	nonce 16 · AES-256-GCM(version 1 · flags 1 · kind 8 · expiry 8 · address 16 ·
//	purpose 16 · level 1 · work 4 · charge 18) · tag 16
//
// These are 105 bytes, so that base64 has no unused bits, which could be changed unnoticed.
const (
	nonceLen  = 16
	kindLen   = 8
	plainLen  = 1 + 1 + kindLen + 8 + 16 + 16 + 1 + 4 + len(Charge{})
	sealedLen = nonceLen + plainLen + 16

	// IDLen is the length of every challenge's ID.
	IDLen = sealedLen / 3 * 4

	idVersion    = 4
	flagCounted  = 1
	flagOrImage  = 2
	flagAndImage = 4
	flagSolved   = 8
)

type sealed struct {
	nonce             [nonceLen]byte // identifies the challenge when it is spent
	kind              string
	expires           time.Time // whole milliseconds
	binding           Binding
	counted           bool
	work              uint32
	orImage, andImage bool
	solved            bool // any answer is right; see [Issuer.Carry]
}

// A sealer seals and opens IDs, and derives the seeds of the challenges.
type sealer struct{ idKey, seedKey []byte }

func newSealer(secret []byte, epoch [16]byte) (*sealer, error) {
	idKey, err := hkdf.Key(sha256.New, secret, epoch[:], "authguard challenge id v1", 32)
	if err != nil {
		return nil, fmt.Errorf("challenge: deriving a key: %w", err)
	}
	seedKey, err := hkdf.Key(sha256.New, secret, epoch[:], "authguard challenge seed v1", 32)
	if err != nil {
		return nil, fmt.Errorf("challenge: deriving a key: %w", err)
	}
	return &sealer{idKey, seedKey}, nil
}

// task's seed depends on the kind, so a provider cannot derive another provider's answer.
func (s *sealer) task(c sealed, kind string) Task {
	return Task{Seed(seal.MAC(s.seedKey, string(c.nonce[:]), kind)), c.expires, c.binding.Level, c.work}
}

// admission identifies a binding in the store of spent challenges, whose nonces are random.
func (s *sealer) admission(b Binding) [16]byte {
	return [16]byte(seal.MAC(s.seedKey, "admission", string(b.Address[:]), string(b.Purpose[:]), string(b.Level)))
}

// aead uses a separate key for each ID. A flood draws billions of nonces, too many for GCM's random 96 bits under one
// key. Deriving the key from a 128-bit nonce is safe, and GCM's own nonce can be zero.
func (s *sealer) aead(nonce [nonceLen]byte) cipher.AEAD {
	block, err := aes.NewCipher(seal.MAC(s.idKey, string(nonce[:])))
	if err != nil {
		panic(err) // only for a wrong key length
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		panic(err) // only for a wrong block length
	}
	return gcm
}

var zeroNonce [12]byte

func (s *sealer) seal(c sealed) string {
	id := append(make([]byte, 0, sealedLen), c.nonce[:]...)
	id = s.aead(c.nonce).Seal(id, zeroNonce[:], c.plain(), nil)
	return base64.RawURLEncoding.EncodeToString(id)
}

// open decrypts an ID. The reason is Unchecked if it is valid.
func (s *sealer) open(id string) (sealed, Reason) {
	if len(id) != IDLen {
		return sealed{}, Malformed
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(id)
	if err != nil || len(raw) != sealedLen {
		return sealed{}, Malformed // the decoder skips line breaks
	}
	nonce := [nonceLen]byte(raw[:nonceLen])
	plain, err := s.aead(nonce).Open(nil, zeroNonce[:], raw[nonceLen:], nil)
	if err != nil || plain[0] != idVersion {
		return sealed{}, Unknown
	}
	return parsePlain(nonce, plain), Unchecked
}

func (c sealed) plain() []byte {
	var kind [kindLen]byte
	copy(kind[:], c.kind)
	var flags byte
	if c.counted {
		flags |= flagCounted
	}
	if c.orImage {
		flags |= flagOrImage
	}
	if c.andImage {
		flags |= flagAndImage
	}
	if c.solved {
		flags |= flagSolved
	}
	plain := append(make([]byte, 0, plainLen), idVersion, flags)
	plain = append(plain, kind[:]...)
	plain = binary.BigEndian.AppendUint64(plain, uint64(c.expires.UnixMilli()))
	plain = append(plain, c.binding.Address[:]...)
	plain = append(plain, c.binding.Purpose[:]...)
	plain = binary.BigEndian.AppendUint32(append(plain, c.binding.Level), c.work)
	return append(plain, c.binding.Charge[:]...)
}

func parsePlain(nonce [nonceLen]byte, plain []byte) sealed {
	flags, rest := plain[1], plain[2:]
	return sealed{
		nonce:   nonce,
		kind:    strings.TrimRight(string(rest[:kindLen]), "\x00"),
		expires: time.UnixMilli(int64(binary.BigEndian.Uint64(rest[kindLen:]))).UTC(),
		binding: Binding{
			Address: [16]byte(rest[kindLen+8:]),
			Purpose: [16]byte(rest[kindLen+24:]),
			Level:   rest[kindLen+40],
			Charge:  Charge(rest[kindLen+45:]),
		},
		work:     binary.BigEndian.Uint32(rest[kindLen+41:]),
		andImage: flags&flagAndImage != 0,
		counted:  flags&flagCounted != 0,
		orImage:  flags&flagOrImage != 0,
		solved:   flags&flagSolved != 0,
	}
}
