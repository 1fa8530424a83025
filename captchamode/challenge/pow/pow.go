// Package pow is the challenge that nobody has to look at: the browser finds a
// number by trying, by the ALTCHA protocol with SHA-256. It puts a small price on
// each guess (docs/challenges.md has it in numbers). The built-in image is offered
// beside it, for browsers without JavaScript.
//
// Everything follows from the seed of the challenge, so nothing is stored. Its
// ID holds the address, the expiry, and what is spent.
package pow

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/altcha-org/altcha-lib-go"
	"github.com/go-json-experiment/json" // a field that comes twice is an error

	"authguard/captchamode/challenge"
)

var _ challenge.Provider = (*Provider)(nil)

// The largest number to search: by default, at least and at most. On average half
// of them are tried.
const (
	DefaultMaxNumber = 100_000
	MinMaxNumber     = 1_000
	MaxMaxNumber     = 20_000_000
)

// A Provider issues and checks proofs of work. Safe for concurrent use.
type Provider struct{ maxNumber atomic.Int64 }

// New returns a provider; zero is [DefaultMaxNumber].
func New(maxNumber int64) (*Provider, error) {
	if maxNumber == 0 {
		maxNumber = DefaultMaxNumber
	}
	p := new(Provider)
	if err := p.SetMaxNumber(maxNumber); err != nil {
		return nil, err
	}
	return p, nil
}

// SetMaxNumber changes the work that is asked for from now on. A challenge that
// was issued before is checked against the work it asked for.
func (p *Provider) SetMaxNumber(n int64) error {
	if n < MinMaxNumber || n > MaxMaxNumber {
		return fmt.Errorf("pow: max number: must be from %d to %d", MinMaxNumber, MaxMaxNumber)
	}
	p.maxNumber.Store(n)
	return nil
}

// Kind returns [challenge.KindPoW].
func (p *Provider) Kind() string { return challenge.KindPoW }

// Issue makes the parameters of a seed.
func (p *Provider) Issue(_ context.Context, seed challenge.Seed, expires time.Time) (challenge.Puzzle, error) {
	most := p.maxNumber.Load()
	number := int64(binary.BigEndian.Uint64(derive(seed, "number")) % uint64(most+1))
	made, err := altcha.CreateChallenge(altcha.ChallengeOptions{
		Algorithm: altcha.SHA256,
		HMACKey:   key(seed),
		MaxNumber: most,
		Number:    &number,
		Salt:      salt(seed, expires),
	})
	if err != nil {
		return challenge.Puzzle{}, fmt.Errorf("pow: making a challenge: %w", err)
	}
	return challenge.Puzzle{OrImage: true, PoW: &challenge.PoW{
		Algorithm: made.Algorithm,
		Challenge: made.Challenge,
		MaxNumber: made.MaxNumber,
		Salt:      made.Salt,
		Signature: made.Signature,
	}}, nil
}

// Check accepts the base64 of an ALTCHA payload. The salt must be this
// challenge's own, to the byte. The signature, under a key of this challenge
// alone, then proves that the hash is the one that was issued, and so that the
// number was found, whatever the work asked for today. The library does not
// check the expiry, for which it has a clock of its own: the ID's was checked.
func (p *Provider) Check(_ context.Context, seed challenge.Seed, expires time.Time, answer string) (bool, error) {
	payload, ok := parse(answer)
	if !ok || payload.Algorithm != string(altcha.SHA256) || payload.Salt != salt(seed, expires) {
		return false, nil
	}
	right, err := altcha.VerifySolutionSafe(payload, key(seed), false)
	if err != nil {
		return false, fmt.Errorf("pow: verifying a solution: %w", err)
	}
	return right, nil
}

func parse(answer string) (payload altcha.Payload, ok bool) {
	raw, err := base64.StdEncoding.DecodeString(answer)
	if err != nil {
		return payload, false
	}
	return payload, json.Unmarshal(raw, &payload) == nil
}

// salt carries the expiry where ALTCHA's clients look for it. It ends in "&", so
// no digit of the number can be taken for one of the expiry (CVE-2025-68113).
func salt(seed challenge.Seed, expires time.Time) string {
	params := url.Values{"expires": {strconv.FormatInt(expires.Unix(), 10)}}
	return hex.EncodeToString(derive(seed, "salt")[:12]) + "?" + params.Encode() + "&"
}

func key(seed challenge.Seed) string { return string(derive(seed, "key")) }

func derive(seed challenge.Seed, what string) []byte {
	mac := hmac.New(sha256.New, seed[:])
	mac.Write([]byte(what))
	return mac.Sum(nil)
}
