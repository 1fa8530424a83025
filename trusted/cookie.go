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

// ErrCookie means that a device cookie is not valid. It deliberately gives no reason.
var ErrCookie = errors.New("trusted: not a device cookie of ours")

// MinCookieKey is the shortest signing key, in bytes.
const MinCookieKey = 32

// The format of a device cookie, in base64url without padding, is
//
//	version (1) | account (16) | device (16) | issued, ms big-endian (8) | MAC (32)
//
// The MAC is HMAC-SHA256 over a label and everything before it.
const (
	cookieVersion = 1
	cookieLabel   = "authguard device cookie\x00"
	bodySize      = 1 + 16 + 16 + 8
	cookieSize    = bodySize + sha256.Size
)

var (
	// Strict: each value has only one accepted encoding.
	cookieEncoding = base64.RawURLEncoding.Strict()
	cookieLength   = cookieEncoding.EncodedLen(cookieSize)
)

// Cookies issues and verifies device cookies: a browser with one has signed in to the account before, from any IP
// address. Safe for concurrent use.
//
// Parse only verifies the signature. The caller must also check the account, the age (Limits.TTL), the issue time
// (Record.Reset), and whether the device is Spent.
type Cookies struct {
	keys [][]byte
}

// NewCookies takes the keys, each of at least MinCookieKey random bytes. The first one signs, and all verify. To
// rotate, prepend a new key and remove the old one after Limits.TTL.
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

// Issue returns a cookie for a device of an account.
func (c *Cookies) Issue(account, device Key, now time.Time) string {
	body := make([]byte, 0, cookieSize)
	body = append(body, cookieVersion)
	body = append(body, account[:]...)
	body = append(body, device[:]...)
	body = binary.BigEndian.AppendUint64(body, uint64(now.UnixMilli()))
	return cookieEncoding.EncodeToString(append(body, sign(c.keys[0], body)...))
}

// NamesAccount reports whether an unverified cookie contains the account. It is cheap, and does not replace Parse.
func NamesAccount(cookie string, account Key) bool {
	const whole = 15 // a number of bytes that base64 encodes without padding
	head := append([]byte{cookieVersion}, account[:]...)
	return strings.HasPrefix(cookie, cookieEncoding.EncodeToString(head[:whole]))
}

// Parse verifies a cookie and returns its content, in whole milliseconds. On an error, which is always ErrCookie, the
// rest is zero.
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

// signed tries every key, so the time does not reveal which one matches.
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
