package secrets

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
)

// Fingerprint is a short text by which nodes compare their keys; nobody can
// work out a key from it. Its first part is of the counters' and challenges'
// keys; then comes one part for each cookie key, the newest first:
//
//	5f0c2b6e9d1a7734-c41fe02a
func (k Keys) Fingerprint() string {
	both := hmac.New(sha256.New, k.Counters)
	both.Write([]byte("authguard: fingerprint of counters and challenges\n"))
	both.Write(digest(k.Challenges, "authguard: fingerprint of challenges"))
	parts := []string{fmt.Sprintf("%x", both.Sum(nil)[:8])}
	for _, cookie := range k.Cookies {
		parts = append(parts, fmt.Sprintf("%x", digest(cookie, "authguard: fingerprint of a cookie key")[:4]))
	}
	return strings.Join(parts, "-")
}

func digest(key []byte, of string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(of))
	return h.Sum(nil)
}

// Agrees tells whether nodes with these fingerprints can work together. While
// cookie keys are rotated one node after the other, they have one in common;
// the others must be the same.
func Agrees(a, b string) bool {
	x, y := strings.Split(a, "-"), strings.Split(b, "-")
	return x[0] == y[0] && slices.ContainsFunc(x[1:], func(part string) bool { return slices.Contains(y[1:], part) })
}
