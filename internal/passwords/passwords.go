// Package passwords checks passwords so that the check itself gives nothing away
// and cannot be used as a weapon.
//
// A [Gate] lets only so many checks run at once (rule R19) and shares the turns
// out, so that nobody starves the others (rule R26). [Parse] reads the hashes that
// other programs made, and refuses those that would take too long. A
// [Checker] compares a password with one, and does the same work for an account that
// does not exist; [Checker.Hold] releases all wrong answers at one time, whatever kinds
// of hash there are (rule R12). The package does not store hashes: that is left to others, such
// as package accounts.
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

// Bounds of a password and of the work to check one.
const (
	// MaxBytes is the longest password that is looked at: some kinds of hash take
	// longer for a longer one.
	MaxBytes = 256
	// MaxNew is the longest new password: bcrypt reads no further, so that a longer
	// one would let in anybody who knows its beginning.
	MaxNew = 72
	// DefaultCost is the cost of new hashes: about a fifth of a second.
	DefaultCost = 12
	// MaxCost bounds what a bcrypt hash can make a login cost: each step doubles it.
	MaxCost = 16
)

var (
	// ErrTooLong says that a password is longer than MaxBytes, or a new one than
	// MaxNew. It says nothing about the account.
	ErrTooLong = errors.New("passwords: too long")
	// ErrNUL says that a password has a NUL in it. bcrypt's key is the password
	// and a NUL, repeated until it has 72 bytes: "p", NUL, "p" would be "p". To
	// PBKDF2 and scrypt, whose keys are filled up with NULs, "p", NUL would be.
	ErrNUL = errors.New("passwords: NUL characters are not allowed")
	// ErrHash says that a stored hash cannot be checked: of a kind that is not
	// known, broken, or too dear. The check took as long as any other; answer like
	// a wrong password and tell the operator.
	ErrHash = errors.New("passwords: the stored hash cannot be checked")
)

// Possible says whether a text can be anybody's password: nil, ErrTooLong or
// ErrNUL.
func Possible(password string) error {
	switch {
	case len(password) > MaxBytes:
		return ErrTooLong
	case strings.Contains(password, "\x00"):
		return ErrNUL
	}
	return nil
}

// PossibleNew says whether a text can become a password: nil, ErrTooLong or ErrNUL.
func PossibleNew(password string) error {
	if len(password) > MaxNew {
		return ErrTooLong
	}
	return Possible(password)
}

// A Stored is what is known of one account's password. The zero Stored is an
// account that does not exist.
type Stored struct {
	// Hash is of any kind; empty if there is none.
	Hash string
	// Usable is false for a disabled account, and one without a password: the right
	// password looks wrong.
	Usable bool

	parsed Hash
	of     string    // the Hash that parsed is of
	began  time.Time // the check of it
	size   int       // of the password that was checked; see sizeOf
}

// parse reads Hash once.
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

// A Compare reports whether a password has a hash. It does all the work whatever
// the answer.
type Compare func(hash *Hash, password string) bool

// Sample is of how many accounts a Checker remembers the kind of hash.
const Sample = 128

// A Checker compares passwords of one source of accounts. It is safe for concurrent use.
// How many checks run at once is up to the Gate.
type Checker struct {
	compare Compare
	cost    int // of new hashes
	hold    hold
}

// NewChecker makes a Checker whose new hashes are bcrypt of the given cost; 0 is
// DefaultCost. A nil compare compares; tests pass one that counts.
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

// Learn has unknown accounts checked like one with this hash. Call it at the start, for
// Sample accounts; Check does the same for each account.
func (c *Checker) Learn(hash string) {
	c.hold.mu.Lock()
	defer c.hold.mu.Unlock()
	if h, err := Parse(hash); err == nil {
		c.hold.learn(h.recipe)
	}
}

// Check reports whether a password is the account's. Whether there is a hash, and
// whether the account is usable, makes no difference to the work. Call Hold before
// the answer to a wrong one. Errors are Possible's, at once, and ErrHash.
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

// Hash makes a new hash, $2a$ at the configured cost. Errors are those of
// PossibleNew.
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

// Outdated reports whether a hash that was just matched is of another kind than new
// ones, or of a lower cost. A more expensive one of the same kind stays as it is.
func (c *Checker) Outdated(stored *Stored) bool {
	err, h := stored.parse(), &stored.parsed
	return err == nil && (h.Kind() != kinds[0].name || h.numbers[0] < c.cost)
}

// A hold releases every wrong answer at one time after its check began, whichever kind of hash that was (R12): a
// quarter more than a check of the slowest kind in use takes under the present load. Load, which attackers can make,
// raises it to four times that of an idle server, and to five seconds at most.
type hold struct {
	mu       sync.Mutex
	quickest map[recipe]time.Duration // check, which load cannot raise
	overrun  time.Duration            // of recent checks beyond their quickest; each check lowers it by 1/64
	running  []time.Time              // when these checks began, the oldest first
	recent   [Sample]recipe           // of accounts that were checked or sampled
	learned  int                      // how many of them so far
}

func (h *hold) learn(r recipe) {
	h.recent[h.learned%Sample] = r
	h.learned++
}

// run runs a check. In place of a hash that there is not, it is of a kind that a recent account has.
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

// left is the time until an answer is released. A check that is late, and still runs, delays it, too.
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

// Hold waits until the answer to a wrong password may be sent, or ctx ends. Right passwords that are answered as wrong
// are held, too. Give the Gate's turn back first.
func (c *Checker) Hold(ctx context.Context, checked Stored) {
	for left := c.hold.left(&checked); left > 0; left = c.hold.left(&checked) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(left):
		}
	}
}

// An Overload is the error of an attempt that was shed. Nothing was checked.
type Overload struct {
	// RetryAfter is about how long the queue takes to drain, 1 s to 1 min.
	RetryAfter time.Duration
}

// Error implements error.
func (o *Overload) Error() string {
	return fmt.Sprintf("%v; try again in %v", ErrOverloaded, o.RetryAfter)
}

// Unwrap is ErrOverloaded.
func (o *Overload) Unwrap() error { return ErrOverloaded }
