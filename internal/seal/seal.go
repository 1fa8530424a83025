// Package seal derives keys from the server's secrets, and encrypts and authenticates text with them.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
)

// LeastSecret is the minimum size of a secret, in bytes.
const LeastSecret = 16

// Key derives a key of size bytes (HKDF with SHA-256, RFC 5869). The keys of two purposes are independent, so one
// secret is enough for all. It fails if the secret is shorter than LeastSecret.
func Key(secret []byte, purpose string, size int) ([]byte, error) {
	if len(secret) < LeastSecret {
		return nil, fmt.Errorf("the secret must be at least %d bytes, not %d", LeastSecret, len(secret))
	}
	key, err := hkdf.Key(sha256.New, secret, nil, "authguard "+purpose, size)
	if err != nil {
		return nil, fmt.Errorf("deriving the key for %s: %w", purpose, err)
	}
	return key, nil
}

// MAC returns the HMAC-SHA256 of the text.
func MAC(key []byte, text ...string) []byte {
	mac := hmac.New(sha256.New, key)
	for _, t := range text {
		mac.Write([]byte(t))
	}
	return mac.Sum(nil)
}

// A Box encrypts and authenticates text with AES-256-GCM under random nonces: at most 2³² texts (NIST SP 800-38D, 8.3).
// It is safe for concurrent use.
type Box struct{ aead cipher.AEAD }

// NewBox returns the Box of a purpose. See Key.
func NewBox(secret []byte, purpose string) (*Box, error) {
	key, err := Key(secret, purpose, 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return &Box{aead}, err
}

// Seal returns URL-safe text that only Open with the same bound reads.
func (b *Box) Seal(plain []byte, bound string) string {
	return base64.RawURLEncoding.EncodeToString(b.aead.Seal(nil, nil, plain, []byte(bound)))
}

// Open returns what Seal sealed. It fails for any other text.
func (b *Box) Open(text, bound string) ([]byte, error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil, err
	}
	return b.aead.Open(nil, nil, raw, []byte(bound))
}

// Room returns how many plain bytes fit into sealed text of this size.
func (b *Box) Room(size int) int { return base64.RawURLEncoding.DecodedLen(size) - b.aead.Overhead() }
