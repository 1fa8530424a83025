package route

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"authguard/internal/seal"
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
	box *seal.Box
	now func() time.Time
}

// FormLives is how long a sealed form is valid.
const FormLives = 30 * time.Minute

// SealedSize is the maximum size of the challenge page's form, in bytes, around a login form of this size.
func SealedSize(size int64) int64 { return 2*size + 8<<10 }

// NewForms requires a secret of at least 16 bytes, the same on every node.
func NewForms(secret []byte, now func() time.Time) (*Forms, error) {
	box, err := seal.NewBox(secret, "form")
	if err != nil {
		return nil, fmt.Errorf("route: %w", err)
	}
	return &Forms{box, now}, nil
}

// Seal encrypts the form for one path of this site.
func (f *Forms) Seal(one Form, path string) string {
	one.At = f.now()
	plain, err := json.Marshal(one)
	if err != nil {
		return ""
	}
	return f.box.Seal(plain, path)
}

// Open decrypts a form that Seal made for the same path, within FormLives.
func (f *Forms) Open(text, path string) (one Form, err error) {
	plain, err := f.box.Open(text, path)
	if err != nil {
		return one, err
	}
	if err = json.Unmarshal(plain, &one); err == nil && f.now().Sub(one.At) > FormLives {
		err = errors.New("route: the form has expired")
	}
	return one, err
}
