package passwords

import (
	"fmt"

	"golang.org/x/crypto/bcrypt"
)

const hashLength = 60

// CostOf is the cost of a bcrypt hash; 0 without an error for no hash. The
// error is ErrHash.
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

// salted: what follows the cost is bcrypt's own base64. A stray character would
// be noticed only after the cost was believed, and then no work be done.
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

// dummy is a hash that no password has been found for: any salt does, since the
// answer is thrown away and only the work counts.
func dummy(cost int) []byte {
	return fmt.Appendf(nil, "$2a$%02d$%s", cost, "abcdefghijklmnopqrstuuC7rGJ3WZ0V5n0pGdN8o2m4x6y8z0A2O")
}
