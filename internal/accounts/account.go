// Package accounts says who may log in: authguard's own table, or another
// program's table or htpasswd file behind the same look-up, [Source].
//
// A user name and an e-mail address always lead to the same account, new passwords
// are stored as bcrypt and imported hashes as they are until the next login, and an
// import takes all of a file or nothing.
// Package passwords compares passwords; package guard defines the canonical
// form of a name and passes in its normaliser.
package accounts

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"authguard/internal/passwords"
)

// MinPassword is the shortest new password, in characters.
const MinPassword = 8

var (
	// ErrUnknown means that there is no such account.
	ErrUnknown = errors.New("accounts: no such account")
	// ErrTaken means that a user name or e-mail address is already the user
	// name or e-mail address of an account.
	ErrTaken = errors.New("accounts: the user name or email address is already in use")
	// ErrName means that a text is not a valid name.
	ErrName = errors.New("accounts: not a name")
	// ErrGroup means that a text is not the name of a group.
	ErrGroup = errors.New("accounts: not a group")
	// ErrTooShort means that a new password has fewer than MinPassword
	// characters. One that bcrypt cannot take gets an error of passwords.PossibleNew.
	ErrTooShort = fmt.Errorf("accounts: the password needs at least %d characters", MinPassword)
)

// A Role is what an account may do. When adding, the zero Role means User.
type Role string

// The roles.
const (
	User  Role = "user"
	Admin Role = "admin" // may use the admin pages
)

// An Account is everything but the password.
type Account struct {
	ID         string    `json:"-"`               // random, never reused
	Username   string    `json:"username"`        // normalised; the canonical name
	Email      string    `json:"email,omitempty"` // normalised; empty if none
	Groups     []string  `json:"groups,omitempty"`
	Role       Role      `json:"role"`
	Disabled   bool      `json:"disabled"`
	MustChange bool      `json:"must_change"` // the password is only good for choosing another one
	NeedsCode  bool      `json:"needs_code"`  // from a place that is not known it needs a one-time code beside it
	Version    int64     `json:"-"`           // sessions of an older version are over
	CreatedAt  time.Time `json:"created"`
	ChangedAt  time.Time `json:"changed"`
}

// A Login is what a look-up finds: enough to check a password.
type Login struct {
	// Account is the canonical name, whichever name was entered; empty if there is
	// no such account.
	Account  string
	ID       string // of authguard's own table; empty elsewhere
	Password passwords.Stored
	// Email and Groups are what forward-auth tells of the account; see ParseGroups.
	Email  string
	Groups []string
	Role   Role
	// MustChange and NeedsCode are those of Account.
	MustChange, NeedsCode bool
	// Version changes whenever sessions must end.
	Version int64
}

// A Source looks up an account by any of its names. For an unknown name it
// returns false and no error; an error means that the lookup failed.
type Source interface {
	FindForLogin(ctx context.Context, name string) (Login, bool, error)
}

// CheckPassword says whether a text can become a password: nil, ErrTooShort, or
// an error of passwords.PossibleNew.
func CheckPassword(password string) error {
	switch err := passwords.PossibleNew(password); {
	case err != nil:
		return err
	case utf8.RuneCountInString(password) < MinPassword:
		return ErrTooShort
	}
	return nil
}
