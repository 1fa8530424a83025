// Package pow is the challenge that a browser solves by itself: it derives keys
// from passwords that it counts up, until enough of them begin with a small
// number. The derivation is PBKDF2 with SHA-256, which browsers have built in
// (WebCrypto), so an attacker's native code is hardly faster than they are; a
// script that hashes in JavaScript is fifteen times slower than native code
// (docs/challenges.md has the figures).
//
// Everything follows from the seed of the challenge and the work that is sealed
// in its ID, so nothing is stored.
package pow

import (
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"

	"authguard/captchamode/challenge"
)

var _ challenge.Provider = (*Provider)(nil)

// Work is counted in derivations, the average of what has to be tried. These are
// what a challenge asks for by default, at least and, however high its level, at
// most.
const (
	DefaultWork = 2_000
	MinWork     = 100
	MaxWork     = 200_000
	// MostWork is the highest that may be configured for the lowest level.
	MostWork = 20_000
)

const (
	algorithm = "PBKDF2-SHA-256"
	// iterations make one derivation long enough (some 2 ms) that what the
	// browser adds to each call does not matter.
	iterations = 5_000
	// parts are solved one by one, or several at once. With one part the luck of
	// the draw would make one in twenty people wait three times the average;
	// with eight one in twenty waits 1.6 times.
	parts = 8
)

// A Provider issues and checks work. Safe for concurrent use.
type Provider struct {
	kind    string
	picture bool
	work    atomic.Int64
}

// New returns the kind "pow": work, or the built-in picture in its stead. Zero
// work is [DefaultWork].
func New(work int64) (*Provider, error) { return newProvider(challenge.KindPoW, false, work) }

// WithPicture returns the kind "both": work and the built-in picture.
func WithPicture(work int64) (*Provider, error) { return newProvider(challenge.KindBoth, true, work) }

func newProvider(kind string, picture bool, work int64) (*Provider, error) {
	if work == 0 {
		work = DefaultWork
	}
	p := &Provider{kind: kind, picture: picture}
	if err := p.SetWork(work); err != nil {
		return nil, err
	}
	return p, nil
}

// SetWork changes what is asked for at the lowest level from now on. A challenge
// that was issued before is checked against what it asked for.
func (p *Provider) SetWork(n int64) error {
	if n < MinWork || n > MostWork {
		return fmt.Errorf("pow: work: must be from %d to %d", MinWork, MostWork)
	}
	p.work.Store(n)
	return nil
}

// Kind implements [challenge.Provider].
func (p *Provider) Kind() string { return p.kind }

// At is the work of a level: twice that of the one below, up to [MaxWork].
func (p *Provider) At(level uint8) int64 { return min(MaxWork, p.work.Load()<<min(level, 20)) }

// Issue makes the parameters of a task.
func (p *Provider) Issue(_ context.Context, task challenge.Task) (challenge.Puzzle, error) {
	work := p.At(task.Level)
	return challenge.Puzzle{OrImage: true, AndImage: p.picture, Work: uint32(work), PoW: &challenge.PoW{
		Algorithm: algorithm, Iterations: iterations, Parts: parts, Below: below(uint32(work)), Salt: salt(task.Seed),
		Work: work,
	}}, nil
}

// below is what a part's key, as a number of 32 bits, has to be less than.
func below(work uint32) uint32 { return uint32(1 << 32 * parts / max(uint64(work), parts+1)) }

// Check accepts one number for each part, with a dot between two. It derives a
// key for each until one is wrong: a wrong answer costs 2 ms, a right one 16.
func (p *Provider) Check(_ context.Context, task challenge.Task, answer string) (bool, error) {
	numbers := strings.Split(answer, ".")
	if len(numbers) != parts {
		return false, nil
	}
	salt := salt(task.Seed)
	for part, number := range numbers {
		n, err := strconv.ParseUint(number, 10, 31)
		if err != nil || strconv.FormatUint(n, 10) != number {
			return false, nil
		}
		key, err := derive(salt, part, n)
		if err != nil {
			return false, err
		}
		if key >= below(task.Work) {
			return false, nil
		}
	}
	return true, nil
}

// derive is the number that a part's nth password leads to.
func derive(salt string, part int, n uint64) (uint32, error) {
	key, err := pbkdf2.Key(sha256.New, fmt.Sprintf("%s:%d:%d", salt, part, n), []byte(salt), iterations, 4)
	if err != nil {
		return 0, fmt.Errorf("pow: deriving a key: %w", err)
	}
	return binary.BigEndian.Uint32(key), nil
}

func salt(seed challenge.Seed) string {
	mac := hmac.New(sha256.New, seed[:])
	mac.Write([]byte("salt"))
	return hex.EncodeToString(mac.Sum(nil)[:16])
}
