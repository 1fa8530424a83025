package route

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"
)

// A Form is what a visitor filled in at a login page.
type Form struct {
	Type string // its Content-Type
	Body []byte
	At   time.Time
}

// Restore makes what was read the request's body again.
func (f *Form) Restore(r *http.Request) {
	r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(f.Body)), int64(len(f.Body)), nil
	r.Trailer = nil
}

// Forms seal what a visitor has filled in, for the page that they get in between:
// nothing is kept here meanwhile, and nobody reads a password out of that page.
// Safe for concurrent use.
type Forms struct {
	aead cipher.AEAD
	now  func() time.Time
}

// FormLives is how long a form may wait for its challenge to be solved.
const FormLives = 30 * time.Minute

// SealedSize is how large the form of the page in between may be, in bytes, around
// one of a size.
func SealedSize(size int64) int64 { return 2*size + 8<<10 }

// NewForms wants at least 16 bytes, the same on every node.
func NewForms(secret []byte, now func() time.Time) (*Forms, error) {
	if len(secret) < 16 {
		return nil, errors.New("route: the secret that seals forms must have at least 16 bytes")
	}
	key, err := hkdf.Key(sha256.New, secret, nil, "authguard form", 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return &Forms{aead, now}, err
}

// Seal is the form as text, for one path of this site.
func (f *Forms) Seal(one Form, path string) string {
	one.At = f.now()
	plain, err := json.Marshal(one)
	if err != nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(f.aead.Seal(nil, nil, plain, []byte(path)))
}

// Open reads what Seal made for the path, if that was not too long ago.
func (f *Forms) Open(text, path string) (one Form, err error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return one, err
	}
	plain, err := f.aead.Open(nil, nil, raw, []byte(path))
	if err != nil {
		return one, err
	}
	if err = json.Unmarshal(plain, &one); err == nil && f.now().Sub(one.At) > FormLives {
		err = errors.New("route: the form has expired")
	}
	return one, err
}
