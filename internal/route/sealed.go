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

// A Form is the login form that a user sent.
type Form struct {
	Type string // Content-Type
	Body []byte
	At   time.Time
}

// Restore makes the form the request's body again.
func (f *Form) Restore(r *http.Request) {
	r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(f.Body)), int64(len(f.Body)), nil
	r.Trailer = nil
}

// Forms seals login forms for the challenge page: the server keeps no state, and the page reveals no password. It is
// safe for concurrent use.
type Forms struct {
	aead cipher.AEAD
	now  func() time.Time
}

// FormLives is how long a sealed form is valid.
const FormLives = 30 * time.Minute

// SealedSize is the maximum size of the challenge page's form, in bytes, around a login form of this size.
func SealedSize(size int64) int64 { return 2*size + 8<<10 }

// NewForms requires a secret of at least 16 bytes, the same on every node.
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

// Seal encrypts the form for one path of this site.
func (f *Forms) Seal(one Form, path string) string {
	one.At = f.now()
	plain, err := json.Marshal(one)
	if err != nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(f.aead.Seal(nil, nil, plain, []byte(path)))
}

// Open decrypts a form that Seal made for the same path, within FormLives.
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
