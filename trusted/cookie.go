package trusted

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// ErrCookie says that a device cookie was not issued here, or is not whole. It
// says nothing more on purpose.
var ErrCookie = errors.New("trusted: not a device cookie of ours")

// MinCookieKey is the shortest signing key, in bytes.
const MinCookieKey = 32

// A device cookie is, in base64url without padding,
//
//	version (1) | account (16) | device (16) | issued, ms big-endian (8) | MAC (32)
//
// with HMAC-SHA256 over a label and everything before the MAC.
const (
	cookieVersion = 1
	cookieLabel   = "authguard device cookie\x00"
	bodySize      = 1 + 16 + 16 + 8
	cookieSize    = bodySize + sha256.Size
)

var (
	// Strict: of the spellings of one value only one parses.
	cookieEncoding = base64.RawURLEncoding.Strict()
	cookieLength   = cookieEncoding.EncodedLen(cookieSize)
)

// Cookies signs device cookies: a browser that carries one has logged in to the
// account before, wherever it is now. It is safe for concurrent use.
//
// A cookie that parses is genuine, no more. The caller still compares its
// account, its age with Limits.TTL, its issue with the store's ResetAt, and
// asks the store whether the device is Spent.
type Cookies struct {
	keys [][]byte
}

// NewCookies takes the keys, each of MinCookieKey random bytes or more. The
// first signs and all verify: to rotate, put the new one in front and remove
// the old one after Limits.TTL.
func NewCookies(keys ...[]byte) (*Cookies, error) {
	if len(keys) == 0 {
		return nil, errors.New("trusted: device cookies need a signing key")
	}
	c := &Cookies{}
	for i, key := range keys {
		if len(key) < MinCookieKey {
			return nil, fmt.Errorf("trusted: device cookie key %d has %d bytes, need at least %d", i+1, len(key), MinCookieKey)
		}
		c.keys = append(c.keys, slices.Clone(key))
	}
	return c, nil
}

// Issue makes a cookie for a device of an account.
func (c *Cookies) Issue(account, device Key, now time.Time) string {
	body := make([]byte, 0, cookieSize)
	body = append(body, cookieVersion)
	body = append(body, account[:]...)
	body = append(body, device[:]...)
	body = binary.BigEndian.AppendUint64(body, uint64(now.UnixMilli()))
	return cookieEncoding.EncodeToString(append(body, sign(c.keys[0], body)...))
}

// NamesAccount reports whether a cookie says that it is of an account. It costs next to
// nothing and checks nothing: that is for Parse.
func NamesAccount(cookie string, account Key) bool {
	const whole = 15 // as many bytes as fill characters
	head := append([]byte{cookieVersion}, account[:]...)
	return strings.HasPrefix(cookie, cookieEncoding.EncodeToString(head[:whole]))
}

// Parse reads back what Issue made, to the millisecond. The error is ErrCookie
// for everything else, and then the rest is zero.
func (c *Cookies) Parse(cookie string) (account, device Key, issued time.Time, err error) {
	if len(cookie) != cookieLength {
		return account, device, issued, ErrCookie
	}
	raw, err := cookieEncoding.DecodeString(cookie)
	if err != nil || len(raw) != cookieSize || raw[0] != cookieVersion || !c.signed(raw) {
		return account, device, issued, ErrCookie
	}
	copy(account[:], raw[1:])
	copy(device[:], raw[17:])
	issued = time.UnixMilli(int64(binary.BigEndian.Uint64(raw[33:])))
	return account, device, issued, nil
}

// signed tries every key, so the time tells nobody which one fits.
func (c *Cookies) signed(raw []byte) bool {
	ok := false
	for _, key := range c.keys {
		ok = hmac.Equal(sign(key, raw[:bodySize]), raw[bodySize:]) || ok
	}
	return ok
}

func sign(key, body []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(cookieLabel))
	mac.Write(body)
	return mac.Sum(nil)
}
