// Package passwords checks passwords so that the check itself gives nothing away
// and cannot be used as a weapon.
//
// A [Gate] lets only so many checks run at once (rule R19) and shares the turns
// out, so that nobody starves the others (rule R26). A [Checker] does the same
// amount of work whether the account exists or not, is disabled or not, and however
// old its hash is (rule R12). It does not store hashes: that is left to others,
// such as package accounts.
package passwords

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"golang.org/x/crypto/bcrypt"
)

// Bounds of a password and of the work to check one.
const (
	// MaxBytes is the longest password: bcrypt reads no further, so that a
	// longer one would let in anybody who knows its beginning.
	MaxBytes = 72
	// DefaultCost is the cost of new hashes: about a fifth of a second.
	DefaultCost = 12
	// MaxCost bounds what an imported hash can make every login cost: each
	// step doubles it.
	MaxCost = 16

	hashLength = 60
)

var (
	// ErrTooLong says that a password is longer than MaxBytes. It says nothing
	// about the account.
	ErrTooLong = fmt.Errorf("passwords: longer than %d bytes", MaxBytes)
	// ErrNUL says that a password has a NUL in it. bcrypt's key is the password
	// and a NUL, repeated until it has 72 bytes: "p", NUL, "p" would be "p".
	ErrNUL = errors.New("passwords: a NUL character, at which bcrypt begins anew")
	// ErrHash says that a stored hash cannot be used: not bcrypt, or of a cost
	// above MaxCost. The check took as long as any other; answer like a wrong
	// password and tell the operator.
	ErrHash = errors.New("passwords: the stored hash cannot be used")
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

// A Stored is what is known of one account's password. The zero Stored is an
// account that does not exist.
type Stored struct {
	// Hash is bcrypt ($2a$, $2b$ or $2y$); empty if there is none.
	Hash string
	// Usable is false for a disabled account: the right password looks wrong.
	Usable bool
}

// A Compare is bcrypt.CompareHashAndPassword.
type Compare func(hash, password []byte) error

// A Checker compares passwords. It is safe for concurrent use. How many checks
// run at once is up to the Gate.
type Checker struct {
	compare Compare
	cost    int          // of new hashes
	target  atomic.Int32 // what every check costs
}

// NewChecker makes a Checker whose new hashes have the given cost; 0 is
// DefaultCost. A nil compare is bcrypt's; tests pass one that counts.
func NewChecker(cost int, compare Compare) (*Checker, error) {
	if cost == 0 {
		cost = DefaultCost
	}
	if cost < bcrypt.MinCost || cost > MaxCost {
		return nil, fmt.Errorf("passwords: bcrypt cost: must be from %d to %d, is %d", bcrypt.MinCost, MaxCost, cost)
	}
	if compare == nil {
		compare = bcrypt.CompareHashAndPassword
	}
	c := &Checker{compare: compare, cost: cost}
	c.target.Store(int32(cost))
	return c, nil
}

// Saw raises the cost of every check to that of a stored hash, if that is higher.
// Call it at the start with the highest of all: otherwise the first such login
// stands out from those before it. More than MaxCost counts as MaxCost.
func (c *Checker) Saw(cost int) {
	for {
		now := c.target.Load()
		next := int32(min(cost, MaxCost))
		if next <= now || c.target.CompareAndSwap(now, next) {
			return
		}
	}
}

// Check reports whether a password is the account's. Every call does the work of
// one bcrypt at the highest cost seen, 2^C rounds: a hash of a lower cost c is
// followed by dummies of the costs c, c+1 … C-1, and 2^c + (2^c + 2^(c+1) + … +
// 2^(C-1)) = 2^C. Errors are Possible's, at once, and ErrHash.
func (c *Checker) Check(stored Stored, password string) (bool, error) {
	if err := Possible(password); err != nil {
		return false, err
	}
	typed := []byte(password)
	cost, err := CostOf(stored.Hash)
	if stored.Hash == "" || err != nil {
		c.compare(dummy(int(c.target.Load())), typed)
		return false, err
	}
	c.Saw(cost)
	right := c.compare([]byte(stored.Hash), typed) == nil
	for pad, target := cost, int(c.target.Load()); pad < target; pad++ {
		c.compare(dummy(pad), typed)
	}
	return right && stored.Usable, nil
}

// Hash makes a new hash, $2a$ at the configured cost. Errors are those of
// Possible.
func (c *Checker) Hash(password string) (string, error) {
	if err := Possible(password); err != nil {
		return "", err
	}
	hash, err := bcrypt.GenerateFromPassword([]byte(password), c.cost)
	if err != nil {
		return "", fmt.Errorf("passwords: hash: %w", err)
	}
	return string(hash), nil
}

// CostOf is the cost of a bcrypt hash; 0 and no error for an empty one. The error
// is ErrHash.
func CostOf(hash string) (int, error) {
	if hash == "" {
		return 0, nil
	}
	if kind := KindOf(hash); kind != "bcrypt" {
		return 0, fmt.Errorf("%w: it is %s, not bcrypt", ErrHash, kind)
	}
	cost, err := bcrypt.Cost([]byte(hash))
	switch {
	case err != nil || len(hash) != hashLength || !salted(hash[7:]):
		return 0, fmt.Errorf("%w: broken bcrypt hash", ErrHash)
	case cost > MaxCost:
		return 0, fmt.Errorf("%w: bcrypt cost %d is above %d", ErrHash, cost, MaxCost)
	}
	return cost, nil
}

// salted reports whether what follows the cost is bcrypt's base64. bcrypt would
// reject a stray character without doing the work, which the time would tell.
func salted(rest string) bool {
	for _, c := range rest {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '/':
		default:
			return false
		}
	}
	return true
}

// dummy is a hash of no known password. Any salt will do: only the work counts,
// the answer is thrown away.
func dummy(cost int) []byte {
	return fmt.Appendf(nil, "$2a$%02d$%s", cost, "abcdefghijklmnopqrstuuC7rGJ3WZ0V5n0pGdN8o2m4x6y8z0A2O")
}

// KindOf names the kind of a password hash by its prefix: "bcrypt", or what an
// operator would call it, for messages.
func KindOf(hash string) string {
	for _, kind := range []struct{ prefix, name string }{
		{"$2a$", "bcrypt"}, {"$2b$", "bcrypt"}, {"$2y$", "bcrypt"},
		{"$2x$", "bcrypt of the broken kind $2x$"},
		{"$apr1$", "Apache MD5 (apr1)"}, {"$1$", "MD5 crypt"}, {"$5$", "SHA-256 crypt"}, {"$6$", "SHA-512 crypt"},
		{"{SHA}", "SHA-1"}, {"{SSHA}", "salted SHA-1"}, {"$argon2", "Argon2"}, {"$scrypt$", "scrypt"},
		{"$y$", "yescrypt"}, {"$pbkdf2", "PBKDF2"}, {"pbkdf2_", "Django PBKDF2"}, {"$P$", "phpass"},
	} {
		if strings.HasPrefix(hash, kind.prefix) {
			return kind.name
		}
	}
	if len(hash) == 13 && salted(hash) {
		return "DES crypt"
	}
	return "no known hash (plain text?)"
}
