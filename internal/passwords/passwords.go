// Package passwords checks passwords without leaking information through response times, and without letting
// attackers use the check to exhaust the CPU. It also recognizes leaked passwords ([LeakedList]) and common ones
// ([IsCommon]).
//
// A [Queue] limits concurrent checks (R19), and no client can displace the others (R26). [Parse] parses the hashes of
// other programs, and rejects too expensive ones. A [Checker] compares a password with a hash, and does the same work
// for an unknown account. [Checker.Hold] delays all wrong answers to the same time, for all kinds of hash (R12).
// Other packages, such as accounts, store the hashes.
package passwords

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/bcrypt"
)

// Bounds of a password and of its check.
const (
	// MaxBytes is the maximum length of a password: for some kinds of hash, longer ones take longer.
	MaxBytes = 256
	// MaxNew is the maximum length of a new password. bcrypt ignores further bytes, so an attacker would only need the
	// beginning of a longer one.
	MaxNew = 72
	// DefaultCost is the bcrypt cost of new hashes: about a fifth of a second.
	DefaultCost = 12
	// MaxCost bounds the bcrypt cost of a stored hash. Each step doubles the time.
	MaxCost = 16
)

var (
	// ErrTooLong means that a password exceeds MaxBytes, or a new one MaxNew. It reveals nothing about the account.
	ErrTooLong = errors.New("passwords: too long")
	// ErrNUL means that a password contains NUL. bcrypt repeats the password and a NUL up to 72 bytes, so "p", NUL, "p"
	// would equal "p". PBKDF2 and scrypt pad keys with NULs, so "p", NUL would equal "p".
	ErrNUL = errors.New("passwords: NUL characters are not allowed")
	// ErrHash means that a stored hash cannot be checked: it is of an unknown kind, damaged, or too expensive. The check
	// took as long as any other. Answer as for a wrong password, and log it for the administrator.
	ErrHash = errors.New("passwords: the stored hash cannot be checked")
)

// Possible validates the characters of a password: nil, ErrTooLong or ErrNUL.
func Possible(password string) error {
	switch {
	case len(password) > MaxBytes:
		return ErrTooLong
	case strings.Contains(password, "\x00"):
		return ErrNUL
	}
	return nil
}

// PossibleNew validates a new password: nil, ErrTooLong or ErrNUL.
func PossibleNew(password string) error {
	if len(password) > MaxNew {
		return ErrTooLong
	}
	return Possible(password)
}

// Stored is the stored state of one account's password. The zero Stored is an account that does not exist.
type Stored struct {
	// Hash is of any kind; "" if there is none.
	Hash string
	// Usable is false for disabled accounts, and those without a password: the correct password is then answered as
	// wrong.
	Usable bool

	parsed Hash
	of     string    // the Hash that parsed is from
	began  time.Time // start of the check
	size   int       // of the checked password; see sizeOf
}

func (s *Stored) parse() (err error) {
	if s.parsed.keySize == 0 || s.of != s.Hash {
		s.parsed, err = Parse(s.Hash)
		s.of = s.Hash
	}
	return err
}

// sizeOf is higher for passwords whose check takes longer with some kinds of hash: long ones, and those that
// WordPress's kinds check twice.
func sizeOf(password string) int {
	size := len(password) / 64
	if strings.ContainsAny(password, quotes) {
		size += MaxBytes/64 + 1
	}
	return size
}

// A Compare reports whether a password matches a hash. It does the same work for every answer.
type Compare func(hash *Hash, password string) bool

// Sample is the number of accounts whose kind of hash a Checker stores.
const Sample = 128

// A Checker checks the passwords of one source of accounts. It is safe for concurrent use. Limit concurrent checks
// with a Queue.
type Checker struct {
	compare Compare
	cost    int // of new hashes
	hold    hold
}

// NewChecker returns a Checker whose new hashes are bcrypt of this cost; 0 means DefaultCost. A nil compare is the
// default; tests pass one that counts.
func NewChecker(cost int, compare Compare) (*Checker, error) {
	if cost == 0 {
		cost = DefaultCost
	}
	if cost < bcrypt.MinCost || cost > MaxCost {
		return nil, fmt.Errorf("passwords: bcrypt cost: must be from %d to %d, is %d", bcrypt.MinCost, MaxCost, cost)
	}
	if compare == nil {
		compare = (*Hash).matches
	}
	c := &Checker{compare: compare, cost: cost}
	c.hold.quickest = make(map[recipe]time.Duration)
	c.hold.recent[0] = recipe{numbers: [3]int{cost}, saltSize: 22, keySize: 31} // bcrypt is the first of kinds
	return c, nil
}

