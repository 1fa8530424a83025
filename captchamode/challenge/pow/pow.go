// Package pow is the proof of work that a browser computes without the user. It derives keys from counted-up
// passwords until enough of them begin with a small number. PBKDF2 with SHA-256 is built into browsers (WebCrypto),
// so an attacker's native code is hardly faster. A script that hashes in JavaScript would be fifteen times slower
// than native code (docs/decisions/0022).
//
// Everything follows from the challenge's seed and the work sealed in its ID, so nothing is stored.
package pow

import (
	"context"
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"

	"authguard/captchamode/challenge"
	"authguard/internal/seal"
)

var _ challenge.Provider = (*Provider)(nil)

// Work is the average number of derivations. These are the default, the minimum, and the maximum at any level.
const (
	DefaultWork = 2_000
	MinWork     = 100
	MaxWork     = 200_000
	// MostWork is the maximum that can be configured for the lowest level.
	MostWork = 20_000
)

const (
	algorithm = "PBKDF2-SHA-256"
	// With this many iterations, one derivation takes about 2 ms, so the overhead of each browser call does not matter.
	iterations = 5_000
	// parts can be computed in parallel. With one part, one in twenty clients would take three times the average; with
	// eight, 1.6 times.
	parts = 8
)

// A Provider issues and checks proofs of work. Safe for concurrent use.
type Provider struct {
	kind    string
	picture bool
	work    atomic.Int64
}

// New returns the kind "pow": proof of work, or the built-in image instead. Zero work means [DefaultWork].
func New(work int64) (*Provider, error) { return newProvider(challenge.KindPoW, false, work) }

// WithPicture returns the kind "both": proof of work and the built-in image.
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

// SetWork changes the work of the lowest level for future challenges.
func (p *Provider) SetWork(n int64) error {
	if n < MinWork || n > MostWork {
		return fmt.Errorf("pow: work: must be from %d to %d", MinWork, MostWork)
	}
	p.work.Store(n)
	return nil
}

// Kind implements [challenge.Provider].
func (p *Provider) Kind() string { return p.kind }

// At returns the work of a level: twice that of the level below, up to [MaxWork].
func (p *Provider) At(level uint8) int64 { return min(MaxWork, p.work.Load()<<min(level, 20)) }

// Issue implements [challenge.Provider].
func (p *Provider) Issue(_ context.Context, task challenge.Task) (challenge.Puzzle, error) {
	work := p.At(task.Level)
	return challenge.Puzzle{OrImage: true, AndImage: p.picture, Work: uint32(work), PoW: &challenge.PoW{
		Algorithm: algorithm, Iterations: iterations, Parts: parts, Below: below(uint32(work)), Salt: salt(task.Seed),
		Work: work,
	}}, nil
}

// below returns the bound for a part's key, as a 32-bit number.
func below(work uint32) uint32 { return uint32(1 << 32 * parts / max(uint64(work), parts+1)) }

// Check accepts one number per part, separated by dots. It stops at the first wrong one: a wrong answer costs 2 ms, a
// correct one 16 ms.
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

func derive(salt string, part int, n uint64) (uint32, error) {
	key, err := pbkdf2.Key(sha256.New, fmt.Sprintf("%s:%d:%d", salt, part, n), []byte(salt), iterations, 4)
	if err != nil {
		return 0, fmt.Errorf("pow: deriving a key: %w", err)
	}
	return binary.BigEndian.Uint32(key), nil
}

func salt(seed challenge.Seed) string {
	return hex.EncodeToString(seal.MAC(seed[:], "salt")[:16])
}