// Learn adds a hash's kind to those used for unknown accounts. Call it at startup for Sample accounts; Check does the
// same for each account.
func (c *Checker) Learn(hash string) {
	c.hold.mu.Lock()
	defer c.hold.mu.Unlock()
	if h, err := Parse(hash); err == nil {
		c.hold.learn(h.recipe)
	}
}

// Check reports whether the password is correct. Its work is the same without a hash, or for an unusable account.
// Call Hold before answering a wrong password. Errors are ErrHash, and at once those of Possible.
func (c *Checker) Check(stored *Stored, password string) (right bool, err error) {
	if err := Possible(password); err != nil {
		return false, err
	}
	err = stored.parse()
	stored.size = sizeOf(password)
	c.hold.run(stored, func(hash *Hash) { right = c.compare(hash, password) })
	if NoPassword(stored.Hash) {
		err = nil
	}
	return right && stored.parsed.keySize > 0 && stored.Usable, err
}

// Hash returns a new hash, $2a$ at the configured cost. Errors are those of PossibleNew.
func (c *Checker) Hash(password string) (string, error) {
	if err := PossibleNew(password); err != nil {
		return "", err
	}
	hash, err := bcrypt.GenerateFromPassword([]byte(password), c.cost)
	if err != nil {
		return "", fmt.Errorf("passwords: hash: %w", err)
	}
	return string(hash), nil
}

// Outdated reports whether a matched hash is of another kind than new ones, or has a lower cost.
func (c *Checker) Outdated(stored *Stored) bool {
	err, h := stored.parse(), &stored.parsed
	return err == nil && (h.Kind() != kinds[0].name || h.numbers[0] < c.cost)
}

// A hold releases every wrong answer at the same time after its check began, for all kinds of hash (R12). That time
// is a quarter more than a check of the slowest kind in use takes under the current load. Load, which attackers can
// cause, raises it to at most four times that of an idle server, and at most five seconds.
type hold struct {
	mu       sync.Mutex
	quickest map[recipe]time.Duration // fastest check, which does not depend on the load
	overrun  time.Duration            // of recent checks beyond the fastest; each check lowers it by 1/64
	running  []time.Time              // start of each running check, oldest first
	recent   [Sample]recipe           // of accounts that were checked or learned
	learned  int                      // number of recipes so far
}

func (h *hold) learn(r recipe) {
	h.recent[h.learned%Sample] = r
	h.learned++
}

// run runs a check. Without a hash, it uses a decoy of a kind that a recent account has.
func (h *hold) run(s *Stored, check func(*Hash)) {
	hash := s.parsed
	h.mu.Lock()
	if hash.keySize > 0 {
		h.learn(hash.recipe)
	} else {
		hash = h.recent[rand.IntN(max(1, min(h.learned, Sample)))].decoy()
	}
	hash.password, s.began = s.size, time.Now()
	h.running = append(h.running, s.began)
	h.mu.Unlock()
	check(&hash)
	h.mu.Lock()
	defer h.mu.Unlock()
	at, took := slices.Index(h.running, s.began), time.Since(s.began)
	h.running = slices.Delete(h.running, at, at+1)
	if len(h.quickest) >= 1000 {
		clear(h.quickest)
	}
	if before, seen := h.quickest[hash.recipe]; !seen || took < before {
		h.quickest[hash.recipe] = took
	}
	h.overrun = max(took-h.quickest[hash.recipe], h.overrun-h.overrun/64)
}

// left returns the time until an answer is released. A late check that is still running delays it further.
func (h *hold) left(s *Stored) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	var slowest time.Duration
	for of, took := range h.quickest {
		if of.password <= s.size {
			slowest = max(slowest, took)
		}
	}
	common := slowest + h.overrun
	if len(h.running) > 0 {
		common = max(common, time.Since(h.running[0]))
	}
	return time.Until(s.began.Add(min(common*5/4, 4*slowest, 5*time.Second)))
}

// Hold waits until a wrong password may be answered, or ctx ends. Call it also for correct passwords that are
// answered as wrong, and leave the Queue first.
func (c *Checker) Hold(ctx context.Context, checked Stored) {
	for left := c.hold.left(&checked); left > 0; left = c.hold.left(&checked) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(left):
		}
	}
}

// An Overload is the error of an attempt that was rejected because of overload. No password was checked.
type Overload struct {
	// RetryAfter is about how long the queue takes to drain: 1 s to 1 min.
	RetryAfter time.Duration
}

// Error implements error.
func (o *Overload) Error() string {
	return fmt.Sprintf("%v; try again in %v", ErrOverloaded, o.RetryAfter)
}

// Unwrap returns ErrOverloaded.
func (o *Overload) Unwrap() error { return ErrOverloaded }
